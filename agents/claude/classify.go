package claude

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"rota/agents/transcript"
	"rota/turns"
)

// The order of judgement: how the turn was cut off (terminal reason, subtype,
// stop reason), then the error kind with its status, then the status alone, and
// the text of the error last. The text of an answer is never looked at.

// byCut names the ends that need no look at the error: terminal_reason, subtype
// and stop_reason of the result.
var byCut = map[string]turns.Class{
	"prompt_too_long":                     turns.ClassContextOverflow,
	"rapid_refill_breaker":                turns.ClassContextOverflow,
	"model_context_window_exceeded":       turns.ClassContextOverflow,
	"image_error":                         turns.ClassConfig,
	"blocking_limit":                      turns.ClassQuota,
	"stop_hook_prevented":                 turns.ClassConfig,
	"hook_stopped":                        turns.ClassConfig,
	"aborted_streaming":                   turns.ClassCrash, // somebody else stopped it
	"aborted_tools":                       turns.ClassCrash,
	"max_turns":                           turns.ClassOutputLimit,
	"error_max_turns":                     turns.ClassOutputLimit,
	"error_max_budget_usd":                turns.ClassOutputLimit,
	"error_max_structured_output_retries": turns.ClassNoVerdict,
	"refusal":                             turns.ClassRefusal,
	"max_tokens":                          turns.ClassOutputLimit,
}

// byKind names the error kinds whose class needs no status.
var byKind = map[string]turns.Class{
	"authentication_failed": turns.ClassAuth,
	"oauth_org_not_allowed": turns.ClassAuth,
	"billing_error":         turns.ClassQuota,
	"rate_limit":            turns.ClassRateLimited, // or quota, see limited
	"overloaded":            turns.ClassOverloaded,
	"invalid_request":       turns.ClassConfig,
	"model_not_found":       turns.ClassConfig,
	"max_output_tokens":     turns.ClassOutputLimit,
}

// failure classifies a result that says it is an error.
func (s *Stream) failure() *turns.Failure {
	f := &turns.Failure{Class: s.class(), Message: s.message()}
	switch {
	case s.fault == "rate_limit" || f.Class == turns.ClassRateLimited || f.Class == turns.ClassQuota:
		s.limited(f)
	case f.Class == turns.ClassAuth:
		s.refused(f)
	case f.Class == turns.ClassOverloaded:
		f.Scope = "model"
	case f.Class == turns.ClassNetwork:
		f.Scope = "host"
	}
	return f
}

func (s *Stream) class() turns.Class {
	r := s.result
	stop := strings.Trim(string(r.StopReason), `"`)
	for _, cut := range []string{stop, r.Terminal, r.Subtype} {
		if c, ok := byCut[cut]; ok {
			return c
		}
	}
	if c, ok := byKind[s.fault]; ok {
		return c
	}
	if s.fault == "" && s.session == "" && r.Turns == 0 {
		return s.beforeStart()
	}
	status := s.status()
	if c, ok := byStatus(status); ok {
		return c
	}
	if s.fault == "server_error" {
		return s.serverError()
	}
	return byText(r.Text)
}

// beforeStart judges an error before the start event: a session that can't be
// resumed, or a call the program does not understand.
func (s *Stream) beforeStart() turns.Class {
	if s.task.Session != "" || noSession(strings.Join(s.result.Errors, "\n")) {
		return turns.ClassSessionLost
	}
	return turns.ClassConfig
}

// serverError judges a server error that came without a status: either the
// connection failed, or the program gave up after retries that had one.
func (s *Stream) serverError() turns.Class {
	if s.retry != nil {
		if s.retry.Error == "overloaded" {
			return turns.ClassOverloaded
		}
		if c, ok := byStatus(s.retry.Status); ok && !connection(s.result.Text) {
			return c
		}
	}
	return turns.ClassNetwork
}

// status is the HTTP status of the error, 0 when there was none. The status may
// stand only in front of the program's own error text.
func (s *Stream) status() int {
	if s.result.Status != nil {
		return *s.result.Status
	}
	if m := leadingStatus.FindStringSubmatch(s.result.Text); m != nil {
		n, _ := strconv.Atoi(m[1]) // three digits
		return n
	}
	return 0
}

var leadingStatus = regexp.MustCompile(`^(?:Failed to authenticate\. )?API Error: (\d{3})\b`)

