package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

func encodeLimits(l turns.Limits) string {
	l = l.WithDefaults()
	return fmt.Sprintf("%s,%s,%s,%s,%s,%d,%d,%d,%d,%s", short(l.Lease), short(l.Start), short(l.Silence), short(l.Run), short(l.Grace),
		l.Deliveries, l.Attempts, l.Losses, l.Reminders, short(l.Wait))
}

// short writes a duration in whole seconds, or in milliseconds with an m: nine digits
// at most, so what is longer than eleven days is cut to the second.
func short(d time.Duration) string {
	if d%time.Second == 0 || d.Milliseconds() > 999_999_999 {
		return strconv.Itoa(int(d / time.Second))
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "m"
}

// long reads a duration that short wrote; 0 for what is none.
func long(text string) time.Duration {
	digits, millis := strings.CutSuffix(text, "m")
	if len(digits) > 9 || strings.Trim(digits, "0123456789") != "" {
		return 0
	}
	if millis {
		return time.Duration(number64(digits)) * time.Millisecond
	}
	return time.Duration(number64(digits)) * time.Second
}

func decodeLimits(text string) turns.Limits {
	var f [10]string
	copy(f[:], strings.SplitN(text, ",", len(f)))
	return turns.Limits{
		Lease: long(f[0]), Start: long(f[1]), Silence: long(f[2]), Run: long(f[3]), Grace: long(f[4]),
		Deliveries: number(f[5]), Attempts: number(f[6]), Losses: number(f[7]), Reminders: number(f[8]), Wait: long(f[9]),
	}.WithDefaults()
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func decodeTurn(id string, h map[string]string) turns.Turn {
	thread, n, _ := turns.ParseTurn(id)
	return turns.Turn{
		ID: id, Thread: thread, Number: n, Paired: h["paired"], Version: number(h["version"]),
		Role: turns.Role(h["role"]), Intent: turns.Intent(h["intent"]), Services: list(h["services"]), Limits: decodeLimits(h["limits"]),
		State: turns.State(h["state"]), Attempt: number(h["attempt"]),
		Opened: number(h["opened"]), Losses: number(h["losses"]), Reminders: number(h["reminders"]), WaitSince: msTime(h["wait_since"]),
		Outcome: turns.Outcome(h["outcome"]), Class: turns.Class(h["class"]), Error: h["error"], Reason: h["reason"],
		Parent: h["parent"], RetryOf: h["retry_of"], Prior: h["prior"], Tree: h["tree"], EndTree: h["end_tree"], High: h["high"] == "1",
		Created: msTime(h["created"]), Updated: msTime(h["updated"]), Ended: msTime(h["ended"]),
	}
}

func decodeAttempt(id string, h map[string]string) turns.Attempt {
	turn, n, _ := turns.ParseAttempt(id)
	cause := turns.Cause(h["cause"])
	if cause == "" {
		cause = turns.CauseInitial
	}
	due := msTime(h["due"])
	if due.IsZero() { // stored only when it is another time than the opening
		due = msTime(h["created"])
	}
	return turns.Attempt{
		ID: id, Turn: turn, Number: n, Stamp: h["stamp"], Service: h["service"], Agent: h["agent"],
		State: turns.State(h["state"]), Cause: cause, Reason: h["reason"],
		Previous: h["prev"], Next: h["next"], Run: h["run"], Fence: number64(h["fence"]), Worker: h["worker"],
		Deadline: msTime(h["deadline"]), Due: due, Credential: h["credential"], Session: h["session"],
		Deliveries: number(h["deliveries"]), Looks: number(h["looks"]), Progress: turns.Progress(h["progress"]),
		Class: turns.Class(h["class"]), Error: h["error"], Ended: turns.Verb(h["ended"]), Usage: h["usage"], Trace: h["trace"],
		Created: msTime(h["created"]), Updated: msTime(h["updated"]), Started: msTime(h["started"]),
	}
}

func decodeThread(name string, h map[string]string) turns.Thread {
	t := turns.Thread{
		Name: name, Root: turns.Root(name), Parent: h["parent"], Turns: number(h["turns"]), OpenTurn: h["open"],
		Paired: h["paired"], Pairs: number(h["pairs"]), Hold: number64(h["hold"]), HoldUntil: msTime(h["hold_until"]),
		Fence: number64(h["fence"]), Workspace: h["workspace"], Children: max(1, number(h["children"])),
		Created: msTime(h["created"]), Updated: msTime(h["updated"]), Sessions: map[string]string{},
	}
	for field, value := range h {
		if service, ok := strings.CutPrefix(field, "session:"); ok && value != "" {
			t.Sessions[service] = value
		}
	}
	return t
}

func decodePaired(id string, h map[string]string) turns.Paired {
	return turns.Paired{
		ID: id, Thread: turns.ThreadOf(id), Version: number(h["version"]), Status: turns.PairedStatus(h["status"]),
		From: turns.PairedStatus(h["from"]), Rounds: number(h["rounds"]), Arbitrations: number(h["arbitrations"]),
		Turns: number(h["turns"]), Accepted: h["accepted"], StepTree: h["step_tree"], Reason: h["reason"], First: h["first"],
		Created: msTime(h["created"]), Updated: msTime(h["updated"]),
	}
}

// Turn returns a turn, or ErrNotFound.
func (s *Store) Turn(ctx context.Context, id string) (turns.Turn, error) {
	if _, _, err := turns.ParseTurn(id); err != nil {
		return turns.Turn{}, err
	}
	h, err := s.rdb.HGetAll(ctx, s.of(id).turn(id)).Result()
	if err != nil {
		return turns.Turn{}, fmt.Errorf("read turn %s: %w", id, err)
	}
	if len(h) == 0 {
		return turns.Turn{}, fmt.Errorf("turn %s: %w", id, ErrNotFound)
	}
	return decodeTurn(id, h), nil
}

// Attempt returns an attempt, or ErrNotFound.
func (s *Store) Attempt(ctx context.Context, id string) (turns.Attempt, error) {
	if _, _, err := turns.ParseAttempt(id); err != nil {
		return turns.Attempt{}, err
	}
	h, err := s.rdb.HGetAll(ctx, s.of(id).attempt(id)).Result()
	if err != nil {
		return turns.Attempt{}, fmt.Errorf("read attempt %s: %w", id, err)
	}
	if len(h) == 0 {
		return turns.Attempt{}, fmt.Errorf("attempt %s: %w", id, ErrNotFound)
	}
	return decodeAttempt(id, h), nil
}

// Attempts returns all attempts of a turn, in order.
func (s *Store) Attempts(ctx context.Context, t turns.Turn) ([]turns.Attempt, error) {
	k := s.of(t.ID)
	replies := make([]*redis.MapStringStringCmd, t.Attempt)
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range replies {
			replies[i] = p.HGetAll(ctx, k.attempt(turns.AttemptID(t.ID, i+1)))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read attempts of %s: %w", t.ID, err)
	}
	var attempts []turns.Attempt
	for i, r := range replies {
		if h := r.Val(); len(h) > 0 {
			attempts = append(attempts, decodeAttempt(turns.AttemptID(t.ID, i+1), h))
		}
	}
	return attempts, nil
}

// Thread returns a thread, or ErrNotFound.
func (s *Store) Thread(ctx context.Context, name string) (turns.Thread, error) {
	if err := turns.CheckThread(name); err != nil {
		return turns.Thread{}, err
	}
	h, err := s.rdb.HGetAll(ctx, s.of(name).thread(name)).Result()
	if err != nil {
		return turns.Thread{}, fmt.Errorf("read thread %s: %w", name, err)
	}
	if len(h) == 0 {
		return turns.Thread{}, fmt.Errorf("thread %s: %w", name, ErrNotFound)
	}
	return decodeThread(name, h), nil
}

// Paired returns a paired task, or ErrNotFound.
func (s *Store) Paired(ctx context.Context, id string) (turns.Paired, error) {
	h, err := s.rdb.HGetAll(ctx, s.of(id).paired(id)).Result()
	if err != nil {
		return turns.Paired{}, fmt.Errorf("read paired task %s: %w", id, err)
	}
	if len(h) == 0 {
		return turns.Paired{}, fmt.Errorf("paired task %s: %w", id, ErrNotFound)
	}
	return decodePaired(id, h), nil
}

// Prompt returns what a command asked of a turn, empty when the workflow opened it.
func (s *Store) Prompt(ctx context.Context, turn string) (string, error) {
	return s.text(ctx, s.of(turn).prompt(turn))
}

// Text returns the final answer of a turn, empty when there is none.
func (s *Store) Text(ctx context.Context, turn string) (string, error) {
	return s.text(ctx, s.of(turn).text(turn))
}

func (s *Store) text(ctx context.Context, key string) (string, error) {
	text, err := s.rdb.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return text, err
}

// Said returns the human messages that went into a turn.
func (s *Store) Said(ctx context.Context, turn string) ([]turns.Message, error) {
	text, err := s.text(ctx, s.of(turn).said(turn))
	if err != nil || text == "" {
		return nil, err
	}
	var messages []turns.Message
	if err := json.Unmarshal([]byte(text), &messages); err != nil {
		return nil, fmt.Errorf("messages of %s: %w", turn, err)
	}
	return messages, nil
}

// Waiting returns the human messages that wait on a thread, oldest first.
func (s *Store) Waiting(ctx context.Context, thread string) ([]turns.Message, error) {
	rows, err := s.rdb.LRange(ctx, s.of(thread).messages(thread), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read messages of %s: %w", thread, err)
	}
	messages := make([]turns.Message, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal([]byte(row), &messages[i]); err != nil {
			return nil, fmt.Errorf("message %d of %s: %w", i, thread, err)
		}
	}
	return messages, nil
}

// Log returns every move of a turn, oldest first.
func (s *Store) Log(ctx context.Context, turn string) ([]turns.Entry, error) {
	rows, err := s.rdb.LRange(ctx, s.of(turn).log(turn), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read log of %s: %w", turn, err)
	}
	entries := make([]turns.Entry, 0, len(rows))
	for _, row := range rows {
		entries = append(entries, decodeEntry(turn, row))
	}
	return entries, nil
}

func decodeEntry(turn, line string) turns.Entry {
	f := strings.SplitN(line, "|", 9)
	for len(f) < 9 {
		f = append(f, "")
	}
	return turns.Entry{
		At: msTime(f[0]), Verb: turns.Verb(f[1]), Turn: turn, Attempt: turn + "." + f[2], From: turns.State(f[3]), To: turns.State(f[4]),
		Fence: number64(f[5]), Service: f[6], Role: loggedRole(f[7]), Reason: f[8],
	}
}

// loggedRole reads a role by its first letter, as the log has it. Anything else
// stays what it is, and is no role.
func loggedRole(text string) turns.Role {
	for _, r := range turns.Roles {
		if text == string(r[:1]) {
			return r
		}
	}
	return turns.Role(text)
}

// OpenTurns returns the ids of all open turns of a shard, oldest first, at most
// limit of them (0 for all).
func (s *Store) OpenTurns(ctx context.Context, shard, limit int) ([]string, error) {
	return s.rdb.ZRange(ctx, shardKeys(shard).open(), 0, int64(limit)-1).Result()
}

// Threads returns the names of the threads of all shards, last changed first, at
// most limit of them (0 for all).
func (s *Store) Threads(ctx context.Context, limit int) ([]string, error) {
	replies := make([]*redis.ZSliceCmd, s.shards)
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range replies {
			replies[i] = p.ZRevRangeWithScores(ctx, shardKeys(i).threads(), 0, int64(limit)-1)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read threads: %w", err)
	}
	var rows []redis.Z
	for _, r := range replies {
		rows = append(rows, r.Val()...)
	}
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].Score > rows[j].Score })
	if limit > 0 && len(rows) > limit {
		rows = rows[:limit]
	}
	names := make([]string, len(rows))
	for i, z := range rows {
		names[i] = z.Member.(string)
	}
	return names, nil
}
