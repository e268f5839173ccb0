package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// remote is a store that may fail, made calm: every call of it is bounded in time, a breaker keeps requests from
// waiting for a server that is down, and what this process remembers answers in its place.
type remote struct {
	store     Store
	divided   Divided   // store, if it is one
	forgetful Forgetful // store, if it is one
	prompt    bool      // its Take bounds itself
	local     *MemoryStore
	breakers  breakers
	config    Config

	deadlines deadlines
	hanging   atomic.Int64 // calls of the store in goroutines of their own

	outage outage // of the store
	wrong  outage // of keys that hold no log
	debts  debts

	latency latency
}

func newRemote(config Config) (*remote, error) {
	r := &remote{
		store:  config.Store,
		local:  NewMemoryStore(MemoryConfig{MaxKeys: config.LocalKeys}),
		config: config,
		outage: outage{logger: config.Logger, policy: config.OnFailure, begins: "rate limit store fails", ends: "rate limit store answers again"},
		wrong:  outage{logger: config.Logger, policy: config.OnFailure, begins: "rate limit log cannot be used", ends: "rate limit logs can be used again"},
	}
	r.divided, _ = r.store.(Divided)
	r.forgetful, _ = r.store.(Forgetful)
	if p, ok := r.store.(Prompt); ok {
		r.prompt = p.Prompt()
	}
	r.debts.quit = make(chan struct{})
	r.deadlines.timeout = config.Timeout
	r.local.answersWithin = config.Timeout
	r.breakers = breakers{server: r.server, closed: r.settleUp, byServer: make(map[string]*breaker)}
	var err error
	r.latency, err = newLatency()
	return r, err
}

// server is the server of a key; of a store on a single one always "".
func (r *remote) server(key string) string {
	if r.divided == nil {
		return ""
	}
	return r.divided.Server(key)
}

// take decides claims: by what is remembered, else by the store, else by what each claim's Policy says. It returns when it has
// decided, on the local clock.
func (r *remote) take(ctx context.Context, id uuid.UUID, claims []Claim, decisions []Decision) (now time.Duration, err error) {
	now, denied := r.local.recall(claims, decisions)
	if denied {
		return now, nil
	}
	pass, ok := r.breakers.enter(claims)
	switch {
	case !ok:
		return now, r.without(ctx, id, claims, decisions)
	case pass.probed != nil:
		r.probe(pass)
		return now, r.without(ctx, id, claims, decisions)
	}
	asked := now
	q, err := r.ask(ctx, id, question{claims: claims, decisions: decisions})
	now = r.local.now()
	r.latency.lately.Add(now - asked)
	pass.decided(&r.breakers, claims, err)
	if err != nil {
		return now, r.without(ctx, id, claims, decisions)
	}
	copy(decisions, q.decisions) // where they are others
	if !q.local {
		r.local.remember(q.claims, q.decisions, q.sent, r.denialsLast())
	}
	r.debts.begin(r.settleUp)
	return now, nil
}

// denialsLast is for how long a denial is remembered at most. Where claims are decided apart, one may be denied by what
// another request takes for a moment, and gives back.
func (r *remote) denialsLast() time.Duration {
	if r.divided == nil || r.divided.Together() {
		return MaxWindow
	}
	return time.Second
}

// question is one call of the store.
type question struct {
	claims    []Claim
	decisions []Decision
	sent      time.Duration // before it was asked, on the local clock
	local     bool          // this process has decided, and counted
}

// newQuestion is about claims of its own: if it is abandoned at the deadline, the store may still read them, and write its
// decisions.
func newQuestion(claims []Claim) *question {
	q := &question{claims: slices.Clone(claims), decisions: make([]Decision, len(claims))}
	for i := range q.claims {
		q.claims[i].Limits = slices.Clone(q.claims[i].Limits)
	}
	return q
}

// ask asks the store, and reminds it of what it has lost if its answer shows that.
func (r *remote) ask(ctx context.Context, id uuid.UUID, q question) (question, error) {
	ctx = r.deadlines.begin(ctx)
	var err error
	if r.prompt { // it keeps nothing once it has returned
		err = r.inTime(ctx, r.put(ctx, id, &q))
	} else {
		q, err = r.askApart(ctx, id, q.claims)
	}
	if r.noted(err) != nil || r.local.accept(id, &q, r.forgetful == nil) {
		return q, err
	}
	return r.askAgain(ctx, id, q)
}

// askApart asks a store that may not return in time.
func (r *remote) askApart(ctx context.Context, id uuid.UUID, claims []Claim) (question, error) {
	q := newQuestion(claims)
	err := r.await(ctx, func(ctx context.Context) error { return r.put(ctx, id, q) })
	if err != nil {
		return question{}, err
	}
	return *q, nil
}

