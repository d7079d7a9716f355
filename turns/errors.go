package turns

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Class is the kind of a failure, as the decisions of handlers need it.
type Class string

// The classes.
const (
	ClassAuth            Class = "auth"             // token expired, invalid, revoked, no permission
	ClassQuota           Class = "quota"            // usage limit reached, credit used up
	ClassRateLimited     Class = "rate_limited"     // per minute
	ClassOverloaded      Class = "overloaded"       // the provider has no capacity now
	ClassServer          Class = "server"           // the provider failed
	ClassNetwork         Class = "network"          // the provider was not reached
	ClassSessionLost     Class = "session_lost"     // the session to resume does not exist
	ClassContextOverflow Class = "context_overflow" // the session has grown too long
	ClassConfig          Class = "config"           // agent missing, bad model, bad request
	ClassNoVerdict       Class = "no_verdict"       // a complete answer without a verdict
	ClassEmpty           Class = "empty"            // success without an answer
	ClassCrash           Class = "crash"            // the program ended without a result
	ClassTimeout         Class = "timeout"          // start or whole run took too long
	ClassStalled         Class = "stalled"          // silent for too long
	ClassBadOutput       Class = "bad_output"       // what it printed can't be read
	ClassOutputLimit     Class = "output_limit"     // the answer was cut by the model's limit
	ClassRefusal         Class = "refusal"          // the model refused
	ClassShutdown        Class = "shutdown"         // the worker stops; no failure of the agent
	ClassLost            Class = "lost"             // the run is believed dead; no failure of the agent
	ClassUnresolvable    Class = "unresolvable"     // the stored turn contradicts itself
	ClassWaited          Class = "waited"           // waited too long for a login
	ClassUnknown         Class = "unknown"
)

// Classes lists the valid classes.
var Classes = []Class{
	ClassAuth, ClassQuota, ClassRateLimited, ClassOverloaded, ClassServer, ClassNetwork,
	ClassSessionLost, ClassContextOverflow, ClassConfig, ClassNoVerdict, ClassEmpty, ClassCrash,
	ClassTimeout, ClassStalled, ClassBadOutput, ClassOutputLimit, ClassRefusal, ClassShutdown,
	ClassLost, ClassUnresolvable, ClassWaited, ClassUnknown,
}

// Valid reports whether c is a known class.
func (c Class) Valid() bool { return slices.Contains(Classes, c) }

// Failure is a classified failure of a run. Message is for people and must be
// redacted and bounded by whoever stores or logs it.
type Failure struct {
	Class   Class
	Message string

	RetryAfter time.Duration // the provider named a delay; 0 for none
	ResetsAt   time.Time     // the provider named a time; zero for none
	// Scope says how far a rate limit, quota or refused login reaches:
	// credential, model, organisation or host. Empty means credential.
	Scope string
	// Dead says that the login itself is dead: no cooldown helps, only a changed file.
	Dead bool
}

func (f *Failure) Error() string {
	if f.Message == "" {
		return string(f.Class)
	}
	return string(f.Class) + ": " + f.Message
}

// Fail returns a failure of a class with a formatted message.
func Fail(c Class, format string, args ...any) *Failure {
	return &Failure{Class: c, Message: fmt.Sprintf(format, args...)}
}

// FailureOf returns the failure in err's chain; any other error is unknown,
// with its text as the message.
func FailureOf(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return &Failure{Class: ClassUnknown, Message: err.Error()}
}
