package ratelimit

import (
	"errors"
	"fmt"
	"time"
)

// The bounds of a Limit. An exact log holds one entry for each allowed request, so that MaxRequests is also
// the memory one key may take: about 24 bytes an entry in this process, 100 to 130 in Redis. Buckets do without.
const (
	MaxMaxRequests = 1_000_000     // of a Limit without Buckets
	MaxInBuckets   = 1_000_000_000 // of one with Buckets
	MaxBuckets     = 1000
	MinWindow      = time.Millisecond // also of a bucket
	MaxWindow      = 366 * 24 * time.Hour
)

// Limit allows at most MaxRequests in any interval (t-Window, t], wherever it lies.
// A request exactly Window old has left.
//
// With Buckets requests are not listed but counted, in sub-windows of the width w = Window/Buckets: sub-window i is
// [i*w, (i+1)*w) on the store's clock. At t those of the present one, i = floor(t/w), count, and of the Buckets before it.
// Whatever came after t-Window lies in one of them, as s > t-Window gives floor(s/w) >= floor(t/w)-Buckets: so never more than
// MaxRequests are allowed in any interval, as without Buckets. But what came in the oldest counts as a whole, until
// it has left as a whole: a request is also denied on account of requests that are up to one w older than Window. A key
// takes memory for Buckets+1 numbers, however many requests there are; RetryAfter is when enough whole sub-windows have left.
type Limit struct {
	MaxRequests int           // 1 to MaxMaxRequests, with Buckets to MaxInBuckets
	Window      time.Duration // MinWindow to MaxWindow, in whole microseconds, the resolution of a Redis clock
	Buckets     int           // 0: none, the log is exact; to MaxBuckets, each a whole number of microseconds, MinWindow or more
}

// String gives the limit as "3/1m0s", or "100000/1m0s in 60 buckets".
func (l Limit) String() string {
	if l.Buckets == 0 {
		return fmt.Sprintf("%d/%v", l.MaxRequests, l.Window)
	}
	return fmt.Sprintf("%d/%v in %d buckets", l.MaxRequests, l.Window, l.Buckets)
}

// Width is that of a sub-window; 0 if there are no Buckets.
func (l Limit) Width() time.Duration {
	if l.Buckets == 0 {
		return 0
	}
	return l.Window / time.Duration(l.Buckets)
}

// SubWindow returns the number i of the sub-window in which a time lies: floor(t/w). There must be Buckets.
func (l Limit) SubWindow(t time.Duration) int64 {
	i := int64(t / l.Width())
	if t < 0 && t%l.Width() != 0 {
		i--
	}
	return i
}

// leaves returns when a request made at t no longer counts.
func (l *Limit) leaves(t time.Duration) time.Duration {
	if l.Buckets > 0 {
		return SubWindow{*l, l.SubWindow(t)}.leaves()
	}
	return t + l.Window
}

// Span is how long a request counts at the longest: Window, and with Buckets one Width more.
func (l Limit) Span() time.Duration { return l.Window + l.Width() }

// Validate reports everything that is wrong with the limit, or nil.
func (l Limit) Validate() error {
	var faults []error
	switch {
	case l.MaxRequests >= 1 && l.MaxRequests <= l.most():
	case l.Buckets == 0 && l.MaxRequests > MaxMaxRequests:
		faults = append(faults, fmt.Errorf("MaxRequests is %d: want 1 to %d, or count in Buckets", l.MaxRequests, MaxMaxRequests))
	default:
		faults = append(faults, fmt.Errorf("MaxRequests is %d: want 1 to %d", l.MaxRequests, l.most()))
	}
	switch {
	case l.Window < MinWindow:
		faults = append(faults, fmt.Errorf("the Window is %v: want %v to %v (a plain number is nanoseconds: write 60*time.Second)",
			l.Window, MinWindow, MaxWindow))
	case l.Window > MaxWindow:
		faults = append(faults, fmt.Errorf("the Window is %v: want %v to %v", l.Window, MinWindow, MaxWindow))
	case l.Window%time.Microsecond != 0:
		faults = append(faults, fmt.Errorf("the Window is %v: want whole microseconds", l.Window))
	}
	switch {
	case l.Buckets < 0 || l.Buckets > MaxBuckets:
		faults = append(faults, fmt.Errorf("there are %d Buckets: want 0 to %d", l.Buckets, MaxBuckets))
	case l.Buckets > 0 && (l.Window%(time.Duration(l.Buckets)*time.Microsecond) != 0 || l.Width() < MinWindow):
		faults = append(faults, fmt.Errorf("the Window %v cannot be divided into %d Buckets of whole microseconds, each %v or more",
			l.Window, l.Buckets, MinWindow))
	}
	return errors.Join(faults...)
}

// most is how many MaxRequests there may be.
func (l *Limit) most() int {
	if l.Buckets == 0 {
		return MaxMaxRequests
	}
	return MaxInBuckets
}

// ValidateLimits reports what is wrong with limits that are to hold together, or nil. The error wraps ErrInvalid.
func ValidateLimits(limits []Limit) error {
	if len(limits) == 0 {
		return fmt.Errorf("%w limits: there is none, and the key would be unlimited", ErrInvalid)
	}
	for i := range limits {
		if l := &limits[i]; !l.valid() {
			return fmt.Errorf("%w limit: %w", ErrInvalid, l.Validate())
		}
	}
	return nil
}

// valid is Validate for the many that are: it is asked with every request.
func (l *Limit) valid() bool {
	return l.MaxRequests >= 1 && l.MaxRequests <= l.most() &&
		l.Window >= MinWindow && l.Window <= MaxWindow && l.Window%time.Microsecond == 0 &&
		(l.Buckets == 0 || l.Validate() == nil)
}
