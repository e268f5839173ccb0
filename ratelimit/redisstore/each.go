package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

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
	half, cancel := halfTime(ctx)
	defer cancel()
	claims = apart(claims) // what is late reads them when Take has returned
	each := func(i int) {
		a, claim := answer{claim: i}, claims[i]
		a.err = guard(func() error { return s.takeTogether(ctx, id, []ratelimit.Claim{claim}, a.decision[:]) })
		answers <- a
		if <-settled; !admitted && claim.Cost > 0 && (a.err != nil || a.decision[0].Allowed) {
			_ = guard(func() error { return s.giveBack(ctx, claim, id, a.decision[0].Ticket) }) // what fails leaves by age
		}
		refunded <- struct{}{}
	}
	for i := range claims {
		s.background.run(func() { each(i) })
	}
	c := collect(half, claims, answers, decisions)
	admitted = !c.failed && !c.denied
	close(settled)
	if admitted {
		return nil
	}
	for range claims {
		select {
		case <-refunded:
		case <-half.Done():
		}
	}
	if c.denied {
		withhold(claims, decisions)
		return nil
	}
	return c.errs
}

// apart is a copy of claims that shares nothing with them.
func apart(claims []ratelimit.Claim) []ratelimit.Claim {
	claims = slices.Clone(claims)
	for i := range claims {
		claims[i].Limits = slices.Clone(claims[i].Limits)
	}
	return claims
}

// askEach has each question answered by a call of its own, all of them in one pipeline where the client has such. A
// pipeline may be sent again by the client: then some may have been counted already.
func (s *Store) askEach(ctx context.Context, questions []*question) {
	client, ok := s.client.(interface{ Pipeline() redis.Pipeliner })
	if !ok {
		var all sync.WaitGroup
		for _, q := range questions {
			all.Go(func() {
				if err := guard(func() error { s.askTogether(ctx, []*question{q}); return nil }); err != nil {
					q.err = err
				}
			})
		}
		all.Wait()
		return
	}
	pipeline := client.Pipeline()
	calls, cmds := make([]call, len(questions)), make([]*redis.IntSliceCmd, len(questions))
	for i, q := range questions {
		calls[i] = newCall([]*question{q}, true)
		cmds[i] = s.take.command(ctx, calls[i].keys, calls[i].args)
		_ = pipeline.Process(ctx, cmds[i]) // it is queued
	}
	_, _ = pipeline.Exec(ctx) // each command has its own error
	for i, q := range questions {
		reply, err := cmds[i].Result()
		if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			reply, err = s.take.run(ctx, s.client, calls[i].keys, calls[i].args)
		}
		if err == nil {
			err = calls[i].answer(reply)
		}
		if err != nil {
			q.err = explain(err)
		}
	}
}

// halfTime is over when half of ctx's time is, and never if ctx has no deadline.
func halfTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), time.Until(deadline)/2)
}

// guard makes an error of a panic: nobody else could, in a goroutine of ours.
func guard(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("redisstore: the client panicked: %v", p)
		}
	}()
	return call()
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
	failed bool
	errs   ratelimit.ClaimErrors
}

// collect waits for the answers, into decisions; once one of them denies, no longer than half allows.
func collect(half context.Context, claims []ratelimit.Claim, answers <-chan answer, decisions []ratelimit.Decision) (c collected) {
	c.errs = make(ratelimit.ClaimErrors, len(claims))
	for i, claim := range claims { // what is not known in time
		decisions[i] = ratelimit.Decision{Allowed: true, Limit: claim.Limits[0]}
	}
	for range claims {
		var enough <-chan struct{} // known already
		if c.denied {
			enough = half.Done()
		}
		select {
		case a := <-answers:
			if a.err != nil {
				c.errs[a.claim], c.failed = a.err, true
				continue
			}
			decisions[a.claim] = a.decision[0]
			c.denied = c.denied || !a.decision[0].Allowed
		case <-enough:
			return c
		}
	}
	return c
}

// giveBack refunds a claim of a request that was not admitted. If it was not answered there is no ticket, and nobody knows
// which counters it has reached: these it leaves by age. Its context outlives the decision's.
func (s *Store) giveBack(ctx context.Context, claim ratelimit.Claim, id uuid.UUID, ticket ratelimit.Ticket) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
	defer cancel()
	if ticket == (ratelimit.Ticket{}) {
		ticket = ratelimit.Ticket{ID: id, Cost: claim.Cost}
	}
	return s.Refund(ctx, claim.Key, ticket)
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
