package ratelimit_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

// What a process remembers of its store's answers: denials, and what was allowed.

func TestADeniedFloodCostsTheStoreOneQuestion(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{})
		w.flood(lim, 3, "k", threePerMinute)
		time.Sleep(20 * time.Second)
		w.asked()
		first := w.allow(lim, "k", threePerMinute)
		if n := w.flood(lim, 10_000, "k", threePerMinute); n > 0 {
			t.Errorf("%d are allowed", n)
		}
		if n := w.asked(); n != 1 {
			t.Errorf("the store was asked %d times", n)
		}
		cached := w.allow(lim, "k", threePerMinute)
		first.Reason = ratelimit.CachedExhausted
		if fmt.Sprint(cached) != fmt.Sprint(first) {
			t.Errorf("from memory:\n got %+v\nwant %+v", cached, first)
		}
	})
}

func TestARememberedDenialEndsInTime(t *testing.T) {
	inWorld(t, func(w *world) {
		here, elsewhere := w.process(ratelimit.Config{}), w.process(ratelimit.Config{})
		w.allow(elsewhere, "k", onePerMinute)
		time.Sleep(time.Second)
		d := w.allow(here, "k", onePerMinute) // here nothing has been allowed, and a denial is remembered all the same
		time.Sleep(d.RetryAfter - time.Microsecond)
		if d := w.allow(here, "k", onePerMinute); d.Allowed || d.Reason != ratelimit.Exhausted {
			t.Errorf("a microsecond early: %+v, want a denial by the store, since two clocks may drift", d)
		}
		time.Sleep(time.Microsecond)
		if d := w.allow(here, "k", onePerMinute); !d.Allowed {
			t.Errorf("after the whole wait: %+v", d)
		}
	})
}

func TestARememberedDenialEndsWithARefundAResetAndOtherLimits(t *testing.T) {
	type change func(*ratelimit.Limiter, ratelimit.Ticket) (ratelimit.Limit, error)
	for name, change := range map[string]change{
		"a refund": func(lim *ratelimit.Limiter, t ratelimit.Ticket) (ratelimit.Limit, error) {
			return threePerMinute, lim.Refund(context.Background(), "k", t)
		},
		"a reset": func(lim *ratelimit.Limiter, _ ratelimit.Ticket) (ratelimit.Limit, error) {
			return threePerMinute, lim.Reset(context.Background(), "k")
		},
		"another limit": func(*ratelimit.Limiter, ratelimit.Ticket) (ratelimit.Limit, error) { return fivePerHour, nil },
	} {
		inWorld(t, func(w *world) {
			lim := w.process(ratelimit.Config{})
			granted := w.allow(lim, "k", threePerMinute)
			if w.flood(lim, 5, "k", threePerMinute) != 2 {
				t.Fatalf("%s: it must be denied before", name)
			}
			limit, err := change(lim, granted.Ticket)
			if d := w.allow(lim, "k", limit); err != nil || !d.Allowed {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
		})
	}
}

func TestADenialIsRememberedForAKeyOfWhichNothingWasAllowedHere(t *testing.T) {
	inWorld(t, func(w *world) {
		here, elsewhere := w.process(ratelimit.Config{LocalKeys: 1000}), w.process(ratelimit.Config{})
		w.allow(elsewhere, "k", onePerMinute)
		w.allow(here, "k", onePerMinute)
		for i := range 100 { // each call forgets what it finds to hold nothing
			w.allow(here, fmt.Sprint("other", i), onePerMinute)
		}
		if d := w.allow(here, "k", onePerMinute); d.Reason != ratelimit.CachedExhausted {
			t.Errorf("got %+v", d)
		}
	})
}

func TestAskAlwaysRemembersNoDenial(t *testing.T) {
	for name, config := range map[string]ratelimit.Config{"of the Limiter": {AskAlways: true}, "of a claim": {}, "of one claim of two": {}} {
		inWorld(t, func(w *world) {
			here, elsewhere := w.process(config), w.process(ratelimit.Config{})
			claim := ratelimit.Claim{Key: "k", Limits: []ratelimit.Limit{onePerMinute}, Cost: 1, AskAlways: !config.AskAlways}
			granted := w.allow(elsewhere, "k", onePerMinute)
			ask := func() ratelimit.Decision {
				decisions, err := here.AllowAll(context.Background(), claim)
				if err != nil {
					t.Fatal(err)
				}
				return decisions[0]
			}
			if ask().Allowed {
				t.Fatal("it must be denied before")
			}
			if name == "of one claim of two" {
				w.allow(here, "k", onePerMinute) // this denial is remembered
			}
			if err := elsewhere.Refund(context.Background(), "k", granted.Ticket); err != nil {
				t.Fatal(err)
			}
			if d := ask(); !d.Allowed {
				t.Errorf("%s: %+v, though another process has refunded", name, d)
			}
		})
	}
}

func TestOfSeveralClaimsOneRememberedDenialAnswersAll(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{})
		full := ratelimit.Claim{Key: "full", Limits: []ratelimit.Limit{onePerMinute}, Cost: 1}
		free := ratelimit.Claim{Key: "free", Limits: []ratelimit.Limit{threePerMinute}, Cost: 1}
		var got string
		for range 3 {
			decisions, err := lim.AllowAll(context.Background(), free, full)
			if err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprint(decisions[0].Reason, "+", decisions[1].Reason, "; ")
		}
		if want := "counted+counted; withheld+exhausted; unasked+cached exhausted; "; got != want {
			t.Errorf("got %s want %s", got, want)
		}
	})
}