// askAgain asks a store that has lost something, once it has been reminded.
func (r *remote) askAgain(ctx context.Context, id uuid.UUID, q question) (question, error) {
	first, again := newQuestion(q.claims), newQuestion(q.claims)
	copy(first.decisions, q.decisions)
	err := r.await(ctx, func(ctx context.Context) error {
		if err := r.remind(ctx, first); err != nil {
			return err
		}
		return r.put(ctx, id, again)
	})
	if err != nil || !r.local.accept(id, again, false) { // there was no time for it
		return r.decideByMemory(ctx, id, first)
	}
	return *again, nil
}

// decideByMemory decides a question by what this process was granted, where the store has lost that and could not be
// reminded of it in time: in the background it is.
func (r *remote) decideByMemory(ctx context.Context, id uuid.UUID, asked *question) (question, error) {
	q := *newQuestion(asked.claims)
	q.local = true
	if err := r.local.Take(ctx, id, q.claims, q.decisions); err != nil {
		return q, err
	}
	r.local.owe(q.claims, q.decisions) // answers that are on their way know nothing of it
	denied := slices.ContainsFunc(q.decisions, func(d Decision) bool { return !d.Allowed })
	for i := range q.decisions {
		if d := &q.decisions[i]; d.Reason == Exhausted {
			d.Reason = CachedExhausted
		}
	}
	r.debts.run(func() {
		_ = r.bounded(context.Background(), func(ctx context.Context) error {
			if denied {
				return r.remind(ctx, asked)
			}
			return r.tell(ctx, r.local.past(asked.claims))
		})
	})
	return q, nil
}

// put asks once.
func (r *remote) put(ctx context.Context, id uuid.UUID, q *question) error {
	q.sent = r.local.now()
	if err := r.store.Take(ctx, id, q.claims, q.decisions); err != nil {
		return err
	}
	return checkAnswers(q.claims, q.decisions)
}

// remind takes back what the store has just granted, and tells it what it should have known.
func (r *remote) remind(ctx context.Context, q *question) error {
	r.settleUp() // it may have lost more
	for i := range q.claims {
		if err := r.store.Refund(ctx, q.claims[i].Key, q.decisions[i].Ticket); err != nil {
			return err
		}
	}
	return r.tell(ctx, r.local.past(q.claims))
}

// tell reminds the store of logs, and forgets what other processes have reset.
func (r *remote) tell(ctx context.Context, logs []Past) error {
	if len(logs) == 0 {
		return nil
	}
	resets, err := r.forgetful.Remind(ctx, logs)
	if err != nil {
		return err
	}
	for i, p := range logs {
		if i < len(resets) && resets[i] >= 0 {
			r.local.forget(p.Key, resets[i])
		}
	}
	return nil
}

// without decides claims without the store, each as its Policy says: one that fails closed denies the request; those
// that this process decides are decided together.
func (r *remote) without(ctx context.Context, id uuid.UUID, claims []Claim, decisions []Decision) error {
	closed := false
	var local []Claim
	var at []int // their places among claims
	for i := range claims {
		c := &claims[i]
		d := Decision{Allowed: true, Limit: c.Limits[0], Reason: FailedOpen}
		switch c.OnFailure.or(r.config.OnFailure) {
		case FailClosed:
			d, closed = Decision{Limit: c.Limits[0], RetryAfter: retryClosed, Reason: FailedClosed}, true
		case FailLocal:
			local, at = append(local, r.share(*c)), append(at, i)
			d.Reason = Unasked
		}
		decisions[i] = d
	}
	if closed || len(local) == 0 {
		return nil
	}
	answers := make([]Decision, len(local))
	if err := r.local.Take(ctx, id, local, answers); err != nil {
		return err
	}
	r.local.owe(local, answers)
	for i, d := range answers {
		decisions[at[i]] = d.decidedAlone(&local[i], &claims[at[i]])
	}
	return nil
}

// retryClosed is when a client that was turned away in an outage may ask again: the next probe is over by then.
const retryClosed = time.Second

// share is what a claim may take of its limits in this process alone.
func (r *remote) share(c Claim) Claim {
	c.Limits = slices.Clone(c.Limits)
	for i := range c.Limits {
		l := &c.Limits[i]
		l.MaxRequests = max(1, int(float64(l.MaxRequests)*r.config.LocalShare))
	}
	return c
}

