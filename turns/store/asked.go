package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

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
// another call, Read returns it.
type Asking struct {
	store   *Store
	records Records
	history int

	task, first, said *redis.StringCmd
	guessed           map[string]*past
}

// Asking returns how to read what a turn is asked to do, with up to so many turns
// of history. Turns without an answer are no history. All of it was written when
// the turn was opened or before, so that it does not matter when it is read.
func (s *Store) Asking(r Records, history int) *Asking {
	return &Asking{store: s, records: r, history: history}
}

// Along adds the questions to a pipeline.
func (a *Asking) Along(p redis.Pipeliner) {
	ctx, t := context.Background(), a.records.Turn // the pipeline's own context counts
	k := a.store.of(t.ID)
	a.task, a.said, a.first = p.Get(ctx, k.prompt(t.ID)), p.Get(ctx, k.said(t.ID)), nil
	if first := a.records.Paired.First; first != "" && first != t.ID {
		a.first = p.Get(ctx, k.prompt(first))
	}
	// The turns before this one are nearly always those with the numbers before it.
	a.guessed = map[string]*past{}
	if t.Prior != "" {
		for n := t.Number - 1; n > 0 && n >= t.Number-a.history; n-- {
			id := turns.TurnID(t.Thread, n)
			a.guessed[id] = ask(ctx, p, k, id)
		}
	}
}

// Read returns what the turn is asked. It asks now what was not asked along with
// another call, or was not answered there.
func (a *Asking) Read(ctx context.Context) (Asked, error) {
	t := a.records.Turn
	if a.failure() != nil {
		_, _ = a.store.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			a.Along(p)
			return nil
		})
		if err := a.failure(); err != nil {
			return Asked{}, fmt.Errorf("read what %s is asked: %w", t.ID, err)
		}
	}
	asked := Asked{Task: a.task.Val()}
	if asked.Task == "" && a.first != nil {
		asked.Task = a.first.Val()
	}
	if text := a.said.Val(); text != "" {
		if err := json.Unmarshal([]byte(text), &asked.Messages); err != nil {
			return Asked{}, fmt.Errorf("messages of %s: %w", t.ID, err)
		}
	}
	var err error
	asked.History, err = a.store.history(ctx, t.Prior, a.history, a.guessed)
	return asked, err
}

// failure says why an answer is missing; a value that is not there is an answer.
func (a *Asking) failure() error {
	if a.task == nil {
		return errors.New("not asked yet")
	}
	all := []error{a.task.Err(), a.said.Err()}
	if a.first != nil {
		all = append(all, a.first.Err())
	}
	for _, p := range a.guessed {
		all = append(all, p.turn.Err(), p.text.Err())
	}
	for _, err := range all {
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

// Asked reads what a turn is asked to do, in one round trip as a rule.
func (s *Store) Asked(ctx context.Context, r Records, history int) (Asked, error) {
	return s.Asking(r, history).Read(ctx)
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
