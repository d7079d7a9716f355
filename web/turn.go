package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"rota/turns"
	"rota/turns/store"
)

// Bounds of a turn's page. What is longer is cut, with a note.
const (
	textShown  = 64 << 10 // bytes of the answer and of the prompt
	itemsShown = 200
	movesShown = 500
)

// turnPage is one turn with everything that is known about it.
type turnPage struct {
	Turn     turns.Turn
	Attempt  turns.Attempt // the current one
	Attempts []turns.Attempt
	Paired   turns.Paired
	Thread   turns.Thread
	Status   string
	Why      string
	Timeline timeline
	Dead     string

	Prompt, Text       string
	PromptCut, TextCut bool
	Said               []turns.Message
	Asks               []store.Ask
	Items              []turns.Item
	MoreItems          int
	Log                []turns.Entry
	MoreLog            int
	Next               string // the turn after it, empty when there is none
	Elsewhere          []string
	Now                time.Time
}

func (b *board) turn(r *http.Request) (shown, error) {
	ctx := r.Context()
	id := r.PathValue("thread") + "/" + r.PathValue("number")
	if turn, _, err := turns.ParseAttempt(id); err == nil {
		id = turn // an attempt's address is its turn's
	}
	if _, _, err := turns.ParseTurn(id); err != nil {
		return shown{}, badAsk{err}
	}
	records, err := b.Store.Records(ctx, id, 0)
	if err != nil {
		return shown{}, err
	}
	p := turnPage{Turn: records.Turn, Attempt: records.Attempt, Paired: records.Paired, Thread: records.Thread, Now: time.Now()}
	if p.Paired.ID != "" {
		p.Status = p.Paired.Status.Shown(p.Turn.Role, p.Turn.State)
	}
	if p.Turn.Number < p.Thread.Turns {
		p.Next = turns.TurnID(p.Turn.Thread, p.Turn.Number+1)
	}
	if p.Attempts, err = b.Store.Attempts(ctx, p.Turn); err != nil {
		return shown{}, err
	}
	p.Timeline = lay(b.Services, []turns.Turn{p.Turn}, map[string][]turns.Attempt{id: p.Attempts}, p.Now)
	p.Dead = p.Timeline.Rows[0].Dead
	for _, service := range p.Turn.Services {
		if service != p.Attempt.Service {
			p.Elsewhere = append(p.Elsewhere, service)
		}
	}
	if p.Why, err = b.Commands.Why(ctx, id); err != nil {
		return shown{}, err
	}
	if err := errors.Join(b.readTexts(ctx, &p), b.readItems(ctx, &p), b.readLog(ctx, &p)); err != nil {
		return shown{}, err
	}
	return shown{Title: id, Thread: p.Turn.Thread, Body: p}, nil
}

// readTexts reads what went into the turn and what came out.
func (b *board) readTexts(ctx context.Context, p *turnPage) error {
	var errs [4]error
	p.Prompt, errs[0] = b.Store.Prompt(ctx, p.Turn.ID)
	p.Text, errs[1] = b.Store.Text(ctx, p.Turn.ID)
	p.Said, errs[2] = b.Store.Said(ctx, p.Turn.ID)
	p.Asks, errs[3] = b.Store.Asks(ctx, p.Turn.ID, 0)
	p.PromptCut, p.TextCut = len(p.Prompt) > textShown, len(p.Text) > textShown
	p.Prompt, p.Text = clip(p.Prompt, textShown), clip(p.Text, textShown)
	return errors.Join(errs[:]...)
}

// readItems reads what its runs opened, open ones in front.
func (b *board) readItems(ctx context.Context, p *turnPage) error {
	open, err := b.Store.OpenItems(ctx, p.Turn.Thread)
	if err != nil {
		return err
	}
	open = slices.DeleteFunc(open, func(i turns.Item) bool {
		return i.Turn != p.Turn.ID && !strings.HasPrefix(i.Attempt, p.Turn.ID+".")
	})
	slices.SortFunc(open, func(x, y turns.Item) int { return strings.Compare(x.ID, y.ID) })
	done, err := b.Store.DoneItems(ctx, p.Turn.ID)
	p.Items = append(open, done...)
	if p.MoreItems = len(p.Items) - itemsShown; p.MoreItems > 0 {
		p.Items = p.Items[:itemsShown]
	}
	return err
}

func (b *board) readLog(ctx context.Context, p *turnPage) error {
	log, err := b.Store.Log(ctx, p.Turn.ID)
	if p.MoreLog = len(log) - movesShown; p.MoreLog > 0 {
		log = log[p.MoreLog:]
	}
	p.Log = log
	return err
}
