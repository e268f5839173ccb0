package ratelimit

import (
	"cmp"
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
	// Store keeps the logs. nil means a new MemoryStore with its defaults. What follows, but for KeySecret and
	// Logger, is of no concern to a MemoryStore, which never waits and never fails.
	Store Store

	// Timeout bounds every decision. One that takes longer is a failed one. 0 means DefaultTimeout.
	Timeout time.Duration

	// OnFailure says what becomes of requests that the Store cannot decide: FailOpen, which Inherit means here, FailClosed
	// or FailLocal. A Claim, and a Rule of package sash, may say otherwise.
	OnFailure Policy

	// LocalShare is the part of each limit that this process allows alone under FailLocal, above 0 and up to 1, rounded
	// down, but at least one request. 0 means 1, the whole limit: no client is denied more than before, and P processes
	// together allow up to P times the limit while the Store is down. 1/P keeps them at the limit, and denies
	// requests that reach some processes more often than others.
	LocalShare float64

	// LocalKeys bounds the keys of which this process remembers what the Store has answered: what was allowed, for
	// FailLocal and to remind a Store that has lost it, and what is denied, to answer that without a question. A key
	// takes some 300 bytes, and 24 for each request in its window. Of keys beyond the bound nothing is
	// remembered. 0 means 100,000.
	LocalKeys int

	// AskAlways is for keys whose requests are refunded by other processes than the one that allowed them. By default a
	// denial is remembered until it must have run out, and repeated without asking the Store: a Refund or Reset through this
	// Limiter ends it, one through another does not. And what a Limiter was granted it takes for lost if the Store
	// does not show it: what another Limiter has refunded it puts back. AskAlways remembers neither. (A Reset by another
	// is respected in any case, unless the Store had lost the log before.) A Claim, and a Rule of package sash, can
	// say so for themselves.
	AskAlways bool

	// KeySecret replaces what follows the rule's name in every key by its HMAC-SHA256 under this secret, for keys that
	// are personal data: whoever reads the Store cannot tell, or guess, whose they are. 16 bytes or more, the same in
	// all processes; with another secret all logs begin anew. nil means none.
	KeySecret []byte

	// Logger hears of an outage of the Store once when it begins and once when it ends. nil means silence;
	// the Reason of each Decision still tells, and Stats counts.
	Logger *slog.Logger
}

// checked returns the config with its defaults, or an error that names every fault.
func (c Config) checked() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Timeout < 0 {
		fault("the Timeout is %v: want a positive duration, or 0 for %v", c.Timeout, DefaultTimeout)
	}
	if c.OnFailure > FailLocal {
		fault("there is no Policy %d for OnFailure", c.OnFailure)
	}
	if !(c.LocalShare >= 0 && c.LocalShare <= 1) {
		fault("the LocalShare is %v: want a part of the limit, above 0 and up to 1, or 0 for 1", c.LocalShare)
	}
	if c.LocalKeys < 0 {
		fault("LocalKeys is %d: want a positive number, or 0 for %d", c.LocalKeys, defaultLocalKeys)
	}
	if c.KeySecret != nil && len(c.KeySecret) < minSecret {
		fault("the KeySecret has %d bytes: want %d or more, of a random source", len(c.KeySecret), minSecret)
	}
	if len(faults) > 0 {
		return c, fmt.Errorf("%w Config: %w", ErrInvalid, errors.Join(faults...))
	}
	if c.Store == nil {
		c.Store = NewMemoryStore(MemoryConfig{})
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.OnFailure = c.OnFailure.or(FailOpen)
	c.LocalShare = cmp.Or(c.LocalShare, 1)
	c.LocalKeys = cmp.Or(c.LocalKeys, defaultLocalKeys)
	c.KeySecret = slices.Clone(c.KeySecret)
	return c, nil
}

const (
	defaultLocalKeys = 100_000
	minSecret        = 16
)

// Limiter is a Store with a time bound, a circuit breaker, a memory of its own and a policy for failures. Its verbs may
// be called by many goroutines at once.
//
// A decision runs on a context of its own, which keeps the values of the caller's but neither its
// cancellation nor its deadline: a client that hangs up is no failure of the store, or hanging up would be a
// way past a limiter that fails open.
//
// After three failures in a row requests stop to wait for the Store, and are decided by their Policy at once, until a
// probe has found out that it is back: one every 200 ms, in the background, while there are requests.
//
// The Limiter remembers what its Store has allowed to this process. A store that has lost that, because it began anew,
// was replaced by a replica that lagged, evicted the key, or because its clock has jumped, shows more room than there
// can be, and is reminded of it before it decides. What other processes were granted, they must remember: until each of
// them has asked for a key, or has noticed the loss, up to P times the limit can be allowed by P processes. The
// window of such a proof, and the length of a remembered denial, are shorter by 1/1000, as two clocks may drift.
type Limiter struct {
	config   Config
	memory   *MemoryStore // decides, if there is no other store
	remote   *remote      // else
	closed   atomic.Bool
	counters counters

	mu       sync.Mutex
	declared []declared
}

