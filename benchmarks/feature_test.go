package benchmarks

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
	"github.com/sashlimit/sash/ratelimit/redisstore"
	"github.com/sashlimit/sash/stdmw"
)

var (
	often    = []ratelimit.Limit{{MaxRequests: 1_000_000, Window: 10 * time.Millisecond}}
	windows3 = []ratelimit.Limit{{MaxRequests: 1_000_000, Window: 10 * time.Millisecond},
		{MaxRequests: 1_000_000, Window: 20 * time.Millisecond}, {MaxRequests: 1_000_000, Window: 30 * time.Millisecond}}
)

// features are declarations that differ from the first in one thing each, so that its price shows.
var features = []struct {
	name  string
	rules []sash.Rule
}{
	{"one rule", []sash.Rule{{Name: "r", KeyExpr: "ip", Limits: often}}},
	{"no name", []sash.Rule{{KeyExpr: "ip", Limits: often}}},
	{"three windows", []sash.Rule{{Name: "r", KeyExpr: "ip", Limits: windows3}}},
	{"three rules", []sash.Rule{{Name: "a", KeyExpr: "ip", Limits: often}, {Name: "b", KeyExpr: "request.path", Limits: often}, {Name: "c", KeyExpr: `"all"`, Limits: often}}},
	{"When", []sash.Rule{{Name: "r", KeyExpr: "ip", Limits: often, When: `request.method == "POST"`}}},
	{"Cost", []sash.Rule{{Name: "r", KeyExpr: "ip", Limits: often, Cost: `request.method == "POST" ? 1 : 2`}}},
	{"LimitsBy", []sash.Rule{{Name: "r", KeyExpr: "ip", LimitsBy: `request.method == "POST" ? "a" : "b"`,
		Plans: map[string][]ratelimit.Limit{"a": often, "b": often}}}},
	{"CountIf, counted", []sash.Rule{{Name: "r", KeyExpr: "ip", Limits: often, CountIf: "response.status < 500"}}},
	{"CountIf, refunded", []sash.Rule{{Name: "r", KeyExpr: "ip", Limits: often, CountIf: "response.status >= 500"}}},
	{"DryRun beside it", []sash.Rule{{Name: "r", KeyExpr: "ip", Limits: often}, {Name: "d", KeyExpr: "ip", Limits: often, DryRun: true}}},
}

// BenchmarkFeature is a whole request through stdmw over the memory store, for each thing that a Rule can say.
func BenchmarkFeature(b *testing.B) {
	for _, f := range features {
		b.Run(f.name, func(b *testing.B) {
			lim, err := ratelimit.New(ratelimit.Config{})
			if err != nil {
				b.Fatal(err)
			}
			serve(b, stdmw.Decorator{Limiter: lim}.Limit(f.rules...)(bare))
		})
	}
	b.Run("no header fields", func(b *testing.B) {
		lim, err := ratelimit.New(ratelimit.Config{})
		if err != nil {
			b.Fatal(err)
		}
		serve(b, stdmw.Decorator{Limiter: lim, Headers: headers.None}.Limit(features[0].rules...)(bare))
	})
	b.Run("Func", func(b *testing.B) {
		lim, err := ratelimit.New(ratelimit.Config{})
		if err != nil {
			b.Fatal(err)
		}
		f := sash.Func(lim, sash.Rule{Name: "r", KeyExpr: "Email", Limits: often}, func(context.Context, struct{ Email string }) (int, error) { return 0, nil })
		b.ReportAllocs()
		for b.Loop() {
			if _, err := f(b.Context(), struct{ Email string }{"a@example.com"}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

var bare = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// TestRoundTrips counts the commands that each declaration sends for one request, once the script is known.
func TestRoundTrips(t *testing.T) {
	want := map[string]int{"DryRun beside it": 2, "CountIf, refunded": 2}
	for _, f := range features {
		client := redistest.Start(t).Client()
		count := &counter{}
		lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(client), Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		h := stdmw.Decorator{Limiter: lim}.Limit(f.rules...)(bare)
		send := func() { h.ServeHTTP(&discard{header: http.Header{}}, newRequest()) }
		send()
		client.AddHook(count)
		send()
		if n := max(1, want[f.name]); count.commands != n {
			t.Errorf("%s: %d commands, want %d", f.name, count.commands, n)
		}
	}
}

// counter counts the commands that decide or refund. The Limiter asks for INFO once, in the background at some moment after
// the first answer, and that may need a second connection, with a handshake of its own.
type counter struct{ commands int }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch cmd.Name() {
		case "evalsha", "eval", "zrem":
			c.commands++
		}
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
