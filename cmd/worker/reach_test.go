package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"rota/internal/config"
	"rota/internal/redistest"
)

// A Redis that answers is running: what it refuses is said, not that it is away.
func TestWhatRedisRefuses(t *testing.T) {
	locked, open := redistest.Start(t), redistest.Start(t)
	if err := locked.Client().ConfigSet(t.Context(), "requirepass", "fakepw").Err(); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]codedError{
		"redis://" + locked.Addr + "/0":          {exitUnavailable, errors.New("refuses the login: NOAUTH"), "put it into ROTA_REDIS"},
		"redis://:another@" + locked.Addr + "/0": {exitUnavailable, errors.New("refuses the login: WRONGPASS"), "put it into ROTA_REDIS"},
		"redis://" + open.Addr + "/99":           {exitConfig, errors.New("has no such database: ERR DB index"), "redis://host:6379/0"},
		"redis://127.0.0.1:1/0":                  {exitUnavailable, errors.New("connection refused"), "is it running?"},
	} {
		_, err := newWorker(t.Context(), config.Config{Redis: url}, workerOptions{log: slog.New(slog.DiscardHandler)})
		var coded *codedError
		if !errors.As(err, &coded) {
			t.Fatalf("%s: %v", url, err)
		}
		if coded.code != want.code || !strings.Contains(coded.Error(), want.Error()) || !strings.Contains(coded.hint, want.hint) {
			t.Errorf("%s: exit %d: %v; hint: %s", url, coded.code, coded, coded.hint)
		}
		if strings.Contains(coded.Error()+coded.hint, "another") {
			t.Errorf("the password is shown: %v", coded)
		}
	}
}
