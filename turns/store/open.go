package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"rota/turns"
)

// NewTurn is a turn to open by a person's or a schedule's command.
type NewTurn struct {
	// Command is the command's id, scoped to the thread: a repeat is answered with
	// what the first one opened.
	Command string

	Thread    string
	Number    int    // the turn's, when the decision was made for this one: another is ErrMoved; 0 for the next one
	Workspace string // of a new thread; ignored for one that exists
	Role      turns.Role
	Intent    turns.Intent
	Seat      turns.Seat // services in order of preference, and limits
	Service   string     // the first attempt's service; Seat.Services[0] when empty

	Prompt string
	Said   []turns.Message // human messages that go into the turn
	Take   int             // waiting messages that leave the list in this write; without Said they are what goes into the turn

	Parent  string // the turn under which a child thread's turn hangs
	RetryOf string
	Prior   string        // the turn it follows on
	Delay   time.Duration // not due before
	Reason  string        // for the log
	High    bool          // its attempts go before the others that wait for the service

	// Paired is the paired task after the move, nil for a lone turn; New says that
	// it does not exist yet. Paired.Version must be one more than the stored one.
	Paired *turns.Paired
	New    bool
}

// Opened is what a creating command came to.
type Opened struct {
	Already bool // a repeat of a command: what the first one opened
	Turn    string
	Attempt string
	Outbox  turns.OutboxEntry // to be handed to asynq; zero when Already
}

// OpenTurn opens a turn with its first attempt, with its thread and paired task
// where they are new. Errors: *BusyError when the thread has an open turn,
// ErrMoved when the number, the paired task or the waiting messages are not as
// expected, ErrParentFinal, or an error about the input.
func (s *Store) OpenTurn(ctx context.Context, n NewTurn) (Opened, error) {
	if err := n.check(); err != nil {
		return Opened{}, err
	}
	if n.Service == "" {
		n.Service = n.Seat.Services[0]
	}
	stamp := turns.NewToken()
	for range 20 {
		number := n.Number
		if number == 0 {
			thread, err := s.Thread(ctx, n.Thread)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return Opened{}, err
			}
			number = thread.Turns + 1
		}
		opened, moved, err := s.openOnce(ctx, n, number, stamp)
		if err != nil || !moved {
			return opened, err
		}
		if n.Number != 0 {
			break
		}
	}
	return Opened{}, fmt.Errorf("open a turn in %s: %w", n.Thread, ErrMoved)
}

func (n *NewTurn) check() error {
	if err := turns.CheckThread(n.Thread); err != nil {
		return err
	}
	if err := turns.CheckRole(n.Role, n.Intent); err != nil {
		return err
	}
	if err := checkCommand(n.Command); err != nil {
		return err
	}
	if err := n.checkTexts(); err != nil {
		return err
	}
	for _, service := range n.Seat.Services {
		if err := turns.CheckService(service); err != nil {
			return err
		}
	}
	if len(n.Seat.Services) == 0 {
		return fmt.Errorf("no service is configured for the role %s", n.Role)
	}
	if n.Service != "" && !slices.Contains(n.Seat.Services, n.Service) {
		return outside(n.Service, n.Role, n.Seat.Services)
	}
	if n.Parent != "" {
		parent, _, err := turns.ParseTurn(n.Parent)
		if err != nil {
			return err
		}
		if parent == n.Thread || turns.Root(parent) != turns.Root(n.Thread) {
			return fmt.Errorf("parent turn %s: a turn of %s can't hang under it; use a thread like %s~2", n.Parent, n.Thread, turns.Root(parent))
		}
	}
	if n.Seat.Limits.WithDefaults().Lease < turns.MinLease {
		return fmt.Errorf("lease %s: at least %s", n.Seat.Limits.Lease, turns.MinLease)
	}
	return nil
}

func (n *NewTurn) checkTexts() error {
	if err := CheckText("prompt", n.Prompt); err != nil {
		return err
	}
	if err := CheckText("workspace", n.Workspace); err != nil {
		return err
	}
	size := 0
	for _, m := range n.Said {
		if err := CheckText("message", m.Text); err != nil {
			return err
		}
		size += len(m.Text)
	}
	if size > MaxSaid {
		return fmt.Errorf("messages of %d bytes, at most %d go into a turn: %w", size, MaxSaid, ErrFull)
	}
	return nil
}

// MaxSaid bounds the messages that a command puts into one turn, in bytes.
const MaxSaid = 16 * MaxPrompt

// checkCommand returns an error unless a command id may be part of a key and of
// what is stored under it.
func checkCommand(id string) error {
	if id == "" || len(id) > 200 || !utf8.ValidString(id) || strings.ContainsAny(id, "{}\n\r\x00|") {
		return fmt.Errorf("command id %q: use 1 to 200 characters without { } | and line ends", id)
	}
	return nil
}

// outside is the error of a service that does not stand in a role's list.
func outside(service string, role turns.Role, services []string) error {
	return fmt.Errorf("service %q takes no turns of the %s: use one of %s", service, role, strings.Join(services, ", "))
}

// CheckText returns an error unless a text that a person gives may be stored.
func CheckText(what, text string) error {
	if len(text) > MaxPrompt {
		return fmt.Errorf("%s of %d bytes: at most %d", what, len(text), MaxPrompt)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%s is no valid UTF-8 text", what)
	}
	return nil
}