// decidedAlone is a decision on a share of the limits as the answer to a claim.
func (d Decision) decidedAlone(share, c *Claim) Decision {
	d.Limit = c.Limits[slices.Index(share.Limits, d.Limit)]
	switch d.Reason {
	case Counted, Looked, Exhausted:
		d.Reason = FailedLocal
	}
	return d
}

// probe finds out in the background whether a server is back: it is reminded of what is known of the claims' keys,
// which is a write, and if it cannot be reminded, it is asked without counting.
func (r *remote) probe(p pass) {
	q := newQuestion(p.probed)
	for i := range q.claims {
		q.claims[i].Cost = 0
	}
	if r.hanging.Load() >= maxHangingProbes {
		p.done(errHanging)
		return
	}
	r.debts.run(func() {
		err := r.bounded(context.Background(), func(ctx context.Context) error {
			if r.forgetful == nil {
				return r.put(ctx, uuid.New(), q)
			}
			logs := make([]Past, len(q.claims))
			for i := range q.claims {
				logs[i] = Past{Key: q.claims[i].Key, Keep: q.claims[i].Kept()}
			}
			return r.tell(ctx, logs)
		})
		p.decided(&r.breakers, q.claims, err)
	})
}

// do runs a verb that has no policy: its failure is the caller's to see.
func (r *remote) do(ctx context.Context, key string, call func(context.Context) error) error {
	claims := []Claim{{Key: key}}
	pass, ok := r.breakers.enter(claims)
	if !ok {
		return errOpen
	}
	err := r.bounded(ctx, call)
	pass.done(err)
	return err
}

// refund gives a ticket back, here and there. Here first: a log that still had the entries would contradict the store.
func (r *remote) refund(ctx context.Context, key string, ticket Ticket) error {
	return r.change(ctx, key, func() error { return r.local.Refund(ctx, key, ticket) },
		func(ctx context.Context) error { return r.store.Refund(ctx, key, ticket) })
}

// reset forgets a key, here and there.
func (r *remote) reset(ctx context.Context, key string) error {
	return r.change(ctx, key, func() error { return r.local.Reset(ctx, key) },
		func(ctx context.Context) error { return r.store.Reset(ctx, key) })
}

// change changes a log here, then in the store, then here again: answers to questions from before are stale.
func (r *remote) change(ctx context.Context, key string, here func() error, there func(context.Context) error) error {
	if err := here(); err != nil {
		return err
	}
	err := r.do(ctx, key, there)
	return errors.Join(err, here())
}

// bounded runs call, which may wait, for at most the Timeout, and keeps the books of outages.
func (r *remote) bounded(ctx context.Context, call func(context.Context) error) error {
	return r.noted(r.within(ctx, call))
}

// noted keeps the books of outages.
func (r *remote) noted(err error) error {
	if errors.Is(err, ErrNoLog) {
		r.wrong.note(err)
	} else {
		r.outage.note(err)
	}
	return err
}

// A store that minds its context returns soon after its time is up. Of calls that do not, there may be so many; of those
// that ask whether it is back, fewer.
const (
	maxHanging       = 1000
	maxHangingProbes = 64
)

var errHanging = errors.New("the store is not asked: too many calls of it have never returned")

// within runs call for at most the Timeout.
func (r *remote) within(ctx context.Context, call func(context.Context) error) error {
	return r.await(r.deadlines.begin(ctx), call)
}

// await runs call until ctx is done. A call that overruns is left to itself: a client that ignores its context ends by
// its own limits.
func (r *remote) await(ctx context.Context, call func(context.Context) error) error {
	if r.hanging.Load() >= maxHanging {
		return errHanging
	}
	deadline, _ := ctx.Deadline()
	earlier, cancel := context.WithDeadline(ctx, deadline.Add(-r.config.Timeout/20)) // so that it can say whose fault it is
	defer cancel()
	answer := make(chan error, 1)
	r.hanging.Add(1)
	go func() {
		defer r.hanging.Add(-1)
		defer func() {
			if p := recover(); p != nil { // outside the reach of any server's own recovery
				answer <- fmt.Errorf("the store panicked: %v", p)
			}
		}()
		answer <- call(earlier)
	}()
	select {
	case err := <-answer:
		return r.inTime(ctx, err)
	case <-ctx.Done():
		return r.late(ctx.Err())
	}
}

// inTime is err, or if there is none whether the answer came in time: a process that was suspended may find it before it
// finds that time is up.
func (r *remote) inTime(ctx context.Context, err error) error {
	if deadline, _ := ctx.Deadline(); err == nil && !time.Now().Before(deadline) {
		return r.late(context.DeadlineExceeded)
	}
	return err
}

func (r *remote) late(err error) error {
	return fmt.Errorf("no answer within %v: %w", r.config.Timeout, err)
}
