package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/credentials"
	"rota/internal/metrics"
	"rota/turns/store"
)

// Config says what is shown and to whom. Store and Commands are needed.
type Config struct {
	Store       *store.Store
	Commands    *commands.Commands
	Gatherer    prometheus.Gatherer      // this process's metrics; nil for only what Redis says
	Credentials *credentials.Credentials // nil: the page of logins is empty
	Services    []string                 // the configured services, in the order they are shown
	Redis       redis.UniversalClient    // where asynq's queues are; nil for the store's own client
	Admin       bool                     // whether anything may be changed
	Token       string                   // what every page wants; empty: only a loopback name is answered
	Ready       func(context.Context) error
	Log         *slog.Logger
}

// board is the handler's state.
type board struct {
	Config
	inspector *asynq.Inspector
	moves     *moves
	pages     pages
	seals     seals
}

// New returns the handler of a process's HTTP side. It starts nothing until
// somebody asks; limits of time are the server's.
func New(c Config) (http.Handler, error) {
	if c.Store == nil || c.Commands == nil {
		return nil, errors.New("web: a store and commands are needed")
	}
	if c.Redis == nil {
		c.Redis = c.Store.Redis()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Services = slices.Clone(c.Services)
	own := prometheus.NewRegistry()
	if err := own.Register(metrics.NewQueues(c.Redis, c.Store, c.Credentials, c.Services)); err != nil {
		return nil, err
	}
	gatherers := prometheus.Gatherers{own}
	if c.Gatherer != nil {
		gatherers = append(gatherers, c.Gatherer)
	}
	c.Gatherer = gatherers
	pages, err := parsePages()
	if err != nil {
		return nil, err
	}
	b := &board{Config: c, pages: pages, seals: newSeals(c.Token), moves: newMoves(c.Store, c.Log),
		inspector: asynq.NewInspectorFromRedisClient(c.Redis)}
	return b.guard(b.routes()), nil
}

func (b *board) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", b.live)
	mux.HandleFunc("GET /readyz", b.ready)
	mux.Handle("GET /metrics", b.metrics())
	mux.HandleFunc("GET /login", b.loginForm)
	mux.HandleFunc("POST /login", b.login)
	mux.HandleFunc("GET /assets/{name}", b.asset)
	mux.HandleFunc("GET /events", b.events)
	mux.Handle("/asynqmon/", b.asynqmon())
	mux.Handle("GET /asynqmon", http.RedirectHandler("/asynqmon/", http.StatusMovedPermanently))
	mux.HandleFunc("GET /{$}", b.page("board", b.threads))
	mux.HandleFunc("GET /threads/{name}", b.page("thread", b.thread))
	mux.HandleFunc("GET /turns/{thread}/{number}", b.page("turn", b.turn))
	mux.HandleFunc("GET /dead", b.page("dead", b.dead))
	mux.HandleFunc("GET /services", b.page("services", b.services))
	mux.HandleFunc("GET /credentials", b.page("credentials", b.credentials))
	mux.HandleFunc("GET /schedules", b.page("schedules", b.schedules))
	mux.HandleFunc("POST /actions/{verb}", b.act)
	return mux
}