func TestADearerRequestIsAskedAbout(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{})
		w.flood(lim, 4, "k", threePerMinute)
		d, err := lim.AllowN(context.Background(), "k", 2, threePerMinute)
		if err != nil || d.Allowed || d.Reason != ratelimit.Exhausted {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

// An answer that is on its way while its key is refunded or reset tells of a log that is no more.
func TestAnAnswerFromBeforeARefundOrAResetIsNotRemembered(t *testing.T) {
	for name, change := range map[string]func(*ratelimit.Limiter) error{
		"refund": func(lim *ratelimit.Limiter) error {
			return lim.Refund(context.Background(), "k", ratelimit.Ticket{ID: uuid.New(), Cost: 1})
		},
		"reset": func(lim *ratelimit.Limiter) error { return lim.Reset(context.Background(), "k") },
	} {
		for _, asked := range []time.Duration{0, 2 * time.Second} { // before the change begins, and before it ends
			synctest.Test(t, func(t *testing.T) {
				store := &slow{answer: ratelimit.Decision{Limit: onePerMinute, RetryAfter: time.Minute, Reason: ratelimit.Exhausted}}
				lim := newLimiter(t, ratelimit.Config{Store: store, Timeout: time.Minute})
				time.Sleep(time.Second)
				go func() {
					time.Sleep(time.Second)
					if err := change(lim); err != nil { // for five seconds
						t.Error(err)
					}
				}()
				time.Sleep(asked)
				lim.Allow(context.Background(), "k", onePerMinute) // ten seconds; the denial comes when the change is over
				store.answer = ratelimit.Decision{Allowed: true, Limit: onePerMinute, Reason: ratelimit.Counted}
				if d, _ := lim.Allow(context.Background(), "k", onePerMinute); !d.Allowed {
					t.Errorf("a %s, and a question from %v: %+v", name, asked, d)
				}
			})
		}
	}
}

// slow is a store that needs five seconds to change a log, and ten to answer what stood in it.
type slow struct {
	ratelimit.Store
	answer ratelimit.Decision
}

func (s *slow) Take(_ context.Context, _ uuid.UUID, _ []ratelimit.Claim, decisions []ratelimit.Decision) error {
	decisions[0] = s.answer
	time.Sleep(10 * time.Second)
	return nil
}

func (s *slow) Reset(context.Context, string) error {
	time.Sleep(5 * time.Second)
	return nil
}

func (s *slow) Refund(ctx context.Context, key string, _ ratelimit.Ticket) error {
	return s.Reset(ctx, key)
}

func TestAStoreThatHasLostALogIsRemindedBeforeItDecides(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"it began anew":          func(w *world) { w.begin() },
		"it has evicted the key": func(w *world) { w.redis.Del("rate_limit:k") },
		"its clock jumped ahead": func(w *world) { w.jump(time.Hour) },
		"its clock was set back": func(w *world) { w.jump(-20 * time.Second) },
		"a replica with a part":  func(w *world) { w.redis.ZRem("rate_limit:k", mustMembers(w, "rate_limit:k")[1]) },
		"nothing has been lost":  func(w *world) {},
	} {
		inWorld(t, func(w *world) {
			lim := w.process(ratelimit.Config{})
			w.flood(lim, 2, "k", threePerMinute)
			time.Sleep(20 * time.Second)
			lose(w)
			if got := w.flood(lim, 5, "k", threePerMinute); got != 1 {
				t.Errorf("%s: %d more are allowed, want 1", name, got)
			}
			elsewhere := w.process(ratelimit.Config{})
			if d := w.allow(elsewhere, "k", threePerMinute); d.Allowed {
				t.Errorf("%s: another process is allowed more: %+v", name, d)
			}
			time.Sleep(40 * time.Second)
			if got := w.flood(lim, 5, "k", threePerMinute); name != "its clock was set back" && got != 2 {
				t.Errorf("%s: when the first two have left %d are allowed, want 2", name, got)
			}
		})
	}
}

