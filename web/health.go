package web

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readyWithin bounds a look at whether the process is ready.
const readyWithin = 3 * time.Second

// live answers as long as the process serves at all.
func (b *board) live(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok\n")
}

// ready says whether the process can do its work, and why not.
func (b *board) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
	defer cancel()
	err := b.Redis.Ping(ctx).Err()
	if err == nil && b.Ready != nil {
		err = b.Ready(ctx)
	}
	if err != nil {
		b.Log.Warn("not ready", "err", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "not ready\n")
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// metrics serves what can be read; a Redis that is away takes nothing else with it.
func (b *board) metrics() http.Handler {
	return promhttp.HandlerFor(b.Gatherer, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: 20 * time.Second,
	})
}
