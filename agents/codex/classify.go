package codex

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"rota/agents/transcript"
	"rota/turns"
)

// Codex has no error code: the class is a match on its own sentence in
// turn.failed, or on standard error when there was no turn. Parts of a sentence
// that a server wrote come after the parts that decide, so the first rule that
// matches wins. The text of an answer is never looked at.

type rule struct {
	match *regexp.Regexp
	class turns.Class
	scope string
}

func is(class turns.Class, scope, pattern string) rule {
	return rule{regexp.MustCompile(pattern), class, scope}
}

// rules are asked in order.
var rules = []rule{
	is(turns.ClassCrash, "", `already has an active writer`),
	is(turns.ClassSessionLost, "", `no rollout found|thread/resume failed|failed to read session metadata`),
	is(turns.ClassNetwork, "host", `^error sending request for url`), // also of the sign-in server
	is(turns.ClassAuth, "", `^unexpected status 401|could not be refreshed|log out and sign in again|^Missing environment variable`),
	is(turns.ClassAuth, "", `^unexpected status 403`),
	is(turns.ClassQuota, "", `^You.ve hit your usage limit|^Quota exceeded`),
	is(turns.ClassOverloaded, "model", `^Selected model is at capacity`),
	is(turns.ClassRateLimited, "", `last status: 429|^rate limit exceeded|^unexpected status 429`),
	is(turns.ClassContextOverflow, "", `ran out of room in the model's context`),
	is(turns.ClassOutputLimit, "", `reason: max_output_tokens`),
	is(turns.ClassRefusal, "", `reason: content_filter`),
	is(turns.ClassNetwork, "host", `^Connection failed|error sending request|waiting for network|error decoding response body`),
	is(turns.ClassBadOutput, "", `^stream disconnected before completion|idle timeout waiting for SSE`),
	is(turns.ClassServer, "", `experiencing high demand|^unexpected status 5\d\d|last status: 5\d\d`),
	is(turns.ClassConfig, "", `^unexpected status 4\d\d|does not exist|Input exceeds the maximum length`),
}

// dead tells a login that no time heals from one that was refused now.
var dead = regexp.MustCompile(`refresh token (?:has expired|was already used|was revoked)|log out and sign in again|^Missing environment variable`)

// retrying is what Codex puts around the reason of a retry.
var retrying = regexp.MustCompile(`^Reconnecting\.\.\. (?:\d+/\d+|waiting for network) \((.*)\)$`)

func (s *Stream) classify(message string) *turns.Failure {
	message = strings.TrimSpace(message)
	f := &turns.Failure{Class: turns.ClassUnknown, Message: transcript.Clip(message, transcript.MaxMessage)}
	if strings.HasPrefix(message, "{") {
		f.Class, f.Message = body(message)
		return f
	}
	for _, r := range rules {
		if r.match.MatchString(message) {
			f.Class, f.Scope = r.class, r.scope
			break
		}
	}
	switch f.Class {
	case turns.ClassAuth:
		f.Dead = dead.MatchString(message)
	case turns.ClassQuota:
		f.ResetsAt = resets(message, s.now())
	case turns.ClassRateLimited:
		f.RetryAfter = retryAfter(message)
	}
	if f.Message == "" {
		f.Message = "codex gave no reason"
	}
	return f
}