func mustMembers(w *world, key string) []string {
	w.Helper()
	members, err := w.redis.ZMembers(key)
	if err != nil {
		w.Fatal(err)
	}
	return members
}

func TestAKeyThatAnotherProcessHasResetStaysReset(t *testing.T) {
	inWorld(t, func(w *world) {
		here, elsewhere := w.process(ratelimit.Config{}), w.process(ratelimit.Config{})
		w.flood(here, 2, "k", threePerMinute)
		time.Sleep(time.Second)
		if err := elsewhere.Reset(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := w.flood(here, 5, "k", threePerMinute); got != 3 {
			t.Errorf("%d are allowed after a reset, want 3", got)
		}
	})
}

func TestAStoreThatBeganAnewIsToldEverything(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{})
		const keys = 300
		for i := range keys {
			w.allow(lim, fmt.Sprint("k", i), onePerMinute)
		}
		time.Sleep(2 * time.Second) // its life is known by now
		w.begin()
		w.allow(lim, "k7", onePerMinute) // this one shows it
		time.Sleep(2 * time.Second)
		elsewhere := w.process(ratelimit.Config{})
		for i := range keys {
			if d := w.allow(elsewhere, fmt.Sprint("k", i), onePerMinute); d.Allowed {
				t.Fatalf("k%d is allowed again in another process", i)
			}
		}
	})
}

func TestWhatWasAllowedAloneIsToldWhenTheStoreIsBack(t *testing.T) {
	inWorld(t, func(w *world) {
		here := w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal})
		elsewhere := w.process(ratelimit.Config{})
		w.allow(here, "k", threePerMinute)
		time.Sleep(10 * time.Second)
		w.set(silent)
		if got := w.flood(here, 5, "k", threePerMinute); got != 2 {
			t.Errorf("%d are allowed alone, want the 2 that are left", got)
		}
		w.set("")
		w.recover(here)
		if d := w.allow(elsewhere, "k", threePerMinute); d.Allowed {
			t.Errorf("another process: %+v, want to be denied by what was allowed alone", d)
		}
		time.Sleep(48 * time.Second) // the first has left, and what was allowed alone has not
		if got := w.flood(elsewhere, 5, "k", threePerMinute); got != 1 {
			t.Errorf("%d are allowed when the first has left, want 1", got)
		}
	})
}