func (s *Store) openOnce(ctx context.Context, n NewTurn, num int, stamp string) (Opened, bool, error) {
	k := s.of(n.Thread)
	turn := turns.TurnID(n.Thread, num)
	attempt := turns.AttemptID(turn, 1)
	said := ""
	if len(n.Said) > 0 {
		b, err := json.Marshal(n.Said)
		if err != nil {
			return Opened{}, false, err
		}
		said = string(b)
	}
	pairedKey, pairedID, pairedRecord, expected := k.turn(turn), "", "", ""
	version := 0
	if n.Paired != nil {
		pairedID, version = n.Paired.ID, n.Paired.Version
		pairedKey = k.paired(pairedID)
		p := *n.Paired
		if n.New {
			p.First = turn
		} else {
			expected = strconv.Itoa(version - 1)
		}
		pairedRecord = encodePaired(p)
	}
	parentKey := k.turn(turn)
	if n.Parent != "" {
		parentKey = k.turn(n.Parent)
	}
	next := turnRecord(pairedID, version, n.Role, n.Intent, n.Seat, n.Prior)
	if n.Parent != "" {
		next = append(next, "parent", n.Parent)
	}
	if n.High {
		next = append(next, "high", "1")
	}
	if n.RetryOf != "" {
		next = append(next, "retry_of", n.RetryOf)
	}
	a, err := s.run(ctx, scriptOpen,
		[]string{k.thread(n.Thread), k.turn(turn), k.attempt(attempt), k.prompt(turn), k.said(turn), k.log(turn), k.outbox(), k.open(),
			k.live(n.Thread), k.threads(), k.stream(), k.command(n.Thread, n.Command), pairedKey, k.messages(n.Thread), parentKey, k.ended()},
		n.Thread, turn, attempt, num,
		record(threadRecord(n.Workspace, n.Parent)...),
		record(next...), record(s.attemptRecord(ctx, n.Service, stamp, turns.CauseInitial)...),
		pairedRecord, expected, pairedID, n.Prompt, said, n.Take, ms(n.Delay), ms(s.grace), ms(s.retention),
		n.Service, string(n.Role), n.Reason, n.Parent)
	if err != nil {
		return Opened{}, false, err
	}
	switch a.word {
	case "opened":
		return Opened{Turn: turn, Attempt: attempt, Outbox: turns.OutboxEntry{
			Thread: n.Thread, Turn: turn, Attempt: attempt, Role: n.Role, Intent: n.Intent, Service: n.Service,
			Stamp: stamp, Cause: turns.CauseInitial, Delay: n.Delay, Limits: n.Seat.Limits, Trace: s.traceOf(ctx), High: n.High,
		}}, false, nil
	case "already":
		n := decodeNote(a.at(0) + "|" + a.at(1))
		return Opened{Already: true, Turn: n.Turn, Attempt: n.Attempt}, false, nil
	case "busy":
		return Opened{}, false, &BusyError{a.at(0)}
	case "moved":
		return Opened{}, true, nil
	case "decide":
		return Opened{}, false, ErrMoved
	case "parent_final":
		return Opened{}, false, fmt.Errorf("open a turn under %s: %w", n.Parent, ErrParentFinal)
	}
	return Opened{}, false, unexpected(scriptOpen, a)
}

func unexpected(sc *script, a answer) error {
	return fmt.Errorf("%s: unexpected answer %q", sc.name, a.word)
}

// threadRecord holds what a new thread has beyond its counters.
func threadRecord(workspace, parent string) []string {
	fields := []string{}
	if workspace != "" {
		fields = append(fields, "workspace", workspace)
	}
	if parent != "" {
		fields = append(fields, "parent", parent)
	}
	return fields
}

func turnRecord(paired string, version int, role turns.Role, intent turns.Intent, seat turns.Seat, prior string) []string {
	fields := []string{
		"role", string(role), "intent", string(intent),
		"services", strings.Join(seat.Services, ","), "limits", encodeLimits(seat.Limits),
	}
	if paired != "" {
		fields = append(fields, "paired", paired, "version", strconv.Itoa(version))
	}
	if prior != "" {
		fields = append(fields, "prior", prior)
	}
	return fields
}

// traceOf returns the context of the trace that ctx belongs to, empty for none.
func (s *Store) traceOf(ctx context.Context) string {
	if s.trace == nil {
		return ""
	}
	return s.trace(ctx)
}

func (s *Store) attemptRecord(ctx context.Context, service, stamp string, cause turns.Cause) []string {
	fields := []string{"service", service, "stamp", stamp}
	if cause != turns.CauseInitial { // what most attempts have is not stored
		fields = append(fields, "cause", string(cause))
	}
	if trace := s.traceOf(ctx); trace != "" {
		fields = append(fields, "trace", trace)
	}
	return fields
}

func encodePaired(p turns.Paired) string {
	return record("version", strconv.Itoa(p.Version), "status", string(p.Status), "from", string(p.From),
		"rounds", strconv.Itoa(p.Rounds), "arbitrations", strconv.Itoa(p.Arbitrations), "turns", strconv.Itoa(p.Turns),
		"accepted", p.Accepted, "step_tree", p.StepTree, "reason", p.Reason, "first", p.First)
}
