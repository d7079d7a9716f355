package tasks

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"rota/internal/redistest"
	"rota/turns"
)

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRequestPayload(t *testing.T) {
	good := Request{ControlVersion, "fix", "fix/2", "fix/2.1", "k1"}
	if r, err := DecodeRequest(encode(t, good)); err != nil || r != good {
		t.Fatal(r, err)
	}
	for name, bad := range map[string]any{
		"no version":       Request{0, "fix", "fix/2", "fix/2.1", "k1"},
		"another thread":   Request{1, "other", "fix/2", "fix/2.1", "k1"},
		"another turn":     Request{1, "fix", "fix/3", "fix/2.1", "k1"},
		"no attempt":       Request{1, "fix", "fix/2", "fix/2", "k1"},
		"no request":       Request{1, "fix", "fix/2", "fix/2.1", ""},
		"an unknown field": map[string]any{"v": 1, "thread": "fix", "turn": "fix/2", "attempt": "fix/2.1", "id": "k1", "text": "no text travels"},
		"too long":         Request{1, "fix", "fix/2", "fix/2.1", strings.Repeat("x", maxPayload)},
		"a list":           []int{1},
	} {
		if _, err := DecodeRequest(encode(t, bad)); err == nil || errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeRequest(append(encode(t, good), []byte("{}")...)); err == nil {
		t.Error("two values are accepted")
	}
	newer := map[string]any{"v": ControlVersion + 1, "whom": "nobody knows yet"}
	if _, err := DecodeRequest(encode(t, newer)); !errors.Is(err, ErrVersion) {
		t.Errorf("a newer message: %v", err)
	}
}

func TestUpkeepPayload(t *testing.T) {
	for name, row := range map[string]struct {
		t  Type
		u  Upkeep
		ok bool
	}{
		"detach":                {SessionDetach, Upkeep{1, "fix", "claude", "", "", "k"}, true},
		"cleanup":               {WorkspaceCleanup, Upkeep{1, "fix~2", "claude", "", "", "k"}, true},
		"rollback":              {CheckpointRollback, Upkeep{1, "fix", "claude", "", "refs/rota/fix/1", "k"}, true},
		"capture":               {CheckpointCapture, Upkeep{1, "fix", "claude", "fix/3", "", "k"}, true},
		"capture of no turn":    {CheckpointCapture, Upkeep{1, "fix", "claude", "", "", "k"}, true},
		"no id":                 {SessionDetach, Upkeep{1, "fix", "claude", "", "", ""}, false},
		"bad thread":            {SessionDetach, Upkeep{1, "Fix it", "claude", "", "", "k"}, false},
		"bad service":           {SessionDetach, Upkeep{1, "fix", "{a}", "", "", "k"}, false},
		"rollback to nothing":   {CheckpointRollback, Upkeep{1, "fix", "claude", "", "", "k"}, false},
		"cleanup with a ref":    {WorkspaceCleanup, Upkeep{1, "fix", "claude", "", "refs/rota/fix/1", "k"}, false},
		"capture elsewhere":     {CheckpointCapture, Upkeep{1, "fix", "claude", "other/3", "", "k"}, false},
		"detach with a turn":    {SessionDetach, Upkeep{1, "fix", "claude", "fix/3", "", "k"}, false},
		"payload of no version": {SessionDetach, Upkeep{0, "fix", "claude", "", "", "k"}, false},
	} {
		if _, err := DecodeUpkeep(row.t, encode(t, row.u)); (err == nil) != row.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every type that a person's request or an upkeep travels as is on the control
// queue, and its dead letter is a warning.
func TestControlTypesAreWarnings(t *testing.T) {
	for _, typ := range append(append([]Type{}, RequestTypes...), UpkeepTypes...) {
		e, ok := EffectOf(typ)
		if !ok || !e.Control || e.DeadLetter != Warn || QueueOf(typ, "claude") != "claude.control" {
			t.Errorf("%s: %+v", typ, e)
		}
	}
	for _, e := range Effects {
		if e.Control != (e.DeadLetter == Warn) {
			t.Errorf("%s: what holds a run is compensated, what is beside it warns", e.Type)
		}
	}
}

func TestHurryAndOrder(t *testing.T) {
	rdb := redistest.Mini(t)
	ctx := t.Context()
	c, inspect := NewControls(rdb), asynq.NewInspectorFromRedisClient(rdb)
	heard := rdb.Subscribe(ctx, HurryChannel, WakeChannel("claude.control"))
	defer heard.Close()
	if _, err := heard.ReceiveTimeout(ctx, time.Second); err != nil {
		t.Fatal(err)
	}
	a := turns.Attempt{ID: "fix/2.1", Turn: "fix/2", Service: "claude"}
	for range 2 { // a repeat is the same task
		if err := c.Hurry(ctx, a, "steer", "k1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Hurry(ctx, a, "cancel", ""); err != nil {
		t.Fatal(err)
	}
	list, err := inspect.ListPendingTasks("claude.control")
	if err != nil || len(list) != 2 || list[1].Type != string(TurnInterrupt) && list[0].Type != string(TurnInterrupt) {
		t.Fatalf("tasks %v, %v", list, err)
	}
	if list[0].Type == string(TurnInterrupt) {
		list[0] = list[1]
	}
	if list[0].Type != string(TurnSteer) || list[0].MaxRetry != Retries {
		t.Fatalf("task %+v", list[0])
	}
	if r, err := DecodeRequest(list[0].Payload); err != nil || r.Attempt != a.ID || r.ID != "k1" {
		t.Fatal(r, err)
	}
	for _, want := range []string{HurryChannel, WakeChannel("claude.control")} {
		m, err := heard.ReceiveMessage(ctx)
		if err != nil || m.Channel != want {
			t.Fatalf("heard %v, %v, want a word on %s", m, err, want)
		}
	}

	u := Upkeep{Thread: "fix", Service: "claude", ID: "k3"}
	for i := range 2 {
		if already, err := c.Order(ctx, WorkspaceCleanup, u); err != nil || already != (i == 1) {
			t.Fatalf("order %d: already %v, %v", i, already, err)
		}
	}
	if done, _, err := c.Done(WorkspaceCleanup, u); err != nil || done {
		t.Fatal("done before anybody did it", err)
	}
	if err := inspect.ArchiveTask("claude.control", upkeepID(WorkspaceCleanup, u)); err != nil {
		t.Fatal(err)
	}
	if done, _, err := c.Done(WorkspaceCleanup, u); err != nil || !done {
		t.Fatal("an archived one is not waited for", err)
	}
	if _, err := c.Order(ctx, TurnStart, u); err == nil {
		t.Error("a turn is no upkeep")
	}
	if _, err := c.Order(ctx, CheckpointRollback, u); err == nil {
		t.Error("a rollback to nothing is ordered")
	}
}
