package redisstore

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

// refundTimeout bounds a refund in the background. What it cannot reach leaves the log by age.
const refundTimeout = 5 * time.Second

// takeEach decides claims that lie on different servers: each by itself, all at the same time, in one round trip.
// If one denies or fails, what the others took is refunded, in a second.
//
// Nothing is ever allowed that should not be. Until a refund has arrived the entries that it takes back count, and
// can deny another request of the same key: that is for one round trip, or if a server cannot be reached then,
// for a window. A denial that is known is a denial, whatever becomes of the other claims: it is told no later than
// half the time that ctx leaves, so that it is not taken for a store that does not answer.
func (s *Store) takeEach(ctx context.Context, id uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	var (
		answers  = make(chan answer, len(claims))
		settled  = make(chan struct{}) // closed once admitted is known
		admitted bool
		refunded = make(chan struct{}, len(claims))
	)
	for i, claim := range claims {
		s.refunds.Go(func() {
			a := answer{claim: i}
			a.err = s.takeTogether(ctx, id, []ratelimit.Claim{claim}, a.decision[:])
			answers <- a
			if <-settled; !admitted && claim.Cost > 0 && (a.err != nil || a.decision[0].Allowed) {
				s.giveBack(ctx, claim, id)
			}
			refunded <- struct{}{}
		})
	}
	c := collect(ctx, claims, answers, decisions)
	admitted = c.err == nil && !c.denied
	close(settled)
	if admitted {
		return nil
	}
	soon := after(ctx)
	for range claims {
		select {
		case <-refunded:
		case <-soon:
		}
	}
	if c.denied {
		withhold(claims, decisions)
		return nil
	}
	return c.err
}

// answer is what became of one claim.
type answer struct {
	claim    int
	decision [1]ratelimit.Decision
	err      error
}

// collected is what became of all of them.
type collected struct {
	denied bool
	err    error
}

// collect waits for the answers, into decisions; once one of them denies, not much longer.
func collect(ctx context.Context, claims []ratelimit.Claim, answers <-chan answer, decisions []ratelimit.Decision) (c collected) {
	for i, claim := range claims { // what is not known in time
		decisions[i] = ratelimit.Decision{Allowed: true, Limit: claim.Limits[0]}
	}
	var soon <-chan time.Time
	for range claims {
		select {
		case a := <-answers:
			switch {
			case a.err != nil:
				c.err = a.err
			case !a.decision[0].Allowed:
				c.denied = true
				soon = after(ctx)
				fallthrough
			default:
				decisions[a.claim] = a.decision[0]
			}
		case <-soon:
			return c
		}
	}
	return c
}

// after fires when half of ctx's time is gone.
func after(ctx context.Context) <-chan time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	return time.After(time.Until(deadline) / 2)
}

// giveBack refunds a claim of a request that was not admitted. Its context outlives the decision's.
func (s *Store) giveBack(ctx context.Context, claim ratelimit.Claim, id uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
	defer cancel()
	_ = s.Refund(ctx, claim.Key, ratelimit.Ticket{ID: id, Cost: claim.Cost}) // else it leaves by age
}

// withhold rewrites the answers to claims that fit as they are once refunded.
func withhold(claims []ratelimit.Claim, decisions []ratelimit.Decision) {
	for i := range decisions {
		d := &decisions[i]
		if !d.Allowed || claims[i].Cost == 0 {
			continue
		}
		d.Remaining += d.Ticket.Cost
		if d.Remaining == d.Limit.MaxRequests {
			d.ResetAfter = 0 // nothing but its own was counted
		}
		d.Reason, d.Ticket = ratelimit.Withheld, ratelimit.Ticket{}
	}
}
