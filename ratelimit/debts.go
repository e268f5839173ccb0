package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// settleEvery is how long the store is left in peace between two rounds of reminding it.
	settleEvery = time.Second

	// A call reminds it of so many logs at most, and of so many entries: it does nothing else meanwhile.
	pastsAtOnce   = 64
	entriesAtOnce = 1000
)

// portions divides logs of several servers into what is told by one call, to one server: atOnce logs at most.
func portions(servers map[string][]Past, atOnce int) iter.Seq[[]Past] {
	return func(yield func([]Past) bool) {
		for _, logs := range servers {
			var portion []Past
			entries := 0
			for _, p := range logs {
				for _, part := range p.parts() {
					if len(portion) >= atOnce || entries+part.entries() > entriesAtOnce && portion != nil {
						if !yield(portion) {
							return
						}
						portion, entries = nil, 0
					}
					portion, entries = append(portion, part), entries+part.entries()
				}
			}
			if portion != nil && !yield(portion) {
				return
			}
		}
	}
}

// entries is how many entries the log takes.
func (p Past) entries() int {
	n := 0
	for _, g := range p.Grants {
		n += g.Cost
	}
	return n
}

// parts divides a long log. A request that counts for many is one part.
func (p Past) parts() []Past {
	var parts []Past
	entries := entriesAtOnce
	for i, g := range p.Grants {
		if entries+g.Cost > entriesAtOnce {
			parts, entries = append(parts, Past{Key: p.Key, Keep: p.Keep}), 0
		}
		last := &parts[len(parts)-1]
		last.Grants, entries = p.Grants[i-len(last.Grants):i+1], entries+g.Cost
	}
	return parts
}

// byServer sorts logs by the servers on which they lie.
func (r *remote) byServer(logs []Past) map[string][]Past {
	servers := make(map[string][]Past)
	for _, p := range logs {
		server := r.server(p.Key)
		servers[server] = append(servers[server], p)
	}
	return servers
}

// debts is what this process has to tell its store in the background: what it has allowed on its own in an outage, and
// everything if the store has lost its memory. One round runs at a time, one call after the other, so that a store
// which has just come back is not overrun. What did not fit into the local store is not known, and not told.
type debts struct {
	begun atomic.Bool // the life of the store is known, or being asked for

	// For the round that runs:
	life   string // of the store in the last round
	warned bool   // that it evicts
	atOnce int    // logs that are told by one call

	mu      sync.Mutex
	due     bool // another round is wanted
	running bool
	closed  bool
	quit    chan struct{} // closed with the Limiter
	waiting sync.WaitGroup
}

// begin sees to it that the life of the store is asked for once it has answered.
func (d *debts) begin(settleUp func()) {
	if !d.begun.Load() && d.begun.CompareAndSwap(false, true) {
		settleUp()
	}
}

// run runs f in the background, unless the Limiter is closed.
func (d *debts) run(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.waiting.Go(f)
	}
}

// want notes that a round is wanted, and reports whether the caller is to see to it.
func (d *debts) want() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = true
	begin := !d.running && !d.closed
	d.running = d.running || begin
	return begin
}

// next reports whether there is another round to run.
func (d *debts) next() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = d.due && !d.closed
	d.due = false
	return d.running
}

// over reports whether the Limiter is closed.
func (d *debts) over() bool {
	select {
	case <-d.quit:
		return true
	default:
		return false
	}
}

// pause waits until another round may begin, or the Limiter is closed.
func (d *debts) pause() {
	timer := time.NewTimer(settleEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.quit:
	}
}

func (d *debts) close() {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.quit)
	}
	d.mu.Unlock()
	d.waiting.Wait()
}

// settleUp has the store told soon of what it does not know. It does not wait.
func (r *remote) settleUp() {
	if r.forgetful == nil || !r.debts.want() {
		return
	}
	r.debts.run(func() {
		for r.debts.next() {
			if !r.round() {
				r.debts.want()
			}
			r.debts.pause()
		}
	})
}

// round tells the store what it does not know, and reports whether all of it arrived. The rest is owed.
func (r *remote) round() (done bool) {
	life := r.life()
	all := life != "" && r.debts.life != "" && life != r.debts.life
	done = true
	failed := make(map[string]error) // by server
	r.debts.atOnce = cmp.Or(r.debts.atOnce, pastsAtOnce)
	for shard := range r.local.shards {
		for logs := range portions(r.byServer(r.local.pasts(shard, all)), r.debts.atOnce) {
			if r.debts.over() {
				return true
			}
			server := r.server(logs[0].Key)
			err := failed[server]
			if err == nil {
				err = r.do(context.Background(), logs[0].Key, func(ctx context.Context) error { return r.tell(ctx, logs) })
			}
			if err != nil && !errors.Is(err, ErrNoLog) {
				failed[server], done = err, false // it is left in peace until the next round
				r.local.untold(logs)
			}
		}
	}
	if done {
		r.debts.atOnce = pastsAtOnce
	} else {
		r.debts.atOnce = max(1, r.debts.atOnce/2) // it may have been too much at once
	}
	if life != "" {
		r.debts.life = life
	}
	return done
}

// life is the ID of the store's Life, "" if it cannot be asked for that, or may not be. If the store evicts, the
// Logger hears of it once.
func (r *remote) life() string {
	answer := make(chan Life, 1)
	err := r.within(context.Background(), func(ctx context.Context) error {
		life, err := r.forgetful.Life(ctx)
		answer <- life
		return err
	})
	if err != nil {
		return ""
	}
	life := <-answer
	if life.Evicts != "" && !r.debts.warned {
		r.debts.warned = true
		r.config.Logger.Warn("rate limit store may evict logs that still count, and allow their requests again: set maxmemory-policy noeviction", "now", life.Evicts)
	}
	return life.ID
}
