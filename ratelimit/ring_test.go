package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// Two real servers, one of which is frozen.
func TestAFrozenServerDoesNotOpenTheBreakerOfAnother(t *testing.T) {
	a, b := redistest.Start(t), redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:                 map[string]string{"a": a.Addr(), "b": b.Addr()},
		HeartbeatFrequency:    time.Hour,
		ContextTimeoutEnabled: true,
	})
	defer ring.Close()
	store := redisstore.New(ring)
	lim := newLimiter(t, ratelimit.Config{Store: store})
	var onA, onB []string
	for i := range 100 {
		k := fmt.Sprint("k", i)
		lim.Allow(t.Context(), k, fivePerHour)
		if store.Server(k) == a.Addr() {
			onA = append(onA, k)
		} else {
			onB = append(onB, k)
		}
	}
	b.Freeze()
	defer b.Thaw()
	claim := func(k string) ratelimit.Claim {
		return ratelimit.Claim{Key: k, Limits: []ratelimit.Limit{fivePerHour}, Cost: 1}
	}
	for i := range 3 {
		ds, _ := lim.AllowAll(t.Context(), claim(onA[i]), claim(onB[i]))
		t.Log(ds[0].Reason, ds[1].Reason)
	}
	if d, _ := lim.Allow(t.Context(), onA[9], fivePerHour); d.Reason != ratelimit.Counted {
		t.Errorf("server a is well: %+v", d)
	}
}
