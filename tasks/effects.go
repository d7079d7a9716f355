package tasks

import (
	"fmt"
	"slices"
	"strings"

	"rota/turns"
)

// Type is the type of an asynq task.
type Type string

// The types. Every type that a worker handles stands in Effects.
const (
	TurnStart          Type = "turn:start"
	TurnRestart        Type = "turn:restart"
	TurnInterrupt      Type = "turn:interrupt"
	TurnSteer          Type = "turn:steer"
	RequestRespond     Type = "request:respond"
	SessionDetach      Type = "session:detach"
	WorkspaceCleanup   Type = "workspace:cleanup"
	CheckpointRollback Type = "checkpoint:rollback"
	CheckpointCapture  Type = "checkpoint:capture"
)

// Meaning is what a dead letter of a type means.
type Meaning string

// The meanings.
const (
	// Compensate: a run still starting is failed, with everything open below it,
	// before asynq archives the task.
	Compensate Meaning = "compensate"
	// Warn: the dead letter is logged and counted; no turn is touched.
	Warn Meaning = "warn"
)

// Effect is one row of the table of effects.
type Effect struct {
	Type       Type
	Does       string
	Control    bool // runs on the service's control queue, never behind turns
	Retries    int  // asynq's MaxRetry: far above rota's own budget, never 0
	Repeatable bool // may run again after a crash without doing harm
	DeadLetter Meaning
	Why        string // why its dead letter means that
}

// Retries is asynq's MaxRetry for every type: a backstop far above rota's own
// budget of deliveries. A turn with a budget near it gets more, see MostRetries.
const Retries = 25

// Effects is the table of effects: every type of task with what its dead letter
// means. A type that is not in it is refused at start-up.
var Effects = []Effect{
	{TurnStart, "runs an attempt", false, Retries, true, Compensate, "a run still starting would stay so for ever"},
	{TurnRestart, "runs the attempt that a restart opened", false, Retries, true, Compensate, "a run still starting would stay so for ever"},
	{TurnInterrupt, "hurries an interrupt that is stored on the turn", true, Retries, true, Warn, "the next renewal brings it; the live run owns its end"},
	{TurnSteer, "hurries a steered text that is stored on the turn", true, Retries, true, Warn, "the next renewal brings it; the live run owns its end"},
	{RequestRespond, "hurries an answer that is stored on the turn", true, Retries, true, Warn, "the next renewal brings it; the live run owns its end"},
	{SessionDetach, "forgets a thread's agent session on a service", true, Retries, true, Warn, "holds no starting run"},
	{WorkspaceCleanup, "removes the worktree of a thread whose task has ended", true, Retries, true, Warn, "holds no starting run; the next pass cleans again"},
	{CheckpointRollback, "makes the workspace's files those of a checkpoint", true, Retries, true, Warn, "holds no starting run; the person sees the warning and asks again"},
	{CheckpointCapture, "records the workspace's tree as a git ref", true, Retries, true, Warn, "the next pass captures again"},
}

// EffectOf returns the row of a type.
func EffectOf(t Type) (Effect, bool) {
	i := slices.IndexFunc(Effects, func(e Effect) bool { return e.Type == t })
	if i < 0 {
		return Effect{}, false
	}
	return Effects[i], true
}

// Check returns an error unless every type stands in the table of effects: a
// worker calls it with what it handles before it starts.
func Check(types ...Type) error {
	var unknown []string
	for _, t := range types {
		if _, ok := EffectOf(t); !ok {
			unknown = append(unknown, string(t))
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("task types without a row in the table of effects: %s", strings.Join(unknown, ", "))
	}
	return nil
}

// TypeFor returns the type of the task that carries an attempt of this cause.
func TypeFor(c turns.Cause) Type {
	if c == turns.CauseRestart {
		return TurnRestart
	}
	return TurnStart
}

// Queue returns the queue of a service: they have the same name.
func Queue(service string) string { return service }

// ControlQueue returns the queue of a service for what must not wait behind turns.
func ControlQueue(service string) string { return service + ".control" }

// QueueOf returns the queue of a type for a service.
func QueueOf(t Type, service string) string {
	if e, ok := EffectOf(t); ok && e.Control {
		return ControlQueue(service)
	}
	return Queue(service)
}
