package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

func TestAfterThreeFailuresNoRequestWaitsAndAProbeFindsOutThatTheStoreIsBack(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{Timeout: 80 * time.Millisecond})
		w.set(silent)
		wait := func() time.Duration {
			start := time.Now()
			if d := w.allow(lim, "k", threePerMinute); d.Reason != ratelimit.FailedOpen {
				t.Errorf("got %+v", d)
			}
			return time.Since(start)
		}
		for i := range 3 {
			if got := wait(); got != 80*time.Millisecond {
				t.Errorf("failure %d took %v, want the Timeout", i+1, got)
			}
		}
		began := time.Now()
		for range 1000 { // three seconds
			if got := wait(); got != 0 {
				t.Fatalf("a request has waited %v, %v after the breaker opened", got, time.Since(began))
			}
			time.Sleep(3 * time.Millisecond)
		}
		if probes := w.asked() - 3; probes < 5 || probes > 15 {
			t.Errorf("%d probes in three seconds, want one each 200 ms, and the 80 ms it takes", probes)
		}
		w.set("")
		back := time.Now()
		for w.allow(lim, "k", threePerMinute).Reason != ratelimit.Counted {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(back); took > 300*time.Millisecond {
			t.Errorf("it took %v to find out, want 300 ms of virtual time at most", took)
		}
	})
}

func TestAHundredRequestsAtOnceMakeOneProbe(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{})
		w.set(silent)
		w.trip(lim)
		w.asked()
		time.Sleep(time.Second)
		for range 100 {
			go lim.Allow(context.Background(), "k", threePerMinute)
		}
		if n := w.asked(); n != 1 {
			t.Errorf("%d probes", n)
		}
		time.Sleep(time.Second)
	})
}

// A replica answers PING, and refuses to write.
func TestAProbeIsAWrite(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal})
		w.set("READONLY You can't write against a read only replica.")
		w.trip(lim)
		time.Sleep(time.Second)
		w.allow(lim, "k", threePerMinute)
		synctest.Wait()
		if d := w.allow(lim, "k", threePerMinute); d.Reason != ratelimit.FailedLocal {
			t.Errorf("got %+v: the breaker is closed", d)
		}
	})
}

func TestAProbeOfAStoreThatCannotBeRemindedCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &thrifty{down: true}
		lim := newLimiter(t, ratelimit.Config{Store: store})
		for range 4 {
			lim.Allow(t.Context(), "k", threePerMinute)
		}
		store.down, store.costs = false, nil
		time.Sleep(time.Second)
		lim.Allow(t.Context(), "k", threePerMinute) // begins a probe
		synctest.Wait()
		if d, _ := lim.Allow(t.Context(), "k", threePerMinute); d.Reason != ratelimit.Counted || fmt.Sprint(store.costs) != "[0 1]" {
			t.Errorf("got %+v, and the store was asked at the costs %v", d, store.costs)
		}
	})
}

// thrifty is a store that writes down at which costs it is asked.
type thrifty struct {
	ratelimit.Store
	down  bool
	costs []int
}

func (s *thrifty) Take(_ context.Context, _ uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	s.costs = append(s.costs, claims[0].Cost)
	if s.down {
		return errors.New("connection refused")
	}
	decisions[0] = ratelimit.Decision{Allowed: true, Limit: claims[0].Limits[0], Reason: ratelimit.Counted}
	return nil
}

func TestAKeyThatHoldsNoLogFailsAloneAndTheBreakerStaysClosed(t *testing.T) {
	t.Parallel()
	store := &picky{}
	lim := newLimiter(t, ratelimit.Config{Store: store, OnFailure: ratelimit.FailLocal})
	var got []bool
	for range 5 {
		d, err := lim.Allow(t.Context(), "taken", threePerMinute)
		if err != nil || d.Reason != ratelimit.FailedLocal {
			t.Errorf("the key that is taken: %+v, %v; want its policy", d, err)
		}
		got = append(got, d.Allowed)
	}
	if d, _ := lim.Allow(t.Context(), "well", threePerMinute); d.Reason != ratelimit.Counted {
		t.Errorf("another key: %+v, want the store's own answer", d)
	}
	if fmt.Sprint(got) != "[true true true false false]" {
		t.Errorf("the key that is taken got %v, want its limit all the same", got)
	}
}

