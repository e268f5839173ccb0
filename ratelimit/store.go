package ratelimit

import (
	"context"
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
	// what has once been forgotten cannot be counted again.
	Keep time.Duration
}

// Kept is how long an entry of the claim is remembered.
func (c *Claim) Kept() time.Duration {
	kept := c.Keep
	for _, l := range c.Limits {
		kept = max(kept, l.Window)
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
	// id is the identity of the entries. Where a call can be repeated, as over a network, a Take with the id
	// of one that was admitted is answered as admitted again and writes nothing.
	//
	// An error means that nothing is known: the entries may or may not have been written. A store that waits
	// gives up when ctx is done; the Limiter does not rely on it.
	Take(ctx context.Context, id uuid.UUID, claims []Claim, decisions []Decision) error

	// Refund removes the entries that ticket names from the log of key. Those that have left the window or
	// were refunded before are not missed: a second Refund changes nothing.
	Refund(ctx context.Context, key string, ticket Ticket) error

	// Reset forgets the log of key. An absent key is not an error.
	Reset(ctx context.Context, key string) error
}
