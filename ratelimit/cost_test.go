package ratelimit_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

func TestADecisionOnAKnownKeyAllocatesNothing(t *testing.T) {
	wide := []ratelimit.Limit{{MaxRequests: 1000, Window: time.Hour}, {MaxRequests: 500, Window: time.Minute}}
	narrow := ratelimit.Limit{MaxRequests: 1, Window: time.Hour}
	lim := newLimiter(t, ratelimit.Config{})
	ctx := t.Context()
	knock(t, lim, "denied", narrow)
	knock(t, lim, "dear", narrow)
	claims := []ratelimit.Claim{{Key: "a", Limits: wide, Cost: 1}, {Key: "b", Limits: wide[:1], Cost: 1}}
	decisions := make([]ratelimit.Decision, len(claims))
	for name, decide := range map[string]func(){
		"allowed":         func() { lim.Allow(ctx, "allowed", wide...) },
		"allowed, spread": func() { lim.Allow(ctx, "spread", ratelimit.Limit{MaxRequests: 1000, Window: time.Hour}) },
		"denied":          func() { lim.Allow(ctx, "denied", narrow) },
		"denied under the lock": func() {
			lim.AllowN(ctx, "dear", 2, ratelimit.Limit{MaxRequests: 2, Window: time.Hour})
		},
		"a look":         func() { lim.Peek(ctx, "allowed", wide...) },
		"several claims": func() { lim.Take(ctx, claims, decisions) },
		"one claim":      func() { lim.Take(ctx, claims[:1], decisions[:1]) },
	} {
		for range 70 { // the ring has grown to 128 by then, and is not full in the end
			decide()
		}
		if n := testing.AllocsPerRun(50, decide); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestAKeyWithThreeEntriesTakesAtMost150BytesAndItsString(t *testing.T) {
	const keys = 100_000
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("login:%d@example.com", i)
	}
	m := ratelimit.NewMemoryStore(ratelimit.MemoryConfig{})
	lim := newLimiter(t, ratelimit.Config{Store: m})
	before := heap()
	for range 3 {
		for _, name := range names {
			if !knock(t, lim, name, threePerMinute).Allowed {
				t.Fatal("it must be allowed")
			}
		}
	}
	perKey := float64(heap()-before) / keys
	t.Logf("%.0f bytes a key", perKey)
	if m.Entries() != 3*keys || perKey > 150 {
		t.Errorf("%d entries, %.0f bytes a key", m.Entries(), perKey)
	}
	runtime.KeepAlive(names)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestNoTwoTicketsAreAlike(t *testing.T) {
	seen := map[uuid.UUID]bool{}
	for range 3 {
		lim := newLimiter(t, ratelimit.Config{})
		for i := range 1000 {
			id := knock(t, lim, fmt.Sprint("k", i%100), ratelimit.Limit{MaxRequests: 100, Window: time.Hour}).Ticket.ID
			if seen[id] || id.Version() != 8 || id.Variant() != uuid.RFC4122 {
				t.Fatalf("%v, of version %v, seen %v", id, id.Version(), seen[id])
			}
			seen[id] = true
		}
	}
}

func TestMoreWindowsThanAShardKeepsApartAreCountedAllTheSame(t *testing.T) {
	t.Parallel()
	m := newMemory(1000)
	const windows = ratelimit.MaxQueues + 100
	limit := func(i int) ratelimit.Limit {
		return ratelimit.Limit{MaxRequests: 2, Window: time.Minute + time.Duration(i)*time.Second}
	}
	for round := range 3 {
		for i := range windows {
			if d := m.allow(fmt.Sprint("k", i), limit(i)); d.Allowed != (round < 2) {
				t.Fatalf("round %d, window %d: %+v", round, i, d)
			}
		}
	}
	for i := range windows { // to a microsecond before each leaves
		m.advance(limit(i).Window - time.Microsecond - m.now.Sub(time.Unix(1_763_671_412, 345_678_000)))
		if d := m.allow(fmt.Sprint("k", i), limit(i)); d.Allowed || d.RetryAfter != time.Microsecond {
			t.Fatalf("window %d: %+v", i, d)
		}
		if m.allow("new", limit(0)); m.Len() > 1000 {
			t.Fatal("too many logs")
		}
	}
	for range 4 * windows {
		m.advance(10 * time.Second)
		m.allow("another", limit(0))
	}
	if n := m.Len(); n > 1 {
		t.Errorf("it holds %d logs in the end", n)
	}
}
