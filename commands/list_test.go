package commands_test

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
)

func TestListsAndFilters(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.task("failed")
		d.end("failed", turns.Done)
		d.end("failed", "")
		d.lone("failed") // a lone turn does not hide what waits for a person
		d.task("works")
		d.start("works")
		d.lone("looks")
		for name, c := range map[string]struct {
			f    commands.Filter
			want []string
		}{
			"the last of each":   {commands.Filter{}, []string{"looks/1", "works/1", "failed/3"}},
			"the last changed":   {commands.Filter{Limit: 1}, []string{"looks/1"}},
			"all":                {commands.Filter{All: true}, []string{"looks/1", "works/1", "failed/3", "failed/2", "failed/1"}},
			"a thread":           {commands.Filter{Thread: "fail"}, []string{"failed/3", "failed/2", "failed/1"}},
			"needs a human":      {commands.Filter{NeedsHuman: true}, []string{"failed/2"}},
			"nobody needs that":  {commands.Filter{NeedsHuman: true, Role: turns.Owner}, nil},
			"running":            {commands.Filter{State: turns.Running}, []string{"works/1"}},
			"reviewers":          {commands.Filter{Role: turns.Reviewer, All: true}, []string{"looks/1", "failed/3", "failed/2"}},
			"on a service":       {commands.Filter{Service: "codex-main"}, []string{"works/1"}},
			"nobody's":           {commands.Filter{Service: "nobody"}, nil},
			"reviewers that end": {commands.Filter{Role: turns.Reviewer, State: turns.Failed, All: true}, []string{"failed/2"}},
		} {
			rows, err := d.c.Ls(d.ctx, c.f)
			if err != nil {
				t.Fatal(name, err)
			}
			var ids []string
			for _, v := range rows {
				ids = append(ids, v.ID)
			}
			if name == "all" || name == "the last of each" || name == "reviewers" {
				slices.Sort(ids) // threads that changed in the same millisecond
				slices.Sort(c.want)
			}
			if name != "the last changed" && !slices.Equal(ids, c.want) || len(ids) != len(c.want) {
				t.Errorf("%s: %v, want %v", name, ids, c.want)
			}
		}
	})
}

// A list says on which service a turn is, and what a person is asked: why a paired
// task waits, in the words of its last answer, and what a live run wants to know.
func TestListsSayWhatIsAsked(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.task("stuck")
		d.end("stuck", turns.Blocked)
		d.end("stuck", turns.Escalate)
		d.lone("stuck")
		d.task("crashed")
		d.end("crashed", "")
		d.task("asks")
		d.request(d.start("asks"))
		d.task("works")
		d.start("works")
		rows, err := d.c.Ls(d.ctx, commands.Filter{All: true, Questions: true, Texts: true})
		if err != nil {
			t.Fatal(err)
		}
		type row struct{ service, status, reason, question, text string }
		got := map[string]row{}
		for _, v := range rows {
			got[v.ID] = row{v.Service, v.Status, v.Reason, v.Question, v.Text}
		}
		for id, want := range map[string]row{
			"stuck/1":   {"codex-main", "needs_human", "", "", "said blocked"},
			"stuck/2":   {"claude", "needs_human", "the arbiter asks for a person: said escalate", "said escalate", "said escalate"},
			"stuck/3":   {"claude", "", "", "", ""},
			"crashed/1": {"codex-main", "needs_human", "turn crashed/1 of the owner failed (crash)", "", ""},
			"asks/1":    {"codex-main", "active", "", "may I?", ""},
			"works/1":   {"codex-main", "active", "", "", ""},
		} {
			if got[id] != want {
				t.Errorf("%s: %+v, want %+v", id, got[id], want)
			}
		}
		rows, err = d.c.Ls(d.ctx, commands.Filter{NeedsHuman: true, Questions: true})
		if err != nil || len(rows) != 2 {
			t.Fatal(rows, err)
		}
		for _, v := range rows {
			if v.Reason == "" || v.ID == "stuck/2" && v.Question == "" {
				t.Errorf("%s: reason %q, question %q", v.ID, v.Reason, v.Question)
			}
		}
	})
}
