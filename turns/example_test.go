package turns_test

import (
	"fmt"

	"rota/turns"
)

// The machine: each move with its origins, where it leads, and what becomes of
// the turn.
func Example() {
	for _, verb := range turns.Verbs {
		m := turns.Moves[verb]
		fmt.Printf("%-10s %-26s -> %-18s turn %s\n", verb, fmt.Sprint(m.From), fmt.Sprint(m.To), m.Turn)
	}
	// Output:
	// open       []                         -> [queued]           turn opens
	// claim      [queued]                   -> [starting]         turn open
	// start      [starting]                 -> [running]          turn open
	// requeue    [starting running]         -> [queued]           turn open
	// settle     [starting running]         -> [completed failed] turn ends
	// replace    [starting running]         -> [failed]           turn open
	// delegate   [queued starting running]  -> [delegated]        turn open
	// lose       [starting running]         -> [lost]             turn open or ends
	// compensate [starting]                 -> [failed]           turn ends
	// end        [queued]                   -> [failed]           turn ends
	// cancel     [queued starting running]  -> [cancelled]        turn ends
}
