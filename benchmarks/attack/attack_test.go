package attack_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/benchmarks/attack"
	"github.com/sashlimit/sash/ratelimit"
)

var limit = ratelimit.Limit{MaxRequests: 40, Window: 500 * time.Millisecond}

// window allows so many requests of each key in a window that begins with the first.
type window struct {
	mu    sync.Mutex
	began map[string]time.Time
	count map[string]int
}

func (w *window) Allow(_ context.Context, key string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.began[key]) >= limit.Window {
		w.began[key], w.count[key] = now, 0
	}
	w.count[key]++
	return w.count[key] <= limit.MaxRequests, nil
}

func TestAFixedWindowIsConvictedAtItsEdge(t *testing.T) {
	t.Parallel()
	r := attack.On(&window{began: make(map[string]time.Time), count: make(map[string]int)}, "", limit)
	if r.Burst.Most != limit.MaxRequests || r.Boundary.Most < limit.MaxRequests*3/2 {
		t.Errorf("a burst got %d, the edge %d, at a limit of %d", r.Burst.Most, r.Boundary.Most, limit.MaxRequests)
	}
}

// sash is a Limiter with one limit.
type sash struct{ *ratelimit.Limiter }

func (s sash) Allow(ctx context.Context, key string) (bool, error) {
	d, err := s.Limiter.Allow(ctx, key, limit)
	return d.Allowed, err
}

func TestAnExactLimiterIsAcquitted(t *testing.T) {
	t.Parallel()
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer lim.Close()
	r := attack.On(sash{lim}, "", limit)
	for name, f := range map[string]attack.Found{"burst": r.Burst, "boundary": r.Boundary, "paced": r.Paced} {
		if f.Most > limit.MaxRequests || f.Needless > 0 || f.Failed > 0 || f.Denied == 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// denies denies everything.
type denies struct{}

func (denies) Allow(context.Context, string) (bool, error) { return false, nil }

func TestWhoDeniesAllDeniesNeedlessly(t *testing.T) {
	t.Parallel()
	if w := attack.On(denies{}, "", limit).Worst(); w.Needless != w.Denied || w.Most != 0 {
		t.Errorf("%+v", w)
	}
}