func TestAStoreThatFallsSilentWhileItIsToldIsToldAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		here := w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal})
		elsewhere := w.process(ratelimit.Config{})
		w.allow(here, "before", onePerMinute)
		time.Sleep(2 * time.Second) // its life is known
		w.set(silent)
		w.flood(here, 3, "k", threePerMinute) // which opens the breaker
		time.Sleep(time.Second)
		w.burn(4) // the probe: its script is new here, and its first line to any server before Redis 7
		w.recover(here)
		w.set("")
		w.recover(here)
		if d := w.allow(elsewhere, "k", threePerMinute); d.Allowed {
			t.Errorf("another process: %+v, want to be denied by what was allowed alone", d)
		}
	})
}

func TestAFloodOfKeysIsForgottenBeyondTheBoundAndLimitedByTheStoreAllTheSame(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{LocalKeys: 10})
		for range 2 {
			for i := range 100 {
				w.allow(lim, fmt.Sprint("k", i), onePerMinute)
			}
		}
		got := lim.Stats()
		if got.Allowed[ratelimit.Counted] != 100 || got.Denied[ratelimit.Exhausted] != 100 {
			t.Errorf("got %+v", got)
		}
	})
}

// A store must not be reminded of what it has not lost: that would count requests again which have left.
func TestNothingIsTakenForALossThatIsNone(t *testing.T) {
	for name, play := range map[string]func(*world, *distant, *ratelimit.Limiter){
		"answers that overtake each other": func(w *world, s *distant, lim *ratelimit.Limiter) {
			s.home.Store(int64(50 * time.Millisecond))
			go lim.Allow(context.Background(), "k", threePerMinute)
			time.Sleep(10 * time.Millisecond)
			s.home.Store(int64(5 * time.Millisecond))
			w.allow(lim, "k", threePerMinute)
			time.Sleep(time.Second)
		},
		"an answer that was long on its way": func(w *world, s *distant, lim *ratelimit.Limiter) {
			s.home.Store(int64(90 * time.Millisecond))
			w.allow(lim, "k", onePerTenSeconds)
			s.home.Store(int64(0))
			time.Sleep(onePerTenSeconds.Window - 90*time.Millisecond)
			if d := w.allow(lim, "k", onePerTenSeconds); !d.Allowed {
				w.Errorf("a window after the store has decided: %+v", d)
			}
		},
		"answers that were less and less long on their way": func(w *world, s *distant, lim *ratelimit.Limiter) {
			limit := ratelimit.Limit{MaxRequests: 3, Window: 10 * time.Second}
			for _, home := range []time.Duration{90, 80, 70} {
				s.home.Store(int64(home * time.Millisecond))
				w.allow(lim, "k", limit)
				time.Sleep(4 * time.Second)
			}
			s.home.Store(0)
			for range 3 { // as soon as the store lets the next one in
				d := w.allow(lim, "k", limit)
				for !d.Allowed {
					time.Sleep(min(d.RetryAfter, time.Millisecond))
					d = w.allow(lim, "k", limit)
				}
			}
		},
		"a reset while an answer is on its way": func(w *world, s *distant, lim *ratelimit.Limiter) {
			s.home.Store(int64(50 * time.Millisecond))
			go lim.Allow(context.Background(), "k", threePerMinute)
			time.Sleep(10 * time.Millisecond)
			s.home.Store(int64(0))
			if err := lim.Reset(context.Background(), "k"); err != nil {
				w.Fatal(err)
			}
			time.Sleep(time.Second)
			w.allow(lim, "k", threePerMinute)
		},
		"a refund whose answer is on its way": func(w *world, s *distant, lim *ratelimit.Limiter) {
			d := w.allow(lim, "k", threePerMinute)
			time.Sleep(time.Second)
			s.home.Store(int64(50 * time.Millisecond))
			go lim.Refund(context.Background(), "k", d.Ticket)
			time.Sleep(time.Millisecond)
			s.home.Store(0)
			w.allow(lim, "k", threePerMinute)
			time.Sleep(time.Second)
		},
		"a refund": func(w *world, s *distant, lim *ratelimit.Limiter) {
			d := w.allow(lim, "k", threePerMinute)
			w.allow(lim, "k", threePerMinute)
			if err := lim.Refund(context.Background(), "k", d.Ticket); err != nil {
				w.Fatal(err)
			}
			w.allow(lim, "k", threePerMinute)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &distant{MemoryStore: ratelimit.NewMemoryStore(ratelimit.MemoryConfig{})}
			lim := newLimiter(t, ratelimit.Config{Store: store})
			time.Sleep(time.Second)
			play(&world{T: t}, store, lim)
			if store.reminded.Load() > 0 {
				t.Errorf("%s: the store was reminded", name)
			}
		})
	}
}

