package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rota/turns"
)

// WaitingFor returns the queued attempts that wait for a login of one of the
// services. It looks through all outboxes, in pages: it is for the rare moment
// when a login is back.
func (s *Store) WaitingFor(ctx context.Context, services []string) ([]turns.OutboxEntry, error) {
	var waiting []turns.OutboxEntry
	for shard := range s.shards {
		k := shardKeys(shard)
		for cursor := uint64(0); ; {
			page, next, err := s.rdb.ZScan(ctx, k.outbox(), cursor, "", 500).Result()
			if err != nil {
				return nil, fmt.Errorf("read the outbox: %w", err)
			}
			for i := 0; i+1 < len(page); i += 2 {
				v, err := s.rdb.HMGet(ctx, k.attempt(page[i]), "cause", "service").Result()
				if err != nil {
					return nil, fmt.Errorf("read attempt %s: %w", page[i], err)
				}
				if v[0] != string(turns.CauseWait) || !slices.Contains(services, fmt.Sprint(v[1])) {
					continue
				}
				w, err := s.Waiter(ctx, page[i])
				if errors.Is(err, ErrNotFound) {
					continue
				}
				if err != nil {
					return nil, err
				}
				waiting = append(waiting, w.Entry)
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return waiting, nil
}
