package codex

import (
	"encoding/json"
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
	recording.Table(t, testdata, "codex", situations, func(t *testing.T, s recording.Situation, heard *recording.Heard) (agents.Result, error) {
		res, err := replay(task, heard, s.Lines, s.Exit)
		return res, err
	}, func(res agents.Result) string { return parseSession(res.Session).thread })
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
