package credentials

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// Config says which logins there are. The zero value of a duration is its default.
type Config struct {
	Services    map[string]Service
	Credentials map[string]Source

	Ceiling time.Duration // the longest time until a resting login is probed; 10 min
	Bound   time.Duration // how long a probe keeps others away without news; 5 min
}

// Service is what counts of a service here.
type Service struct {
	Agent       string   // kind of agent
	Model       string   // empty: the program's own choice
	Host        string   // the provider's host; empty: the kind of agent stands for it
	SignIn      string   // folder of the program's own sign-in; empty: the one in the worker's home
	Credentials []string // its logins; empty: the implicit one
}

// Credentials chooses logins. Its methods may be called at once.
type Credentials struct {
	rdb    redis.UniversalClient
	config Config

	mu   sync.Mutex
	salt string
	seen map[string]outputSeen // by login, of commands
}

const (
	defaultCeiling = 10 * time.Minute
	defaultBound   = 5 * time.Minute
	// maxLogins of one service, so that a script's arguments stay bounded.
	maxLogins = 100
)

var loginName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// New checks the configuration, all problems at once, and reads no login.
func New(rdb redis.UniversalClient, config Config) (*Credentials, error) {
	var problems []error
	for _, id := range slices.Sorted(maps.Keys(config.Credentials)) {
		s := config.Credentials[id]
		if !loginName.MatchString(id) {
			problems = append(problems, fmt.Errorf("credential %q: use 1 to 64 of a-z 0-9 . _ -", id))
		}
		if err := s.check(); err != nil {
			problems = append(problems, fmt.Errorf("credential %s: %w", id, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.Services)) {
		s := config.Services[name]
		if err := turns.CheckService(name); err != nil {
			problems = append(problems, err)
		}
		if len(s.Credentials) > maxLogins {
			problems = append(problems, fmt.Errorf("service %s has %d credentials; %d are the most", name, len(s.Credentials), maxLogins))
		}
		for _, id := range s.Credentials {
			if _, ok := config.Credentials[id]; !ok {
				problems = append(problems, fmt.Errorf("service %s: there is no credential %q", name, id))
			}
		}
	}
	if config.Ceiling == 0 {
		config.Ceiling = defaultCeiling
	}
	if config.Bound == 0 {
		config.Bound = defaultBound
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return &Credentials{rdb: rdb, config: config, seen: map[string]outputSeen{}}, nil
}

// Implicit is the name of the login of a service that has none configured: the
// program's own sign-in.
func Implicit(service string) string { return service + ":implicit" }

// ServicesOf returns the services that use a login, in order.
func (c *Credentials) ServicesOf(id string) []string {
	var names []string
	for name := range c.config.Services {
		if slices.Contains(c.logins(name), id) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// logins returns the ids of a service's logins.
func (c *Credentials) logins(service string) []string {
	if ids := c.config.Services[service].Credentials; len(ids) > 0 {
		return ids
	}
	return []string{Implicit(service)}
}

// all returns every login with one of its services.
func (c *Credentials) all() map[string]string {
	ids := map[string]string{}
	for id := range c.config.Credentials {
		ids[id] = ""
	}
	for service := range c.config.Services {
		for _, id := range c.logins(service) {
			if old := ids[id]; old == "" || service < old {
				ids[id] = service
			}
		}
	}
	return ids
}

// load returns the variables of a login for a service's agent.
func (c *Credentials) load(ctx context.Context, id, service string) (map[string]string, error) {
	source, ok := c.config.Credentials[id]
	if !ok {
		return nil, nil // implicit
	}
	text, err := c.text(ctx, id, source)
	if err != nil {
		return nil, fmt.Errorf("credential %s: %w", id, err)
	}
	env, err := variables(text, c.config.Services[service].Agent, source.Variable)
	if err != nil {
		return nil, fmt.Errorf("credential %s: %w", id, err)
	}
	return env, nil
}

// rests returns the names of what must not rest for a login to be usable for a
// service: credential, model, organisation, host. A login of no organisation
// stands for one.
func (c *Credentials) rests(id, service string) []string {
	s := c.config.Services[service]
	host := s.Host
	if host == "" {
		host = s.Agent
	}
	organisation := "credential/" + id
	if o := c.config.Credentials[id].Organisation; o != "" {
		organisation = "organisation/" + plain(o)
	}
	return []string{"credential/" + id, "model/" + id + "/" + plain(s.Model), organisation, "host/" + plain(host)}
}

// plain keeps a name of the configuration out of the shape of a key.
func plain(name string) string {
	return strings.NewReplacer("%", "%25", "/", "%2f", "{", "%7b", "}", "%7d").Replace(name)
}
