package commands

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"rota/turns"
	"rota/turns/store"
)

// Schema is the version of the JSON that the command line prints.
const Schema = 1

// TurnView is a turn as `show` and `ls` print it. Attempts is null in lists.
type TurnView struct {
	Schema   int           `json:"schema"`
	ID       string        `json:"id"`
	Thread   string        `json:"thread"`
	Task     string        `json:"task"`
	Version  int           `json:"version"`
	Role     turns.Role    `json:"role"`
	Intent   turns.Intent  `json:"intent"`
	State    turns.State   `json:"state"`
	Outcome  turns.Outcome `json:"outcome"`
	Text     string        `json:"text"`
	Error    string        `json:"error"`
	RetryOf  string        `json:"retry_of"`
	Parent   string        `json:"parent"`
	Created  Stamp         `json:"created"`
	Updated  Stamp         `json:"updated"`
	Ref      string        `json:"ref,omitempty"` // of the files it left behind; the command line knows it
	Attempts []AttemptView `json:"attempts,omitempty"`

	Service string `json:"service"` // the current attempt's
	Status  string `json:"status"`  // the paired task's, as people see it
	Reason  string `json:"reason"`  // why it ended; of a paired task's last turn why a person is needed
	// Question is what a person is asked, at most 2,000 characters of it: the last
	// answer of a paired task that waits, or the pending question of a live run. Only
	// lists have it.
	Question string `json:"question,omitempty"`

	Turn   turns.Turn   `json:"-"`
	Paired turns.Paired `json:"-"`
}

// AttemptView is an attempt as `show` prints it.
type AttemptView struct {
	ID         string      `json:"id"`
	Number     int         `json:"number"`
	Service    string      `json:"service"`
	Agent      string      `json:"agent"`
	State      turns.State `json:"state"`
	Cause      turns.Cause `json:"cause"`
	Previous   string      `json:"previous"`
	Class      turns.Class `json:"class"`
	Error      string      `json:"error"`
	Fence      int64       `json:"fence"`
	Deliveries int         `json:"deliveries"`
	Credential string      `json:"credential"`
	Session    string      `json:"session"`
	Created    Stamp       `json:"created"`
	Updated    Stamp       `json:"updated"`
}

// ThreadView is a thread as `show` prints it: its last turn, its paired task and
// all its turns. ID is the thread's name.
type ThreadView struct {
	TurnView
	PairedTask *PairedView `json:"paired"`
	Turns      []TurnView  `json:"turns"`

	Waiting []turns.Message `json:"-"` // human messages that wait for the owner
}

// PairedView is a paired task as `show` prints it.
type PairedView struct {
	ID           string `json:"id"`
	Version      int    `json:"version"`
	Status       string `json:"status"`
	Rounds       int    `json:"rounds"`
	Arbitrations int    `json:"arbitrations"`
}

// Stamp is a time that prints as RFC 3339 with milliseconds, empty when zero.
type Stamp time.Time

// MarshalJSON writes the time as a string.
func (s Stamp) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

