package ratelimit

import (
	"context"
	"sync/atomic"
	"time"
)

// deadlines lends contexts that end once the Timeout is over. Calls that begin at about the same time share one: a timer
// for each would cost more than all else that is done for it in this process.
type deadlines struct {
	timeout time.Duration
	current atomic.Pointer[deadline]
}

type deadline struct {
	context.Context
	lent time.Time // until then
}

// lends is how many contexts there are in a Timeout: a call has all of it but for one part in so many, at least.
const lends = 64

// begin returns a context for a call that begins now. It has the values of another, and nothing else of it.
func (d *deadlines) begin(values context.Context) context.Context {
	now := time.Now()
	current := d.current.Load()
	if current == nil || !now.Before(current.lent) {
		ctx, cancel := context.WithDeadline(context.Background(), now.Add(d.timeout))
		context.AfterFunc(ctx, cancel) // nobody ends it before
		current = &deadline{ctx, now.Add(d.timeout / lends)}
		d.current.Store(current) // that of another call that did the same is as good
	}
	return &call{current, values}
}

// call is the context of one call of the store.
type call struct {
	context.Context
	values context.Context
}

func (c *call) Value(key any) any {
	if own := c.Context.Value(key); own != nil { // by it package context knows its own kind, and starts no goroutine for a child
		return own
	}
	return c.values.Value(key)
}
