package transcript

import (
	"strconv"

	"rota/agents"
	"rota/turns"
)

// MaxTitle bounds the title of an item and the words of a progress report.
const MaxTitle = 200

// Board reports what a run opens and closes. It remembers what is open, so that
// an end closes what was opened, once, and a program that speaks of an unknown
// item does no harm.
type Board struct {
	task     agents.Task
	report   agents.Reporter
	open     map[string]turns.Item
	accepted bool
	level    turns.Progress
}

// NewBoard returns the board of one run.
func NewBoard(task agents.Task, report agents.Reporter) *Board {
	return &Board{task: task, report: report, open: map[string]turns.Item{}, level: turns.ProgressNone}
}

// Accept reports that the agent took the prompt, once however often it is called.
func (b *Board) Accept() error {
	if b.accepted {
		return nil
	}
	b.accepted = true
	return b.report.Accepted()
}

// Accepted reports whether Accept was called.
func (b *Board) Accepted() bool { return b.accepted }

// Session reports the agent's session.
func (b *Board) Session(id string) { b.report.Session(id) }

// Say reports words of the agent.
func (b *Board) Say(text string) { b.reach(turns.ProgressText, text) }

// reach reports a level that never falls within a run.
func (b *Board) reach(level turns.Progress, text string) {
	if b.level.Below(level) {
		b.level = level
	}
	b.report.Progress(b.level, Cut(text, MaxTitle))
}

// Open opens an item. Tools and sub-agents also raise the progress: after them
// the workspace may have changed. Opening an open item again changes nothing.
func (b *Board) Open(kind turns.ItemKind, id, title, parent string) error {
	if _, ok := b.open[id]; ok || id == "" {
		return nil
	}
	if kind == turns.ItemTool || kind == turns.ItemSubAgent {
		b.reach(turns.ProgressTools, title)
	}
	item := b.item(kind, id, title, parent)
	b.open[id] = item
	return b.report.Item(item)
}

// Close closes an open item. An unknown or closed one is ignored.
func (b *Board) Close(id string, ok bool) error {
	item, open := b.open[id]
	if !open {
		return nil
	}
	delete(b.open, id)
	item.State = turns.ItemCompleted
	if !ok {
		item.State = turns.ItemFailed
	}
	return b.report.Item(item)
}

// Cancel closes an open item as cancelled.
func (b *Board) Cancel(id string) error {
	item, open := b.open[id]
	if !open {
		return nil
	}
	delete(b.open, id)
	item.State = turns.ItemCancelled
	return b.report.Item(item)
}

// Message reports a complete message, and closes its item where it was opened:
// a message is an item only while it is streamed.
func (b *Board) Message(id, text string) error {
	b.Say(text)
	return b.Close(id, true)
}

// item spells an item. The fence in its id keeps the items of two runs of a
// turn apart: programs count theirs from zero.
func (b *Board) item(kind turns.ItemKind, id, title, parent string) turns.Item {
	return turns.Item{
		ID: b.ID(id), Kind: kind, State: turns.ItemOpen, Title: Clip(title, MaxTitle), Parent: b.ID(parent),
		Thread: b.task.Thread, Turn: b.task.Turn, Attempt: b.task.Attempt,
	}
}

// ID returns the id under which an item of the program is reported.
func (b *Board) ID(id string) string {
	if id == "" {
		return ""
	}
	return strconv.FormatInt(b.task.Fence, 36) + "-" + id
}
