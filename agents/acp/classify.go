package acp

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"rota/agents/transcript"
	"rota/turns"
)

// The codes of errors that the protocol gives a meaning.
const (
	authRequired   = -32000
	invalidParams  = -32602
	methodNotFound = -32601
)

// classify reads a failed call: the code first, then the sentence the program
// gave, which is all there is for failures of its API.
func classify(err error, now time.Time) *turns.Failure {
	var f *turns.Failure
	if errors.As(err, &f) {
		return f
	}
	var e *sdk.RequestError
	if !errors.As(err, &e) {
		return &turns.Failure{Class: turns.ClassCrash, Message: transcript.Clip(err.Error(), transcript.MaxMessage)}
	}
	f = &turns.Failure{Class: turns.ClassUnknown, Message: transcript.Clip(sentence(e), transcript.MaxMessage)}
	switch e.Code {
	case authRequired:
		f.Class, f.Dead = turns.ClassAuth, true
	case invalidParams, methodNotFound:
		f.Class = turns.ClassConfig
	default:
		f.Class = byText(f.Message)
	}
	switch f.Class {
	case turns.ClassQuota:
		f.ResetsAt = resets(f.Message, now)
	case turns.ClassOverloaded:
		f.Scope = "model"
	case turns.ClassNetwork:
		f.Scope = "host"
	}
	return f
}

var resetsAt = regexp.MustCompile(`(?i)resets (\d{1,2}(?::\d{2})?[ap]m) \(UTC\)`)

// resets reads the time of day at which a limit ends, in the zone that the
// environment of a run sets.
func resets(text string, now time.Time) time.Time {
	m := resetsAt.FindStringSubmatch(text)
	if m == nil {
		return time.Time{}
	}
	for _, layout := range []string{"3:04pm", "3pm"} {
		clock, err := time.Parse(layout, strings.ToLower(m[1]))
		if err != nil {
			continue
		}
		now = now.UTC()
		at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), 0, 0, time.UTC)
		if at.Before(now.Truncate(time.Minute)) {
			at = at.AddDate(0, 0, 1)
		}
		return at
	}
	return time.Time{}
}

// sentence is what the program says about an error.
func sentence(e *sdk.RequestError) string {
	var details struct {
		Details string `json:"details"`
		Message string `json:"message"`
	}
	if raw, err := json.Marshal(e.Data); err == nil {
		_ = json.Unmarshal(raw, &details) // other shapes have no sentence
	}
	text := strings.TrimPrefix(e.Message, "Internal error: ")
	if text == "" || text == "Internal error" {
		for _, t := range []string{details.Details, details.Message} {
			if t != "" {
				return t
			}
		}
	}
	return text
}

type rule struct {
	match *regexp.Regexp
	class turns.Class
}

// rules are asked in order, about the program's sentence on its own failure.
var rules = []rule{
	{regexp.MustCompile(`(?i)session not found|unknown session|no conversation found`), turns.ClassSessionLost},
	{regexp.MustCompile(`(?i)output token maximum|max_output_tokens`), turns.ClassOutputLimit},
	{regexp.MustCompile(`(?i)violate our usage policy|content_filter`), turns.ClassRefusal},
	{regexp.MustCompile(`(?i)hit your .*limit|usage limit|credit balance|quota exceeded|insufficient_quota`), turns.ClassQuota},
	{regexp.MustCompile(`(?i)^invalid api key|^failed to authenticate|^not logged in|API Error: 40[13]\b|please run /login|authentication required`), turns.ClassAuth},
	{regexp.MustCompile(`API Error: 429\b|(?i)^rate limit|request rejected \(429\)`), turns.ClassRateLimited},
	{regexp.MustCompile(`API Error: 529\b|(?i)overloaded|at capacity`), turns.ClassOverloaded},
	{regexp.MustCompile(`API Error: 5\d\d\b`), turns.ClassServer},
	{regexp.MustCompile(`(?i)prompt is too long|context window|context length`), turns.ClassContextOverflow},
	{regexp.MustCompile(`\bE(?:CONN\w+|NOTFOUND|TIMEDOUT)\b|(?i)unable to connect|connection error|timed out|fetch failed`), turns.ClassNetwork},
	{regexp.MustCompile(`API Error: 4\d\d\b|(?i)model.*(?:not found|does not exist|not exist)`), turns.ClassConfig},
}

func byText(text string) turns.Class {
	for _, r := range rules {
		if r.match.MatchString(text) {
			return r.class
		}
	}
	return turns.ClassUnknown
}

// lostSession turns any answer but a refused login into a lost session: the
// session asked for can't be had.
func lostSession(err error) error {
	var e *sdk.RequestError
	if errors.As(err, &e) && e.Code != authRequired {
		return turns.Fail(turns.ClassSessionLost, "%s", transcript.Clip(sentence(e), transcript.MaxMessage))
	}
	return err
}
