package store

import (
	"context"
	"fmt"

	"rota/turns"
)

// Detach forgets the agent's sessions of a thread on a service, of every role: the
// next run there begins a fresh one. It reports whether there was one.
func (s *Store) Detach(ctx context.Context, thread, service string) (bool, error) {
	var fields []string
	for _, role := range turns.Roles {
		fields = append(fields, "session:"+turns.SessionKey(service, role))
	}
	n, err := s.rdb.HDel(ctx, s.of(thread).thread(thread), fields...).Result()
	if err != nil {
		return false, fmt.Errorf("detach %s on %s: %w", thread, service, err)
	}
	return n > 0, nil
}

// OpenBelow returns how many turns are open in the child threads of a root thread.
func (s *Store) OpenBelow(ctx context.Context, root string) (int, error) {
	n, err := s.rdb.HLen(ctx, s.of(root).live(root)).Result()
	if err != nil {
		return 0, fmt.Errorf("count the open turns below %s: %w", root, err)
	}
	return int(n), nil
}
