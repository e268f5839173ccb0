package ratelimit

import (
	"errors"
	"fmt"
	"time"
)

// The bounds of a Limit. An exact log holds one entry for each allowed request, so that MaxRequests is also
// the memory one key may take: about 24 bytes an entry in this process, 100 to 130 in Redis.
const (
	MaxMaxRequests = 1_000_000
	MinWindow      = time.Millisecond
	MaxWindow      = 366 * 24 * time.Hour
)

// Limit allows at most MaxRequests in any interval (t-Window, t], wherever it lies.
// A request exactly Window old has left.
type Limit struct {
	MaxRequests int           // 1 to MaxMaxRequests
	Window      time.Duration // MinWindow to MaxWindow, in whole microseconds, the resolution of a Redis clock
}

// String gives the limit as "3/1m0s".
func (l Limit) String() string { return fmt.Sprintf("%d/%v", l.MaxRequests, l.Window) }

// Validate reports everything that is wrong with the limit, or nil.
func (l Limit) Validate() error {
	var faults []error
	if l.MaxRequests < 1 || l.MaxRequests > MaxMaxRequests {
		faults = append(faults, fmt.Errorf("MaxRequests is %d: want 1 to %d", l.MaxRequests, MaxMaxRequests))
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
	return errors.Join(faults...)
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
	return l.MaxRequests >= 1 && l.MaxRequests <= MaxMaxRequests &&
		l.Window >= MinWindow && l.Window <= MaxWindow && l.Window%time.Microsecond == 0
}
