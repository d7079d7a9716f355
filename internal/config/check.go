package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"rota/internal/redact"
	"rota/turns"
)

// check reports what is wrong with the meaning of a configuration.
func (d *document) check(c Config) {
	if _, err := parseRedis(c.Redis); err != nil {
		d.at("redis", "", "%v", err)
	}
	if err := checkAddress(c.HTTP); err != nil {
		d.at("http", "", "%v", err)
	}
	if c.Shards > maxShards {
		d.at("shards", "", "%d is more than %d", c.Shards, maxShards)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		d.checkService(c, name, c.Services[name])
	}
	d.checkRoles(c)
	for _, name := range slices.Sorted(maps.Keys(c.Credentials)) {
		d.checkCredential(name, c.Credentials[name])
	}
	d.checkLimits("limits", c.Limits.TurnLimits, c.LimitsFor(""))
}

// maxShards bounds the number of shards: each costs every pass a look.
const maxShards = 1024

// at reports a problem at the line of a key, or of the nearest key above it.
func (d *document) at(key, hint, format string, args ...any) {
	for above := key; ; {
		if line, ok := d.lines[above]; ok {
			d.report(line, key, hint, format, args...)
			return
		}
		i := lastDot(above)
		if i < 0 {
			d.report(0, key, hint, format, args...)
			return
		}
		above = above[:i]
	}
}

func lastDot(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '.' || s[i] == '[' {
			return i
		}
	}
	return -1
}

func (d *document) checkService(c Config, name string, s Service) {
	key := "services." + short(name)
	if err := turns.CheckService(name); err != nil {
		d.at(key, "", "%v", err)
	}
	switch {
	case s.Agent == "":
		d.at(key, like("", Agents), "the agent is missing")
	case !slices.Contains(Agents, s.Agent):
		d.at(key+".agent", like(s.Agent, Agents), "unknown agent %q", short(s.Agent))
	}
	if (s.Agent == "command" || s.Agent == "acp") && !names(s.Command) {
		d.at(key, "add command: [program, argument]", "agent %s needs a command", s.Agent)
	} else if len(s.Command) > 0 && !names(s.Command) {
		d.at(key+".command", "", "the name of the program is empty")
	}
	if s.Script != "" && s.Agent != "scripted" {
		d.at(key+".script", "", "only agent scripted takes a script")
	}
	d.checkProgram(key, s)
	if s.Concurrency > 1000 {
		d.at(key+".concurrency", "", "%d is more than 1000", s.Concurrency)
	}
	for i, l := range s.Credentials {
		at := fmt.Sprintf("%s.credentials[%d]", key, i)
		if _, ok := c.Credentials[l]; !ok {
			d.at(at, hintNames(l, c.Credentials), "there is no credential %q", short(l))
		} else if slices.Index(s.Credentials, l) < i {
			d.at(at, "", "credential %s stands twice", l)
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(s.Env)) {
		at := key + ".env." + short(variable)
		switch {
		case !variableName.MatchString(variable):
			d.at(at, "", "this is no name of an environment variable")
		case redact.NamesSecret(variable):
			d.at(at, "name it under credentials", "a variable of this name is a secret, and none belongs into this file")
		}
	}
}

// checkProgram checks the keys that only some kinds of agent have.
func (d *document) checkProgram(key string, s Service) {
	if _, ok := signInDirs[s.Agent]; !ok {
		for name, value := range map[string]string{"base_url": s.BaseURL, "config_dir": s.ConfigDir} {
			if value != "" {
				d.at(key+"."+name, "set the program's own variable under env", "only the agents claude and codex take it")
			}
		}
	}
	if s.BaseURL != "" {
		u, err := url.Parse(s.BaseURL)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			d.at(key+".base_url", "write one such as https://gateway.example.com", "this is no address of an API")
		case u.User != nil:
			d.at(key+".base_url", "name it under credentials", "the address holds a login")
		}
	}
	if s.Ask && s.Agent != "claude" {
		d.at(key+".ask", "", "only agent claude can be told to ask")
	}
	if s.Allow && s.Agent != "acp" {
		d.at(key+".allow", "", "only agent acp asks")
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func names(command []string) bool { return len(command) > 0 && command[0] != "" }

func hintNames[V any](wrong string, known map[string]V) string {
	if len(known) == 0 {
		return "none is configured"
	}
	return like(wrong, slices.Sorted(maps.Keys(known)))
}

func (d *document) checkRoles(c Config) {
	if _, ok := c.Roles[turns.Owner]; !ok && len(c.Services)+len(c.Roles) > 0 {
		d.at("roles", "add roles: {owner: {services: [NAME]}}", "the role owner is missing")
	}
	for _, role := range slices.Sorted(maps.Keys(c.Roles)) {
		key := "roles." + short(string(role))
		r := c.Roles[role]
		if !role.Valid() {
			d.at(key, like(string(role), []string{"owner", "reviewer", "arbiter"}), "unknown role")
		}
		if len(r.Services) == 0 {
			d.at(key, "add services: [NAME], or leave the role out", "the role has no services")
		}
		for i, s := range r.Services {
			at := fmt.Sprintf("%s.services[%d]", key, i)
			if _, ok := c.Services[s]; !ok {
				d.at(at, hintNames(s, c.Services), "there is no service %q", short(s))
			} else if slices.Index(r.Services, s) < i {
				d.at(at, "", "service %s stands twice", s)
			}
		}
		d.checkLimits(key+".limits", r.Limits, c.LimitsFor(role))
	}
}

func (d *document) checkCredential(name string, l Credential) {
	key := "credentials." + short(name)
	if !credentialName.MatchString(name) {
		d.at(key, "use 1 to 64 of a-z 0-9 . _ -", "this is no name for a credential")
	}
	set := 0
	for _, given := range []bool{l.Env != "", l.File != "", names(l.Command)} {
		if given {
			set++
		}
	}
	if set != 1 {
		d.at(key, "", "exactly one of env, file and command is needed, there are %d", set)
	}
	if l.Env != "" && !variableName.MatchString(l.Env) {
		d.at(key+".env", "the variable's name belongs here, not its value", "this is no name of an environment variable")
	}
}

var credentialName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// checkLimits checks the limits that are given and how they go together with the
// others that count.
func (d *document) checkLimits(key string, given TurnLimits, all turns.Limits) {
	if given.Lease > 0 && given.Lease < turns.MinLease {
		d.at(key+".lease", "", "%v is less than %v", given.Lease, turns.MinLease)
	}
	if given.Attempts > turns.AttemptCap {
		d.at(key+".attempts", "", "%d is more than %d", given.Attempts, turns.AttemptCap)
	}
	for name, dur := range map[string]time.Duration{"start": given.Start, "silence": given.Silence} {
		if dur > all.Run {
			d.at(key+"."+name, "", "%v is longer than a whole run may take (%v)", dur, all.Run)
		}
	}
}

// checkAddress returns an error unless s is a host and a port to listen on, or
// off.
func checkAddress(s string) error {
	if s == "off" {
		return nil
	}
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is no address to listen on: write host:port such as %s, or off", short(s), DefaultHTTP)
	}
	return nil
}
