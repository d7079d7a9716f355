package web

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rota/turns"
)

// Bounds of the board.
const (
	onePage   = 40   // threads on a page
	lastPage  = 100  // the deepest page
	lastSteps = 6    // turns shown of each thread
	lookBack  = 400  // threads looked at for what waits for a person or failed
	searched  = 2000 // threads whose names a search looks at
)

// boardPage is the list of threads.
type boardPage struct {
	Rows  []threadRow
	Show  string // all, open, human or failed
	Find  string
	Query url.Values
	Page  int
	More  bool
	Bound int // when the list is of the last threads only: how many
	Now   time.Time
}

// At is the address of the page some pages on; 0 is the first page.
func (p boardPage) At(on int) string {
	q := maps.Clone(p.Query)
	if on > 0 {
		q.Set("page", strconv.Itoa(p.Page+on))
	}
	return "/?" + q.Encode()
}

// threadRow is a thread with its last turns.
type threadRow struct {
	Thread  turns.Thread
	Last    turns.Turn
	Attempt turns.Attempt
	Paired  turns.Paired
	Steps   []turns.Turn // oldest first
}

// Status is the paired task's status as people see it.
func (r threadRow) Status() string {
	if r.Paired.ID == "" {
		return ""
	}
	return r.Paired.Status.Shown(r.Last.Role, r.Last.State)
}

// Trouble is what a person should read first about the thread.
func (r threadRow) Trouble() string {
	switch {
	case r.Last.Error != "":
		return r.Last.Error
	case r.Paired.Status == turns.NeedsHuman:
		return r.Paired.Reason
	case r.Last.State == turns.Queued && r.Attempt.Cause == turns.CauseWait:
		return "waits for a login"
	case r.Attempt.State.Open() && r.Attempt.Error != "":
		return r.Attempt.Error
	}
	return ""
}

func (b *board) threads(r *http.Request) (shown, error) {
	ctx, q := r.Context(), r.URL.Query()
	p := boardPage{Show: q.Get("show"), Find: clip(strings.TrimSpace(q.Get("q")), 80), Query: url.Values{}, Now: time.Now()}
	p.Page, _ = strconv.Atoi(q.Get("page"))
	p.Page = min(max(p.Page, 0), lastPage)
	names, err := b.names(ctx, &p)
	if err != nil {
		return shown{}, err
	}
	first := min(p.Page*onePage, len(names))
	last := min(first+onePage, len(names))
	p.More = len(names) > last && p.Page < lastPage
	for name, value := range map[string]string{"show": p.Show, "q": p.Find} {
		if value != "" {
			p.Query.Set(name, value)
		}
	}
	p.Rows, err = b.rows(ctx, names[first:last], lastSteps)
	return shown{Title: "Threads", Body: p}, err
}

// names returns the threads to page through, as far as this page needs them.
func (b *board) names(ctx context.Context, p *boardPage) ([]string, error) {
	switch {
	case p.Find != "":
		p.Show, p.Bound = "", searched
		all, err := b.Store.Threads(ctx, searched)
		return slices.DeleteFunc(all, func(name string) bool { return !strings.Contains(name, strings.ToLower(p.Find)) }), err
	case p.Show == "open":
		return b.openThreads(ctx)
	case p.Show == "human", p.Show == "failed":
		p.Bound = lookBack
		return b.troubled(ctx, p.Show == "human")
	}
	p.Show = ""
	return b.Store.Threads(ctx, (p.Page+1)*onePage+1)
}

// openThreads returns the threads with an open turn, the longest open first.
func (b *board) openThreads(ctx context.Context) ([]string, error) {
	ids := make([][]string, b.Store.Shards())
	errs := make([]error, len(ids))
	var wait sync.WaitGroup
	for shard := range ids {
		wait.Go(func() { ids[shard], errs[shard] = b.Store.OpenTurns(ctx, shard, 1000) })
	}
	wait.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return nil, errs[i]
	}
	open, err := b.Store.TurnsByID(ctx, slices.Concat(ids...))
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(open, func(x, y turns.Turn) int {
		return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.ID, y.ID))
	})
	names := make([]string, len(open))
	for i, t := range open {
		names[i] = t.Thread
	}
	return names, nil
}

// troubled returns those of the last threads that wait for a person, or whose
// last turn failed.
func (b *board) troubled(ctx context.Context, human bool) ([]string, error) {
	all, err := b.Store.Threads(ctx, lookBack)
	if err != nil {
		return nil, err
	}
	rows, err := b.rows(ctx, all, 1)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range rows {
		if human && r.Paired.Status == turns.NeedsHuman || !human && r.Last.State == turns.Failed {
			names = append(names, r.Thread.Name)
		}
	}
	return names, nil
}

// rows reads threads with their last turns, in a fixed number of round trips.
func (b *board) rows(ctx context.Context, names []string, steps int) ([]threadRow, error) {
	threads, err := b.Store.ThreadsByName(ctx, names)
	if err != nil {
		return nil, err
	}
	rows := make([]threadRow, len(threads))
	place := map[string]int{}
	var turnIDs, pairedIDs, attemptIDs []string
	for i, t := range threads {
		rows[i].Thread, place[t.Name] = t, i
		for n := max(1, t.Turns-steps+1); n <= t.Turns; n++ {
			turnIDs = append(turnIDs, turns.TurnID(t.Name, n))
		}
		if t.Paired != "" {
			pairedIDs = append(pairedIDs, t.Paired)
		}
	}
	list, err := b.Store.TurnsByID(ctx, turnIDs)
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		row := &rows[place[t.Thread]]
		row.Steps, row.Last = append(row.Steps, t), t
	}
	for _, row := range rows {
		if row.Last.ID != "" {
			attemptIDs = append(attemptIDs, turns.AttemptID(row.Last.ID, row.Last.Attempt))
		}
	}
	attempts, err := b.Store.AttemptsByID(ctx, attemptIDs)
	if err != nil {
		return nil, err
	}
	for _, a := range attempts {
		rows[place[turns.ThreadOf(a.Turn)]].Attempt = a
	}
	paired, err := b.Store.PairedByID(ctx, pairedIDs)
	for _, p := range paired {
		rows[place[p.Thread]].Paired = p
	}
	return rows, err
}
