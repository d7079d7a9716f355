package claude

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"rota/agents"
	"rota/agents/process"
	"rota/turns"
)

// conversation is a Stream whose program asks before it edits or runs a command:
// its questions go to a person, and a person's words go to it. It is used from
// the goroutine of the run only.
type conversation struct {
	*Stream
	p           *process.Process
	waiting     map[string]question // by the id of their item
	untaken     map[string]bool     // messages written that the program did not take yet
	earlier     result              // the sum of the ends before the last message was taken
	interrupted bool
}

// request is a line of the program that wants or withdraws an answer, or gives
// back a message that it took.
type request struct {
	Type    string `json:"type"`
	ID      string `json:"request_id"`
	UUID    string `json:"uuid"`
	Replay  bool   `json:"isReplay"`
	Request struct {
		Subtype string          `json:"subtype"`
		Tool    string          `json:"tool_name"`
		Input   json.RawMessage `json:"input"`
	} `json:"request"`
}

func newConversation(task agents.Task, report agents.Reporter) *conversation {
	return &conversation{Stream: NewStream(task, report), waiting: map[string]question{}, untaken: map[string]bool{}}
}

// Begin takes the running program. See drive.Talker.
func (c *conversation) Begin(p *process.Process) { c.p = p }

// Finished reports whether the program said how its turn ended and nothing that
// was said to it or asked by it is left.
func (c *conversation) Finished() bool {
	return c.Stream.Finished() && (c.interrupted || len(c.untaken) == 0 && len(c.waiting) == 0)
}

// Line takes one line of standard output.
func (c *conversation) Line(line []byte) error {
	var r request
	if json.Unmarshal(line, &r) == nil {
		switch {
		case r.Type == "control_request":
			return c.asked(r)
		case r.Type == "control_cancel_request":
			return c.withdraw(r.ID)
		case r.Type == "user" && r.Replay && c.untaken[r.UUID]:
			c.taken(r.UUID)
		}
	}
	if err := c.Stream.Line(line); err != nil {
		return err
	}
	if r.Type == "result" && c.result != nil {
		c.result.add(c.earlier)
	}
	c.rest()
	return nil
}

// taken notes that the program took a message. After an end it goes on: that end
// was not the last one.
func (c *conversation) taken(id string) {
	delete(c.untaken, id)
	if c.result != nil && !c.interrupted {
		c.earlier, c.result = *c.result, nil
	}
}

// rest closes the program's input once the turn is over; the program ends with it.
func (c *conversation) rest() {
	if c.Finished() {
		c.p.CloseStdin()
	}
}

// asked puts a question to a person. The silence clock stands until it is answered.
func (c *conversation) asked(r request) error {
	if r.Request.Subtype != "can_use_tool" {
		c.answer(object{"subtype": "error", "request_id": r.ID, "error": "not supported: " + r.Request.Subtype})
		return nil
	}
	q := questionOf(r.ID, r.Request.Tool, r.Request.Input)
	c.waiting[c.board.ID(itemOf(r.ID))] = q
	c.p.SetSilence(0)
	return c.board.Open(turns.ItemRequest, itemOf(r.ID), q.title, "")
}

func itemOf(request string) string { return "ask-" + request }

// withdraw drops a question that the program no longer asks.
func (c *conversation) withdraw(id string) error {
	c.drop(c.board.ID(itemOf(id)))
	return c.board.Cancel(itemOf(id))
}

func (c *conversation) drop(item string) {
	delete(c.waiting, item)
	if len(c.waiting) == 0 {
		c.p.SetSilence(c.task.Silence)
	}
}

// Control carries out a person's request. See drive.Talker.
func (c *conversation) Control(control agents.Control) error {
	switch {
	case control.Kind == agents.Respond:
		return c.respond(control)
	case !c.board.Accepted():
		return errors.New("the agent has not begun; try again in a moment")
	case control.Kind == agents.Steer:
		return c.steer(control.Text)
	case control.Kind == agents.Interrupt:
		c.interrupted = true
		return c.write(object{"type": "control_request", "request_id": newUUID(), "request": object{"subtype": "interrupt"}})
	}
	return fmt.Errorf("this agent can't take a %s while it runs", control.Kind)
}

// steer says something more to the program, which takes it at its next step.
func (c *conversation) steer(text string) error {
	if c.interrupted || c.Finished() {
		return errors.New("the agent has ended its turn")
	}
	id := newUUID()
	if err := c.write(userMessage(text, id)); err != nil {
		return err
	}
	c.untaken[id] = true
	return nil
}

// respond brings a person's answer to the question that waits for it.
func (c *conversation) respond(control agents.Control) error {
	q, ok := c.waiting[control.Item]
	if !ok {
		return fmt.Errorf("no question %s waits for an answer", control.Item)
	}
	verdict, err := q.answer(control.Text)
	if err != nil {
		return err
	}
	if err := c.answer(object{"subtype": "success", "request_id": q.id, "response": verdict}); err != nil {
		return err
	}
	c.drop(control.Item)
	if err := c.board.Close(itemOf(q.id), true); err != nil {
		c.p.Fail(err)
	}
	c.rest()
	return nil
}

type object map[string]any

func (c *conversation) answer(response object) error {
	return c.write(object{"type": "control_response", "response": response})
}

// write sends a line. When the program no longer reads, its end tells why.
func (c *conversation) write(o object) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return c.p.Write(append(b, '\n'))
}

// userMessage is a message of the user as the program reads it.
func userMessage(text, id string) object {
	o := object{"type": "user", "message": object{"role": "user", "content": text}}
	if id != "" {
		o["uuid"] = id
	}
	return o
}

func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
