package tasks

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// HurryChannel is the channel on which the command line says that a request to a
// live run was stored. Workers then renew at once and find it.
const HurryChannel = "rota:hurry"

// Hurry tells the workers that a request to the run of an attempt was stored. A
// lost message only delays it until the run's next renewal.
func Hurry(ctx context.Context, rdb redis.UniversalClient, attempt string) error {
	return rdb.Publish(ctx, HurryChannel, attempt).Err()
}
