package mockapi

import (
	"net/http"
	"strconv"
	"time"
)

// Fault is what goes wrong. The bodies and headers are written from what the
// services document.
type Fault string

// The faults.
const (
	BadKey     Fault = "bad key"       // 401, the key is not known
	Expired    Fault = "expired token" // 401, the token was good once
	Forbidden  Fault = "forbidden"     // 403
	UsageLimit Fault = "usage limit"   // 429, used up until ResetsIn from now
	PerMinute  Fault = "rate limit"    // 429, too many requests a minute
	NoCredit   Fault = "no credit"     // paid in advance and used up
	Overloaded Fault = "overloaded"    // 529 or 503
	Broken     Fault = "server error"  // 500
	NoModel    Fault = "no model"      // 404
	TooLong    Fault = "too long"      // the prompt does not fit the model
	Drop       Fault = "dropped"       // the connection is closed before an answer
	Stall      Fault = "stall"         // no answer at all
	StallMid   Fault = "stall in mid-stream"
	Cut        Fault = "cut stream" // the connection breaks in mid-stream
	EndsEarly  Fault = "early end"  // the stream ends in good order before its end
	Garbage    Fault = "garbage"    // 200 with something else
	Empty      Fault = "empty answer"
	Refusal    Fault = "refusal"
	TooMuch    Fault = "output limit"
)

// ResetsIn is how far off the end of a usage limit is.
const ResetsIn = 2 * time.Hour

type kind int

const (
	answered kind = iota
	refused
	hang
	broken
)

func (f Fault) kind() kind {
	switch f {
	case Stall:
		return hang
	case Drop:
		return broken
	case "", StallMid, Cut, EndsEarly, Garbage, Empty, Refusal, TooMuch:
		return answered
	}
	return refused
}

// refusal is an error of a service.
type refusal struct {
	status  int
	kind    string // error.type
	code    string // error.code; OpenAI only
	message string
	header  map[string]string
}

func (r refusal) write(w http.ResponseWriter, body object) {
	for k, v := range r.header {
		w.Header().Set(k, v)
	}
	writeJSON(w, r.status, body)
}

func resetsAt() string { return strconv.FormatInt(time.Now().Add(ResetsIn).Unix(), 10) }
