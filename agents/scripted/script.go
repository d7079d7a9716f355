package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"rota/agents"
	"rota/turns"
)

// Script is what scripted agents do. Several agents may share one; the rules'
// times are counted over all of them.
type Script struct {
	rules []rule
	mu    sync.Mutex
}

type rule struct {
	Role    turns.Role   `json:"role"`
	Intent  turns.Intent `json:"intent"`
	Service string       `json:"service"`
	Thread  string       `json:"thread"`
	Turn    int          `json:"turn"`
	Attempt int          `json:"attempt"`
	Times   int          `json:"times"`
	Do      []step       `json:"do"`

	used int
}

// step has exactly one of its verbs.
type step struct {
	Accept   bool           `json:"accept"`
	Progress turns.Progress `json:"progress"`
	Item     string         `json:"item"`
	Wait     duration       `json:"wait"`
	File     string         `json:"file"`
	Answer   string         `json:"answer"`
	Write    string         `json:"write"`
	Result   *turns.Outcome `json:"result"`
	Error    turns.Class    `json:"error"`
	Panic    string         `json:"panic"`
	Hang     bool           `json:"hang"`
	Deaf     bool           `json:"deaf"`

	Text       string          `json:"text"`
	Kind       turns.ItemKind  `json:"kind"`
	State      turns.ItemState `json:"state"`
	Title      string          `json:"title"`
	Child      string          `json:"child"`
	Session    string          `json:"session"`
	RetryAfter duration        `json:"retry_after"`
	ResetsIn   duration        `json:"resets_in"`
}

// duration is a Go duration in quotes.
type duration time.Duration

func (d *duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err == nil && v <= 0 {
		err = fmt.Errorf("duration %q is not above zero", b)
	}
	*d = duration(v)
	return err
}

// Parse reads a script. All its problems are reported at once, each with its line.
func Parse(text string) (*Script, error) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			lines[i] = ""
		}
	}
	src := bytes.TrimRight([]byte(strings.Join(lines, "\n")), " \t\r\n")
	s := &Script{}
	var problems []error
	in := json.NewDecoder(bytes.NewReader(src))
	for {
		var raw json.RawMessage
		err := in.Decode(&raw)
		if err == io.EOF {
			break
		}
		if err != nil {
			begin := len(src) - len(bytes.TrimSpace(src[in.InputOffset():]))
			problems = append(problems, fmt.Errorf("script line %d: %w", lineAt(src, offset(err, int64(begin)+1)), err))
			break // what follows can't be told apart
		}
		first := lineAt(src, in.InputOffset()-int64(len(raw))+1)
		r, err := parseRule(raw)
		if err != nil {
			problems = append(problems, fmt.Errorf("script line %d: %w", first+lineAt(raw, offset(err, 0))-1, err))
			continue
		}
		for _, err := range r.check() {
			problems = append(problems, fmt.Errorf("script line %d: %w", first, err))
		}
		s.rules = append(s.rules, r)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return s, nil
}

func parseRule(raw []byte) (rule, error) {
	var r rule
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	err := in.Decode(&r)
	return r, err
}

// offset says where in the source an error of encoding/json is.
func offset(err error, fallback int64) int64 {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return e.Offset
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return e.Offset
	}
	return fallback
}

func lineAt(src []byte, offset int64) int {
	return 1 + bytes.Count(src[:min(max(int(offset)-1, 0), len(src))], []byte("\n"))
}

func (r *rule) check() (problems []error) {
	if r.Role != "" && !r.Role.Valid() {
		problems = append(problems, fmt.Errorf("unknown role %q", r.Role))
	}
	if r.Intent != "" && !r.Intent.Valid() {
		problems = append(problems, fmt.Errorf("unknown intent %q", r.Intent))
	}
	if r.Turn < 0 || r.Attempt < 0 || r.Times < 0 {
		problems = append(problems, errors.New("turn, attempt and times count from 1"))
	}
	for i, s := range r.Do {
		if err := s.check(); err != nil {
			problems = append(problems, fmt.Errorf("step %d: %w", i+1, err))
		}
	}
	return problems
}

func (s step) check() error {
	verbs := 0
	for _, has := range []bool{s.Accept, s.Progress != "", s.Item != "", s.Wait != 0, s.File != "", s.Answer != "",
		s.Write != "", s.Result != nil, s.Error != "", s.Panic != "", s.Hang, s.Deaf} {
		if has {
			verbs++
		}
	}
	switch {
	case verbs != 1:
		return fmt.Errorf("it has %d verbs, want one of accept, progress, item, wait, file, answer, write, result, error, panic, hang, deaf", verbs)
	case s.Progress != "" && s.Progress != turns.ProgressText && s.Progress != turns.ProgressTools:
		return fmt.Errorf("progress %q is neither text nor tools", s.Progress)
	case s.Item != "" && !slices.Contains(turns.ItemKinds, s.Kind):
		return fmt.Errorf("item %s: unknown kind %q", s.Item, s.Kind)
	case s.Item != "" && !slices.Contains([]turns.ItemState{turns.ItemOpen, turns.ItemCompleted, turns.ItemFailed, turns.ItemCancelled, turns.ItemStopped}, s.State):
		return fmt.Errorf("item %s: unknown state %q", s.Item, s.State)
	case s.Error != "" && !s.Error.Valid():
		return fmt.Errorf("unknown error class %q", s.Error)
	case s.Write != "" && !filepath.IsLocal(s.Write):
		return fmt.Errorf("write %q: the path leads out of the workspace", s.Write)
	case s.Result != nil && *s.Result != "" && !anyRoleSays(*s.Result):
		return fmt.Errorf("unknown outcome %q", *s.Result)
	}
	return nil
}

func anyRoleSays(o turns.Outcome) bool {
	return slices.ContainsFunc(turns.Roles, func(r turns.Role) bool { return slices.Contains(turns.Outcomes(r), o) })
}

// steps returns what a run is to do; nil when no rule matches.
func (s *Script) steps(service string, task agents.Task) []step {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, turn, _ := turns.ParseTurn(task.Turn)
	_, attempt, _ := turns.ParseAttempt(task.Attempt)
	for i := range s.rules {
		r := &s.rules[i]
		if match(r.Role, task.Role) && match(r.Intent, task.Intent) && match(r.Service, service) && match(r.Thread, task.Thread) &&
			match(r.Turn, turn) && match(r.Attempt, attempt) && (r.Times == 0 || r.used < r.Times) {
			r.used++
			return r.Do
		}
	}
	return nil
}

// match reports whether a selector is left out or fits.
func match[T comparable](selector, value T) bool {
	var zero T
	return selector == zero || selector == value
}
