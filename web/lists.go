package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/hibiken/asynq"

	"rota/commands"
	"rota/credentials"
	"rota/internal/metrics"
	"rota/internal/presence"
	"rota/tasks"
	"rota/turns"
)

// deadLook is how many threads are looked through for dead letters.
const deadLook = 100

type deadPage struct {
	List  []commands.Dead
	Bound int
	Wider int // ?threads= of a longer look; 0 when there is none
}

func (b *board) dead(r *http.Request) (shown, error) {
	p := deadPage{Bound: deadLook}
	if n, err := strconv.Atoi(r.URL.Query().Get("threads")); err == nil && n > deadLook {
		p.Bound = min(n, 10*deadLook)
	}
	if p.Bound < 10*deadLook {
		p.Wider = 10 * deadLook
	}
	var err error
	p.List, err = b.Commands.DeadList(r.Context(), p.Bound)
	return shown{Title: "Dead letters", Body: p}, err
}

// serviceRow is a service with who serves it and what waits for it.
type serviceRow struct {
	Name    string
	Roles   []turns.Role
	Workers []string
	Queue   *asynq.QueueInfo // zero when nothing was ever put into it
	Control *asynq.QueueInfo
}

// Unserved reports whether something waits that nobody takes.
func (s serviceRow) Unserved() bool { return len(s.Workers) == 0 && s.Queue.Size > s.Queue.Archived }

func (b *board) services(r *http.Request) (shown, error) {
	rows := make([]serviceRow, len(b.Services))
	for i, name := range b.Services {
		var err error
		if rows[i], err = b.service(r.Context(), name); err != nil {
			return shown{}, err
		}
	}
	return shown{Title: "Services", Body: rows}, nil
}

func (b *board) service(ctx context.Context, name string) (serviceRow, error) {
	row := serviceRow{Name: name}
	crew := b.Store.Crew()
	for _, role := range turns.Roles {
		for _, service := range crew[role].Services {
			if service == name {
				row.Roles = append(row.Roles, role)
			}
		}
	}
	var errs [3]error
	row.Workers, errs[0] = presence.Workers(ctx, b.Redis, name)
	row.Queue, errs[1] = metrics.Queue(b.inspector, tasks.Queue(name))
	row.Control, errs[2] = metrics.Queue(b.inspector, tasks.ControlQueue(name))
	return row, errors.Join(errs[:]...)
}

type credentialsPage struct {
	List  []credentials.Rest
	Known bool
	Now   time.Time
}

func (b *board) credentials(r *http.Request) (shown, error) {
	p := credentialsPage{Known: b.Config.Credentials != nil, Now: time.Now()}
	if !p.Known {
		return shown{Title: "Credentials", Body: p}, nil
	}
	var err error
	p.List, err = b.Config.Credentials.List(r.Context())
	return shown{Title: "Credentials", Body: p}, err
}

func (b *board) schedules(r *http.Request) (shown, error) {
	list, err := b.Commands.ScheduleLs(r.Context())
	return shown{Title: "Schedules", Body: list}, err
}
