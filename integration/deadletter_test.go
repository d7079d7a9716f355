package integration

import (
	"bufio"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"rota/tasks"
	"rota/turns"
)

// oneService is a deployment with an owner only.
func oneService(limits string, more string) setup {
	if limits == "" {
		limits = shortLimits
	}
	return setup{roles: map[string][]string{"owner": {"builder"}}, limits: limits, services: map[string]string{"builder": more}}
}

// monitor follows every command that Redis carries out, those inside scripts
// included.
func (r *rig) monitor() (lines func() []string) {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.redis.Addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		r.t.Fatal(err)
	}
	got := make(chan string, 100_000)
	in := bufio.NewScanner(conn)
	in.Buffer(nil, 1<<20)
	if !in.Scan() {
		r.t.Fatal("no answer to MONITOR")
	}
	go func() {
		for in.Scan() {
			got <- in.Text()
		}
		close(got)
	}()
	var all []string
	return func() []string {
		for {
			select {
			case line, ok := <-got:
				if !ok {
					return all
				}
				all = append(all, line)
			default:
				return all
			}
		}
	}
}

// The hook compensates strictly before asynq archives.
func TestCompensationComesBeforeTheArchive(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("{lease: 3s, start: 5s, silence: 50s, run: 90s, grace: 1s, deliveries: 2}", ""))
	r.rules(rule{Steps: []string{"exit 9"}})
	lines := r.monitor()
	r.startAll()
	turn := r.lone("one", turns.Owner)
	u := r.ends(turn)
	var failed, archived int
	r.await("the archive", func() bool {
		failed, archived = -1, -1
		for i, line := range lines() {
			lower := strings.ToLower(line)
			if failed < 0 && strings.Contains(lower, `"hset" "`+r.key("one", "turn:"+turn)+`"`) && strings.Contains(lower, `"state" "failed"`) {
				failed = i
			}
			if archived < 0 && strings.Contains(lower, `"zadd" "asynq:{builder}:archived"`) {
				archived = i
			}
		}
		return archived >= 0
	})
	if failed < 0 || failed > archived {
		t.Errorf("the turn failed at line %d, the task was archived at %d", failed, archived)
	}
	if u.Class != turns.ClassCrash || !strings.Contains(u.Error, "exit status 9") {
		t.Errorf("%s %q", u.Class, u.Error)
	}
	r.oneError(turn, turn+".1")
	r.story(turn, "builder initial failed")
	if a := r.attempt(turn + ".1"); a.Deliveries != 2 || a.Ended != turns.VerbCompensate {
		t.Errorf("%d deliveries, ended by %s", a.Deliveries, a.Ended)
	}
}

// oneError checks the visible error of a turn, and that nothing below it is open.
func (r *rig) oneError(turn, attempt string) {
	r.t.Helper()
	open, err := r.store.OpenItems(r.t.Context(), turns.ThreadOf(turn))
	if err != nil {
		r.t.Fatal(err)
	}
	if len(open) > 0 {
		r.t.Errorf("open below %s: %+v", turn, open)
	}
	done, err := r.store.DoneItems(r.t.Context(), turn)
	if err != nil {
		r.t.Fatal(err)
	}
	var errors []string
	for _, i := range done {
		if i.Kind == turns.ItemError {
			errors = append(errors, i.ID)
		}
	}
	if !slices.Equal(errors, []string{"error:" + attempt}) {
		r.t.Errorf("error items of %s: %v, want error:%s", turn, errors, attempt)
	}
}

// A run that dies with everything open leaves nothing open: each kind becomes what
// the table says, the session is idle, no turn is open. A replay changes nothing.
func TestDeadRunLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("", ""))
	r.rules(rule{Thread: "one", Steps: []string{"accepted", "item m message open", "item a agent_turn open", "item t tool open", "item q request open",
		"item s sub_agent open helper", "item d tool open", "item d tool completed", "error config no such model sk-fake-not-a-secret"}})
	r.startAll()
	turn := r.lone("one", turns.Owner)
	u := r.ends(turn)
	if u.State != turns.Failed || u.Class != turns.ClassConfig {
		t.Fatalf("%s %s", u.State, u.Class)
	}
	r.oneError(turn, turn+".1")
	done, err := r.store.DoneItems(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	became := map[string]turns.ItemState{}
	for _, i := range done {
		became[i.ID] = i.State
		if strings.Contains(i.Title, "sk-fake-not-a-secret") {
			t.Errorf("a secret is in %+v", i)
		}
	}
	for id, want := range map[string]turns.ItemState{"m": turns.ItemStopped, "a": turns.ItemCancelled, "t": turns.ItemFailed,
		"q": turns.ItemCancelled, "s": turns.ItemFailed, "d": turns.ItemCompleted} {
		if became[id] != want {
			t.Errorf("item %s became %q, want %q", id, became[id], want)
		}
	}
	if th := r.thread("one"); th.OpenTurn != "" || th.Hold != 0 {
		t.Errorf("the thread is left with %q open and hold %d", th.OpenTurn, th.Hold)
	}
	entries := len(r.log(turn))
	a := r.attempt(turn + ".1")
	payload := tasks.Payload{Version: 1, Thread: "one", Turn: turn, Attempt: a.ID, Role: u.Role, Intent: u.Intent, Service: "builder", Stamp: a.Stamp}
	if got := r.push("builder", "again", payload.Encode()); got != nil {
		t.Errorf("the replay became %+v", got)
	}
	if n := len(r.log(turn)); n != entries {
		t.Errorf("the replay added %d entries to the log", n-entries)
	}
	r.oneError(turn, a.ID)
}

// A broken agent: it starts, but the first exchange fails. Five deliveries, then the
// turn has failed with a visible error, while a healthy thread beside it completes.
func TestBrokenAgentFailsVisibly(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("", "concurrency: 2"))
	r.rules(rule{Thread: "sick", Steps: []string{"broken"}})
	r.startAll()
	sick, healthy := r.lone("sick", turns.Owner), r.lone("healthy", turns.Owner)
	if u := r.ends(healthy); u.State != turns.Completed {
		t.Errorf("the healthy thread: %s %s", u.State, u.Error)
	}
	u := r.ends(sick)
	if a := r.attempt(sick + ".1"); u.State != turns.Failed || u.Class != turns.ClassCrash || u.Error == "" || a.Deliveries != 5 {
		t.Errorf("%s %s %q after %d deliveries", u.State, u.Class, u.Error, a.Deliveries)
	}
	r.oneError(sick, sick+".1")
	r.archived("builder", sick+".1")
	why, err := r.commands.Why(t.Context(), sick)
	if err != nil || !strings.Contains(why, "crash") {
		t.Errorf("why says %q, %v", why, err)
	}
}

// archived waits until asynq has archived a task.
func (r *rig) archived(queue, id string) {
	r.t.Helper()
	r.await("asynq to archive "+id, func() bool {
		at, err := r.inspect.GetTaskInfo(queue, id)
		return err == nil && at.State == asynq.TaskStateArchived
	})
}
