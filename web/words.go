package web

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"rota/commands"
	"rota/turns"
)

// words are what the templates can say.
var words = template.FuncMap{
	"turnURL":    turnURL,
	"attemptURL": attemptURL,
	"threadURL":  threadURL,
	"numberOf":   numberOf,
	"iso":        iso,
	"clock":      clock,
	"lasted":     lasted,
	"prose":      prose,
	"clip":       clip,
	"stamp":      func(s commands.Stamp) time.Time { return time.Time(s) },
	"took":       took,
	"words":      func(v any) string { return strings.ReplaceAll(fmt.Sprint(v), "_", " ") },
	"join":       strings.Join,
}

func threadURL(name string) string { return "/threads/" + url.PathEscape(name) }

// turnURL is the page of a turn; of anything else it is the board.
func turnURL(id string) string {
	thread, n, err := turns.ParseTurn(id)
	if err != nil {
		return "/"
	}
	return "/turns/" + url.PathEscape(thread) + "/" + strconv.Itoa(n)
}

func attemptURL(id string) string {
	turn, n, err := turns.ParseAttempt(id)
	if err != nil {
		return "/"
	}
	return turnURL(turn) + "#a" + strconv.Itoa(n)
}

// numberOf returns what follows the thread in a turn's or attempt's id.
func numberOf(id string) string {
	_, n, _ := strings.Cut(id, "/")
	return n
}

func iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// lasted is a length of time in two units at most.
func lasted(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh %02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// took is how long an attempt was carried out, from the agent's acceptance or else
// its opening to its end or now.
func took(a turns.Attempt, now time.Time) time.Duration {
	from := a.Started
	if from.IsZero() {
		from = a.Created
	}
	if a.State.Open() {
		return now.Sub(from)
	}
	return a.Updated.Sub(from)
}

// prose escapes a text and sets what stands in backquotes as code.
func prose(text string) template.HTML {
	var out strings.Builder
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			out.WriteString("<code>" + template.HTMLEscapeString(part) + "</code>")
			continue
		}
		out.WriteString(template.HTMLEscapeString(part))
	}
	return template.HTML(out.String())
}

// clip cuts a text to a number of bytes, at a character.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

func newKey() string { return "board-" + turns.NewToken() }
