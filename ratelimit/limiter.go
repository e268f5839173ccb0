package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// DefaultTimeout is the Config.Timeout that 0 means.
const DefaultTimeout = 100 * time.Millisecond

var (
	// ErrClosed is returned by every verb of a Limiter after Close.
	ErrClosed = errors.New("ratelimit: the Limiter is closed")

	// ErrInvalid is what a question that makes no sense wraps: no limit, an invalid one, an empty key, a
	// negative cost, one key twice. It is the caller's fault, and nothing was decided.
	ErrInvalid = errors.New("ratelimit: invalid")
)

// Config sets up a Limiter. The zero value limits in this process.
type Config struct {
	// Store keeps the logs. nil means a new MemoryStore with its defaults.
	Store Store

	// Timeout bounds every call of a Store other than a MemoryStore, which never waits. A decision that takes
	// longer is a failed one. 0 means DefaultTimeout.
	Timeout time.Duration

	// Logger hears of an outage of the Store once when it begins and once when it ends. nil means silence;
	// the Reason of each Decision still tells.
	Logger *slog.Logger
}

// Limiter is a Store with a time bound and a policy for its failures. Its verbs may be called by many
// goroutines at once.
//
// A decision runs on a context of its own, which keeps the values of the caller's but neither its
// cancellation nor its deadline: a client that hangs up is no failure of the store, or hanging up would be a
// way past a limiter that fails open.
type Limiter struct {
	store   Store
	memory  *MemoryStore // store, if it is one: it needs no time bound
	timeout time.Duration
	outage  outage
	closed  atomic.Bool

	mu       sync.Mutex
	declared []declared
}

// New returns a Limiter, or an error that names every fault of config.
func New(config Config) (*Limiter, error) {
	if config.Timeout < 0 {
		return nil, fmt.Errorf("%w Config: the Timeout is %v: want a positive duration, or 0 for %v", ErrInvalid, config.Timeout, DefaultTimeout)
	}
	if config.Timeout == 0 {
		config.Timeout = DefaultTimeout
	}
	if config.Store == nil {
		config.Store = NewMemoryStore(MemoryConfig{})
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	memory, _ := config.Store.(*MemoryStore)
	return &Limiter{
		store:   config.Store,
		memory:  memory,
		timeout: config.Timeout,
		outage:  outage{logger: config.Logger},
	}, nil
}

// Allow decides one request on key under every one of limits, and counts it if it is allowed. One round trip.
//
// key is any text; make it of parts that a client chooses with Key. Other limits on the same key count the same
// log, and forget what has left the longest Window of their own: see Claim.Keep.
func (l *Limiter) Allow(ctx context.Context, key string, limits ...Limit) (Decision, error) {
	return l.AllowN(ctx, key, 1, limits...)
}

// AllowN is Allow for a request that counts as cost requests: all of them or none. A cost above MaxRequests
// is denied for ever (Reason TooCostly); a cost of 0 is a Peek. One round trip; a cost of n writes n entries.
func (l *Limiter) AllowN(ctx context.Context, key string, cost int, limits ...Limit) (Decision, error) {
	claims := [1]Claim{{Key: key, Limits: limits, Cost: cost}}
	var decisions [1]Decision
	err := l.take(ctx, claims[:], decisions[:])
	return decisions[0], err
}

// Peek answers as Allow would, and counts nothing. One round trip.
func (l *Limiter) Peek(ctx context.Context, key string, limits ...Limit) (Decision, error) {
	return l.AllowN(ctx, key, 0, limits...)
}

// AllowAll decides several claims together: all are counted, or none is. The request is allowed if every
// Decision is; where one denies, those that would not have say so (Reason Withheld). The decisions are in the
// order of the claims, whose keys must differ.
//
// One round trip where the Store can decide all keys in one place, as in memory and on a single Redis; package
// redisstore says what it does across the slots of a Cluster.
func (l *Limiter) AllowAll(ctx context.Context, claims ...Claim) ([]Decision, error) {
	decisions := make([]Decision, len(claims))
	err := l.take(ctx, slices.Clone(claims), decisions)
	return decisions, err
}

// Refund gives back what ticket names in the log of key, as if that request had never been. It is idempotent.
// Its error is the Store's: the refund may then have happened or not, and can be tried again. One round trip.
func (l *Limiter) Refund(ctx context.Context, key string, ticket Ticket) error {
	if ticket == (Ticket{}) {
		return l.check()
	}
	return l.do(ctx, "refund", key, func(ctx context.Context, key string) error {
		return l.store.Refund(ctx, key, ticket)
	})
}

// Reset forgets everything counted for key. It is idempotent; its error is the Store's. One round trip.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	return l.do(ctx, "reset", key, l.store.Reset)
}

