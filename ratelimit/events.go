package ratelimit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/google/uuid"
)

// ErrUnavailable is returned by Record and the others of its kind where the Store could not answer in time. An event may then
// have been recorded or not.
var ErrUnavailable = errors.New("ratelimit: the store could not answer in time")

// countBuckets is into how many sub-windows the window of a count is divided.
const countBuckets = 60

// Record counts n events of a key, and returns how many there were in each of windows, these among them: for decisions
// that are not limits, as those of risk control are.
//
//	counts, err := lim.Record(ctx, ratelimit.Key("orders", user), 1, time.Minute, time.Hour, 24*time.Hour)
//
// Each window is counted in 60 Buckets (or as many fewer as divide it evenly), so that a key takes memory for as many numbers,
// however many events there are, and events up to a sixtieth of the window older than it still count: see Limit. n is 1 or
// more; a window has at most MaxInBuckets events. Nothing is counted unless everything is.
//
// A MemoryStore that is full (see MemoryConfig.MaxKeys) counts the keys that found no room together: then there may seem to be
// more events of such a key, never fewer.
//
// Keys are those of the other verbs: Reset forgets the counts of a key as well, and nothing but other counts should be kept
// under it. Stats does not count events, which are no decisions. One round trip. Where the Store cannot answer there is an error, whatever Config.OnFailure says.
func (l *Limiter) Record(ctx context.Context, key string, n int, windows ...time.Duration) ([]int, error) {
	return l.record(ctx, key, n, countLimits(windows))
}

// Count returns how many events of a key Record has counted in each of windows, which are those that were recorded: another
// window has counters of its own. One round trip.
func (l *Limiter) Count(ctx context.Context, key string, windows ...time.Duration) ([]int, error) {
	return l.events(ctx, uuid.UUID{}, Claim{Key: key, Limits: countLimits(windows)})
}

// RecordExactly is Record on an exact log: every event is listed, for about 24 bytes in this process and 100 to 130 in Redis,
// and counts for its window to the microsecond. A window has at most MaxMaxRequests events.
func (l *Limiter) RecordExactly(ctx context.Context, key string, n int, windows ...time.Duration) ([]int, error) {
	return l.record(ctx, key, n, exactLimits(windows))
}

// RecordDistinct records that a value was seen with a key, and returns how many different values were in each of windows,
// this one among them: the accounts that tried a card, the cards of a device. Each value is listed once, with the time at which
// it was last seen, by a hash (under the KeySecret if there is one). Memory and bounds are those of RecordExactly.
func (l *Limiter) RecordDistinct(ctx context.Context, key, value string, windows ...time.Duration) ([]int, error) {
	return l.events(ctx, l.valueID(value), Claim{Key: key, Limits: exactLimits(windows), Cost: 1, Replaces: true})
}

// CountExactly returns what RecordExactly, or RecordDistinct, would return if it had recorded nothing now. Its windows may be
// others, but none longer than the longest that is recorded. One round trip.
func (l *Limiter) CountExactly(ctx context.Context, key string, windows ...time.Duration) ([]int, error) {
	return l.events(ctx, uuid.UUID{}, Claim{Key: key, Limits: exactLimits(windows)})
}

// record makes a claim for n events.
func (l *Limiter) record(ctx context.Context, key string, n int, limits []Limit) ([]int, error) {
	if n < 1 {
		return nil, fmt.Errorf("%w number of events, %d: want 1 or more", ErrInvalid, n)
	}
	return l.events(ctx, uuid.UUID{}, Claim{Key: key, Limits: limits, Cost: n})
}

// events makes a claim that only asks for what it counts.
func (l *Limiter) events(ctx context.Context, id uuid.UUID, c Claim) ([]int, error) {
	c.Counts, c.OnFailure = true, FailClosed
	claims, decisions := []Claim{c}, make([]Decision, 1)
	if err := l.check(); err != nil {
		return nil, err
	}
	if err := l.validate(claims); err != nil {
		return nil, err
	}
	if _, err := l.decide(ctx, id, claims, decisions); err != nil {
		return nil, err
	}
	switch d := &decisions[0]; {
	case d.Reason == FailedClosed:
		return nil, ErrUnavailable
	case !d.Allowed && c.Cost > 0:
		return nil, fmt.Errorf("%w number of events, %d: there are %v, and at most %d are counted in %v",
			ErrInvalid, c.Cost, d.Counts, d.Limit.MaxRequests, d.Limit.Window)
	default:
		return d.Counts, nil
	}
}

// countLimits are limits that allow all that can be counted.
func countLimits(windows []time.Duration) []Limit {
	limits := make([]Limit, len(windows))
	for i, window := range windows {
		limits[i] = Limit{MaxRequests: MaxInBuckets, Window: window, Buckets: countBuckets}
		for limits[i].Buckets > 1 && limits[i].Validate() != nil {
			limits[i].Buckets--
		}
	}
	return limits
}

// exactLimits are limits that allow all that can be listed.
func exactLimits(windows []time.Duration) []Limit {
	limits := make([]Limit, len(windows))
	for i, window := range windows {
		limits[i] = Limit{MaxRequests: MaxMaxRequests, Window: window}
	}
	return limits
}

// valueID is what a value is listed as: an id of version 8 (RFC 9562, section 5.8).
func (l *Limiter) valueID(value string) uuid.UUID {
	const version = 8
	var h hash.Hash = sha256.New()
	if l.config.KeySecret != nil {
		h = hmac.New(sha256.New, l.config.KeySecret)
	}
	return uuid.NewHash(h, uuid.UUID{}, []byte(value), version)
}