// picky is a store that does not like the key "taken".
type picky struct{ ratelimit.Store }

func (picky) Take(_ context.Context, _ uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	if claims[0].Key == "taken" {
		return fmt.Errorf("it says: %w", ratelimit.ErrNoLog)
	}
	decisions[0] = ratelimit.Decision{Allowed: true, Limit: claims[0].Limits[0], Reason: ratelimit.Counted}
	return nil
}

func TestOneServerOfManyFailsAlone(t *testing.T) {
	t.Parallel()
	store := &two{asked: make(map[string]*atomic.Int64)}
	for _, server := range []string{"a", "b"} {
		store.asked[server] = new(atomic.Int64)
	}
	lim := newLimiter(t, ratelimit.Config{Store: store})
	on := func(key string) ratelimit.Claim {
		return ratelimit.Claim{Key: key, Limits: []ratelimit.Limit{threePerMinute}, Cost: 1}
	}
	ask := func(claims ...ratelimit.Claim) ratelimit.Reason {
		decisions, err := lim.AllowAll(t.Context(), claims...)
		if err != nil {
			t.Fatal(err)
		}
		return decisions[0].Reason
	}
	store.down = "b"
	for range 10 { // together they fail, and that is b's fault
		if got := ask(on("a1"), on("b1")); got != ratelimit.FailedOpen {
			t.Errorf("a request on both servers: %v", got)
		}
	}
	if n := store.asked["b"].Load(); n != 3 {
		t.Errorf("b was asked %d times, want 3 and no more", n)
	}
	for i := range 5 {
		if got := ask(on(fmt.Sprint("a", i))); got != ratelimit.Counted {
			t.Errorf("a request on the server that is well: %v", got)
		}
	}
}

// two is a store on two servers: the first letter of a key tells on which it lies.
type two struct {
	ratelimit.Store
	down  string
	asked map[string]*atomic.Int64
}

func (s *two) Server(key string) string { return key[:1] }
func (s *two) Together() bool           { return false }

func (s *two) Take(_ context.Context, _ uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	errs, failed := make(ratelimit.ClaimErrors, len(claims)), false
	for i, c := range claims {
		s.asked[c.Key[:1]].Add(1)
		if c.Key[:1] == s.down {
			errs[i], failed = errors.New("connection refused"), true
		}
		decisions[i] = ratelimit.Decision{Allowed: true, Limit: c.Limits[0], Reason: ratelimit.Counted}
	}
	if failed {
		return errs
	}
	return nil
}

func TestARefundOrAResetDoesNotWaitForAStoreThatIsDown(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{})
		d := w.allow(lim, "k", threePerMinute)
		w.set(silent)
		w.trip(lim)
		start := time.Now()
		for verb, err := range map[string]error{
			"refund": lim.Refund(context.Background(), "k", d.Ticket),
			"reset":  lim.Reset(context.Background(), "k"),
		} {
			if err == nil || !strings.Contains(err.Error(), "ratelimit: "+verb) {
				t.Errorf("%s: got %v, want an error", verb, err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("they took %v", took)
		}
	})
}

// A process that was suspended finds an answer that has long been there.
func TestAnAnswerThatIsFoundTooLateIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := func(context.Context) error {
			time.Sleep(ratelimit.DefaultTimeout)
			return nil
		}
		for range 20 { // whichever of the two it finds first
			lim := newLimiter(t, ratelimit.Config{Store: &fake{take: late}, OnFailure: ratelimit.FailClosed})
			if d, err := lim.Allow(t.Context(), "k", threePerMinute); err != nil || d.Reason != ratelimit.FailedClosed {
				t.Errorf("got %+v, %v", d, err)
			}
		}
	})
}

func TestACloseInAnOutageWaitsForTheProbeAndNoLonger(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{Timeout: 80 * time.Millisecond})
		w.set(silent)
		w.trip(lim)
		time.Sleep(time.Second)
		w.allow(lim, "k", threePerMinute) // begins a probe
		start := time.Now()
		if err := lim.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 80*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

func TestACloseDoesNotWaitForTheNextRoundOfReminding(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{})
		w.allow(lim, "k", threePerMinute) // after the first answer the store is asked for its life
		synctest.Wait()
		start := time.Now()
		if err := lim.Close(); err != nil || time.Since(start) != 0 {
			t.Errorf("it took %v: %v", time.Since(start), err)
		}
	})
}
