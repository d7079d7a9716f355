// Package config reads rota.yaml and what the environment and the flags say
// instead: flag over environment over file over default.
//
// Every key is described in rota.example.yaml. Unknown keys are errors, and all
// problems are reported at once, each with its line. The file holds no secrets:
// it only says where they are.
package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rota/turns"
)

// The defaults of what is not said anywhere.
const (
	DefaultFile       = "rota.yaml"
	DefaultRedis      = "redis://127.0.0.1:6379/0"
	DefaultHTTP       = "127.0.0.1:8377"
	DefaultData       = "rota-data"
	DefaultShards     = 16
	DefaultMaxWaiting = 10000
	DefaultRetention  = 7 * 24 * time.Hour
)

// Config is a checked configuration with all defaults filled in. Its paths are
// absolute: relative ones in the file count from the file's folder.
type Config struct {
	Redis       string                    `yaml:"redis"`       // see RedisClient
	Shards      int                       `yaml:"shards"`      // of a new store
	HTTP        string                    `yaml:"http"`        // address of board, metrics and health
	Data        string                    `yaml:"data"`        // folder of the embedded store
	Workspaces  string                    `yaml:"workspaces"`  // folder of the threads' worktrees
	Prompts     string                    `yaml:"prompts"`     // folder with replaced templates; may be empty
	Escalate    []string                  `yaml:"escalate"`    // command run for each escalation; may be empty
	Services    map[string]Service        `yaml:"services"`    //
	Roles       map[turns.Role]RoleConfig `yaml:"roles"`       //
	Credentials map[string]Credential     `yaml:"credentials"` //
	Limits      Limits                    `yaml:"limits"`      //

	File         string `yaml:"-"` // the file that was read; empty without one
	HTTPExplicit bool   `yaml:"-"` // HTTP was chosen by somebody: a taken port is an error

	RedisExplicit bool `yaml:"-"` // Redis was chosen by somebody: no embedded store is looked for
}

// Service is a named kind of worker process.
type Service struct {
	Agent       string            `yaml:"agent"`       // one of Agents
	Command     []string          `yaml:"command"`     // the program; needed by acp and command
	Args        []string          `yaml:"args"`        // further arguments for the program
	Model       string            `yaml:"model"`       // empty: the program's own choice
	Script      string            `yaml:"script"`      // file with the play of a scripted agent
	Credentials []string          `yaml:"credentials"` // logins in order of preference; empty: the program's own
	Env         map[string]string `yaml:"env"`         // further variables for the agent, no secrets
	Concurrency int               `yaml:"concurrency"` // runs at once in one worker process; 1
	Host        string            `yaml:"host"`        // the provider's host, when services of one kind of agent ask different ones
	MaxWaiting  int               `yaml:"max_waiting"` // turns that may wait for the service; 10000
	BaseURL     string            `yaml:"base_url"`    // of the API, for a gateway; claude and codex; empty: the provider's
	ConfigDir   string            `yaml:"config_dir"`  // where the program keeps its sign-in and sessions; claude and codex; empty: the user's own
	Allow       bool              `yaml:"allow"`       // an owner's permission questions are answered yes at once; acp
	Ask         bool              `yaml:"ask"`         // an owner asks a person before it edits or runs a command; claude
}

// Agents lists the kinds of agent.
var Agents = []string{"claude", "codex", "acp", "command", "scripted"}

