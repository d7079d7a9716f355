package deploy_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"rota/internal/metrics"
	"rota/internal/redistest"
	"rota/turns/store"
)

// described is a registerer that keeps what metrics say about themselves.
type described map[string][]string // name to labels

func (d described) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc, 100)
	c.Describe(ch)
	close(ch)
	for desc := range ch {
		m := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(desc.String())
		d[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
	}
	return nil
}

func (d described) MustRegister(list ...prometheus.Collector) {
	for _, c := range list {
		_ = d.Register(c)
	}
}

func (d described) Unregister(prometheus.Collector) bool { return false }

// measured returns every metric of a worker with its labels.
func measured(t *testing.T) described {
	t.Helper()
	rdb := redistest.Mini(t)
	s, err := store.Open(t.Context(), rdb, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := described{}
	metrics.New(d)
	d.MustRegister(metrics.NewQueues(rdb, s, nil, nil))
	if len(d) < 20 {
		t.Fatalf("only %d metrics: %v", len(d), d)
	}
	return d
}

var (
	metricName = regexp.MustCompile(`\brota_[a-z_]+\b`)
	grouping   = regexp.MustCompile(`\b(?:by|without)\s*\(([^)]*)\)`)
	matchers   = regexp.MustCompile(`(rota_[a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"[^"]*"`)
	legend     = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)
	suffix     = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// check fails unless a query uses only metrics and labels that exist.
func (d described) check(t *testing.T, where, query string) {
	t.Helper()
	var known []string
	names := metricName.FindAllString(query, -1)
	if len(names) == 0 {
		t.Errorf("%s: %q uses no metric", where, query)
	}
	for _, name := range names {
		labels, ok := d[name]
		if !ok {
			labels, ok = d[suffix.ReplaceAllString(name, "")]
			labels = append(slices.Clone(labels), "le")
		}
		if !ok {
			t.Errorf("%s: there is no metric %s", where, name)
		}
		known = append(known, labels...)
	}
	for _, m := range matchers.FindAllStringSubmatch(query, -1) {
		for _, label := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(d[m[1]], label[1]) && !slices.Contains(d[suffix.ReplaceAllString(m[1], "")], label[1]) {
				t.Errorf("%s: %s has no label %s", where, m[1], label[1])
			}
		}
	}
	for _, m := range grouping.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(m[1], ",") {
			if !slices.Contains(known, strings.TrimSpace(label)) {
				t.Errorf("%s: %q groups by %s, which nothing in it has", where, query, label)
			}
		}
	}
	for _, pair := range []string{"()", "[]", "{}"} {
		if strings.Count(query, pair[:1]) != strings.Count(query, pair[1:]) {
			t.Errorf("%s: %q: %s don't match", where, query, pair)
		}
	}
}

// grouped fails unless every label that a text names is one that the query keeps.
func grouped(t *testing.T, where, query, text string) {
	t.Helper()
	kept := ""
	for _, m := range grouping.FindAllStringSubmatch(query, -1) {
		kept += "," + m[1]
	}
	for _, m := range legend.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(strings.FieldsFunc(kept, func(r rune) bool { return r == ',' || r == ' ' }), m[1]) {
			t.Errorf("%s: %q names the label %s, which %q does not keep", where, text, m[1], query)
		}
	}
}

type panel struct {
	ID      int    `json:"id"`
	Title   string `json:"title"`
	Type    string `json:"type"`
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
		RefID        string `json:"refId"`
	} `json:"targets"`
}

func TestGrafanaDashboard(t *testing.T) {
	text, err := os.ReadFile("grafana/rota.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID    string  `json:"uid"`
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal(text, &board); err != nil || board.UID == "" {
		t.Fatalf("grafana/rota.json: uid %q, %v", board.UID, err)
	}
	d, used, ids := measured(t), map[string]bool{}, map[int]bool{}
	for i, p := range board.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: its id is there twice, or it has no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, q := range board.Panels[:i] {
			a, b := p.GridPos, q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panels %q and %q lie over each other", p.Title, q.Title)
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			d.check(t, "panel "+p.Title, target.Expr)
			grouped(t, "panel "+p.Title, target.Expr, target.LegendFormat)
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				used[suffix.ReplaceAllString(name, "")] = true
			}
		}
	}
	for name := range d {
		if !used[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

func TestAlertRules(t *testing.T) {
	d := measured(t)
	operations, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var rules []any
	for _, doc := range documents(t, "alerts.yaml") {
		groups, _ := doc["groups"].([]any)
		for _, g := range groups {
			list, _ := at(g, "rules").([]any)
			rules = append(rules, list...)
		}
	}
	if len(rules) < 10 {
		t.Fatalf("%d rules", len(rules))
	}
	seen := map[string]bool{}
	for _, rule := range rules {
		name, _ := at(rule, "alert").(string)
		expr, _ := at(rule, "expr").(string)
		if name == "" || seen[name] {
			t.Errorf("alert %q: no name, or there twice", name)
		}
		seen[name] = true
		d.check(t, name, expr)
		if s := at(rule, "labels", "severity"); s != "critical" && s != "warning" {
			t.Errorf("%s: severity %v", name, s)
		}
		for _, part := range []string{"summary", "description"} {
			text, _ := at(rule, "annotations", part).(string)
			if text == "" {
				t.Errorf("%s has no %s", name, part)
			}
			grouped(t, name, expr, strings.ReplaceAll(text, "{{ $value }}", ""))
		}
		if wait, ok := at(rule, "for").(string); ok && !regexp.MustCompile(`^\d+[smh]$`).MatchString(wait) {
			t.Errorf("%s: for %q", name, wait)
		}
		if !strings.Contains(string(operations), "| "+name+" |") {
			t.Errorf("docs/operations.md does not say what to do about %s", name)
		}
	}
}

// docs/operations.md names every metric with its labels, and no other.
func TestEveryMetricIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	d := measured(t)
	rows := regexp.MustCompile("(?m)^\\| `(rota_[a-z_]+)` \\| ([^|]*) \\|").FindAllStringSubmatch(string(text), -1)
	documented := map[string]bool{}
	for _, row := range rows {
		documented[row[1]] = true
		labels, ok := d[row[1]]
		if !ok {
			t.Errorf("docs/operations.md: there is no metric %s", row[1])
		}
		if want := strings.Join(labels, ", "); ok && strings.TrimSpace(row[2]) != want {
			t.Errorf("docs/operations.md: %s has the labels %q, it says %q", row[1], want, row[2])
		}
	}
	for name := range d {
		if !documented[name] {
			t.Errorf("docs/operations.md: %s is missing", name)
		}
	}
}
