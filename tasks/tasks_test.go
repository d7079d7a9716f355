package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"rota/internal/redistest"
	"rota/turns"
)

var entry = turns.OutboxEntry{
	Thread: "fix-login", Turn: "fix-login/2", Attempt: "fix-login/2.1", Role: turns.Reviewer, Intent: turns.Review,
	Service: "codex-review", Stamp: "5a", Cause: turns.CauseInitial,
}

func TestPayloadRoundTrip(t *testing.T) {
	p, err := Decode(PayloadOf(entry).Encode())
	if err != nil || p != PayloadOf(entry) {
		t.Fatal(p, err)
	}
}

func TestDecodeRefusesWhatContradictsItself(t *testing.T) {
	change := func(field string, value any) []byte {
		m := map[string]any{}
		if err := json.Unmarshal(PayloadOf(entry).Encode(), &m); err != nil {
			t.Fatal(err)
		}
		if value == nil {
			delete(m, field)
		} else {
			m[field] = value
		}
		b, _ := json.Marshal(m)
		return b
	}
	for name, payload := range map[string][]byte{
		"nothing":           nil,
		"no JSON":           []byte("owner"),
		"two values":        append(PayloadOf(entry).Encode(), []byte("{}")...),
		"no version":        change("v", nil),
		"no role":           change("role", nil),
		"unknown role":      change("role", "boss"),
		"role and intent":   change("role", "owner"),
		"unknown intent":    change("intent", "sing"),
		"another thread":    change("thread", "other"),
		"another turn":      change("turn", "fix-login/3"),
		"attempt is a turn": change("attempt", "fix-login/2"),
		"no stamp":          change("stamp", nil),
		"queue with braces": change("service", "{a}"),
		"unknown field":     change("persona", "owner"),
		"too long":          change("stamp", strings.Repeat("x", maxPayload)),
	} {
		if _, err := Decode(payload); err == nil {
			t.Errorf("%s was accepted: %s", name, payload)
		}
	}
	if _, err := Decode(change("v", PayloadVersion+1)); !errors.Is(err, ErrVersion) {
		t.Errorf("a newer version: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(PayloadOf(entry).Encode())
	f.Add([]byte(`{"v":1,"role":"owner"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b)
		if err == nil && turns.CheckRole(p.Role, p.Intent) != nil {
			t.Fatalf("accepted %q", b)
		}
	})
}

func TestEveryTypeHasARow(t *testing.T) {
	if err := Check(TurnStart, TurnRestart, TurnInterrupt, TurnSteer, RequestRespond, SessionDetach, WorkspaceCleanup, CheckpointRollback, CheckpointCapture); err != nil {
		t.Error(err)
	}
	if err := Check(TurnStart, "turn:sing"); err == nil || !strings.Contains(err.Error(), "turn:sing") {
		t.Errorf("an unknown type passed: %v", err)
	}
	for _, e := range Effects {
		if e.Retries < 1 || e.Why == "" || e.Does == "" {
			t.Errorf("row %s is not complete", e.Type)
		}
		compensated := e.Type == TurnStart || e.Type == TurnRestart
		if (e.DeadLetter == Compensate) != compensated {
			t.Errorf("dead letter of %s means %s", e.Type, e.DeadLetter)
		}
	}
}

func TestTimeoutIsBeyondRotasOwnClocks(t *testing.T) {
	l := turns.Limits{Start: time.Second, Run: 2 * time.Second, Grace: time.Second}
	if got := Timeout(l); got != 64*time.Second {
		t.Errorf("timeout %s", got)
	}
	if got := Timeout(turns.Limits{}); got%time.Second != 0 || got <= turns.DefaultLimits.Run {
		t.Errorf("timeout %s", got)
	}
}

// However many deliveries a turn may have, asynq has more.
func TestAsynqNeverGivesUpFirst(t *testing.T) {
	for deliveries, want := range map[int]int{0: Retries, 5: Retries, 25: 50, 100: 200} {
		l := turns.Limits{Deliveries: deliveries}
		if got := MostRetries(l); got != want || got < 2*l.WithDefaults().Deliveries {
			t.Errorf("%d deliveries: asynq retries %d times, want %d", deliveries, got, want)
		}
	}
	rdb := redistest.Mini(t)
	e := turns.OutboxEntry{Thread: "fix", Turn: "fix/1", Attempt: "fix/1.1", Role: turns.Owner, Intent: turns.Work, Service: "codex-main",
		Stamp: "s", Limits: turns.Limits{Deliveries: 30}}
	if err := Enqueue(context.Background(), asynq.NewClientFromRedisClient(rdb), e, 0, nil); err != nil {
		t.Fatal(err)
	}
	info, err := asynq.NewInspectorFromRedisClient(rdb).GetTaskInfo("codex-main", "fix/1.1")
	if err != nil || info.MaxRetry != 60 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestSpareTasksCarryTheSameAttempt(t *testing.T) {
	if TaskID("a/1.2", 0) != "a/1.2" || TaskID("a/1.2", 3) != "a/1.2+3" || AttemptOf("a/1.2+3") != "a/1.2" {
		t.Error("task ids")
	}
}
