package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// ControlVersion is the version of the payloads on control queues that this
// program writes. A message of a higher version is left for a newer worker.
const ControlVersion = 1

// RequestTypes are the types that hurry a request stored on a turn.
var RequestTypes = []Type{TurnInterrupt, TurnSteer, RequestRespond}

// UpkeepTypes are the types that do something to a thread beside its turns.
var UpkeepTypes = []Type{SessionDetach, WorkspaceCleanup, CheckpointRollback, CheckpointCapture}

// Request is the payload of a task that hurries a stored request to a live run.
// It carries no text: the stored request is the truth.
type Request struct {
	Version int    `json:"v"`
	Thread  string `json:"thread"`
	Turn    string `json:"turn"`
	Attempt string `json:"attempt"` // the one the person saw
	ID      string `json:"id"`      // of the stored request
}

// Upkeep is the payload of a task that does something to a thread beside its turns.
type Upkeep struct {
	Version int    `json:"v"`
	Thread  string `json:"thread"`
	Service string `json:"service"`        // whose worker does it
	Turn    string `json:"turn,omitempty"` // what a captured checkpoint is of
	Ref     string `json:"ref,omitempty"`  // the checkpoint to go back to
	ID      string `json:"id"`             // of the command
}

// DecodeRequest reads the payload of a request strictly.
func DecodeRequest(b []byte) (Request, error) {
	var r Request
	if err := decodeControl(b, &r, &r.Version); err != nil {
		return r, err
	}
	turn, _, err := turns.ParseAttempt(r.Attempt)
	if err != nil {
		return r, err
	}
	if turn != r.Turn || turns.ThreadOf(turn) != r.Thread {
		return r, fmt.Errorf("payload contradicts itself: attempt %s, turn %q, thread %q", r.Attempt, r.Turn, r.Thread)
	}
	if r.ID == "" {
		return r, errors.New("payload without the request's id")
	}
	return r, nil
}

// DecodeUpkeep reads the payload of an upkeep task strictly.
func DecodeUpkeep(t Type, b []byte) (Upkeep, error) {
	var u Upkeep
	if err := decodeControl(b, &u, &u.Version); err != nil {
		return u, err
	}
	return u, u.check(t)
}

func (u Upkeep) check(t Type) error {
	if err := turns.CheckThread(u.Thread); err != nil {
		return err
	}
	if err := turns.CheckService(u.Service); err != nil {
		return err
	}
	switch {
	case u.ID == "":
		return errors.New("payload without the command's id")
	case (t == CheckpointRollback) != (u.Ref != ""):
		return fmt.Errorf("%s with checkpoint %q", t, u.Ref)
	case u.Turn != "" && (t != CheckpointCapture || turns.ThreadOf(u.Turn) != u.Thread):
		return fmt.Errorf("%s of %s with turn %q", t, u.Thread, u.Turn)
	}
	return nil
}

// decodeControl reads a payload into v. A newer version is recognised before
// anything else is asked of it.
func decodeControl(b []byte, v any, version *int) error {
	if len(b) > maxPayload {
		return fmt.Errorf("payload of %d bytes: at most %d", len(b), maxPayload)
	}
	var loose struct {
		Version int `json:"v"`
	}
	if json.Unmarshal(b, &loose) == nil && loose.Version > ControlVersion {
		return fmt.Errorf("%w: %d, this program knows %d", ErrVersion, loose.Version, ControlVersion)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("payload can't be read: %w", err)
	}
	if d.More() {
		return errors.New("payload can't be read: something follows it")
	}
	if *version < 1 {
		return errors.New("payload without a version")
	}
	return nil
}

// Controls puts tasks on the control queues of services.
type Controls struct {
	rdb       redis.UniversalClient
	client    *asynq.Client
	inspector *asynq.Inspector
}

// NewControls returns the control queues over a client that the caller closes.
func NewControls(rdb redis.UniversalClient) *Controls {
	return &Controls{rdb: rdb, client: asynq.NewClientFromRedisClient(rdb), inspector: asynq.NewInspectorFromRedisClient(rdb)}
}

const (
	requestTimeout = 30 * time.Second
	upkeepTimeout  = 10 * time.Minute
	// upkeepKept is how long the task of a command stays after its end, so that a
	// repeat with the same key finds it.
	upkeepKept = 24 * time.Hour
)

// requestTypes is the type of task that hurries a stored request of a kind. When
// a cancel is hurried, it is written already: the run only has to hear it.
var requestTypes = map[string]Type{"interrupt": TurnInterrupt, "cancel": TurnInterrupt, "steer": TurnSteer, "respond": RequestRespond}

// Hurry tells the worker of an attempt's live run about a request that is stored
// on the turn: at once by a published word, and by a task on the control queue,
// which also waits for a worker that is just coming up.
func (c *Controls) Hurry(ctx context.Context, a turns.Attempt, kind, id string) error {
	published := Hurry(ctx, c.rdb, a.ID)
	t, ok := requestTypes[kind]
	if !ok || a.Service == "" {
		return published
	}
	if id == "" {
		id = kind
	}
	r := Request{ControlVersion, turns.ThreadOf(a.Turn), a.Turn, a.ID, id}
	_, err := c.put(ctx, t, a.Service, "ask:"+a.ID+":"+id, r, asynq.Timeout(requestTimeout))
	return errors.Join(published, err)
}

// Order puts an upkeep task on the control queue of its service. It reports
// whether the same command had put it there before.
func (c *Controls) Order(ctx context.Context, t Type, u Upkeep) (already bool, err error) {
	u.Version = ControlVersion
	if !slices.Contains(UpkeepTypes, t) {
		return false, fmt.Errorf("%s is no upkeep", t)
	}
	if err := u.check(t); err != nil {
		return false, err
	}
	return c.put(ctx, t, u.Service, upkeepID(t, u), u, asynq.Timeout(upkeepTimeout), asynq.Retention(upkeepKept))
}

func upkeepID(t Type, u Upkeep) string { return string(t) + ":" + u.Thread + ":" + u.ID }

// Done reports how far an ordered upkeep task is: done, or why it failed for good.
func (c *Controls) Done(t Type, u Upkeep) (done bool, failed string, err error) {
	info, err := c.inspector.GetTaskInfo(ControlQueue(u.Service), upkeepID(t, u))
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		return true, "", nil
	case err != nil:
		return false, "", err
	case info.State == asynq.TaskStateCompleted:
		return true, "", nil
	case info.State == asynq.TaskStateArchived:
		return true, strings.TrimPrefix(info.LastErr, asynq.SkipRetry.Error()+": "), nil
	}
	return false, "", nil
}

func (c *Controls) put(ctx context.Context, t Type, service, id string, payload any, more ...asynq.Option) (already bool, err error) {
	b, err := json.Marshal(payload)
	if err != nil {
		return false, err
	}
	effect, ok := EffectOf(t)
	if !ok || !effect.Control {
		return false, fmt.Errorf("%s does not run on a control queue", t)
	}
	queue := QueueOf(t, service)
	_, err = c.client.EnqueueContext(ctx, asynq.NewTask(string(t), b),
		append([]asynq.Option{asynq.TaskID(id), asynq.Queue(queue), asynq.MaxRetry(effect.Retries)}, more...)...)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("enqueue %s: %w", t, err)
	}
	// A lost wake-up only delays the pick-up.
	_ = c.rdb.Publish(ctx, WakeChannel(queue), id).Err()
	return false, nil
}
