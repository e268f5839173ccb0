package redisstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

func TestEventsAreCountedForAllProcessesTogether(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var processes [2]*ratelimit.Limiter
	for i := range processes {
		lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(server.Client()), Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { lim.Close() })
		processes[i] = lim
	}
	here, there, ctx := processes[0], processes[1], t.Context()
	must := func(got []int, err error) func(want ...int) {
		return func(want ...int) {
			t.Helper()
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("got %v, %v; want %v", got, err, want)
			}
		}
	}
	must(here.Record(ctx, "orders", 1, time.Hour, 24*time.Hour))(1, 1)
	must(there.Record(ctx, "orders", 1_000_000, time.Hour, 24*time.Hour))(1_000_001, 1_000_001)
	must(here.Count(ctx, "orders", 24*time.Hour, time.Hour))(1_000_001, 1_000_001)
	must(here.Count(ctx, "orders", time.Minute))(0) // it was not recorded

	must(here.RecordExactly(ctx, "exact", 3, time.Hour))(3)
	must(there.CountExactly(ctx, "exact", time.Minute, time.Hour))(3, 3)

	must(here.RecordDistinct(ctx, "card", "ann", time.Hour))(1)
	must(there.RecordDistinct(ctx, "card", "bob", time.Hour))(2)
	must(there.RecordDistinct(ctx, "card", "ann", time.Hour))(2)
	must(here.CountExactly(ctx, "card", time.Hour))(2)

	if err := there.Reset(ctx, "orders"); err != nil {
		t.Error(err)
	}
	must(here.Count(ctx, "orders", time.Hour, 24*time.Hour))(0, 0)
	must(here.Record(ctx, "orders", 1, time.Hour, 24*time.Hour))(1, 1)
}
