package tasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"rota/turns"
)

// PayloadVersion is the version of the payload that this program writes. A
// message of a higher version is refused, not guessed.
const PayloadVersion = 1

// maxPayload bounds a payload, in bytes. asynq writes the payload of every active
// task every 5 s, so it carries ids, not texts.
const maxPayload = 4096

// ErrVersion says that a message was written by a newer program.
var ErrVersion = errors.New("payload of a newer version")

// Payload is what the task of an attempt carries. The stored turn decides; the
// payload is compared with it and refused where it contradicts.
type Payload struct {
	Version int          `json:"v"`
	Thread  string       `json:"thread"`
	Turn    string       `json:"turn"`
	Attempt string       `json:"attempt"`
	Role    turns.Role   `json:"role"`
	Intent  turns.Intent `json:"intent"`
	Service string       `json:"service"`
	Stamp   string       `json:"stamp"`
}

// PayloadOf returns the payload of a queued attempt.
func PayloadOf(e turns.OutboxEntry) Payload {
	return Payload{PayloadVersion, e.Thread, e.Turn, e.Attempt, e.Role, e.Intent, e.Service, e.Stamp}
}

// Encode returns the payload as asynq carries it.
func (p Payload) Encode() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic("tasks: " + err.Error())
	}
	return b
}

// Decode reads a payload strictly: unknown fields, a missing or unknown role,
// ids that don't belong together and newer versions are errors. The payload is
// returned as far as it could be read, for the log.
func Decode(b []byte) (Payload, error) {
	var p Payload
	if len(b) > maxPayload {
		return p, fmt.Errorf("payload of %d bytes: at most %d", len(b), maxPayload)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		var loose Payload
		_ = json.Unmarshal(b, &loose)
		if loose.Version > PayloadVersion {
			return loose, fmt.Errorf("%w: %d, this program knows %d", ErrVersion, loose.Version, PayloadVersion)
		}
		return loose, fmt.Errorf("payload can't be read: %w", err)
	}
	if d.More() {
		return p, errors.New("payload can't be read: something follows it")
	}
	return p, p.check()
}

func (p Payload) check() error {
	if p.Version > PayloadVersion {
		return fmt.Errorf("%w: %d, this program knows %d", ErrVersion, p.Version, PayloadVersion)
	}
	if p.Version < 1 {
		return fmt.Errorf("payload without a version")
	}
	turn, _, err := turns.ParseAttempt(p.Attempt)
	if err != nil {
		return err
	}
	if turn != p.Turn || turns.ThreadOf(turn) != p.Thread {
		return fmt.Errorf("payload contradicts itself: attempt %s, turn %q, thread %q", p.Attempt, p.Turn, p.Thread)
	}
	if err := turns.CheckRole(p.Role, p.Intent); err != nil {
		return err
	}
	if p.Stamp == "" {
		return errors.New("payload without the attempt's opening stamp")
	}
	return turns.CheckService(p.Service)
}
