package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"rota/turns"
	"rota/turns/store"
)

// Bounds of a thread's page.
const (
	turnsShown    = 40 // on one page of a thread
	childrenShown = 50
	messagesShown = 20
)

// threadPage is one thread.
type threadPage struct {
	Thread   turns.Thread
	Paired   turns.Paired
	Status   string
	Why      string
	Timeline timeline
	Newest   int // number of the newest turn on the page
	Older    int // ?before= of the page before; 0 when there is none
	Children []turns.Thread
	Waiting  []turns.Message
	More     int // messages that wait beyond those shown
	Last     turns.Turn
	Query    url.Values
}

func (b *board) thread(r *http.Request) (shown, error) {
	ctx, name := r.Context(), r.PathValue("name")
	if err := turns.CheckThread(name); err != nil {
		return shown{}, badAsk{err}
	}
	th, err := b.Store.Thread(ctx, name)
	if err != nil {
		return shown{}, err
	}
	p := threadPage{Thread: th, Newest: th.Turns}
	if before, err := strconv.Atoi(r.URL.Query().Get("before")); err == nil && before > 1 && before <= th.Turns {
		p.Newest = before - 1
	}
	if err := b.readTimeline(ctx, &p); err != nil {
		return shown{}, err
	}
	if th.Paired != "" {
		if p.Paired, err = b.Store.Paired(ctx, th.Paired); err != nil && !errors.Is(err, store.ErrNotFound) {
			return shown{}, err
		}
		p.Status = p.Paired.Status.Shown(p.Last.Role, p.Last.State)
	}
	if p.Why, err = b.Commands.Why(ctx, name); err != nil {
		return shown{}, err
	}
	if err := b.readAround(ctx, &p); err != nil {
		return shown{}, err
	}
	return shown{Title: name, Thread: name, Body: p}, nil
}

// readTimeline reads the turns of the page and all their attempts.
func (b *board) readTimeline(ctx context.Context, p *threadPage) error {
	first := max(1, p.Newest-turnsShown+1)
	if first > 1 {
		p.Older = first
	}
	var ids []string
	for n := first; n <= p.Newest; n++ {
		ids = append(ids, turns.TurnID(p.Thread.Name, n))
	}
	list, err := b.Store.TurnsByID(ctx, ids)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		p.Last = list[len(list)-1]
	}
	attempts, err := b.attemptsOf(ctx, list)
	if err != nil {
		return err
	}
	p.Timeline = lay(b.Services, list, attempts, time.Now())
	return nil
}

// attemptsOf reads the attempts of turns, by turn and in order.
func (b *board) attemptsOf(ctx context.Context, list []turns.Turn) (map[string][]turns.Attempt, error) {
	var ids []string
	for _, t := range list {
		for n := 1; n <= t.Attempt; n++ {
			ids = append(ids, turns.AttemptID(t.ID, n))
		}
	}
	all, err := b.Store.AttemptsByID(ctx, ids)
	byTurn := map[string][]turns.Attempt{}
	for _, a := range all {
		byTurn[a.Turn] = append(byTurn[a.Turn], a)
	}
	return byTurn, err
}

// readAround reads child threads and waiting messages.
func (b *board) readAround(ctx context.Context, p *threadPage) error {
	var names []string
	if p.Thread.Name == p.Thread.Root {
		for k := p.Thread.Children; k > 1 && len(names) < childrenShown; k-- {
			names = append(names, fmt.Sprintf("%s~%d", p.Thread.Root, k))
		}
	}
	slices.Reverse(names)
	var err error
	if p.Children, err = b.Store.ThreadsByName(ctx, names); err != nil {
		return err
	}
	if p.Waiting, err = b.Store.Waiting(ctx, p.Thread.Name); err != nil {
		return err
	}
	if p.More = len(p.Waiting) - messagesShown; p.More > 0 {
		p.Waiting = p.Waiting[:messagesShown]
	}
	return nil
}
