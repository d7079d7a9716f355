package scheduler

import (
	"testing"
	"time"

	"rota/turns"
	"rota/turns/store"
)

// What a taken task id means, state by state.
func TestDiagnose(t *testing.T) {
	for _, row := range []struct {
		state   TaskState
		looks   int
		finding Finding
		cure    Cure
	}{
		{TaskWaiting, 0, FoundTaskWaits, CureWait},
		{TaskWaiting, 50, FoundTaskWaits, CureWait},
		{TaskDelayed, 0, FoundTaskWaits, CureRun},
		{TaskActive, 0, FoundTaskWaits, CureWait},
		{TaskActive, unclaimedLooks - 1, FoundTaskWaits, CureWait},
		{TaskActive, unclaimedLooks, FoundUnclaimed, CureSpare},
		{TaskArchived, 0, FoundArchived, CureEnd},
		{TaskLost, 0, FoundLostTask, CureReissue},
		{TaskCompleted, 0, FoundSwallowed, CureReissue},
		{TaskGone, 0, FoundTaskWaits, CureWait},
		{TaskUnreadable, 0, FoundSwallowed, CureSpare},
	} {
		finding, cure := Diagnose(row.state, row.looks)
		if finding != row.finding || cure != row.cure {
			t.Errorf("%s after %d looks: %s, %s", row.state, row.looks, finding, cure)
		}
	}
}

// An unclaimed task is given 15 s: a worker between its dequeue and its claim
// needs milliseconds.
func TestUnclaimedTaskIsGivenTime(t *testing.T) {
	given := time.Duration(0)
	for looks := range unclaimedLooks {
		given += NextLook(looks, true)
	}
	if given < 15*time.Second || given > 30*time.Second {
		t.Errorf("given %s", given)
	}
}

func TestNextLookDoublesUpToTenMinutes(t *testing.T) {
	for _, row := range []struct {
		looks    int
		conflict bool
		want     time.Duration
	}{
		{0, false, 15 * time.Second}, {1, false, 30 * time.Second}, {9, false, longestLook},
		{0, true, time.Second}, {3, true, 8 * time.Second}, {1000, true, longestLook},
	} {
		if got := NextLook(row.looks, row.conflict); got != row.want {
			t.Errorf("%d looks, conflict %v: %s", row.looks, row.conflict, got)
		}
	}
}

func TestOnlyWaitsForLoginsEndByTime(t *testing.T) {
	now := time.Now()
	w := store.Waits{Cause: turns.CauseWait, Since: now.Add(-25 * time.Hour)}
	if !WaitedTooLong(w, now) {
		t.Error("a wait of 25 hours goes on")
	}
	w.Since = now.Add(-23 * time.Hour)
	if WaitedTooLong(w, now) {
		t.Error("a wait of 23 hours ends")
	}
	w.Cause, w.Since = turns.CauseInitial, now.Add(-1000*time.Hour)
	if WaitedTooLong(w, now) {
		t.Error("a turn that waits for a worker ends")
	}
}
