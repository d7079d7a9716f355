package main

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notify tells systemd how the worker is, where systemd started it; else it does
// nothing. The watchdog is fed by a goroutine of its own: a process that hangs as
// a whole is restarted, one whose Redis is away is not.
func (w *worker) notify(ctx context.Context) error {
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		w.log.Warn("systemd not told", "err", err)
	}
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	tick := time.NewTicker(every / 3)
	defer tick.Stop()
	for {
		if _, err := daemon.SdNotify(false, daemon.SdNotifyWatchdog); err != nil {
			w.log.Warn("systemd not told", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// stopping tells systemd that the worker drains.
func stopping() { _, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) }
