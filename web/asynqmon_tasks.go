package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

// Our task ids have a slash, which asynqmon's own routes don't expect. Its page of
// a task gets a route that takes several parts, and what its page then asks about
// one task is answered here.
var (
	taskRoute    = []byte("/tasks/:taskId")
	taskRouteFor = []byte("/tasks/:taskId+") // one or more parts; the + stays at the end of the links it makes
	taskCall     = regexp.MustCompile(`^/asynqmon/api/queues/([^/]+)/(?:[a-z]+_)?tasks/(.+/.+?)(?::(run|archive|cancel))?$`)
)

// oneTask answers a call about a task whose id has a slash. It reports whether
// the request was one.
func (b *board) oneTask(w http.ResponseWriter, r *http.Request) bool {
	m := taskCall.FindStringSubmatch(r.URL.Path)
	if m == nil {
		return false
	}
	queue, id, verb := m[1], m[2], m[3]
	var err error
	switch {
	case r.Method == http.MethodGet && verb == "":
		b.showTask(w, queue, strings.TrimSuffix(id, "+"))
		return true
	case r.Method == http.MethodDelete && verb == "":
		err = b.inspector.DeleteTask(queue, id)
	case r.Method == http.MethodPost && verb == "run":
		err = b.inspector.RunTask(queue, id)
	case r.Method == http.MethodPost && verb == "archive":
		err = b.inspector.ArchiveTask(queue, id)
	case r.Method == http.MethodPost && verb == "cancel":
		err = b.inspector.CancelProcessing(id)
	default:
		http.Error(w, "no such call", http.StatusMethodNotAllowed)
		return true
	}
	if err != nil {
		taskError(w, err)
		return true
	}
	b.Log.Info("task changed in asynqmon", "queue", queue, "task", id, "method", r.Method, "verb", verb)
	w.WriteHeader(http.StatusNoContent)
	return true
}

func taskError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if errors.Is(err, asynq.ErrQueueNotFound) || errors.Is(err, asynq.ErrTaskNotFound) {
		code = http.StatusNotFound
	}
	http.Error(w, strings.TrimPrefix(err.Error(), "asynq: "), code)
}

// showTask answers with a task as asynqmon's page reads it.
func (b *board) showTask(w http.ResponseWriter, queue, id string) {
	t, err := b.inspector.GetTaskInfo(queue, id)
	if err != nil {
		taskError(w, err)
		return
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": t.ID, "queue": t.Queue, "type": t.Type, "payload": readable(t.Type, t.Payload), "state": t.State.String(),
		"max_retry": t.MaxRetry, "retried": t.Retried, "error_message": t.LastErr, "last_failed_at": at(t.LastFailedAt),
		"timeout_seconds": int(t.Timeout.Seconds()), "deadline": at(t.Deadline), "next_process_at": at(t.NextProcessAt),
		"completed_at": at(t.CompletedAt), "result": string(t.Result), "ttl_seconds": 0,
	})
}

// withTaskRoute is asynqmon's script with the other route.
func withTaskRoute(script []byte) []byte { return bytes.ReplaceAll(script, taskRoute, taskRouteFor) }
