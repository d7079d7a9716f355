package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"rota/internal/pipeline"
	"rota/turns"
)

// Asked is what a turn is asked to do, and what came before it.
type Asked struct {
	Task     string          // what the human asked for: of the turn itself, else of its paired task
	Messages []turns.Message // what people said since
	History  []Told          // what the turns before it came to, oldest first
}

// Told is what an earlier turn came to.
type Told struct {
	Role    turns.Role
	Outcome turns.Outcome
	Text    string
}

// Asking reads what a turn is asked to do: Along lets it share the round trip of
// another call, Read returns it. All of it was written when the turn was opened or
// before, so that it does not matter when it is read.
type Asking struct {
	store   *Store
	history int
	ahead   questions
	texts   map[string]*redis.StringCmd // by key
	past    map[string]*past            // by turn
}

// questions are what is read for a turn.
type questions struct {
	texts []string // keys
	past  []string // turns
}

// Asking returns how to read what a turn is asked, with up to so many turns of
// history, before more is known of it than its intent: only the owner's first turn
// follows on nothing. Turns without an answer are no history.
func (s *Store) Asking(turn string, intent turns.Intent, history int) *Asking {
	thread, number, _ := turns.ParseTurn(turn)
	first, before := "", 0
	if intent != turns.Work && number > 1 {
		first, before = turns.TurnID(thread, 1), history
	}
	return &Asking{store: s, history: history, ahead: s.questions(turn, first, before)}
}

// questions are those about a turn, the turn whose prompt is the task's, and the
// turns before it, which are nearly always those with the numbers before it.
func (s *Store) questions(turn, first string, before int) questions {
	k := s.of(turn)
	q := questions{texts: []string{k.prompt(turn), k.said(turn)}}
	if first != "" && first != turn {
		q.texts = append(q.texts, k.prompt(first))
	}
	thread, number, _ := turns.ParseTurn(turn)
	for n := number - 1; n > 0 && n >= number-before; n-- {
		q.past = append(q.past, turns.TurnID(thread, n))
	}
	return q
}

// Along adds the questions to a pipeline.
func (a *Asking) Along(p redis.Pipeliner) {
	a.texts, a.past = map[string]*redis.StringCmd{}, map[string]*past{}
	a.ask(p, a.ahead)
}

func (a *Asking) ask(p redis.Pipeliner, q questions) {
	ctx := context.Background() // the pipeline's own context counts
	for _, key := range q.texts {
		a.texts[key] = p.Get(ctx, key)
	}
	for _, turn := range q.past {
		a.past[turn] = ask(ctx, p, a.store.of(turn), turn)
	}
}

// Read returns what the turn of the records is asked. It asks now what was not asked
// along with another call, or was not answered there.
func (a *Asking) Read(ctx context.Context, r Records) (Asked, error) {
	t, before := r.Turn, 0
	if t.Prior != "" {
		before = a.history
	}
	q := a.store.questions(t.ID, r.Paired.First, before)
	if open := a.unanswered(q); len(open.texts)+len(open.past) > 0 {
		if a.texts == nil {
			a.texts, a.past = map[string]*redis.StringCmd{}, map[string]*past{}
		}
		cmds, _ := pipeline.Send(ctx, a.store.rdb, func(p redis.Pipeliner) { a.ask(p, open) })
		for _, cmd := range cmds {
			if !answered(cmd) {
				return Asked{}, fmt.Errorf("read what %s is asked: %w", t.ID, cmd.Err())
			}
		}
	}
	text := func(i int) string { return a.texts[q.texts[i]].Val() }
	asked := Asked{Task: text(0)}
	if asked.Task == "" && len(q.texts) > 2 {
		asked.Task = text(2)
	}
	if said := text(1); said != "" {
		if err := json.Unmarshal([]byte(said), &asked.Messages); err != nil {
			return Asked{}, fmt.Errorf("messages of %s: %w", t.ID, err)
		}
	}
	var err error
	asked.History, err = a.store.history(ctx, t.Prior, a.history, a.past)
	return asked, err
}

// answered reports whether Redis answered; that nothing is there is an answer.
func answered(cmd redis.Cmder) bool { return cmd.Err() == nil || errors.Is(cmd.Err(), redis.Nil) }

// unanswered returns the questions without an answer.
func (a *Asking) unanswered(q questions) (open questions) {
	for _, key := range q.texts {
		if cmd := a.texts[key]; cmd == nil || !answered(cmd) {
			open.texts = append(open.texts, key)
		}
	}
	for _, turn := range q.past {
		if p := a.past[turn]; p == nil || !answered(p.turn) || !answered(p.text) {
			open.past = append(open.past, turn)
		}
	}
	return open
}

// Asked reads what a turn is asked to do, in one round trip as a rule.
func (s *Store) Asked(ctx context.Context, r Records, history int) (Asked, error) {
	a := &Asking{store: s, history: history}
	return a.Read(ctx, r)
}

// past is an earlier turn that was asked for.
type past struct {
	turn *redis.SliceCmd
	text *redis.StringCmd
}

func ask(ctx context.Context, p redis.Pipeliner, k keys, turn string) *past {
	return &past{p.HMGet(ctx, k.turn(turn), "role", "outcome", "prior"), p.Get(ctx, k.text(turn))}
}

// history follows the turns back from prior, and asks for those that were not
// guessed.
func (s *Store) history(ctx context.Context, prior string, most int, guessed map[string]*past) ([]Told, error) {
	var told []Told
	for prior != "" && len(told) < most {
		p := guessed[prior]
		if p == nil {
			_, err := s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				p = ask(ctx, pipe, s.of(prior), prior)
				return nil
			})
			if err != nil && !errors.Is(err, redis.Nil) {
				return nil, fmt.Errorf("read turn %s: %w", prior, err)
			}
		}
		fields := p.turn.Val()
		if len(fields) != 3 || fields[0] == nil {
			break // its retention has ended
		}
		word := func(i int) string {
			w, _ := fields[i].(string)
			return w
		}
		if text := p.text.Val(); text != "" {
			told = append([]Told{{turns.Role(word(0)), turns.Outcome(word(1)), text}}, told...)
		}
		prior = word(2)
	}
	return told, nil
}
