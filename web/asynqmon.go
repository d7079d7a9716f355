package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
	"github.com/redis/go-redis/v9"

	"rota/tasks"
)

// shared gives asynq's and asynqmon's constructors a client that exists. Nobody
// may close what is made from it.
type shared struct{ client redis.UniversalClient }

// MakeRedisClient returns the client.
func (s shared) MakeRedisClient() any { return s.client }

var _ asynq.RedisConnOpt = shared{}

// asynqmon serves asynq's own console below /asynqmon/, read-only without Admin.
func (b *board) asynqmon() http.Handler {
	console := asynqmon.New(asynqmon.Options{
		RootPath: "/asynqmon", RedisConnOpt: shared{b.Redis}, ReadOnly: !b.Admin,
		PayloadFormatter: asynqmon.PayloadFormatterFunc(readable),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !b.Admin && r.Method != http.MethodGet && r.Method != http.MethodHead {
			b.fail(w, r, http.StatusMethodNotAllowed, "read-only: start the worker with --admin to change anything")
			return
		}
		if strings.HasPrefix(r.URL.Path, "/asynqmon/api/") {
			if !b.oneTask(w, r) {
				console.ServeHTTP(w, r)
			}
			return
		}
		page := &buffered{header: http.Header{}, code: http.StatusOK}
		console.ServeHTTP(page, r)
		page.copyTo(w, r)
	})
}

// readable is a task's payload for people.
func readable(_ string, payload []byte) string {
	p, err := tasks.Decode(payload)
	if p.Attempt == "" {
		return strings.ToValidUTF8(string(payload), "�")
	}
	text := fmt.Sprintf("thread %s · turn %s · attempt %s · %s (%s) on %s", p.Thread, p.Turn, p.Attempt, p.Role, p.Intent, p.Service)
	if err != nil {
		text += " · would be refused: " + err.Error()
	}
	return text
}

// buffered holds a small answer so that it can be changed.
type buffered struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (p *buffered) Header() http.Header         { return p.header }
func (p *buffered) WriteHeader(code int)        { p.code = code }
func (p *buffered) Write(b []byte) (int, error) { return p.body.Write(b) }

var (
	foreignLink  = regexp.MustCompile(`<link[^>]+href="https?://[^>]*>`)
	inlineScript = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
)

// copyTo sends the answer on. A page loses its links to other hosts (its fonts;
// the browser's own do), and its inline scripts are allowed by their hashes. A
// script gets the route for our task ids.
func (p *buffered) copyTo(w http.ResponseWriter, r *http.Request) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	body := p.body.Bytes()
	if strings.HasPrefix(r.URL.Path, "/asynqmon/static/") {
		w.Header().Set("Cache-Control", "private, max-age=86400") // their names change with their contents
		if strings.HasSuffix(r.URL.Path, ".js") {
			body = withTaskRoute(body)
		}
	}
	if kind := http.DetectContentType(body); strings.HasPrefix(kind, "text/html") {
		body = foreignLink.ReplaceAll(body, nil)
		scripts := "script-src 'self'"
		for _, m := range inlineScript.FindAllSubmatch(body, -1) {
			sum := sha256.Sum256(m[1])
			scripts += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy+"; "+scripts+"; style-src 'self' 'unsafe-inline'; img-src 'self' data:")
	}
	w.WriteHeader(p.code)
	_, _ = w.Write(body)
}
