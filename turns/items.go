package turns

// ItemKind is what a run opened below a thread.
type ItemKind string

// The kinds.
const (
	ItemRoot      ItemKind = "root"       // the run itself, as people see it
	ItemAgentTurn ItemKind = "agent_turn" // a turn inside the agent
	ItemTool      ItemKind = "tool"       // a tool call
	ItemSubAgent  ItemKind = "sub_agent"  // an agent started by the agent; may link a child thread
	ItemMessage   ItemKind = "message"    // a message being streamed
	ItemRequest   ItemKind = "request"    // a question that waits for a person
	ItemError     ItemKind = "error"      // what went wrong
)

// ItemKinds lists the kinds.
var ItemKinds = []ItemKind{ItemRoot, ItemAgentTurn, ItemTool, ItemSubAgent, ItemMessage, ItemRequest, ItemError}

// ItemState is where an item stands. Only ItemOpen may change.
type ItemState string

// The states of an item.
const (
	ItemOpen      ItemState = "open"
	ItemCompleted ItemState = "completed"
	ItemFailed    ItemState = "failed"
	ItemCancelled ItemState = "cancelled"
	ItemStopped   ItemState = "stopped" // a message that is no longer streamed
)

// ItemClosed says what each kind becomes when its run ends without having
// closed it itself: by death, failure, cancel or a plain end.
var ItemClosed = map[ItemKind]ItemState{
	ItemRoot:      ItemFailed,
	ItemAgentTurn: ItemCancelled,
	ItemTool:      ItemFailed,
	ItemSubAgent:  ItemFailed,
	ItemMessage:   ItemStopped,
	ItemRequest:   ItemCancelled,
	ItemError:     ItemFailed,
}

// Item is one thing that a run opened and that must be closed.
type Item struct {
	ID      string    `json:"id"`                // unique within the turn; chosen by the agent or its adapter
	Kind    ItemKind  `json:"kind"`              //
	State   ItemState `json:"state"`             //
	Title   string    `json:"title,omitempty"`   // redacted and bounded
	Thread  string    `json:"thread"`            // the thread it hangs in, root or child
	Turn    string    `json:"turn,omitempty"`    // the turn it belongs to, or none (a native child's item)
	Attempt string    `json:"attempt,omitempty"` // the attempt whose run opened it
	Parent  string    `json:"parent,omitempty"`  // the item above it
	Child   string    `json:"child,omitempty"`   // for a sub-agent: the child thread
}
