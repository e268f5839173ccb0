// Package storetest is the contract of a ratelimit.Store as a suite that every Store must pass: exact answers,
// to the microsecond, on a clock that the suite moves.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Backend {
//			clock := …
//			return storetest.Backend{Store: NewStore(clock), Advance: clock.Advance, Now: clock.Now}
//		})
//	}
//
// Cases are the rules that can be said in one sentence each; Model plays random traffic against a plain list
// of timestamps, and wants every decision to be the same. Bound is about limits in Buckets: how many they allow, and deny.
package storetest

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

// Backend is a new, empty store whose clock stands still unless it is moved.
type Backend struct {
	Store ratelimit.Store

	// Advance moves the store's clock: forward, or by a negative d backward, as the clock of a server is
	// set right. It need not move the expiry of keys.
	Advance func(d time.Duration)

	// Now reads that clock: sub-window i of a limit in Buckets begins where it shows i times their Width.
	Now func() time.Duration

	// Resend is how the store sends a Take again whose answer it has lost. nil if it never does.
	Resend func(ctx context.Context, id uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error

	// Apart says that the store decides each claim of a request by itself, and then takes back what should not
	// have been taken. Of a claim that was withheld it may name another of several limits with as much left.
	Apart bool
}

// Run holds the store that open returns, a new one each time, to every case of the contract.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.run(t, open(t)) })
	}
	for _, c := range counted {
		t.Run(c.Name, func(t *testing.T) {
			b := bench{t, open(t)}
			b.onTheHour()
			c.run(t, b.Backend)
		})
	}
	for _, tests := range []map[string]func(bench){together, counters} {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) { test(bench{t, open(t)}) })
		}
	}
	t.Run("a Take that was sent twice is admitted once", func(t *testing.T) {
		if b := open(t); b.Resend != nil {
			testRepeated(bench{t, b})
		}
	})
}

// Case is one rule of the contract, and a log of events on one key that shows it.
type Case struct {
	Name   string // the rule
	Limits []ratelimit.Limit
	Steps  []Step
}

// Step is one event, and what the store must say to it.
type Step struct {
	After time.Duration // since the step before; negative: the clock is set back

	// One of: a Take of Cost (0 looks); a Refund of the ticket that the n-th step of the case got, from 1;
	// a Reset. The last two answer nothing.
	Cost   int
	Refund int
	Reset  bool

	Allowed    bool
	Limit      int // index of the binding limit
	Remaining  int
	RetryAfter time.Duration
	ResetAfter time.Duration
	Reason     ratelimit.Reason // 0 stands for Counted if allowed, else Exhausted
}

func (c Case) run(t *testing.T, b Backend) {
	tickets := make([]ratelimit.Ticket, len(c.Steps))
	test := bench{t, b}
	for i, step := range c.Steps {
		b.Advance(step.After)
		switch {
		case step.Refund > 0:
			test.refund("key", tickets[step.Refund-1])
		case step.Reset:
			test.reset("key")
		default:
			got := test.take(ratelimit.Claim{Key: "key", Limits: c.Limits, Cost: step.Cost})[0]
			tickets[i] = got.Ticket
			test.equal(i+1, got, step.want(c.Limits))
		}
	}
}

// want returns the decision that the step must get; its ticket is checked apart.
func (s Step) want(limits []ratelimit.Limit) ratelimit.Decision {
	reason := s.Reason
	switch {
	case reason != 0:
	case s.Allowed:
		reason = ratelimit.Counted
	default:
		reason = ratelimit.Exhausted
	}
	return ratelimit.Decision{
		Allowed: s.Allowed, Limit: limits[s.Limit], Remaining: s.Remaining,
		RetryAfter: s.RetryAfter, ResetAfter: s.ResetAfter, Reason: reason,
	}
}

// bench is a store under test.
type bench struct {
	*testing.T
	Backend
}

func (b bench) take(claims ...ratelimit.Claim) []ratelimit.Decision {
	b.Helper()
	return b.takeAs(uuid.New(), claims...)
}

// takeAs takes claims under an id, and checks what holds for every answer.
func (b bench) takeAs(id uuid.UUID, claims ...ratelimit.Claim) []ratelimit.Decision {
	b.Helper()
	decisions := make([]ratelimit.Decision, len(claims))
	if err := b.Store.Take(b.Context(), id, claims, decisions); err != nil {
		b.Fatalf("Take: %v", err)
	}
	for i, d := range decisions {
		want := ratelimit.Ticket{}
		if d.Reason == ratelimit.Counted {
			want = ratelimit.Ticket{ID: id, Cost: claims[i].Cost, Counters: claims[i].CountersAt(b.Now())}
		}
		if d.Ticket != want {
			b.Errorf("the ticket of %v is %v, want %v", d.Reason, d.Ticket, want)
		}
	}
	return decisions
}

func (b bench) refund(key string, ticket ratelimit.Ticket) {
	b.Helper()
	if err := b.Store.Refund(b.Context(), key, ticket); err != nil {
		b.Fatalf("Refund: %v", err)
	}
}

func (b bench) reset(key string) {
	b.Helper()
	if err := b.Store.Reset(b.Context(), key); err != nil {
		b.Fatalf("Reset: %v", err)
	}
}

// equal compares decisions but for their tickets.
func (b bench) equal(step int, got, want ratelimit.Decision) {
	b.Helper()
	got.Ticket, want.Ticket = ratelimit.Ticket{}, ratelimit.Ticket{}
	if !reflect.DeepEqual(got, want) {
		b.Errorf("step %d:\n got %+v\nwant %+v", step, got, want)
	}
}
