package codex

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"rota/agents"
	"rota/agents/recording"
	"rota/agents/transcript"
	"rota/turns"
)

// situations says what each recorded run of the real program means. A new
// recording is a folder in agents/testdata/codex and a row here.
var situations = map[string]turns.Class{
	"ok": "", "output_schema": "", "perm_readonly": "", "perm_workspace": "", "recover_drop_mid": "",
	"resume_1_first": "", "resume_2_resumed": "", "role_arbiter": "", "role_owner": "", "role_reviewer": "",
	"resume_not_uuid": "", // a new thread: lost when another was asked for, see below

	"400_bad":                          turns.ClassConfig,
	"400_too_long":                     turns.ClassContextOverflow,
	"401_invalid":                      turns.ClassAuth,
	"401_missing":                      turns.ClassAuth,
	"403_permission":                   turns.ClassAuth,
	"404_model":                        turns.ClassConfig,
	"429_defaults":                     turns.ClassRateLimited,
	"429_long":                         turns.ClassStalled,
	"429_usage":                        turns.ClassQuota,
	"500_retries1":                     turns.ClassServer,
	"503":                              turns.ClassOverloaded,
	"bad_sse":                          turns.ClassBadOutput,
	"chatgpt_401_refresh_token_reused": turns.ClassAuth,
	"chatgpt_429_usage":                turns.ClassQuota,
	"cli_native_missing":               turns.ClassConfig,
	"drop_mid":                         turns.ClassNetwork,
	"empty":                            turns.ClassEmpty,
	"eof_mid":                          turns.ClassBadOutput,
	"max_tokens":                       turns.ClassOutputLimit,
	"midturn_429_usage":                turns.ClassQuota,
	"midturn_text_then_500":            turns.ClassServer,
	"no_credentials":                   turns.ClassAuth,
	"not_git_repo":                     turns.ClassConfig,
	"parallel_same_thread_2":           turns.ClassCrash,
	"quota_mid":                        turns.ClassQuota,
	"refusal":                          turns.ClassRefusal,
	"refused_bounded_retries0":         turns.ClassNetwork,
	"resume_not_found":                 turns.ClassSessionLost,
	"sigint_tool":                      turns.ClassCrash,
	"sigkill_tool":                     turns.ClassCrash,
	"sigterm_tool":                     turns.ClassCrash,
	"stall_retries0":                   turns.ClassStalled,
	"unknown_flag":                     turns.ClassConfig,
}

const testdata = "../testdata"

var (
	task = agents.Task{Thread: "t", Turn: "t/1", Attempt: "t/1.1", Role: turns.Owner, Fence: 35}
	noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
)

// replay feeds a run to a reader as the adapter does.
func replay(task agents.Task, heard *recording.Heard, lines [][]byte, exit transcript.Exit) (agents.Result, error) {
	s := NewStream(task, heard)
	s.now = func() time.Time { return noon }
	for _, line := range lines {
		if err := s.Line(line); err != nil {
			return agents.Result{}, err
		}
	}
	return s.End(exit)
}

func TestRecordings(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range recording.Load(t, testdata, "codex") {
		seen[r.Name] = true
		t.Run(r.Name, func(t *testing.T) {
			want, known := situations[r.Name]
			if !known {
				t.Fatal("no row for this recording")
			}
			var heard recording.Heard
			res, err := replay(task, &heard, r.Lines, r.Exit)
			check(t, res, err, want)
			if err == nil && (heard.Accepts != 1 || len(heard.Sessions) != 1 || heard.Sessions[0] != parseSession(res.Session).thread) {
				t.Errorf("accepted %d times, sessions %v, result's session %q", heard.Accepts, heard.Sessions, res.Session)
			}
			if open := heard.Open(); err == nil && len(open) > 0 {
				t.Errorf("left open: %v", open)
			}
		})
	}
	for name := range situations {
		if !seen[name] {
			t.Errorf("row %s has no recording", name)
		}
	}
}