// body classifies an error that Codex passes on as the server's JSON: a request
// that was refused as it is.
func body(text string) (turns.Class, string) {
	var b struct {
		Error struct {
			Message string `json:"message"`
			Code    string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(text), &b) != nil || b.Error.Message == "" {
		return turns.ClassConfig, transcript.Clip(text, transcript.MaxMessage)
	}
	message := transcript.Clip(b.Error.Message, transcript.MaxMessage)
	if b.Error.Code == "context_length_exceeded" {
		return turns.ClassContextOverflow, message
	}
	return turns.ClassConfig, message
}

var (
	tryIn = regexp.MustCompile(`try again in ([\d.]+) ?(ms|s|m|h)`)
	tryAt = regexp.MustCompile(`try again at (?:([A-Z][a-z]{2}) (\d{1,2})(?:st|nd|rd|th), (\d{4}) )?(\d{1,2}:\d{2} [AP]M)`)
)

// retryAfter reads the delay that a server named in its text.
func retryAfter(message string) time.Duration {
	m := tryIn.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	d, err := time.ParseDuration(m[1] + m[2])
	if err != nil {
		return 0
	}
	return d
}

// resets reads the time that Codex names: a time of day, with a date when it is
// not today. It is in the zone of the process, which the adapter sets to UTC.
func resets(message string, now time.Time) time.Time {
	m := tryAt.FindStringSubmatch(message)
	if m == nil {
		return time.Time{}
	}
	clock, err := time.Parse("3:04 PM", m[4])
	if err != nil {
		return time.Time{}
	}
	now = now.UTC()
	year, month, day := now.Date()
	if m[1] != "" {
		date, err := time.Parse("Jan 2 2006", m[1]+" "+m[2]+" "+m[3])
		if err != nil {
			return time.Time{}
		}
		year, month, day = date.Date()
	}
	at := time.Date(year, month, day, clock.Hour(), clock.Minute(), 0, 0, time.UTC)
	if m[1] == "" && at.Before(now.Truncate(time.Minute)) {
		at = at.AddDate(0, 0, 1)
	}
	return at
}

// stopped is the failure of a run that we ended: the last error event is the reason.
func (s *Stream) stopped(c turns.Class) *turns.Failure {
	what := "no word from codex"
	if !s.started {
		what = "codex did not start"
	}
	if reason := s.trouble; reason != "" {
		if m := retrying.FindStringSubmatch(reason); m != nil {
			reason = m[1]
		}
		what += ": " + transcript.Clip(reason, transcript.MaxMessage)
	}
	return &turns.Failure{Class: c, Message: what}
}

// wordless classifies an end without an end of the turn, by standard error.
func (s *Stream) wordless(exit transcript.Exit) *turns.Failure {
	last := transcript.LastLine(exit.Stderr)
	if exit.Signal == "" && !s.started {
		if f := s.classify(strings.TrimPrefix(last, "Error: ")); f.Class != turns.ClassUnknown {
			return f
		}
		if exit.Code == 2 || exit.Code == 126 || exit.Code == 127 || setup.MatchString(exit.Stderr) {
			return &turns.Failure{Class: turns.ClassConfig, Message: setupLine(exit)}
		}
	}
	if exit.Signal == "" && s.spoiled > 0 {
		return turns.Fail(turns.ClassBadOutput, "%d unreadable lines and no end of the turn", s.spoiled)
	}
	return crash(exit)
}

// setup are the sentences about a wrong call, configuration or installation.
var setup = regexp.MustCompile(`(?m)Missing optional dependency|^Not inside a trusted directory|^No prompt provided|^error: |Error loading config|config\.toml|Model provider .* not found|CODEX_HOME`)

// setupLine is the line of standard error that says what is wrong.
func setupLine(exit transcript.Exit) string {
	for line := range strings.Lines(exit.Stderr) {
		if setup.MatchString(line) {
			return transcript.Clip(line, transcript.MaxMessage)
		}
	}
	if last := transcript.LastLine(exit.Stderr); last != "" {
		return last
	}
	return "codex can't be run: exit status " + strconv.Itoa(exit.Code)
}

func crash(exit transcript.Exit) *turns.Failure {
	how := fmt.Sprintf("codex ended with exit status %d and without an end of the turn", exit.Code)
	if exit.Signal != "" {
		how = "codex was killed by " + exit.Signal
	}
	if last := transcript.LastLine(exit.Stderr); last != "" {
		how += ": " + last
	}
	return &turns.Failure{Class: turns.ClassCrash, Message: transcript.Cut(how, transcript.MaxMessage)}
}
