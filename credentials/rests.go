package credentials

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State is how a login stands.
type State string

// The states.
const (
	StateUsable   State = "usable"
	StateCooling  State = "cooling"
	StateProbing  State = "probing"
	StateDisabled State = "disabled"
)

// Rest is one line of what the fleet knows about logins: a login that is usable,
// or something that rests.
type Rest struct {
	Credential string
	Services   []string // that use the credential, by this configuration
	Scope      string   // credential, model, organisation or host
	Name       string   // of the model, organisation or host; empty for a credential
	State      State
	Reason     string    // class of the last failure
	Until      time.Time // predicted end
	Probe      time.Time // next time that a run may try it; while probing, when others may
	Since      time.Time // last failure
	Failures   int       // failed probes included
	Run        string    // that probes
	Changed    bool      // the login changed since it failed
}

const restFields = 10

// List returns every login of the configuration and everything that rests,
// sorted by credential and scope.
func (c *Credentials) List(ctx context.Context) ([]Rest, error) {
	names, err := c.names(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	var all []Rest
	for _, part := range chunks(names) {
		answer, err := c.run(ctx, readScript, restKeys(part))
		if err != nil {
			return nil, err
		}
		for i, name := range part {
			fields := answer[1+i*restFields : 1+(i+1)*restFields]
			if fields[0] == "" {
				continue // went by itself
			}
			r := c.rest(name, answer[0], fields)
			known[name] = true
			all = append(all, r)
		}
	}
	for id := range c.all() {
		if !known["credential/"+id] {
			all = append(all, Rest{Credential: id, Services: c.ServicesOf(id), Scope: scopeDefault, State: StateUsable})
		}
	}
	slices.SortFunc(all, func(a, b Rest) int {
		return cmp.Or(strings.Compare(a.Credential, b.Credential), strings.Compare(a.Scope, b.Scope), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

func (c *Credentials) rest(name, now string, f []string) Rest {
	scope, rest, _ := strings.Cut(name, "/")
	r := Rest{Credential: f[8], Scope: scope, State: State(f[0]), Reason: f[3], Until: at(f[1]), Probe: at(f[2]), Since: at(f[5]), Changed: f[9] == "yes"}
	switch scope {
	case "model":
		_, r.Name, _ = strings.Cut(rest, "/")
	case "organisation", "host":
		r.Name = rest
	}
	r.Name = strings.NewReplacer("%25", "%", "%2f", "/", "%7b", "{", "%7d", "}").Replace(r.Name)
	r.Services = c.ServicesOf(r.Credential)
	r.Failures, _ = strconv.Atoi(f[4])
	if f[6] != "" && at(f[7]).After(at(now)) {
		r.State, r.Run, r.Probe = StateProbing, f[6], at(f[7])
	}
	return r
}

// Clear ends every rest that keeps a login from being used, as a person's word.
// changed is true when there was one: attempts that wait for a login of
// ServicesOf the credential are due now.
func (c *Credentials) Clear(ctx context.Context, id string) (changed bool, err error) {
	names, err := c.names(ctx)
	if err != nil {
		return false, err
	}
	shared := map[string]bool{}
	for _, service := range c.ServicesOf(id) {
		for _, name := range c.rests(id, service) {
			shared[name] = true
		}
	}
	var ours []string
	for _, name := range names {
		if name == "credential/"+id || strings.HasPrefix(name, "model/"+id+"/") || shared[name] {
			ours = append(ours, name)
		}
	}
	c.forget(id)
	for _, part := range chunks(ours) {
		args := make([]any, len(part))
		for i, name := range part {
			args[i] = name
		}
		answer, err := c.run(ctx, clearScript, append([]string{restsKey}, restKeys(part)...), args...)
		if err != nil {
			return changed, err
		}
		changed = changed || answer[1] != "0"
	}
	return changed, nil
}

// Changed returns the logins that failed and are others now, each once for the
// whole fleet: attempts that wait for a login of ServicesOf them are due now.
// Call it every now and then; it costs one round trip and a look at the files.
func (c *Credentials) Changed(ctx context.Context) ([]string, error) {
	names, err := c.names(ctx)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	logins := c.all()
	var resting, prints, ids []string
	for _, id := range slices.Sorted(maps.Keys(logins)) {
		for _, name := range names {
			if name != "credential/"+id && !strings.HasPrefix(name, "model/"+id+"/") {
				continue
			}
			// A login that can't be read is no other one.
			if print, err := c.fingerprint(ctx, id, logins[id]); err == nil && print != "" {
				resting, prints, ids = append(resting, name), append(prints, print), append(ids, id)
			}
		}
	}
	var changed []string
	for start := 0; start < len(resting); start += chunk {
		end := min(start+chunk, len(resting))
		args := make([]any, 0, chunk)
		for _, print := range prints[start:end] {
			args = append(args, print)
		}
		answer, err := c.run(ctx, changedScript, restKeys(resting[start:end]), args...)
		if err != nil {
			return changed, err
		}
		for _, number := range answer[1:] {
			if n, err := strconv.Atoi(number); err == nil {
				changed = append(changed, ids[start+n-1])
			}
		}
	}
	return slices.Compact(changed), nil
}

// names returns the names of all rests, in order.
func (c *Credentials) names(ctx context.Context) ([]string, error) {
	names, err := c.rdb.SMembers(ctx, restsKey).Result()
	if err != nil {
		return nil, redisError("rests", err)
	}
	slices.Sort(names)
	return names, nil
}

// chunk bounds the keys of one call.
const chunk = 200

func chunks(names []string) [][]string { return slices.Collect(slices.Chunk(names, chunk)) }

func restKeys(names []string) []string {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = restKey(name)
	}
	return keys
}
