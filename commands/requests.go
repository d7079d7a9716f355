package commands

import (
	"context"
	"slices"
	"strings"

	"rota/turns"
	"rota/turns/store"
)

// Request is a question of an agent that waits for a person.
type Request struct {
	ID      string `json:"id"` // TURN:ITEM, what respond takes
	Thread  string `json:"thread"`
	Turn    string `json:"turn"`
	Attempt string `json:"attempt"`
	Text    string `json:"text"`
	item    string
}

// Requests returns the pending questions below a thread, of all threads when it is
// empty.
func (c *Commands) Requests(ctx context.Context, thread string) ([]Request, error) {
	roots := map[string]bool{}
	if thread != "" {
		ref, err := c.Resolve(ctx, thread)
		if err != nil {
			return nil, refusal("requests", err)
		}
		roots[turns.Root(ref.Thread)] = true
	} else {
		for shard := range c.Store.Shards() {
			open, err := c.Store.OpenTurns(ctx, shard, 0)
			if err != nil {
				return nil, err
			}
			for _, id := range open {
				roots[turns.Root(turns.ThreadOf(id))] = true
			}
		}
	}
	list := []Request{}
	for root := range roots {
		items, err := c.Store.OpenItems(ctx, root)
		if err != nil {
			return nil, err
		}
		for _, i := range items {
			turn, _, err := turns.ParseAttempt(i.Attempt)
			if i.Kind != turns.ItemRequest || err != nil {
				continue
			}
			list = append(list, Request{ID: turn + ":" + i.ID, Thread: i.Thread, Turn: turn, Attempt: i.Attempt, Text: i.Title, item: i.ID})
		}
	}
	slices.SortFunc(list, func(a, b Request) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// maxQuestion bounds a question in a list, in characters.
const maxQuestion = 2000

// questions puts into rows what a person is asked: the last answer of a paired task
// that waits after a completed turn, or the first pending question of a live run.
func (c *Commands) questions(ctx context.Context, rows []TurnView) error {
	for i := range rows {
		v := &rows[i]
		var err error
		switch {
		case v.State == turns.Running:
			v.Question, err = c.pending(ctx, v.Turn)
		case v.State == turns.Completed && v.Paired.Status == turns.NeedsHuman && v.Reason == v.Paired.Reason:
			v.Question, err = c.Store.Text(ctx, v.ID)
		}
		if err != nil {
			return err
		}
		if words := []rune(v.Question); len(words) > maxQuestion {
			v.Question = string(words[:maxQuestion-1]) + "…"
		}
	}
	return nil
}

// pending returns the question that a turn's live run waits with, or nothing.
func (c *Commands) pending(ctx context.Context, t turns.Turn) (string, error) {
	items, err := c.Store.OpenItems(ctx, t.Thread)
	if err != nil {
		return "", err
	}
	first := ""
	for _, i := range items {
		if i.Kind == turns.ItemRequest && i.Attempt == turns.AttemptID(t.ID, t.Attempt) && (first == "" || i.Title < first) {
			first = i.Title
		}
	}
	return first, nil
}

// Respond answers a pending question: its id as Requests gives it, or the item's
// part of it when only one question has it.
func (c *Commands) Respond(ctx context.Context, key, request, answer string) (Result, error) {
	key = keyed(key)
	if err := checkText("answer", answer); err != nil {
		return Result{}, err
	}
	turn, _, named := strings.Cut(request, ":")
	thread := ""
	if _, _, err := turns.ParseTurn(turn); named && err == nil {
		thread = turns.ThreadOf(turn)
		if r, ok, err := c.before(ctx, thread, key); ok || err != nil {
			return r, err
		}
	}
	list, err := c.Requests(ctx, thread)
	if err != nil {
		return Result{}, err
	}
	var found []Request
	for _, r := range list {
		if r.ID == request || r.item == request {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return Result{}, refuse(NotFound, "`enqueue requests` lists the pending ones", "request %s: not pending", request)
	case 1:
	default:
		return Result{}, refuse(Invalid, "write the whole id, such as "+found[0].ID, "request %s is ambiguous", request)
	}
	r, err := c.Store.Records(ctx, found[0].Turn, 0)
	if err != nil {
		return Result{}, refusal("respond to "+request, err)
	}
	if r.Attempt.ID != found[0].Attempt {
		return Result{}, movedOn("respond to", r.Attempt, store.ErrMoved)
	}
	done, err := c.ask(ctx, r, store.Ask{ID: key, Kind: "respond", Item: found[0].item, Text: answer})
	return done, movedOn("respond to", r.Attempt, err)
}