func TestAClockThatRunsFastIsNoLoss(t *testing.T) {
	inWorld(t, func(w *world) {
		onePerHour := ratelimit.Limit{MaxRequests: 1, Window: time.Hour}
		lim := w.process(ratelimit.Config{})
		w.allow(lim, "k", onePerHour)
		time.Sleep(time.Hour - 1700*time.Millisecond)
		w.jump(1800 * time.Millisecond) // 500 ppm of an hour, as far as a clock is slewed
		if d := w.allow(lim, "k", onePerHour); !d.Allowed {
			t.Errorf("an hour later on the store's clock: %+v", d)
		}
	})
}

// distant is a store whose answers need a while to come home.
type distant struct {
	*ratelimit.MemoryStore
	home     atomic.Int64 // a time.Duration
	reminded atomic.Int64
}

func (s *distant) Take(ctx context.Context, id uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	home := time.Duration(s.home.Load())
	err := s.MemoryStore.Take(ctx, id, claims, decisions)
	time.Sleep(home)
	return err
}

func (s *distant) Refund(ctx context.Context, key string, ticket ratelimit.Ticket) error {
	home := time.Duration(s.home.Load())
	err := s.MemoryStore.Refund(ctx, key, ticket)
	time.Sleep(home)
	return err
}

func (s *distant) Remind(_ context.Context, logs []ratelimit.Past) ([]time.Duration, error) {
	for _, p := range logs {
		s.reminded.Add(int64(len(p.Grants)))
	}
	return nil, nil
}

func (s *distant) Life(context.Context) (ratelimit.Life, error) { return ratelimit.Life{}, nil }

var onePerTenSeconds = ratelimit.Limit{MaxRequests: 1, Window: 10 * time.Second}

// otherClock is a store whose clock has nothing to do with that of this process, as a server's has not.
type otherClock struct{ *ratelimit.MemoryStore }

func (s otherClock) Take(ctx context.Context, id uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	err := s.MemoryStore.Take(ctx, id, claims, decisions)
	for i := range decisions {
		decisions[i].Ticket.Counters = claims[i].CountersAt(time.Duration(began.UnixNano()))
	}
	return err
}

func TestRefundsOfATicketByTheStoresClockAreNotRemembered(t *testing.T) {
	t.Parallel()
	lim, err := ratelimit.New(ratelimit.Config{Store: otherClock{ratelimit.NewMemoryStore(ratelimit.MemoryConfig{})}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lim.Close() })
	limit := ratelimit.Limit{MaxRequests: ratelimit.MaxInBuckets, Window: time.Minute, Buckets: 60}
	for range 100 {
		d, err := lim.Allow(t.Context(), "k", limit)
		if err != nil || d.Reason != ratelimit.Counted {
			t.Fatal(d, err)
		}
		if err := lim.Refund(t.Context(), "k", d.Ticket); err != nil {
			t.Fatal(err)
		}
	}
	if n := lim.RefundsNoted("k"); n != 0 {
		t.Errorf("%d refunds are remembered, for decades", n)
	}
}
