package ratelimit_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

// BenchmarkMemory is Limiter.Allow on the memory store, by one goroutine and by as many as there are cores.
func BenchmarkMemory(b *testing.B) {
	for _, bench := range []memoryBench{
		{name: "one key denied", keys: 1, limits: []ratelimit.Limit{{MaxRequests: 100, Window: time.Second}}, denied: true},
		{name: "one key allowed", keys: 1, limits: []ratelimit.Limit{{MaxRequests: 1_000_000, Window: time.Millisecond}}},
		{name: "1000 keys allowed", keys: 1000, limits: []ratelimit.Limit{{MaxRequests: 1_000_000, Window: 10 * time.Millisecond}}},
		{name: "1000000 keys allowed", keys: 1_000_000, limits: []ratelimit.Limit{{MaxRequests: 1_000_000, Window: time.Hour}}},
		{name: "three limits", keys: 1000, limits: []ratelimit.Limit{
			{MaxRequests: 1_000_000, Window: 10 * time.Millisecond},
			{MaxRequests: 900_000, Window: 8 * time.Millisecond},
			{MaxRequests: 800_000, Window: 6 * time.Millisecond},
		}},
	} {
		b.Run(bench.name, bench.run)
	}
}

// BenchmarkMemoryGrowth is a decision on a log that is full of as many entries as its limit allows: one is given back,
// another is taken.
func BenchmarkMemoryGrowth(b *testing.B) {
	for _, most := range []int{10, 10_000} {
		b.Run("limit "+strconv.Itoa(most), func(b *testing.B) {
			lim, _ := ratelimit.New(ratelimit.Config{})
			// As many requests as fit into a window of that many of them: the log stays about full, and its oldest leave.
			limits := []ratelimit.Limit{{MaxRequests: most, Window: max(time.Duration(most)*300*time.Nanosecond/time.Microsecond*time.Microsecond, ratelimit.MinWindow)}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := lim.Allow(b.Context(), "k", limits...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// memoryBench asks for keys in turn. It asserts its own workload: that nearly all is denied, or all is allowed.
type memoryBench struct {
	name   string
	keys   int
	limits []ratelimit.Limit
	denied bool
}

func (m memoryBench) run(b *testing.B) {
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		b.Fatal(err)
	}
	keys := make([]string, m.keys)
	for i := range keys {
		keys[i] = ratelimit.Key("login", strconv.Itoa(i)+"@example.com")
	}
	ctx := b.Context()
	ask := func(i int) {
		if d, err := lim.Allow(ctx, keys[i%len(keys)], m.limits...); err != nil || !m.denied && !d.Allowed {
			b.Fatal(d, err)
		}
	}
	for i := range keys {
		ask(i)
	}
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			ask(i)
			i++
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		var goroutines atomic.Int64
		b.RunParallel(func(p *testing.PB) {
			i := int(goroutines.Add(1)) * len(keys) / 3
			for p.Next() {
				ask(i)
				i++
			}
		})
	})
	b.Cleanup(func() {
		stats := lim.Stats()
		if n := stats.Allowed[ratelimit.Counted]; m.denied && n > 100+100*uint64(b.Elapsed()/time.Second+10) {
			b.Errorf("%d were allowed", n)
		}
	})
}