// New returns a Limiter, or an error that names every fault of config.
func New(config Config) (*Limiter, error) {
	config, err := config.checked()
	if err != nil {
		return nil, err
	}
	l := &Limiter{config: config}
	var inProcess bool
	if l.memory, inProcess = config.Store.(*MemoryStore); inProcess {
		return l, l.counters.begin(l.memory.now)
	}
	if l.remote, err = newRemote(config); err != nil {
		return nil, err
	}
	return l, l.counters.begin(l.remote.local.now)
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
func (l *Limiter) AllowN(ctx context.Context, key string, cost int, limits ...Limit) (d Decision, err error) {
	if l.memory != nil {
		err = l.allowHere(key, &Claim{Limits: limits, Cost: cost}, &d)
		return d, err
	}
	// What goes to a Store of which nothing is known is of its own: the caller's limits need not be allocated then.
	var own struct {
		claims    [1]Claim
		decisions [1]Decision
		limits    [4]Limit
	}
	own.claims[0] = Claim{Key: key, Limits: append(own.limits[:0], limits...), Cost: cost}
	err = l.Take(ctx, own.claims[:], own.decisions[:])
	return own.decisions[0], err
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
	err := l.Take(ctx, slices.Clone(claims), decisions)
	return decisions, err
}

// Take is AllowAll into the caller's slices: decisions[i] answers claims[i]. The Keys of the claims may be rewritten to
// those of their logs, which are not to be asked for again: fill the claims in anew for each request. Neither slice is kept,
// and nothing is allocated where a MemoryStore knows the keys.
func (l *Limiter) Take(ctx context.Context, claims []Claim, decisions []Decision) error {
	if len(decisions) != len(claims) {
		return fmt.Errorf("%w request: %d decisions cannot answer %d claims", ErrInvalid, len(decisions), len(claims))
	}
	if l.memory != nil && len(claims) == 1 {
		return l.allowHere(claims[0].Key, &claims[0], &decisions[0])
	}
	if err := l.check(); err != nil {
		return err
	}
	if err := l.validate(claims); err != nil {
		return err
	}
	now, err := l.decide(ctx, uuid.UUID{}, claims, decisions)
	l.counters.count(now, decisions)
	return err
}

// allowHere decides one claim, on key, in memory.
func (l *Limiter) allowHere(key string, c *Claim, d *Decision) error {
	if l.closed.Load() {
		return ErrClosed
	}
	hash := l.memory.hash(key)
	now, denied := l.deniedHere(key, hash, c, d)
	if !denied {
		if err := l.validateOne(key, c); err != nil {
			return err
		}
		if !isCanonical(key) || l.config.KeySecret != nil {
			key = l.key(key)
			hash = l.memory.hash(key)
		}
		now = l.memory.takeOne(key, hash, c, d)
	}
	l.counters.countOne(now, hash, d)
	return nil
}

// deniedHere answers a claim by a denial in memory that still holds. The claim may be invalid: a denial is of one that was not.
func (l *Limiter) deniedHere(key string, hash uint64, c *Claim, d *Decision) (now time.Duration, denied bool) {
	if c.Cost&^1 != 0 || c.Counts || l.config.KeySecret != nil {
		return 0, false
	}
	return l.memory.denied(key, hash, c.Limits, d)
}

// Denied reports whether some of claims are denied for certain, in which case the decisions answer all of them. It
// counts nothing, and asks only a MemoryStore; of another Store it knows what it remembers of its denials, unless ask
// says that a round trip is wanted. It is for requests that should be refused before work is done for them.
func (l *Limiter) Denied(ctx context.Context, ask bool, claims ...Claim) (decisions []Decision, denied bool) {
	claims = slices.Clone(claims)
	if l.check() != nil || l.validate(claims) != nil {
		return nil, false
	}
	decisions = make([]Decision, len(claims))
	var now time.Duration
	if l.remote != nil {
		now, denied = l.remote.local.recall(claims, decisions)
	}
	if !denied && (l.remote == nil || ask) {
		now, denied = l.looksDenied(ctx, claims, decisions)
	}
	if denied {
		l.counters.count(now, decisions)
	}
	return decisions, denied
}

// looksDenied is Denied by a look into the store.
func (l *Limiter) looksDenied(ctx context.Context, claims []Claim, decisions []Decision) (now time.Duration, denied bool) {
	for i := range claims {
		claims[i].Cost = 0
	}
	now, err := l.decide(ctx, uuid.UUID{}, claims, decisions)
	if err != nil {
		return now, false
	}
	for i := range decisions {
		d := &decisions[i]
		denied = denied || !d.Allowed
		if d.Reason == Looked {
			d.Reason = Withheld
		}
	}
	return now, denied
}

// FailsOpen reports whether claims of a Policy are allowed while the store cannot decide. A MemoryStore always can.
func (l *Limiter) FailsOpen(p Policy) bool {
	return l.remote != nil && p.or(l.config.OnFailure) == FailOpen
}

// Refund gives back what ticket names in the log of key, as if that request had never been. It is idempotent. Call it on
// the Limiter that allowed the request; for others see Config.AskAlways.
// Its error is the Store's: the refund may then have happened or not, and can be tried again. One round trip.
func (l *Limiter) Refund(ctx context.Context, key string, ticket Ticket) error {
	if ticket == (Ticket{}) {
		return l.check()
	}
	key, err := l.checkedKey(key)
	switch {
	case err != nil:
	case l.remote == nil:
		err = l.memory.Refund(ctx, key, ticket)
	default:
		err = l.remote.refund(ctx, key, ticket)
	}
	return failed("refund", err)
}

// Reset forgets everything counted for key. It is idempotent; its error is the Store's. One round trip.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	key, err := l.checkedKey(key)
	switch {
	case err != nil:
	case l.remote == nil:
		err = l.memory.Reset(ctx, key)
	default:
		err = l.remote.reset(ctx, key)
	}
	return failed("reset", err)
}

