package commands

import (
	"context"
	"slices"

	"rota/turns"
	"rota/turns/store"
)

// Filter chooses what Ls lists. The zero value lists the last turn of the threads
// that changed last.
type Filter struct {
	All        bool // every stored turn of the threads, not only the last one
	NeedsHuman bool // only what waits for a person
	State      turns.State
	Role       turns.Role
	Service    string // of the turn's current attempt
	Thread     string // only this one
	Limit      int    // number of threads, 0 for all
	Questions  bool   // also read what people are asked, see TurnView.Question
	Texts      bool   // also read the answers
}

// Ls lists turns, threads that changed last in front, a thread's turns newest
// first. They come without attempts.
func (c *Commands) Ls(ctx context.Context, f Filter) ([]TurnView, error) {
	var names []string
	var err error
	if f.Thread != "" {
		ref, err := c.Resolve(ctx, f.Thread)
		if err != nil {
			return nil, refusal("ls", err)
		}
		names = []string{ref.Thread}
	} else if names, err = c.Store.Threads(ctx, f.Limit); err != nil {
		return nil, err
	}
	threads, err := c.Store.ThreadsByName(ctx, names)
	if err != nil {
		return nil, err
	}
	if f.NeedsHuman && !f.All {
		return c.needHumans(ctx, f, threads)
	}
	var ids []string
	for _, t := range threads {
		first := t.Turns
		if f.All || f.Thread != "" {
			first = 1
		}
		for n := t.Turns; n >= max(1, first); n-- {
			ids = append(ids, turns.TurnID(t.Name, n))
		}
	}
	return c.rows(ctx, f, ids)
}

// rows reads the turns of a list and keeps those that are asked for.
func (c *Commands) rows(ctx context.Context, f Filter, ids []string) ([]TurnView, error) {
	rows, err := c.views(ctx, ids)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(v TurnView) bool { return !f.keeps(v) })
	if f.Texts {
		if err := c.texts(ctx, rows); err != nil {
			return nil, err
		}
	}
	if f.Questions {
		err = c.questions(ctx, rows)
	}
	return rows, err
}

// texts reads the answers of a list's turns.
func (c *Commands) texts(ctx context.Context, rows []TurnView) error {
	ids := make([]string, len(rows))
	for i, v := range rows {
		ids[i] = v.ID
	}
	texts, err := c.Store.TextsByID(ctx, ids)
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].Text = texts[rows[i].ID]
	}
	return nil
}

// needHumans lists the paired tasks that wait for a person, each by its last turn,
// also where a lone turn was taken after it.
func (c *Commands) needHumans(ctx context.Context, f Filter, threads []turns.Thread) ([]TurnView, error) {
	byID := map[string]turns.Thread{}
	var pairedIDs, ids []string
	for _, t := range threads {
		if t.Paired != "" {
			byID[t.Paired] = t
			pairedIDs = append(pairedIDs, t.Paired)
		}
	}
	paired, err := c.Store.PairedByID(ctx, pairedIDs)
	if err != nil {
		return nil, err
	}
	for _, p := range paired {
		if p.Status != turns.NeedsHuman {
			continue
		}
		last, err := c.lastTurn(ctx, byID[p.ID], p.ID)
		if err != nil {
			return nil, err
		}
		if last.ID != "" {
			ids = append(ids, last.ID)
		}
	}
	return c.rows(ctx, f, ids)
}

// keeps reports whether a row is asked for. A paired task that waits for a person
// is its last turn's row.
func (f Filter) keeps(v TurnView) bool {
	return (!f.NeedsHuman || v.Paired.Status == turns.NeedsHuman) &&
		(f.State == "" || v.State == f.State) &&
		(f.Role == "" || v.Role == f.Role) &&
		(f.Service == "" || v.Service == f.Service)
}

