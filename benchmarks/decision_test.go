package benchmarks

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// BenchmarkMemory is Limiter.Allow on the memory store.
func BenchmarkMemory(b *testing.B) {
	b.Run("one key, allowed", func(b *testing.B) {
		decide(b, nil, 1, ratelimit.Limit{MaxRequests: 1_000_000, Window: time.Millisecond}, false)
	})
	b.Run("one key, denied", func(b *testing.B) {
		decide(b, nil, 1, ratelimit.Limit{MaxRequests: 100, Window: time.Hour}, true)
	})
	b.Run("100000 keys, allowed", func(b *testing.B) {
		decide(b, nil, 100_000, ratelimit.Limit{MaxRequests: 1_000_000, Window: time.Minute}, false)
	})
}

// BenchmarkRedis is Limiter.Allow on a real server, beside a PING through the same client: the floor of one
// round trip.
func BenchmarkRedis(b *testing.B) {
	client := redistest.Start(b).Client()
	b.Run("PING", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := client.Ping(context.Background()).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	store := redisstore.New(client)
	b.Run("100000 keys, allowed", func(b *testing.B) {
		decide(b, store, 100_000, ratelimit.Limit{MaxRequests: 1_000_000, Window: time.Minute}, false)
	})
	b.Run("one key, denied", func(b *testing.B) {
		decide(b, store, 1, ratelimit.Limit{MaxRequests: 100, Window: time.Hour}, true)
	})
}

// decide asks for keys in turn. Either all but the first requests are denied, or none is.
func decide(b *testing.B, store ratelimit.Store, keys int, limit ratelimit.Limit, denied bool) {
	lim, err := ratelimit.New(ratelimit.Config{Store: store, Timeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	names := make([]string, keys)
	for i := range names {
		names[i] = ratelimit.Key(b.Name(), strconv.Itoa(i))
	}
	limits, ctx := []ratelimit.Limit{limit}, context.Background()
	allowed, n := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		d, err := lim.Allow(ctx, names[n%keys], limits...)
		if err != nil || d.Reason == ratelimit.FailedOpen {
			b.Fatal(d, err)
		}
		if d.Allowed {
			allowed++
		}
		n++
	}
	if want := n; !denied && allowed != want {
		b.Fatalf("%d of %d were allowed, want all", allowed, n)
	}
	if denied && allowed != min(n, limit.MaxRequests) && allowed != 0 { // 0: a run before this one used the quota
		b.Fatalf("%d of %d were allowed, want %d", allowed, n, limit.MaxRequests)
	}
}