// Close ends the Limiter, and its Store if that is an io.Closer. Its verbs then return ErrClosed.
func (l *Limiter) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	if l.remote != nil {
		l.remote.debts.close()
	}
	if c, ok := l.config.Store.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// decide decides claims under an id; the zero id stands for a new one. It returns when it has decided, on the clock of the
// memory store.
func (l *Limiter) decide(ctx context.Context, id uuid.UUID, claims []Claim, decisions []Decision) (now time.Duration, err error) {
	switch {
	case l.remote == nil:
		return l.memory.takeAll(id, claims, decisions), nil
	case id == uuid.UUID{}:
		id = uuid.New()
	}
	return l.remote.take(ctx, id, claims, decisions)
}

// failed says which verb an error is of. What the caller did wrong says so by itself.
func failed(verb string, err error) error {
	if err == nil || errors.Is(err, ErrInvalid) || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("ratelimit: %s: %w", verb, err)
}

func (l *Limiter) check() error {
	if l.closed.Load() {
		return ErrClosed
	}
	return nil
}

var errEmptyKey = fmt.Errorf("%w key: it is empty, and would be one quota for everybody", ErrInvalid)

// checkedKey is the key of a verb that concerns one.
func (l *Limiter) checkedKey(key string) (string, error) {
	switch {
	case l.closed.Load():
		return "", ErrClosed
	case key == "":
		return "", errEmptyKey
	}
	return l.key(key), nil
}

// validate checks claims, and makes their keys those of their logs.
func (l *Limiter) validate(claims []Claim) error {
	if len(claims) == 0 {
		return fmt.Errorf("%w request: it makes no claim", ErrInvalid)
	}
	for i := range claims {
		c := &claims[i]
		if err := l.validateOne(c.Key, c); err != nil {
			return err
		}
		c.AskAlways = c.AskAlways || c.Counts || l.config.AskAlways
		c.Key = l.key(c.Key)
		for _, other := range claims[:i] {
			if other.Key == c.Key {
				return fmt.Errorf("%w request: two of its claims have the same key", ErrInvalid)
			}
		}
	}
	return nil
}

func (l *Limiter) validateOne(key string, c *Claim) error {
	if key == "" {
		return errEmptyKey
	}
	if c.Cost < 0 {
		return fmt.Errorf("%w cost %d: want 0 or more", ErrInvalid, c.Cost)
	}
	if err := ValidateLimits(c.Limits); err != nil {
		return err
	}
	if c.Replaces && (c.Cost > 1 || slices.ContainsFunc(c.Limits, func(l Limit) bool { return l.Buckets > 0 })) {
		return fmt.Errorf("%w claim: what Replaces an entry has a cost of 1 or 0, and no limit in Buckets", ErrInvalid)
	}
	if c.Keep < 0 || c.Keep > MaxWindow {
		return fmt.Errorf("%w Keep %v: want 0 to %v", ErrInvalid, c.Keep, MaxWindow)
	}
	if c.OnFailure > FailLocal {
		return fmt.Errorf("%w OnFailure: there is no Policy %d", ErrInvalid, c.OnFailure)
	}
	return nil
}

// checkAnswers finds out that a store cannot mean what it says: then it has failed.
func checkAnswers(claims []Claim, decisions []Decision) error {
	for i, d := range decisions {
		switch {
		case !slices.Contains(claims[i].Limits, d.Limit):
			return fmt.Errorf("the store answers with the limit %v, which was not asked for", d.Limit)
		case claims[i].Counts && len(d.Counts) != len(claims[i].Limits):
			return fmt.Errorf("the store tells %d counts under %d limits", len(d.Counts), len(claims[i].Limits))
		case !d.Allowed && d.Reason != TooCostly && d.RetryAfter <= 0:
			return errors.New("the store denies, and says that a retry would succeed at once")
		}
	}
	return nil
}