// signInDirs are the variables by which a program's own folder can be chosen.
var signInDirs = map[string]string{"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}

// SignInDir returns the folder where the service's program keeps its own sign-in,
// as far as this configuration chooses it; empty for the one in the user's home.
func (s Service) SignInDir() string {
	if dir := s.Env[signInDirs[s.Agent]]; dir != "" {
		return dir
	}
	return s.ConfigDir
}

// RoleConfig is who takes the turns of a role.
type RoleConfig struct {
	Services []string   `yaml:"services"` // in order of preference
	Limits   TurnLimits `yaml:"limits"`   // where they differ from the general ones
}

// Credential says where a login is; exactly one field is set.
type Credential struct {
	Env     string   `yaml:"env"`     // name of an environment variable of the worker
	File    string   `yaml:"file"`    // its content is the login
	Command []string `yaml:"command"` // its output is the login

	Variable     string `yaml:"variable"`     // the agent's variable that a token goes into; empty: what the kind of agent expects
	Organisation string `yaml:"organisation"` // logins that share an organisation's limits name the same
}

// TurnLimits are the budgets and times of a turn; a zero field was not given.
type TurnLimits struct {
	Lease      time.Duration `yaml:"lease"`
	Start      time.Duration `yaml:"start"`
	Silence    time.Duration `yaml:"silence"`
	Run        time.Duration `yaml:"run"`
	Grace      time.Duration `yaml:"grace"`
	Wait       time.Duration `yaml:"wait"`
	Deliveries int           `yaml:"deliveries"`
	Attempts   int           `yaml:"attempts"`
	Losses     int           `yaml:"losses"`
	Reminders  int           `yaml:"reminders"`
}

// Limits are the limits of turns and of paired tasks.
type Limits struct {
	TurnLimits   `yaml:",inline"`
	Rounds       int           `yaml:"rounds"`
	Arbitrations int           `yaml:"arbitrations"`
	Turns        int           `yaml:"turns"`
	Retention    time.Duration `yaml:"retention"`
}

// Crew returns the configured roles as the workflow needs them.
func (c Config) Crew() turns.Crew {
	crew := turns.Crew{}
	for role, r := range c.Roles {
		crew[role] = turns.Seat{Services: slices.Clone(r.Services), Limits: c.LimitsFor(role)}
	}
	return crew
}

// Rules returns the budgets of a paired task.
func (c Config) Rules() turns.Rules {
	l := c.Limits
	return turns.Rules{Rounds: l.Rounds, Arbitrations: l.Arbitrations, Turns: l.Turns}.WithDefaults()
}

// Retention returns how long a paired task is kept after its end.
func (c Config) Retention() time.Duration {
	if c.Limits.Retention > 0 {
		return c.Limits.Retention
	}
	return DefaultRetention
}

// LimitsFor returns the limits of a role's turns: the role's own, else the
// general ones, else the defaults.
func (c Config) LimitsFor(role turns.Role) turns.Limits {
	own, all := c.Roles[role].Limits, c.Limits.TurnLimits
	return turns.Limits{
		Lease: first(own.Lease, all.Lease), Start: first(own.Start, all.Start), Silence: first(own.Silence, all.Silence),
		Run: first(own.Run, all.Run), Grace: first(own.Grace, all.Grace), Wait: first(own.Wait, all.Wait),
		Deliveries: first(own.Deliveries, all.Deliveries), Attempts: first(own.Attempts, all.Attempts),
		Losses: first(own.Losses, all.Losses), Reminders: first(own.Reminders, all.Reminders),
	}.WithDefaults()
}

func first[T comparable](a, b T) T {
	var zero T
	if a != zero {
		return a
	}
	return b
}

// Service returns the service of a name; the error names those that exist.
func (c Config) Service(name string) (Service, error) {
	if s, ok := c.Services[name]; ok {
		return s, nil
	}
	if len(c.Services) == 0 {
		return Service{}, fmt.Errorf("no service %q: no services are configured: write them into %s or name a file with --config", name, DefaultFile)
	}
	return Service{}, fmt.Errorf("no service %q (there is %s)", name, strings.Join(c.ServiceNames(), ", "))
}

// Bounds returns how many turns may wait for each service.
func (c Config) Bounds() map[string]int {
	bounds := map[string]int{}
	for name, s := range c.Services {
		bounds[name] = s.MaxWaiting
	}
	return bounds
}

// ServiceNames returns the names of the services in order.
func (c Config) ServiceNames() []string { return slices.Sorted(maps.Keys(c.Services)) }
