package ratelimit_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/oracle"
)

// Random schedules of everything that can go wrong, judged by the oracle.

// inRandomWorlds plays test in one bubble, each time with an empty Redis. (rapid asks for a deadline, which a bubble
// has not.)
func inRandomWorlds(t *testing.T, test func(t *rapid.T, w *world)) {
	inWorld(t, func(w *world) {
		rapid.Check(struct{ rapid.TB }{w.T}, func(t *rapid.T) {
			w.set("")
			w.begin()
			test(t, w)
		})
	})
}

var nemesis = map[string]func(*world, *rapid.T){
	"it does not answer":    func(w *world, _ *rapid.T) { w.set(silent) },
	"it is loading":         func(w *world, _ *rapid.T) { w.set("LOADING Redis is loading the dataset in memory") },
	"it is read only":       func(w *world, _ *rapid.T) { w.set("READONLY You can't write against a read only replica.") },
	"it is well":            func(w *world, _ *rapid.T) { w.set("") },
	"it is well again":      func(w *world, _ *rapid.T) { w.set("") },
	"it begins anew":        func(w *world, _ *rapid.T) { w.begin() },
	"it evicts the key":     func(w *world, _ *rapid.T) { w.redis.Del("rate_limit:k") },
	"its clock jumps ahead": func(w *world, t *rapid.T) { w.jump(seconds(1, 100).Draw(t, "ahead")) },
	"its clock jumps back":  func(w *world, t *rapid.T) { w.jump(-seconds(1, 100).Draw(t, "back")) },
}

func seconds(from, to int) *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.IntRange(from*1000, to*1000).Draw(t, "ms")) * time.Millisecond
	})
}

// One process never allows more than the limit, whatever becomes of its store; several never more than that each.
func TestUnderFailLocalNoScheduleOfFaultsLetsAProcessAllowMoreThanTheLimit(t *testing.T) {
	const window = 10 * time.Second
	inRandomWorlds(t, func(t *rapid.T, w *world) {
		limit := ratelimit.Limit{MaxRequests: rapid.IntRange(1, 4).Draw(t, "limit"), Window: window}
		processes := make([]*ratelimit.Limiter, rapid.IntRange(1, 3).Draw(t, "processes"))
		for i := range processes {
			processes[i] = w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal, Timeout: 80 * time.Millisecond})
		}
		defer func() {
			for _, p := range processes {
				p.Close()
			}
		}()
		h := oracle.History{Clock: oracle.Clock{Drift: 1e-3}} // the allowance for two clocks
		start := time.Now()
		actions := map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				lim := processes[rapid.IntRange(0, len(processes)-1).Draw(t, "process")]
				for range rapid.IntRange(1, 6).Draw(t, "times") {
					began := time.Since(start)
					d, err := lim.Allow(context.Background(), "k", limit)
					if err != nil {
						t.Fatal(err)
					}
					if d.Allowed {
						h.Allowed = append(h.Allowed, oracle.Interval{Begin: began, End: time.Since(start)})
					}
				}
			},
			"wait a moment": func(t *rapid.T) { time.Sleep(seconds(0, 1).Draw(t, "for")) },
			"wait":          func(t *rapid.T) { time.Sleep(seconds(0, 11).Draw(t, "for")) },
		}
		for name, fault := range nemesis {
			actions[name] = func(t *rapid.T) { fault(w, t) }
		}
		t.Repeat(actions)
		report := oracle.Check(h, limit.MaxRequests*len(processes), window)
		if report.Verdict != oracle.Lawful {
			t.Fatalf("%d processes: %v", len(processes), report)
		}
	})
}

// In health every process answers as one plain list of timestamps does, from memory or not.
func TestInHealthAProcessThatRemembersDenialsAnswersAsAPlainListDoes(t *testing.T) {
	inRandomWorlds(t, func(t *rapid.T, w *world) {
		limits := []ratelimit.Limit{
			{MaxRequests: rapid.IntRange(1, 3).Draw(t, "short"), Window: 10 * time.Second},
			{MaxRequests: rapid.IntRange(2, 5).Draw(t, "long"), Window: time.Minute},
		}
		processes := []*ratelimit.Limiter{w.process(ratelimit.Config{}), w.process(ratelimit.Config{})}
		type granted struct {
			at     time.Time
			by     *ratelimit.Limiter
			ticket ratelimit.Ticket
		}
		var log []granted
		// want is when a request is allowed: at the latest of what the limits say.
		want := func(now time.Time) (retry time.Duration) {
			for _, l := range limits {
				in := slices.DeleteFunc(slices.Clone(log), func(g granted) bool { return now.Sub(g.at) >= l.Window })
				if over := len(in) + 1 - l.MaxRequests; over > 0 {
					retry = max(retry, in[over-1].at.Add(l.Window).Sub(now))
				}
			}
			return retry
		}
		var last time.Duration
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				lim := rapid.SampledFrom(processes).Draw(t, "process")
				now := time.Now()
				d, err := lim.Allow(context.Background(), "k", limits...)
				last = want(now)
				if err != nil || d.Allowed != (last == 0) || d.RetryAfter != last {
					t.Fatalf("got %+v, %v; want a wait of %v", d, err, last)
				}
				if d.Allowed {
					log = append(log, granted{now, lim, d.Ticket})
				}
			},
			"wait to the edge": func(t *rapid.T) {
				time.Sleep(last + rapid.SampledFrom([]time.Duration{-time.Microsecond, 0, time.Microsecond}).Draw(t, "and"))
			},
			"wait": func(t *rapid.T) { time.Sleep(seconds(0, 20).Draw(t, "for")) },
			"refund": func(t *rapid.T) {
				if len(log) == 0 {
					t.Skip("nothing to refund")
				}
				i := rapid.IntRange(0, len(log)-1).Draw(t, "which")
				if d, _ := processes[0].Peek(context.Background(), "k", limits...); !d.Allowed {
					t.Skip("other processes remember the denial") // which is what AskAlways is for
				}
				if d, _ := processes[1].Peek(context.Background(), "k", limits...); !d.Allowed {
					t.Skip("other processes remember the denial")
				}
				if err := log[i].by.Refund(context.Background(), "k", log[i].ticket); err != nil {
					t.Fatal(err)
				}
				log = slices.Delete(log, i, i+1)
			},
		})
	})
}