func byStatus(status int) (turns.Class, bool) {
	switch {
	case status == 401 || status == 403:
		return turns.ClassAuth, true
	case status == 402:
		return turns.ClassQuota, true
	case status == 408:
		return turns.ClassNetwork, true
	case status == 429:
		return turns.ClassRateLimited, true
	case status == 529:
		return turns.ClassOverloaded, true
	case status >= 500:
		return turns.ClassServer, true
	case status >= 400:
		return turns.ClassConfig, true
	}
	return "", false
}

// byText is the last resort: the program's own sentence about an error.
func byText(text string) turns.Class {
	switch {
	case strings.HasPrefix(text, "API Error: Overloaded"):
		return turns.ClassOverloaded
	case connection(text):
		return turns.ClassNetwork
	case unreadable.MatchString(text):
		return turns.ClassBadOutput
	}
	return turns.ClassUnknown
}

var (
	unreadable = regexp.MustCompile(`empty or malformed response|Failed to parse JSON|Stream ended without receiving any events`)
	lostLink   = regexp.MustCompile(`Unable to connect to API|Connection closed mid-response|Connection to the API was lost|\(E[A-Z]+\)|Request timed out`)
)

func connection(text string) bool { return lostLink.MatchString(text) }

// limited tells a used-up subscription from a limit per minute, and fills in
// until when.
func (s *Stream) limited(f *turns.Failure) {
	if s.fault != "rate_limit" || s.limit == nil || s.limit.resets().IsZero() {
		return // no reset time: per minute, or credit that no clock gives back
	}
	f.Class, f.ResetsAt = turns.ClassQuota, s.limit.resets()
	if strings.Contains(s.limit.Type, "opus") || strings.Contains(s.limit.Type, "sonnet") {
		f.Scope = "model"
	}
}

// refused tells a dead login from one that was refused now.
func (s *Stream) refused(f *turns.Failure) {
	if s.fault == "oauth_org_not_allowed" {
		f.Dead, f.Scope = true, "organisation"
		return
	}
	// No status at the end: there was no login, or its refresh was refused.
	f.Dead = s.result.Status == nil && strings.HasPrefix(s.result.Text, "Not logged in") ||
		strings.Contains(s.result.Text, "Please login again")
}

func (s *Stream) message() string {
	if text := strings.TrimSpace(s.result.Text); text != "" {
		return transcript.Clip(text, transcript.MaxMessage)
	}
	if len(s.result.Errors) > 0 {
		return transcript.Clip(s.result.Errors[0], transcript.MaxMessage)
	}
	return "claude ended with " + s.result.Subtype
}

// stopped is the failure of a run that we ended: the last retry is the reason.
func (s *Stream) stopped(c turns.Class) *turns.Failure {
	what := "no word from claude"
	if s.session == "" {
		what = "claude did not start"
	}
	if s.retry != nil {
		what += fmt.Sprintf("; retry %d after %s", s.retry.Attempt, s.retry.Error)
		if s.retry.Status != 0 {
			what += fmt.Sprintf(" (status %d)", s.retry.Status)
		}
	}
	return &turns.Failure{Class: c, Message: what}
}

// wordless classifies an end without a result, by standard error.
func (s *Stream) wordless(exit transcript.Exit) *turns.Failure {
	text := exit.Stderr
	fail := func(c turns.Class) *turns.Failure {
		return &turns.Failure{Class: c, Message: transcript.Clip(text, transcript.MaxMessage)}
	}
	switch {
	case exit.Signal != "":
		return crash(exit)
	case s.session == "" && noSession(text):
		return fail(turns.ClassSessionLost)
	case s.session == "" && (exit.Code == 126 || exit.Code == 127 || strings.Contains(text, "Could not find native binary")):
		return fail(turns.ClassConfig)
	case s.session == "" && usage.MatchString(text):
		return fail(turns.ClassConfig)
	case s.spoiled > 0:
		return turns.Fail(turns.ClassBadOutput, "%d unreadable lines and no result", s.spoiled)
	}
	return crash(exit)
}

var usage = regexp.MustCompile(`^(?:error|Error): `)

var lostSession = regexp.MustCompile(`No conversation found with session ID|--resume requires a valid session ID|^Error: (?:Session ID \S+ is already in use|Invalid session ID)`)

func noSession(text string) bool { return lostSession.MatchString(text) }

func crash(exit transcript.Exit) *turns.Failure {
	how := fmt.Sprintf("claude ended with exit status %d and without a result", exit.Code)
	if exit.Signal != "" {
		how = "claude was killed by " + exit.Signal
	}
	if last := transcript.LastLine(exit.Stderr); last != "" {
		how += ": " + last
	}
	return &turns.Failure{Class: turns.ClassCrash, Message: transcript.Cut(how, transcript.MaxMessage)}
}