// views reads turns, a thread's newest first, with their paired tasks and current
// services. The last turn of a paired task that waits for a person says why.
func (c *Commands) views(ctx context.Context, ids []string) ([]TurnView, error) {
	list, err := c.Store.TurnsByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	var pairedIDs, attemptIDs []string
	for _, t := range list {
		attemptIDs = append(attemptIDs, turns.AttemptID(t.ID, t.Attempt))
		if t.Paired != "" && !slices.Contains(pairedIDs[max(0, len(pairedIDs)-1):], t.Paired) {
			pairedIDs = append(pairedIDs, t.Paired)
		}
	}
	paired, err := c.Store.PairedByID(ctx, pairedIDs)
	if err != nil {
		return nil, err
	}
	attempts, err := c.Store.AttemptsByID(ctx, attemptIDs)
	if err != nil {
		return nil, err
	}
	byID := map[string]turns.Paired{}
	for _, p := range paired {
		byID[p.ID] = p
	}
	service := map[string]string{}
	for _, a := range attempts {
		service[a.Turn] = a.Service
	}
	rows, told := make([]TurnView, len(list)), map[string]bool{}
	for i, t := range list {
		rows[i] = viewTurn(t, byID[t.Paired])
		rows[i].Service = service[t.ID]
		if p := byID[t.Paired]; p.Status == turns.NeedsHuman && !told[p.ID] {
			rows[i].Reason, told[p.ID] = p.Reason, true
		}
	}
	return rows, nil
}

// Dead is a dead letter: an attempt that will not be delivered again, whose turn
// was ended for it.
type Dead struct {
	Turn       string      `json:"turn"`
	Attempt    string      `json:"attempt"`
	Thread     string      `json:"thread"`
	Role       turns.Role  `json:"role"`
	Service    string      `json:"service"`
	Verb       turns.Verb  `json:"verb"` // compensate, end or lose
	Class      turns.Class `json:"class"`
	Error      string      `json:"error"`
	Deliveries int         `json:"deliveries"`
	Ended      Stamp       `json:"ended"`
	Text       string      `json:"-"` // how it died, for people
}

// DeadList lists the dead letters of the threads that changed last, newest first
// within a thread; limit bounds the number of threads, 0 for all.
func (c *Commands) DeadList(ctx context.Context, limit int) ([]Dead, error) {
	rows, err := c.Ls(ctx, Filter{All: true, State: turns.Failed, Limit: limit})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(rows))
	for i, v := range rows {
		ids[i] = turns.AttemptID(v.ID, v.Turn.Attempt)
	}
	attempts, err := c.Store.AttemptsByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	byTurn := map[string]turns.Turn{}
	for _, v := range rows {
		byTurn[v.ID] = v.Turn
	}
	list := []Dead{}
	for _, a := range attempts {
		how := deadLetter(a)
		if how == "" {
			continue
		}
		t := byTurn[a.Turn]
		list = append(list, Dead{Turn: t.ID, Attempt: a.ID, Thread: t.Thread, Role: t.Role, Service: a.Service, Verb: a.Ended,
			Class: t.Class, Error: t.Error, Deliveries: a.Deliveries, Ended: Stamp(t.Ended), Text: how})
	}
	return list, nil
}

// DeadShow returns a turn that died as a dead letter, as ShowTurn does. Any other
// turn is a conflict.
func (c *Commands) DeadShow(ctx context.Context, id string) (TurnView, error) {
	r, _, err := c.turnOf(ctx, id)
	if err != nil {
		return TurnView{}, refusal("show "+id, err)
	}
	if err := dead(r); err != nil {
		return TurnView{}, err
	}
	return c.whole(ctx, r.Turn, r.Paired)
}

// dead returns a conflict unless the turn ended as a dead letter.
func dead(r store.Records) error {
	if r.Turn.State == turns.Failed && deadLetter(r.Attempt) != "" {
		return nil
	}
	return refuse(Conflict, "`enqueue dead ls` lists the dead letters", "%s is no dead letter (%s)", r.Turn.ID, r.Turn.State)
}

// DeadRetry opens a new turn with the dead one's role and intent, linked to it. A
// turn that is no dead letter is a conflict.
func (c *Commands) DeadRetry(ctx context.Context, key, id string) (Result, error) {
	r, ref, err := c.turnOf(ctx, id)
	if err != nil {
		return Result{}, refusal("retry "+id, err)
	}
	if key != "" {
		if done, ok, err := c.before(ctx, ref.Thread, key); ok || err != nil {
			return done, err
		}
	}
	if err := dead(r); err != nil {
		return Result{}, err
	}
	return c.Retry(ctx, key, r.Turn.ID)
}

// DeadLetter says how an attempt became a dead letter, and nothing for one that
// ended otherwise or is open.
func DeadLetter(a turns.Attempt) string { return deadLetter(a) }
