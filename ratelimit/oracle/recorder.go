package oracle

import (
	"sync"
	"time"
)

// Recorder takes down the history of one key while requests run, on the
// monotonic clock of this process. It is safe for concurrent use.
type Recorder struct {
	epoch time.Time

	mu    sync.Mutex
	calls []*Call
}

// Call is one request under way. Its outcome is told once, with Allowed,
// Denied or Doubtful; as long as it is not, the call counts as doubtful.
type Call struct {
	rec     *Recorder
	seen    Interval
	outcome outcome
}

type outcome int

const (
	pending outcome = iota
	allowed
	denied
	doubtful
)

// NewRecorder returns a Recorder whose epoch is now.
func NewRecorder() *Recorder { return &Recorder{epoch: time.Now()} }

// Begin is called just before the request is sent.
func (r *Recorder) Begin() *Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Read under the lock: whatever the wait for it took is not the limiter's.
	c := &Call{rec: r, seen: Interval{Begin: time.Since(r.epoch)}}
	r.calls = append(r.calls, c)
	return c
}

// Allowed is called as early as it is known that the request is allowed: first
// thing in the protected handler, which is earlier than the response.
func (c *Call) Allowed() { c.end(allowed) }

// Denied is called when the denial has been received.
func (c *Call) Denied() { c.end(denied) }

// Doubtful is called when no answer came. What was sent may still be on its
// way, to a server that is frozen for example, and be counted later: the call
// stays doubtful until the history is taken. A test that knows better
// shortens the interval there.
func (c *Call) Doubtful() { c.end(doubtful) }

func (c *Call) end(o outcome) {
	now := time.Since(c.rec.epoch) // before the wait for the lock
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	if c.outcome != pending {
		panic("oracle: the outcome of this call has been told before")
	}
	c.outcome, c.seen.End = o, now
}

// History returns what has been recorded so far. Calls that are doubtful or
// still under way are doubtful until now.
func (r *Recorder) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.epoch)
	var h History
	for _, c := range r.calls {
		switch c.outcome {
		case allowed:
			h.Allowed = append(h.Allowed, c.seen)
		case denied:
			h.Denied = append(h.Denied, c.seen)
		case doubtful, pending:
			h.Doubtful = append(h.Doubtful, Interval{c.seen.Begin, now})
		}
	}
	return h
}