func check(t *testing.T, res agents.Result, err error, want turns.Class) {
	t.Helper()
	if want == "" {
		if err != nil || res.Text == "" || res.Usage.OutputTokens == 0 {
			t.Fatalf("want a success, got %+v, %v", res, err)
		}
		return
	}
	var f *turns.Failure
	if !errors.As(err, &f) || f.Class != want {
		t.Fatalf("want %s, got %+v, %v", want, res, err)
	}
	if f.Message == "" {
		t.Error("a failure without a message")
	}
	if res.Text != "" || res.Outcome != "" {
		t.Errorf("a failed run has a result: %+v", res)
	}
}

// TestRecordedDetail checks what recordings say beyond their class.
func TestRecordedDetail(t *testing.T) {
	failures := map[string]turns.Failure{
		"429_usage":                        {ResetsAt: time.Date(2026, 11, 30, 14, 11, 0, 0, time.UTC)},
		"chatgpt_429_usage":                {ResetsAt: time.Date(2026, 11, 30, 14, 31, 0, 0, time.UTC)},
		"quota_mid":                        {},
		"chatgpt_401_refresh_token_reused": {Dead: true},
		"no_credentials":                   {Dead: true},
		"401_invalid":                      {},
		"503":                              {Scope: "model"},
		"refused_bounded_retries0":         {Scope: "host"},
		"429_long":                         {Message: "no word from codex: exceeded retry limit, last status: 429 Too Many Requests, request id: req_mock00000344"},
		"unknown_flag":                     {Message: "error: unexpected argument '--no-such-flag' found"},
		"not_git_repo":                     {Message: "Not inside a trusted directory and --skip-git-repo-check was not specified."},
	}
	for _, r := range recording.Load(t, testdata, "codex") {
		want, ok := failures[r.Name]
		if !ok {
			continue
		}
		_, err := replay(task, &recording.Heard{}, r.Lines, r.Exit)
		f := turns.FailureOf(err)
		if !f.ResetsAt.Equal(want.ResetsAt) || f.Dead != want.Dead || f.Scope != want.Scope {
			t.Errorf("%s: %+v, want %+v", r.Name, f, want)
		}
		if want.Message != "" && f.Message != want.Message {
			t.Errorf("%s: message %q", r.Name, f.Message)
		}
	}
}

// TestUsageIsOfTheTurn: Codex counts from the thread's start.
func TestUsageIsOfTheTurn(t *testing.T) {
	resume := task
	for _, r := range recording.Load(t, testdata, "codex") {
		if r.Name != "resume_2_resumed" {
			continue
		}
		resume.Session = thread(t, r) + "+123.0.45"
		var heard recording.Heard
		res, err := replay(resume, &heard, r.Lines, r.Exit)
		if err != nil || res.Usage != (agents.Usage{InputTokens: 123, OutputTokens: 45}) {
			t.Errorf("got %+v, %v", res, err)
		}
		if want := thread(t, r) + "+246.0.90"; res.Session != want {
			t.Errorf("session %s, want %s", res.Session, want)
		}
	}
}

func thread(t *testing.T, r recording.Situation) string {
	t.Helper()
	var e event
	if err := json.Unmarshal(r.Lines[0], &e); err != nil || e.Thread == "" {
		t.Fatalf("no thread in %s", r.Lines[0])
	}
	return e.Thread
}

// TestForeignThread: an id that is none starts a new thread with exit status 0.
func TestForeignThread(t *testing.T) {
	for _, r := range recording.Load(t, testdata, "codex") {
		resume := task
		resume.Session = "not-a-uuid"
		if r.Name != "resume_not_uuid" {
			continue
		}
		var heard recording.Heard
		_, err := replay(resume, &heard, r.Lines, r.Exit)
		if f := turns.FailureOf(err); f.Class != turns.ClassSessionLost || len(heard.Sessions) != 0 {
			t.Errorf("got %v, sessions %v", err, heard.Sessions)
		}
	}
}
