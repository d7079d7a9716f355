package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"rota/internal/config"
)

// embedded is the store of `worker --embedded`: a redis-server of its own with an
// append-only file in the data folder, or miniredis in memory.
type embedded struct {
	url  string
	stop func()
}

// startEmbedded starts the store and names it for enqueue.
func startEmbedded(ctx context.Context, cfg config.Config, log *slog.Logger) (*embedded, error) {
	e, err := startRedis(ctx, cfg.Data, log)
	if err != nil {
		return nil, err
	}
	if e == nil {
		if e, err = startMini(); err != nil {
			return nil, err
		}
		log.Warn("no redis-server on the PATH: the store is in memory and nothing outlives this process")
	}
	if cfg.RedisExplicit {
		log.Warn("a redis is configured, and --embedded does not use it: enqueue with this configuration uses that one, not this store",
			"configured", redisName(cfg.Redis), "embedded", e.url)
	}
	remove, err := config.WriteEmbedded(cfg.Data, config.Embedded{Redis: e.url, PID: os.Getpid(), Config: cfg.File})
	if err != nil {
		e.stop()
		return nil, err
	}
	stop := e.stop
	e.stop = sync.OnceFunc(func() {
		remove()
		stop()
	})
	return e, nil
}

func startMini() (*embedded, error) {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	// miniredis moves its clock by hand only for keys that expire.
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				m.FastForward(time.Second)
			}
		}
	}()
	return &embedded{url: "redis://" + m.Addr() + "/0", stop: func() { cancel(); m.Close() }}, nil
}

// startRedis starts a redis-server of the PATH; nil when there is none.
func startRedis(ctx context.Context, data string, log *slog.Logger) (*embedded, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, nil
	}
	folder := filepath.Join(data, "redis")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, &codedError{exitError, fmt.Errorf("embedded store: %s is used by another worker", folder), "end that one, or name another folder with --data"}
	}
	for range 10 {
		port, err := freePort()
		if err != nil {
			break
		}
		cmd := exec.Command(program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", folder, "--appendonly", "yes",
			"--appendfsync", "always", "--save", "", "--maxmemory-policy", "noeviction", "--daemonize", "no", "--logfile", "redis.log")
		dieWithParent(cmd)
		if err := cmd.Start(); err != nil {
			lock.Close()
			return nil, fmt.Errorf("embedded store: %w", err)
		}
		gone := make(chan struct{})
		go func() { _ = cmd.Wait(); close(gone) }()
		url := fmt.Sprintf("redis://127.0.0.1:%d/0", port)
		if answers(ctx, url, gone) {
			log.Info("embedded store started", "redis", url, "folder", folder)
			return &embedded{url: url, stop: func() {
				_ = cmd.Process.Signal(syscall.SIGTERM)
				select {
				case <-gone:
				case <-time.After(10 * time.Second):
					_ = cmd.Process.Kill()
					<-gone
				}
				lock.Close()
			}}, nil
		}
		_ = cmd.Process.Kill()
		<-gone
	}
	lock.Close()
	return nil, fmt.Errorf("embedded store: redis-server does not start, see %s", filepath.Join(folder, "redis.log"))
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// answers waits until the server has loaded its data and answers.
func answers(ctx context.Context, url string, gone <-chan struct{}) bool {
	options, err := redis.ParseURL(url)
	if err != nil {
		return false
	}
	rdb := redis.NewClient(options)
	defer rdb.Close()
	bound, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if rdb.Ping(bound).Err() == nil {
			return true
		}
		select {
		case <-gone:
			return false
		case <-bound.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
}