func (s Stamp) String() string {
	if time.Time(s).IsZero() {
		return ""
	}
	return time.Time(s).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// ShowTurn returns a turn with its attempts and its answer.
func (c *Commands) ShowTurn(ctx context.Context, id string) (TurnView, error) {
	r, _, err := c.turnOf(ctx, id)
	if err != nil {
		return TurnView{}, refusal("show "+id, err)
	}
	return c.whole(ctx, r.Turn, r.Paired)
}

func (c *Commands) whole(ctx context.Context, t turns.Turn, p turns.Paired) (TurnView, error) {
	v := viewTurn(t, p)
	var err error
	if v.Text, err = c.Store.Text(ctx, t.ID); err != nil {
		return TurnView{}, err
	}
	attempts, err := c.Store.Attempts(ctx, t)
	if err != nil {
		return TurnView{}, err
	}
	v.Attempts = make([]AttemptView, len(attempts))
	for i, a := range attempts {
		v.Attempts[i] = viewAttempt(a)
		v.Service = a.Service
	}
	return v, nil
}

// ShowThread returns a thread with its paired task and all its turns.
func (c *Commands) ShowThread(ctx context.Context, name string) (ThreadView, error) {
	ref, err := c.Resolve(ctx, name)
	if err != nil {
		return ThreadView{}, refusal("show "+name, err)
	}
	s, err := c.scene(ctx, ref.Thread)
	if err != nil {
		return ThreadView{}, err
	}
	v := ThreadView{TurnView: TurnView{Schema: Schema}, Turns: []TurnView{}}
	list, err := c.Store.TurnsByID(ctx, turnIDs(s.thread))
	if err != nil {
		return ThreadView{}, err
	}
	for _, t := range list {
		p := turns.Paired{}
		if t.Paired == s.paired.ID {
			p = s.paired
		}
		one, err := c.whole(ctx, t, p)
		if err != nil {
			return ThreadView{}, err
		}
		v.Turns = append(v.Turns, one)
		v.TurnView = one
	}
	v.ID, v.Thread, v.Task = ref.Thread, ref.Thread, s.paired.ID
	v.Created, v.Updated = Stamp(s.thread.Created), Stamp(s.thread.Updated)
	v.Parent = named(v.Parent, s.thread.Parent)
	if s.paired.ID != "" {
		open, err := c.openTurn(ctx, s.thread)
		if err != nil {
			return ThreadView{}, err
		}
		v.Status = s.paired.Status.Shown(open.Role, open.State)
		v.Version, v.Reason = s.paired.Version, s.paired.Reason
		v.PairedTask = &PairedView{ID: s.paired.ID, Version: s.paired.Version, Status: v.Status, Rounds: s.paired.Rounds, Arbitrations: s.paired.Arbitrations}
	}
	v.Waiting, err = c.Store.Waiting(ctx, ref.Thread)
	return v, err
}

// openTurn returns the thread's open turn, the zero turn when there is none.
func (c *Commands) openTurn(ctx context.Context, t turns.Thread) (turns.Turn, error) {
	if t.OpenTurn == "" {
		return turns.Turn{}, nil
	}
	open, err := c.Store.Turn(ctx, t.OpenTurn)
	if errors.Is(err, store.ErrNotFound) {
		return turns.Turn{}, nil
	}
	return open, err
}

func turnIDs(t turns.Thread) []string {
	ids := make([]string, t.Turns)
	for i := range ids {
		ids[i] = turns.TurnID(t.Name, i+1)
	}
	return ids
}

func viewTurn(t turns.Turn, p turns.Paired) TurnView {
	v := TurnView{
		Schema: Schema, ID: t.ID, Thread: t.Thread, Task: t.Paired, Version: t.Version, Role: t.Role, Intent: t.Intent, State: t.State,
		Outcome: t.Outcome, Error: t.Error, RetryOf: t.RetryOf, Parent: t.Parent, Created: Stamp(t.Created), Updated: Stamp(t.Updated),
		Reason: t.Reason, Turn: t, Paired: p,
	}
	if v.Error == "" {
		v.Error = string(t.Class)
	}
	if p.ID != "" {
		v.Status = p.Status.Shown(t.Role, t.State)
	}
	return v
}

func viewAttempt(a turns.Attempt) AttemptView {
	return AttemptView{
		ID: a.ID, Number: a.Number, Service: a.Service, Agent: a.Agent, State: a.State, Cause: a.Cause, Previous: a.Previous,
		Class: a.Class, Error: a.Error, Fence: a.Fence, Deliveries: a.Deliveries, Credential: a.Credential, Session: a.Session,
		Created: Stamp(a.Created), Updated: Stamp(a.Updated),
	}
}

// Move is one line of a turn's log as `log` prints it.
type Move struct {
	At      Stamp       `json:"at"`
	Verb    turns.Verb  `json:"verb"`
	Turn    string      `json:"turn"`
	Attempt string      `json:"attempt"`
	From    turns.State `json:"from"`
	To      turns.State `json:"to"`
	Fence   int64       `json:"fence"`
	Service string      `json:"service"`
	Role    turns.Role  `json:"role"`
	Reason  string      `json:"reason"`
}

// ViewMove returns a move as it is printed.
func ViewMove(e turns.Entry) Move {
	return Move{Stamp(e.At), e.Verb, e.Turn, e.Attempt, e.From, e.To, e.Fence, e.Service, e.Role, e.Reason}
}

// Log returns every move of a turn, or of all turns of a thread, oldest first.
func (c *Commands) Log(ctx context.Context, id string) ([]Move, error) {
	ref, err := c.Resolve(ctx, id)
	if err != nil {
		return nil, refusal("log "+id, err)
	}
	ids := []string{ref.Turn}
	if ref.Turn == "" {
		t, err := c.Store.Thread(ctx, ref.Thread)
		if err != nil {
			return nil, refusal("log "+id, err)
		}
		ids = turnIDs(t)
	} else if r, err := c.Store.Records(ctx, ref.Turn, 0); err != nil {
		return nil, refusal("log "+id, err)
	} else if err := ref.among(r.Attempt.Number); err != nil {
		return nil, err
	}
	moves := []Move{}
	for _, turn := range ids {
		entries, err := c.Store.Log(ctx, turn)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if ref.Attempt == "" || e.Attempt == ref.Attempt {
				moves = append(moves, ViewMove(e))
			}
		}
	}
	return moves, nil
}
