package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"rota/turns"
)

// Say puts a person's message into the list of a thread whose turn is open; the
// write that ends the turn looks at it. It returns the open turn. ErrNoTurn when
// no turn is open, ErrFull when too many wait, or too many bytes of them.
func (s *Store) Say(ctx context.Context, thread, command string, m turns.Message) (string, error) {
	if err := CheckText("message", m.Text); err != nil {
		return "", err
	}
	if err := turns.CheckThread(thread); err != nil {
		return "", err
	}
	if err := checkCommand(command); err != nil {
		return "", err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	k := s.of(thread)
	a, err := s.run(ctx, scriptSay, []string{k.thread(thread), k.messages(thread), k.command(thread, command)},
		string(b), MaxMessages, ms(s.retention), thread, maxWaiting)
	if err != nil {
		return "", err
	}
	switch a.word {
	case "said":
		return a.at(0), nil
	case "already":
		return decodeNote(a.at(0)).Turn, nil
	case "no_turn":
		return "", fmt.Errorf("thread %s: %w", thread, ErrNoTurn)
	case "full":
		return "", full("messages of "+thread, a.at(0), MaxMessages)
	case "unknown":
		return "", fmt.Errorf("thread %s: %w", thread, ErrNotFound)
	}
	return "", unexpected(scriptSay, a)
}

// maxWaiting bounds what waits on a thread, in bytes as it is stored: messages on
// their own, and steered texts with the messages. So both together never exceed
// what goes into one turn.
const maxWaiting = MaxSaid / 2

// full says which bound refused a text.
func full(what, bound string, number int) error {
	switch bound {
	case "bytes":
		return fmt.Errorf("%s: at most %d bytes wait: %w", what, maxWaiting, ErrFull)
	case "waiting":
		number += MaxMessages
	}
	return fmt.Errorf("%s: at most %d wait: %w", what, number, ErrFull)
}

// Park moves a paired task while no turn of its thread is open: a person's
// cancel. p is the paired task after the move. ErrMoved when it has moved on.
func (s *Store) Park(ctx context.Context, p turns.Paired) error {
	k := s.of(p.Thread)
	retention := ""
	if p.Status.Finished() {
		retention = ms(s.retention)
	}
	a, err := s.run(ctx, scriptPark, []string{k.thread(p.Thread), k.paired(p.ID), k.ended(), k.threads()},
		p.ID, p.Version-1, encodePaired(p), retention, p.Thread)
	if err != nil {
		return err
	}
	if a.word == "moved" {
		return fmt.Errorf("paired task %s: %w", p.ID, ErrMoved)
	}
	return nil
}

// Ask is a person's request to the live run of a turn.
type Ask struct {
	ID   string    `json:"id"`
	Kind string    `json:"kind"` // interrupt, steer or respond
	Text string    `json:"text,omitempty"`
	Item string    `json:"item,omitempty"`
	At   time.Time `json:"at"`
	// Answer is what came of it, empty while it is open.
	Answer string `json:"answer,omitempty"`
}

// maxAsks bounds the requests to one turn.
const maxAsks = 1000

func (a Ask) message() string {
	if a.Kind != "steer" {
		return ""
	}
	b, err := json.Marshal(turns.Message{ID: a.ID, Text: a.Text, At: a.At, Note: "steered"})
	if err != nil {
		panic("store: " + err.Error())
	}
	return string(b)
}

// Ask stores a request to the run that holds the attempt that the person saw. The
// run hears it with its next renewal. ErrMoved when the attempt is not starting or
// running any more, ErrFull when there are too many, or too many bytes wait.
func (s *Store) Ask(ctx context.Context, attempt string, a Ask) error {
	if err := CheckText("text", a.Text); err != nil {
		return err
	}
	if err := checkCommand(a.ID); err != nil {
		return err
	}
	turn, _, err := turns.ParseAttempt(attempt)
	if err != nil {
		return err
	}
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	k := s.of(turn)
	thread := turns.ThreadOf(turn)
	reply, err := s.run(ctx, scriptAsk, []string{k.turn(turn), k.attempt(attempt), k.asks(turn), k.steers(turn), k.command(thread, a.ID), k.messages(thread)},
		string(b), a.message(), ms(s.retention), "starting,running", maxAsks, MaxMessages+maxAsks, maxWaiting, turn+"|"+attempt)
	if err != nil {
		return err
	}
	switch reply.word {
	case "asked", "already":
		return nil
	case "moved":
		return fmt.Errorf("%s is %s: %w", attempt, reply.at(0), ErrMoved)
	case "full":
		return full("requests to "+turn, reply.at(0), maxAsks)
	case "unknown":
		return fmt.Errorf("attempt %s: %w", attempt, ErrNotFound)
	}
	return unexpected(scriptAsk, reply)
}

// Asks returns the requests to a turn from the n-th on, with what came of them.
func (s *Store) Asks(ctx context.Context, turn string, from int) ([]Ask, error) {
	k := s.of(turn)
	rows, err := s.rdb.LRange(ctx, k.asks(turn), int64(from), -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read requests to %s: %w", turn, err)
	}
	answers, err := s.rdb.HGetAll(ctx, k.answers(turn)).Result()
	if err != nil {
		return nil, fmt.Errorf("read requests to %s: %w", turn, err)
	}
	asks := make([]Ask, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal([]byte(row), &asks[i]); err != nil {
			return nil, fmt.Errorf("request %d to %s: %w", from+i, turn, err)
		}
		asks[i].Answer = answers[asks[i].ID]
	}
	return asks, nil
}

// Taken records what came of a request; a steered text is no waiting message any
// more. ErrStale when the run does not hold the attempt: the text then becomes the
// next human message, or goes to the successor.
func (s *Store) Taken(ctx context.Context, r Run, a Ask, answer string) error {
	k := s.of(r.Turn)
	taken := a
	taken.Answer = ""
	reply, err := s.run(ctx, scriptTaken, []string{k.attempt(r.Attempt), k.answers(r.Turn), k.steers(r.Turn)},
		r.ID, r.fence(), a.ID, answer, taken.message())
	if err != nil {
		return err
	}
	if reply.word == "stale" {
		return fmt.Errorf("answer %s: %w", a.ID, ErrStale)
	}
	return nil
}

// Item opens or closes an item of a run, in the run's thread or a child thread of
// it. A sub-agent with Child set to the agent's own label gets a child thread; its
// name is returned.
func (s *Store) Item(ctx context.Context, r Run, item turns.Item) (child string, err error) {
	k := s.of(r.Turn)
	root := turns.Root(r.Thread)
	if item.Thread == "" {
		item.Thread = r.Thread
	}
	item.Attempt = r.Attempt
	link, label := "", item.Child
	if label != "" {
		link = item.Thread + "|" + r.Turn + "|" + label
	}
	open := "0"
	if item.State == turns.ItemOpen {
		open = "1"
	}
	for range 50 {
		name, num, childKey := "", 0, k.thread(root)
		if link != "" {
			t, err := s.Thread(ctx, root)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return "", err
			}
			num = max(1, t.Children) + 1
			name = fmt.Sprintf("%s~%d", root, num)
			childKey = k.thread(name)
		}
		b, err := json.Marshal(item)
		if err != nil {
			return "", err
		}
		a, err := s.run(ctx, scriptItem,
			[]string{k.attempt(r.Attempt), k.items(root), k.done(r.Turn), k.links(root), k.thread(root), childKey, k.threads()},
			r.ID, r.fence(), item.Thread+"|"+item.ID, string(b), open, link, name, num, MaxItems, r.Turn)
		if err != nil {
			return "", err
		}
		switch a.word {
		case "open", "closed", "already":
			return a.at(0), nil
		case "stale":
			return "", fmt.Errorf("item %s of %s: %w", item.ID, r.Attempt, ErrStale)
		case "full":
			return "", fmt.Errorf("items below %s: %w", root, ErrFull)
		case "moved":
			continue
		}
		return "", unexpected(scriptItem, a)
	}
	return "", fmt.Errorf("item %s: %w", item.ID, ErrMoved)
}

// OpenItems returns the open items below a root thread.
func (s *Store) OpenItems(ctx context.Context, thread string) ([]turns.Item, error) {
	rows, err := s.rdb.HVals(ctx, s.of(thread).items(thread)).Result()
	if err != nil {
		return nil, fmt.Errorf("read items of %s: %w", thread, err)
	}
	return decodeItems(rows), nil
}

// DoneItems returns the closed items of a turn, oldest first.
func (s *Store) DoneItems(ctx context.Context, turn string) ([]turns.Item, error) {
	rows, err := s.rdb.LRange(ctx, s.of(turn).done(turn), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read items of %s: %w", turn, err)
	}
	return decodeItems(rows), nil
}

func decodeItems(rows []string) []turns.Item {
	items := make([]turns.Item, 0, len(rows))
	for _, row := range rows {
		var item turns.Item
		if json.Unmarshal([]byte(row), &item) == nil {
			items = append(items, item)
		}
	}
	return items
}