// Close ends the Limiter, and its Store if that is an io.Closer. Its verbs then return ErrClosed.
func (l *Limiter) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	if c, ok := l.store.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// take decides claims, whose keys it makes canonical, into decisions.
func (l *Limiter) take(ctx context.Context, claims []Claim, decisions []Decision) error {
	if err := l.check(); err != nil {
		return err
	}
	if err := validate(claims); err != nil {
		return err
	}
	id := uuid.New()
	if l.memory != nil {
		return l.memory.Take(ctx, id, claims, decisions)
	}
	return l.takeRemote(ctx, id, claims, decisions)
}

// takeRemote asks a store that may wait. The call works on slices of its own: if it is abandoned at the
// deadline, it may still read and write them.
func (l *Limiter) takeRemote(ctx context.Context, id uuid.UUID, claims []Claim, decisions []Decision) error {
	asked := slices.Clone(claims)
	for i := range asked {
		asked[i].Limits = slices.Clone(asked[i].Limits)
	}
	answers := make([]Decision, len(asked))
	err := l.bounded(ctx, func(ctx context.Context) error {
		if err := l.store.Take(ctx, id, asked, answers); err != nil {
			return err
		}
		return checkAnswers(asked, answers)
	})
	if err != nil {
		for i := range decisions {
			decisions[i] = Decision{Allowed: true, Limit: claims[i].Limits[0], Reason: FailedOpen}
		}
		return nil
	}
	copy(decisions, answers)
	return nil
}

// do runs a verb on one key that has no policy: its failure is the caller's to see.
func (l *Limiter) do(ctx context.Context, verb, key string, call func(context.Context, string) error) error {
	if err := l.check(); err != nil {
		return err
	}
	if key == "" {
		return errEmptyKey
	}
	key = canonical(key)
	if l.memory != nil {
		return call(ctx, key)
	}
	if err := l.bounded(ctx, func(ctx context.Context) error { return call(ctx, key) }); err != nil {
		return fmt.Errorf("ratelimit: %s: %w", verb, err)
	}
	return nil
}

// bounded runs call, which may wait, for at most the Timeout, and keeps the books of outages. A call that
// overruns is left to itself: its context is done, and a client that ignores that ends by its own limits.
func (l *Limiter) bounded(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil { // outside the reach of any server's own recovery
				answer <- fmt.Errorf("the store panicked: %v", p)
			}
		}()
		answer <- call(ctx)
	}()
	var err error
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = fmt.Errorf("no answer within %v: %w", l.timeout, ctx.Err())
	}
	l.outage.note(err)
	return err
}

func (l *Limiter) check() error {
	if l.closed.Load() {
		return ErrClosed
	}
	return nil
}

var errEmptyKey = fmt.Errorf("%w key: it is empty, and would be one quota for everybody", ErrInvalid)

// validate checks claims, and makes their keys canonical.
func validate(claims []Claim) error {
	if len(claims) == 0 {
		return fmt.Errorf("%w request: it makes no claim", ErrInvalid)
	}
	for i := range claims {
		c := &claims[i]
		if c.Key == "" {
			return errEmptyKey
		}
		if c.Cost < 0 {
			return fmt.Errorf("%w cost %d: want 0 or more", ErrInvalid, c.Cost)
		}
		if err := ValidateLimits(c.Limits); err != nil {
			return err
		}
		if c.Keep < 0 || c.Keep > MaxWindow {
			return fmt.Errorf("%w Keep %v: want 0 to %v", ErrInvalid, c.Keep, MaxWindow)
		}
		c.Key = canonical(c.Key)
		for _, other := range claims[:i] {
			if other.Key == c.Key {
				return fmt.Errorf("%w request: two of its claims have the same key", ErrInvalid)
			}
		}
	}
	return nil
}

// checkAnswers finds out that a store cannot mean what it says: then it has failed.
func checkAnswers(claims []Claim, decisions []Decision) error {
	for i, d := range decisions {
		switch {
		case !slices.Contains(claims[i].Limits, d.Limit):
			return fmt.Errorf("the store answers with the limit %v, which was not asked for", d.Limit)
		case !d.Allowed && d.Reason != TooCostly && d.RetryAfter <= 0:
			return errors.New("the store denies, and says that a retry would succeed at once")
		}
	}
	return nil
}
