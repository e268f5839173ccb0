package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

// Limits in Buckets have counters in place of a log: see take.lua.

// ringOf names the counters of a limit, by its Buckets and their width in µs in base 36: "60xlfls".
func ringOf(l *ratelimit.Limit) string {
	return strconv.Itoa(l.Buckets) + "x" + strconv.FormatInt(l.Width().Microseconds(), 36)
}

// countersKey is the Redis key of counters beside that of the log. The hash tag is the whole key of the log, so that both lie
// in one slot of a Cluster.
func countersKey(key string) string { return "{" + key + "}~" }

// refundKey is where it is noted that a request has been refunded from counters.
func refundKey(key string, id uuid.UUID) string { return countersKey(key) + id.String() }

// refundCounters takes a request off its counters, once.
func (s *Store) refundCounters(ctx context.Context, key string, ticket ratelimit.Ticket, windows []ratelimit.SubWindow) error {
	var longest time.Duration
	var rings []any
	for i := range windows {
		w := &windows[i]
		longest = max(longest, w.Span())
		rings = append(rings, ringOf(&w.Limit), w.Number, w.Width().Microseconds())
	}
	args := append([]any{ticket.Cost, longest.Milliseconds() + 1}, rings...)
	keys := []any{countersKey(key), refundKey(key, ticket.ID)}
	return repeat(ctx, func() error {
		_, err := s.refund.run(ctx, s.client, keys, args)
		return err
	})
}
