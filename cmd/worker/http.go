package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"rota/web"
)

// portsTried is how many ports above the default are tried when it is taken.
const portsTried = 50

// checkHTTP refuses an address that is none, or that others can reach without a token.
func checkHTTP(address, token string) error {
	if address == "off" || address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return &codedError{exitConfig, fmt.Errorf("--http %q: %w", address, err), "use HOST:PORT, or off"}
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && token == "" {
		return &codedError{exitConfig, fmt.Errorf("--http %s is not loopback and ROTA_HTTP_TOKEN is not set: refused", address),
			"set a token, or use 127.0.0.1"}
	}
	return nil
}

// listen opens the HTTP side and returns what serves it until its context ends;
// nil when it is off. A taken default port gives way to the next free one, an
// explicit address fails.
func (w *worker) listen() (func(context.Context) error, error) {
	if w.options.http == "off" || w.options.http == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", w.options.http)
	if err != nil && !w.options.httpExplicit {
		host, port, _ := net.SplitHostPort(w.options.http)
		first, _ := strconv.Atoi(port)
		for i := 1; i <= portsTried && err != nil; i++ {
			listener, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(first+i)))
		}
	}
	if err != nil {
		return nil, err
	}
	w.httpAddr = listener.Addr().String()
	handler, err := w.handler()
	if err != nil {
		listener.Close()
		return nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	w.log.Info("board and metrics", "url", "http://"+w.httpAddr+"/")
	return func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { server.Close() })
		defer stop()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, nil
}

// isReady says whether the worker takes turns: its servers pull, and Redis answers.
func (w *worker) isReady(ctx context.Context) error {
	select {
	case <-w.ready:
	default:
		return errors.New("starting")
	}
	if w.draining.Load() {
		return errors.New("draining")
	}
	return reachable(ctx, w.rdb)
}

func (w *worker) handler() (http.Handler, error) {
	return web.New(web.Config{
		Store: w.store, Commands: w.commands, Gatherer: w.registry, Credentials: w.logins, Services: w.cfg.ServiceNames(),
		Admin: w.options.admin, Token: w.options.token, Ready: w.isReady, Log: w.log,
	})
}
