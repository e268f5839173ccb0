package ratelimit_test

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sashlimit/sash/ratelimit"
)

// inMemory runs test in a bubble with a Limiter on a memory store of its own.
func inMemory(t *testing.T, test func(t *testing.T, lim *ratelimit.Limiter, m *ratelimit.MemoryStore)) {
	synctest.Test(t, func(t *testing.T) {
		m := ratelimit.NewMemoryStore(ratelimit.MemoryConfig{})
		test(t, newLimiter(t, ratelimit.Config{Store: m}), m)
	})
}

// knock takes one request on key.
func knock(t *testing.T, lim *ratelimit.Limiter, key string, limits ...ratelimit.Limit) ratelimit.Decision {
	t.Helper()
	d, err := lim.Allow(context.Background(), key, limits...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// shut knocks until key is denied, which is then published, and returns what was allowed.
func shut(t *testing.T, lim *ratelimit.Limiter, m *ratelimit.MemoryStore, key string, limits ...ratelimit.Limit) (allowed []ratelimit.Decision) {
	t.Helper()
	for {
		d := knock(t, lim, key, limits...)
		if !d.Allowed {
			break
		}
		allowed = append(allowed, d)
	}
	if !m.Publishes(key) {
		t.Fatalf("the denial of %s is not published", key)
	}
	return allowed
}

func TestAPublishedDenialHoldsUntilTheMicrosecondThatTheFirstDenialNamed(t *testing.T) {
	inMemory(t, func(t *testing.T, lim *ratelimit.Limiter, m *ratelimit.MemoryStore) {
		shut(t, lim, m, "k", threePerMinute)
		for wait := time.Minute; wait > 0; { // to the middle of what is left, and at last to the very end
			want := ratelimit.Decision{Limit: threePerMinute, RetryAfter: wait, ResetAfter: wait, Reason: ratelimit.Exhausted}
			if d := knock(t, lim, "k", threePerMinute); !reflect.DeepEqual(d, want) {
				t.Fatalf("%v before the end:\n got %+v\nwant %+v", wait, d, want)
			}
			step := max((wait / 2).Truncate(time.Microsecond), time.Microsecond)
			time.Sleep(step)
			wait -= step
		}
		if d := knock(t, lim, "k", threePerMinute); !d.Allowed || d.Remaining != 2 {
			t.Errorf("at the end: %+v", d)
		}
	})
}

func TestWhatEndsADenialEndsItAtOnceThoughItIsPublished(t *testing.T) {
	for name, change := range map[string]func(lim *ratelimit.Limiter, first ratelimit.Ticket) error{
		"a refund": func(lim *ratelimit.Limiter, first ratelimit.Ticket) error {
			return lim.Refund(context.Background(), "k", first)
		},
		"a reset": func(lim *ratelimit.Limiter, _ ratelimit.Ticket) error { return lim.Reset(context.Background(), "k") },
		// Other limits forget what has left their own window: this is said of Claim.Keep.
		"another claim with a shorter window": func(lim *ratelimit.Limiter, _ ratelimit.Ticket) error {
			_, err := lim.Allow(context.Background(), "k", ratelimit.Limit{MaxRequests: 9, Window: time.Second})
			return err
		},
	} {
		inMemory(t, func(t *testing.T, lim *ratelimit.Limiter, m *ratelimit.MemoryStore) {
			first := shut(t, lim, m, "k", threePerMinute)[0]
			time.Sleep(2 * time.Second)
			if err := change(lim, first.Ticket); err != nil {
				t.Fatal(err)
			}
			if d := knock(t, lim, "k", threePerMinute); !d.Allowed {
				t.Errorf("after %s: %+v", name, d)
			}
		})
	}
}

func TestAPublishedDenialAnswersOnlyTheSameQuestion(t *testing.T) {
	inMemory(t, func(t *testing.T, lim *ratelimit.Limiter, m *ratelimit.MemoryStore) {
		shut(t, lim, m, "k", threePerMinute)
		two := ratelimit.Limit{MaxRequests: 3, Window: time.Hour}
		d, err := lim.AllowN(t.Context(), "k", 4, threePerMinute)
		if err != nil || d.Reason != ratelimit.TooCostly {
			t.Errorf("a cost above the limit: %+v, %v", d, err)
		}
		if d := knock(t, lim, "k", threePerMinute, two); d.Allowed || d.Limit != two || d.RetryAfter != time.Hour {
			t.Errorf("one limit more, with a longer wait: %+v", d)
		}
		if d := knock(t, lim, "k", threePerMinute); d.Allowed || d.RetryAfter != time.Minute {
			t.Errorf("and without it: %+v", d)
		}
		if d := knock(t, lim, "k", fivePerHour); !d.Allowed {
			t.Errorf("another limit, which leaves room: %+v", d)
		}
		if d, err := lim.Peek(t.Context(), "k", threePerMinute); err != nil || d.Allowed || d.Reason != ratelimit.Exhausted {
			t.Errorf("a look: %+v, %v", d, err)
		}
		if _, err := lim.AllowN(t.Context(), "k", -1, threePerMinute); err == nil {
			t.Error("a negative cost is no error")
		}
	})
}

// A key that is not its own canonical form must not be taken for the one that is.
func TestADenialIsNeverThatOfAnotherKey(t *testing.T) {
	inMemory(t, func(t *testing.T, lim *ratelimit.Limiter, m *ratelimit.MemoryStore) {
		for range 4 {
			knock(t, lim, "a b", threePerMinute) // kept as ":a%20b"
		}
		if d := knock(t, lim, ":a%20b", threePerMinute); !d.Allowed {
			t.Errorf("got %+v", d)
		}
		secret := newLimiter(t, ratelimit.Config{Store: m, KeySecret: make([]byte, 16)})
		shut(t, lim, m, "k", threePerMinute)
		if d := knock(t, secret, "k", threePerMinute); !d.Allowed {
			t.Errorf("under a secret it is another key: %+v", d)
		}
	})
}

func TestAStoreOnAClockThatMayStepBackPublishesNothing(t *testing.T) {
	t.Parallel()
	m := newMemory(0)
	lim := newLimiter(t, ratelimit.Config{Store: m.MemoryStore})
	for range 4 {
		knock(t, lim, "k", onePerMinute)
	}
	m.advance(-time.Hour)
	if d := knock(t, lim, "k", onePerMinute); m.Publishes("k") || d.RetryAfter != time.Minute {
		t.Errorf("got %+v", d)
	}
}

func TestMoreKeysThanDenialsArePublishedAreAllDenied(t *testing.T) {
	inMemory(t, func(t *testing.T, lim *ratelimit.Limiter, m *ratelimit.MemoryStore) {
		const keys = 20_000
		for range 2 { // in the second round others' denials are over, and their places free
			published := 0
			for i := range keys {
				key := fmt.Sprint("k", i)
				for !m.Publishes(key) && knock(t, lim, key, onePerMinute).Allowed {
				}
				if m.Publishes(key) {
					published++
				}
			}
			for i := range keys {
				if d := knock(t, lim, fmt.Sprint("k", i), onePerMinute); d.Allowed || d.RetryAfter != time.Minute {
					t.Fatalf("k%d: %+v", i, d)
				}
			}
			if published < 250 || published == keys {
				t.Errorf("%d of %d denials are published", published, keys)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestAPublishedDenialNamesTheLimitThatBindsNow(t *testing.T) {
	inMemory(t, func(t *testing.T, lim *ratelimit.Limiter, _ *ratelimit.MemoryStore) {
		limits := []ratelimit.Limit{twoPerTenSeconds, {MaxRequests: 3, Window: time.Hour}}
		want := []ratelimit.Limit{limits[1], limits[0], limits[0], limits[0], limits[1], limits[1], limits[1]}
		for i, limit := range want {
			if i == 4 {
				time.Sleep(twoPerTenSeconds.Window)
			}
			if d := knock(t, lim, "k", limits...); i >= 2 && d.Limit != limit {
				t.Errorf("request %d: %+v, want it bound by %v", i+1, d, limit)
			}
		}
	})
}

func TestARequestUnderAnotherLimitEndsAPublishedDenial(t *testing.T) {
	inMemory(t, func(t *testing.T, lim *ratelimit.Limiter, _ *ratelimit.MemoryStore) {
		knock(t, lim, "k", onePerMinute)
		knock(t, lim, "k", onePerMinute) // is denied for a minute
		time.Sleep(10 * time.Second)
		if d := knock(t, lim, "k", threePerMinute); !d.Allowed {
			t.Errorf("%+v", d)
		}
		if d := knock(t, lim, "k", onePerMinute); d.RetryAfter != time.Minute {
			t.Errorf("%+v, want to wait until what was allowed last has left", d)
		}
	})
}

func TestALogLastsForTheLongestWindowThatAsksForIt(t *testing.T) {
	inMemory(t, func(t *testing.T, lim *ratelimit.Limiter, _ *ratelimit.MemoryStore) {
		twoPerHour := ratelimit.Limit{MaxRequests: 2, Window: time.Hour}
		for i := range 1000 { // every shard has keys of both kinds
			knock(t, lim, "h"+strconv.Itoa(i), twoPerHour)
		}
		knock(t, lim, "k", onePerMinute)
		knock(t, lim, "k", twoPerHour)
		for range 3 { // its shard cleans up meanwhile
			time.Sleep(2 * time.Minute)
			for i := range 1000 {
				knock(t, lim, strconv.Itoa(i), onePerMinute)
			}
		}
		if d := knock(t, lim, "k", twoPerHour); d.Allowed {
			t.Errorf("%+v: two were allowed in this hour", d)
		}
	})
}

// A store on a clock of its own decides under its locks alone. Whatever is done, it and one that publishes denials must
// give the same answers.
func TestPublishedDenialsChangeNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) { // rapid asks for a deadline, which a bubble has not
			lim := newLimiter(t, ratelimit.Config{})
			plain := newLimiter(t, ratelimit.Config{Store: ratelimit.NewMemoryStore(ratelimit.MemoryConfig{Now: time.Now})})
			counted := ratelimit.Limit{MaxRequests: 2, Window: time.Minute, Buckets: 6}
			rules := [][]ratelimit.Limit{{onePerMinute}, {threePerMinute}, {threePerMinute, fivePerHour}, {fivePerHour, twoPerTenSeconds}, {fivePerHour}, {counted}}
			type pair struct {
				key  string
				a, b ratelimit.Ticket
			}
			var written []pair
			wait := time.Second
			take := func(rt *rapid.T, claims ...ratelimit.Claim) {
				got, err := lim.AllowAll(t.Context(), claims...)
				want, plainErr := plain.AllowAll(t.Context(), claims...)
				if err != nil || plainErr != nil {
					rt.Fatal(err, plainErr)
				}
				for i := range got {
					if got[i].Reason == ratelimit.Counted {
						written = append(written, pair{claims[i].Key, got[i].Ticket, want[i].Ticket})
					}
					wait = max(got[i].RetryAfter, got[i].ResetAfter, time.Microsecond)
					got[i].Ticket, want[i].Ticket = ratelimit.Ticket{}, ratelimit.Ticket{}
				}
				if !reflect.DeepEqual(got, want) {
					rt.Fatalf("%+v:\n got %+v\nwant %+v", claims, got, want)
				}
			}
			claim := func(rt *rapid.T, key string, cost int) ratelimit.Claim {
				return ratelimit.Claim{
					Key: key, Limits: rapid.SampledFrom(rules).Draw(rt, "limits"), Cost: cost,
					Keep: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(rt, "keep"), Counts: rapid.Bool().Draw(rt, "counts"),
				}
			}
			keys := rapid.SampledFrom([]string{"a", "b"})
			rt.Repeat(map[string]func(*rapid.T){
				"knock": func(rt *rapid.T) { take(rt, claim(rt, keys.Draw(rt, "key"), 1)) },
				"ask":   func(rt *rapid.T) { take(rt, claim(rt, keys.Draw(rt, "key"), rapid.IntRange(0, 6).Draw(rt, "cost"))) },
				"both":  func(rt *rapid.T) { take(rt, claim(rt, "a", 1), claim(rt, "b", rapid.IntRange(0, 2).Draw(rt, "cost"))) },
				"sleep": func(rt *rapid.T) {
					time.Sleep(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, wait - time.Microsecond, wait}).Draw(rt, "for"))
				},
				"refund": func(rt *rapid.T) {
					if len(written) > 0 {
						w := rapid.SampledFrom(written).Draw(rt, "of")
						lim.Refund(t.Context(), w.key, w.a)
						plain.Refund(t.Context(), w.key, w.b)
					}
				},
				"reset": func(rt *rapid.T) {
					key := keys.Draw(rt, "key")
					lim.Reset(t.Context(), key)
					plain.Reset(t.Context(), key)
				},
			})
		})
	})
}

// While others read its denial without a lock, a refund that has returned is seen by the next request.
func TestARefundIsSeenAtOnceWhateverOthersRead(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t, ratelimit.Config{})
	onePerHour := ratelimit.Limit{MaxRequests: 1, Window: time.Hour}
	done := make(chan struct{})
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					lim.Peek(t.Context(), "k", onePerHour)
				}
			}
		})
	}
	for range 2000 {
		d := knock(t, lim, "k", onePerHour)
		if !d.Allowed || knock(t, lim, "k", onePerHour).Allowed {
			t.Errorf("after a refund: %+v", d)
			break
		}
		if err := lim.Refund(t.Context(), "k", d.Ticket); err != nil {
			t.Error(err)
		}
	}
	close(done)
	others.Wait()
}
