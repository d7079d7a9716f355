package claude

import (
	"testing"
	"time"

	"rota/agents"
	"rota/agents/recording"
	"rota/agents/transcript"
	"rota/turns"
)

// situations says what each recorded run of the real program means. A new
// recording is a folder in agents/testdata/claude and a row here.
var situations = map[string]turns.Class{
	"ok": "", "ok_oauth": "", "529_fallback_model": "", "bgtool_end": "", "json_schema": "",
	"partial_messages": "", "perm_reviewer_tools": "", "recover_500x2": "", "repocfg_sources_user": "",
	"resume_1_first": "", "resume_2_resumed": "", "role_arbiter": "", "role_owner": "",
	"role_reviewer": "", "usage_multistep": "",

	"400_credit":                turns.ClassQuota,
	"400_too_long":              turns.ClassContextOverflow,
	"401_expired_oauth":         turns.ClassAuth,
	"401_invalid":               turns.ClassAuth,
	"403_org_oauth":             turns.ClassAuth,
	"403_permission":            turns.ClassAuth,
	"404_model":                 turns.ClassConfig,
	"429_retry_after":           turns.ClassRateLimited,
	"429_usage_oauth":           turns.ClassQuota,
	"500_retries2":              turns.ClassServer,
	"529_retries2":              turns.ClassOverloaded,
	"bad_sse":                   turns.ClassBadOutput,
	"cli_native_missing":        turns.ClassConfig,
	"credfile_401_refresh_dead": turns.ClassAuth,
	"drop_mid":                  turns.ClassNetwork,
	"empty":                     turns.ClassEmpty,
	"empty_sse":                 turns.ClassBadOutput,
	"max_tokens":                turns.ClassOutputLimit,
	"maxturns":                  turns.ClassOutputLimit,
	"midturn_401_expired":       turns.ClassAuth,
	"midturn_text_then_500":     turns.ClassServer,
	"no_credentials":            turns.ClassAuth,
	"refusal":                   turns.ClassRefusal,
	"refused_retries1":          turns.ClassNetwork,
	"resume_not_found":          turns.ClassSessionLost,
	"resume_not_uuid":           turns.ClassSessionLost,
	"session_id_bad":            turns.ClassSessionLost,
	"sigint_tool":               turns.ClassCrash,
	"sigkill_tool":              turns.ClassCrash,
	"sigterm_tool":              turns.ClassCrash,
	"stall_defaults":            turns.ClassStalled,
	"stream_ends_early":         turns.ClassBadOutput,
	"stall_mid_defaults":        turns.ClassStalled,
	"unknown_flag":              turns.ClassConfig,
}

const testdata = "../testdata"

var task = agents.Task{Thread: "t", Turn: "t/1", Attempt: "t/1.1", Role: turns.Owner, Fence: 35}

// replay feeds a run to a reader as the adapter does.
func replay(task agents.Task, heard *recording.Heard, lines [][]byte, exit transcript.Exit) (agents.Result, error) {
	s := NewStream(task, heard)
	for _, line := range lines {
		if err := s.Line(line); err != nil {
			return agents.Result{}, err
		}
	}
	return s.End(exit)
}

func TestRecordings(t *testing.T) {
	recording.Table(t, testdata, "claude", situations, func(t *testing.T, s recording.Situation, heard *recording.Heard) (agents.Result, error) {
		res, err := replay(task, heard, s.Lines, s.Exit)
		if err == nil && res.Model == "" {
			t.Error("the model is not named")
		}
		return res, err
	}, func(res agents.Result) string { return res.Session })
}

// TestRecordedDetail checks what recordings say beyond their class.
func TestRecordedDetail(t *testing.T) {
	failures := map[string]turns.Failure{
		"429_usage_oauth":           {ResetsAt: time.Unix(1796047072, 0)},
		"credfile_401_refresh_dead": {Dead: true},
		"no_credentials":            {Dead: true},
		"403_org_oauth":             {Dead: true, Scope: "organisation"},
		"401_invalid":               {},
		"401_expired_oauth":         {},
		"529_retries2":              {Scope: "model"},
		"refused_retries1":          {Scope: "host"},
	}
	for _, r := range recording.Load(t, testdata, "claude") {
		want, ok := failures[r.Name]
		if !ok {
			continue
		}
		_, err := replay(task, &recording.Heard{}, r.Lines, r.Exit)
		f := turns.FailureOf(err)
		if !f.ResetsAt.Equal(want.ResetsAt) || f.Dead != want.Dead || f.Scope != want.Scope {
			t.Errorf("%s: %+v, want %+v", r.Name, f, want)
		}
	}
}

func TestRecordedUsageAndModel(t *testing.T) {
	for _, r := range recording.Load(t, testdata, "claude") {
		res, _ := replay(task, &recording.Heard{}, r.Lines, r.Exit)
		switch r.Name {
		case "usage_multistep":
			want := agents.Usage{InputTokens: 246, OutputTokens: 90, CostUSD: 0.0034800000000000005}
			if res.Usage != want {
				t.Errorf("usage %+v, want %+v", res.Usage, want)
			}
		case "529_fallback_model":
			if res.Model != "claude-sonnet-5" {
				t.Errorf("answered by %q, want the fallback model", res.Model)
			}
		}
	}
}
