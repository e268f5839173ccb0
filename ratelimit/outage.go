package ratelimit

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// calm is how long a store must not have failed for its outage to be over: a store that fails now and then
// is one outage, not one for each failure.
const calm = time.Second

// outage keeps account of failures of one kind, and tells the logger when they begin and when they end.
type outage struct {
	logger       *slog.Logger
	policy       Policy
	begins, ends string // messages

	on     atomic.Bool // there is an outage; read without mu, so that a healthy store costs one load
	mu     sync.Mutex
	began  time.Time
	latest time.Time // of the failures
	failed int
}

// note takes account of one answer of the store.
func (o *outage) note(err error) {
	switch {
	case err != nil:
		o.failure(err)
	case o.on.Load():
		o.success()
	}
}

func (o *outage) failure(err error) {
	if o.fail(time.Now()) { // not under the lock: a slow logger holds up nobody else
		o.logger.Error(o.begins, "err", err, "policy", o.policy.String())
	}
}

func (o *outage) success() {
	if after, failed, ended := o.end(time.Now()); ended {
		o.logger.Info(o.ends, "after", after, "failed", failed)
	}
}

// fail counts a failure, and reports whether an outage begins with it.
func (o *outage) fail(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.latest = now
	o.failed++
	if o.on.Load() {
		return false
	}
	o.began = now
	o.on.Store(true)
	return true
}

// end reports whether the outage is over, and if so how long it was and how many calls failed.
func (o *outage) end(now time.Time) (after time.Duration, failed int, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.on.Load() || now.Sub(o.latest) < calm {
		return 0, 0, false
	}
	after, failed = now.Sub(o.began), o.failed
	o.failed = 0
	o.on.Store(false)
	return after, failed, true
}
