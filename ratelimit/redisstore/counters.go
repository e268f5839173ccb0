package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

// Limits in Buckets have counters in place of a log: see take.lua. A ring is the counters of one width and number of
// buckets, "60.9zldr4" in base 36 the field of one sub-window of it.

// ringOf names the ring of a limit.
func ringOf(l *ratelimit.Limit) string {
	return strconv.Itoa(l.Buckets) + "x" + strconv.FormatInt(l.Width().Microseconds(), 36)
}

// base is that of numbers in the names of fields.
const base = 36

// countersKey is the Redis key of counters beside that of the log. The hash tag is the whole key of the log, so that both lie
// in one slot of a Cluster.
func countersKey(key string) string { return "{" + key + "}~" }

// refundKey is where it is noted that a request has been refunded from counters.
func refundKey(key string, id uuid.UUID) string { return countersKey(key) + id.String() }

// kinds says which of the two a claim needs.
func kinds(c *ratelimit.Claim) (lists, counts bool) {
	for i := range c.Limits {
		if c.Limits[i].Buckets == 0 {
			lists = true
		} else {
			counts = true
		}
	}
	return lists, counts
}

// counted names the sub-windows, on the server's clock in µs, in which the limits of a claim have counted it.
func counted(c *ratelimit.Claim, now int64) string {
	lists, counts := kinds(c)
	if !counts {
		return ""
	}
	var names []byte
	if lists {
		names = append(names, listed...)
	}
	for i := range c.Limits {
		l := &c.Limits[i]
		if l.Buckets == 0 {
			continue
		}
		if len(names) > 0 {
			names = append(names, ' ')
		}
		names = append(append(names, ringOf(l)...), '.')
		names = strconv.AppendInt(names, now/l.Width().Microseconds(), base)
	}
	return string(names)
}

// listed begins the Counters of a ticket whose request is in the log as well.
const listed = "log"

func isListed(t ratelimit.Ticket) bool {
	return t.Counters == "" || strings.HasPrefix(t.Counters, listed)
}

// subWindow is one of those that counted has named.
type subWindow struct {
	ring   string
	number int64
	width  time.Duration
	leaves time.Duration // after its beginning
}

func parseSubWindow(name string) (w subWindow, err error) {
	ring, number, ok := strings.Cut(name, ".")
	buckets, width, also := strings.Cut(ring, "x")
	n, err1 := strconv.ParseInt(number, base, 64)
	k, err2 := strconv.ParseInt(buckets, 10, 64)
	micros, err3 := strconv.ParseInt(width, base, 64)
	limit := ratelimit.Limit{MaxRequests: 1, Window: time.Duration(k*micros) * time.Microsecond, Buckets: int(k)}
	if !ok || !also || err1 != nil || err2 != nil || err3 != nil || limit.Validate() != nil {
		return w, fmt.Errorf("redisstore: %w ticket: %q names no counter", ratelimit.ErrInvalid, name)
	}
	return subWindow{ring, n, limit.Width(), limit.Span()}, nil
}

// refundCounters takes a request off its counters, once.
func (s *Store) refundCounters(ctx context.Context, key string, ticket ratelimit.Ticket) error {
	var most time.Duration
	var rings []any
	for name := range strings.FieldsSeq(strings.TrimPrefix(ticket.Counters, listed)) {
		w, err := parseSubWindow(name)
		if err != nil {
			return err
		}
		most = max(most, w.leaves)
		rings = append(rings, w.ring, w.number, w.width.Microseconds())
	}
	args := append([]any{ticket.Cost, most.Milliseconds() + 1}, rings...)
	keys := []any{countersKey(s.key(key)), refundKey(s.key(key), ticket.ID)}
	return explain(repeat(ctx, func() error {
		_, err := s.refund.run(ctx, s.client, keys, args)
		return err
	}))
}
