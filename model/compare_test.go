package model

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// compare says where the real store differs from the model's state.
func (w *twin) compare(s *state) string {
	var diff []string
	same := func(what string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			diff = append(diff, fmt.Sprintf("%s: the store has %v, the model %v", what, got, want))
		}
	}
	th, err := w.s.Thread(w.ctx, thread)
	w.must(err)
	p, err := w.s.Paired(w.ctx, turns.PairedID(thread, 1))
	w.must(err)
	st := &s.Store
	openTurn := ""
	if st.Open != 0 {
		openTurn = turns.TurnID(thread, int(st.Open))
	}
	same("turns", th.Turns, st.Counter)
	same("open turn", th.OpenTurn, openTurn)
	same("hold", th.Hold, w.fences[st.Hold])
	if th.Hold != 0 {
		same("hold over", !th.HoldUntil.After(w.now), st.Over)
	}
	same("paired task", fmt.Sprint(p.Status, " ", p.From, p.Rounds, p.Turns), fmt.Sprint(statusOf[st.Status], " ", statusOf[st.From], st.Rounds, st.Turned))
	waiting, err := w.rdb.LLen(w.ctx, key("messages:"+thread)).Result()
	w.must(err)
	same("messages", waiting, st.Messages)
	for t := uint8(1); t <= st.Counter; t++ {
		u := s.turn(t)
		got, err := w.s.Turn(w.ctx, turns.TurnID(thread, int(t)))
		w.must(err)
		same(got.ID, fmt.Sprint(got.State, got.Role, got.Intent, got.Attempt, got.Opened, got.Losses),
			fmt.Sprint(stateOf[u.State], roleOf[u.Role], intentOf[u.Intent], u.Attempt, u.Opened, u.Losses))
		for n := uint8(1); n <= u.Attempt; n++ {
			w.compareAttempt(same, id(t, n), &u.Attempts[n-1])
		}
	}
	return strings.Join(diff, "\n")
}

func (w *twin) compareAttempt(same func(string, any, any), name string, a *attempt) {
	got, err := w.s.Attempt(w.ctx, name)
	w.must(err)
	in := func(index string) bool {
		_, err := w.rdb.ZScore(w.ctx, key(index), name).Result()
		if !errors.Is(err, redis.Nil) {
			w.must(err)
		}
		return err == nil
	}
	same(name, fmt.Sprint(got.State, got.Service, got.Cause, got.Run, got.Fence, got.Deliveries, got.Next != "", in("outbox"), in("leases")),
		fmt.Sprint(stateOf[a.State], serviceOf[a.Service], causeOf[a.Cause], token(a.Run), w.fences[a.Fence], a.Deliveries, a.Next, a.Box != 0, a.Lease))
}
