package ratelimit

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Claim asks for room in the log of one key, under every one of its limits.
type Claim struct {
	Key    string  // as Key makes it
	Limits []Limit // at least one
	Cost   int     // entries to write; 0 only looks, and is answered as 1 would be

	// Keep is how long entries are remembered if that is longer than the longest Window. A key whose limits
	// change from request to request, by the user's plan for example, needs the longest Window of them all:
	// what has once been forgotten cannot be counted again. (Nor what a limit with another Window or other Buckets
	// has counted: each such pair has counters of its own.)
	Keep time.Duration

	// OnFailure is what becomes of the claim if the store cannot decide it. Stores need not look at it.
	OnFailure Policy

	// Counts asks for Decision.Counts. Nothing else is remembered of such a claim in front of a Store.
	Counts bool

	// Replaces says that an entry of the same id is replaced, and does not count beside this one. Cost is 1 or 0, and no
	// limit is in Buckets.
	Replaces bool

	// AskAlways says that nothing is to be remembered of the claim's key: see Config.AskAlways. ForgetDenials says so of
	// denials alone: for requests that this process refunds, and others as well.
	AskAlways, ForgetDenials bool
}

// Kept is how long an entry of the claim is remembered.
func (c *Claim) Kept() time.Duration {
	kept := c.Keep
	for _, l := range c.Limits {
		kept = max(kept, l.Span())
	}
	return kept
}

// Store keeps the log of allowed requests for each key, and decides. Package storetest is this contract as
// a suite that a new Store must pass.
//
// A Store is called by many goroutines at once. It may rely on what the Limiter has checked: claims that are
// valid, with distinct keys.
type Store interface {
	// Take decides claims at one instant of the store's own clock, together: either every claim fits and
	// each writes Cost entries to its log, or nothing is written at all. decisions[i] answers claims[i]; both
	// slices belong to the caller, and Take keeps neither, so that a decision in memory need not allocate.
	//
	// id is the identity of the entries. A store that asks a server again because an answer was lost finds out by it
	// what the server has already admitted: that is answered as admitted, and written once. (Counters know no ids: under
	// limits in Buckets alone it may be counted twice.) Otherwise every Take has an id of its own.
	//
	// An error means that nothing is known: the entries may or may not have been written. A store that waits
	// gives up when ctx is done; the Limiter does not rely on it. An error that says nothing of the store's health
	// wraps ErrNoLog; one of a store whose keys lie on several servers is a ClaimErrors.
	Take(ctx context.Context, id uuid.UUID, claims []Claim, decisions []Decision) error

	// Refund removes the entries that ticket names from the log of key, and takes them off its counters. Those that have
	// left the window or were refunded before are not missed: a second Refund changes nothing.
	Refund(ctx context.Context, key string, ticket Ticket) error

	// Reset forgets the log and the counters of key. An absent key is not an error.
	Reset(ctx context.Context, key string) error
}

// ErrNoLog is what the error of a store wraps where a key holds something that is no log. The key cannot be decided,
// others can.
var ErrNoLog = errors.New("ratelimit: the key holds something else than a log")

// ClaimErrors is the error of a Take whose claims lie on several servers, one of which may fail where the others are
// well: for each claim its own, or nil.
type ClaimErrors []error

func (e ClaimErrors) Error() string   { return errors.Join(e...).Error() }
func (e ClaimErrors) Unwrap() []error { return e }

// Divided is a Store whose keys lie on several servers. The Limiter has a circuit breaker for each.
type Divided interface {
	Store

	// Server names the server of a key. It answers at once, "" if it does not know.
	Server(key string) string

	// Together reports whether the claims of a request are decided at one instant, as Take says. If they are not,
	// what one request takes for a moment and gives back can deny another, and the Limiter remembers no denials of
	// requests with several claims.
	Together() bool
}

// Prompt is a Store that may bound its Take by itself.
type Prompt interface {
	Store

	// Prompt reports whether Take returns as soon as its context is done, whatever happens, and never panics. The Limiter
	// then spares a goroutine for each decision.
	Prompt() bool
}

// Forgetful is a Store that may lose what it held, by a restart, a failover or an eviction, and can be reminded of it.
type Forgetful interface {
	Store

	// Remind adds grants to their logs as if they had been made then, but for those that a log still has, and those
	// from before its last Reset. It tells for each log how long ago that was, or a negative duration.
	Remind(ctx context.Context, logs []Past) (reset []time.Duration, err error)

	// Life tells of the servers as they are now.
	Life(ctx context.Context) (Life, error)
}

// Life is what a Forgetful store tells of its servers.
type Life struct {
	// ID differs from an earlier one if a server has been replaced, or has begun anew. "" if that cannot be told.
	ID string

	// Evicts says by which setting a server may forget a log that still counts. "" if none does.
	Evicts string
}

// Past is what a process remembers of one log.
type Past struct {
	Key    string
	Keep   time.Duration // how long its entries are kept
	Grants []Grant       // oldest first
}

// Grant is an allowed request, and how long ago that was.
type Grant struct {
	Ticket
	Age time.Duration
}
