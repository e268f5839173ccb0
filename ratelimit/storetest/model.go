package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/sashlimit/sash/ratelimit"
)

// Model plays random traffic (several claims at once, several limits, any cost, refunds, resets, a clock that
// moves to the edges of windows and at times backward) against the store and against a plain list of
// timestamps, and wants every decision of the two to be equal. Under limits in Buckets a time counts as its sub-window.
func Model(t *testing.T, open func(t *testing.T) Backend) {
	b := bench{t, open(t)}
	game := 0
	rapid.Check(t, func(t *rapid.T) {
		game++ // its keys are its own; the store's clock goes on
		play(t, b, game)
	})
}

// play is one game: its keys, with the limits that belong to each, and some 40 events.
func play(t *rapid.T, b bench, game int) {
	m := &model{logs: make(map[string]map[ring][]event), sealed: make(map[string]time.Duration), start: b.Now()}
	var keys []ratelimit.Claim
	for i := range rapid.IntRange(1, 3).Draw(t, "keys") {
		limits := rapid.SliceOfN(drawLimit, 1, 3).Draw(t, "limits")
		if b.Apart { // what it takes back from counters that were reset it may not get
			for i := range limits {
				limits[i].Buckets = 0
			}
		}
		keep := rapid.SampledFrom([]time.Duration{0, hour}).Draw(t, "keep")
		keys = append(keys, ratelimit.Claim{Key: fmt.Sprintf("game%d:%d", game, i), Limits: limits, Keep: keep})
	}
	var written []refundable
	var wait time.Duration // what the latest decision promised
	take := func(t *rapid.T, claims []ratelimit.Claim) {
		id := uuid.New()
		got, want := b.takeAs(id, claims...), m.take(id, claims)
		tickets := make([]ratelimit.Ticket, len(claims))
		for i, c := range claims {
			tickets[i], got[i].Ticket = got[i].Ticket, ratelimit.Ticket{}
			if b.Apart && want[i].Reason == ratelimit.Withheld {
				got[i].Limit, got[i].ResetAfter = want[i].Limit, want[i].ResetAfter
			}
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("claim %d, %+v at %v:\n got %+v\nwant %+v\n log %v", i, c, m.start+m.now, got[i], want[i], m.logs[c.Key])
			}
			if want[i].Reason == ratelimit.Counted && m.now >= m.sealed[c.Key] {
				written = append(written, refundable{c.Key, tickets[i]})
			}
			wait = max(want[i].RetryAfter, want[i].ResetAfter)
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"take": func(t *rapid.T) {
			claims := slices.Clone(keys[:rapid.IntRange(1, len(keys)).Draw(t, "claims")])
			for i := range claims {
				claims[i].Cost = rapid.IntRange(0, maxMax+1).Draw(t, "cost")
			}
			take(t, claims)
		},
		"advance": func(t *rapid.T) {
			d := rapid.OneOf(
				rapid.SampledFrom([]time.Duration{0, tick, wait - tick, wait, wait + tick}),
				rapid.Custom(func(t *rapid.T) time.Duration {
					return time.Duration(rapid.Int64Range(0, int64(2*minute/tick)).Draw(t, "µs")) * tick
				}),
			).Draw(t, "by")
			m.now += d
			b.Advance(d)
		},
		"set the clock back": func(t *rapid.T) {
			// Some things a store is free to do: to forget what has left by now, or to let it come back with
			// the clock; to let entries ahead of the clock count until the key is next asked for, or to
			// expire them in the time that really passes. A claim that cannot succeed, on each key before
			// and after, leaves it no choice.
			touch := func() {
				for _, c := range keys {
					c.Cost = maxMax + 1
					take(t, []ratelimit.Claim{c})
				}
			}
			touch()
			for _, c := range keys { // what is counted elsewhere from now on cannot be refunded
				m.seal(c)
			}
			written = slices.DeleteFunc(written, func(r refundable) bool { return r.ticket.Counters != "" })
			d := -rapid.SampledFrom([]time.Duration{tick, 30 * second, 2 * minute, 2 * hour}).Draw(t, "by")
			m.now += d
			b.Advance(d)
			touch()
		},
		"refund": func(t *rapid.T) {
			if len(written) > 0 {
				r := rapid.SampledFrom(written).Draw(t, "of")
				b.refund(r.key, r.ticket)
				m.refund(r)
			}
		},
		"reset": func(t *rapid.T) {
			c := rapid.SampledFrom(keys).Draw(t, "key")
			b.reset(c.Key)
			m.reset(c)
		},
	})
}

const maxMax = 4 // the largest MaxRequests in a game

var drawLimit = rapid.Custom(func(t *rapid.T) ratelimit.Limit {
	window := rapid.SampledFrom([]time.Duration{minute, minute + tick, 2 * minute, hour}).Draw(t, "window")
	limit := per(window, rapid.IntRange(1, maxMax).Draw(t, "max"))
	if window%minute == 0 {
		limit.Buckets = rapid.SampledFrom([]int{0, 0, 1, 2, 6, 60}).Draw(t, "buckets")
	}
	return limit
})

// model is the contract, written down as plainly as possible.
type model struct {
	start, now time.Duration // the store's clock at the beginning of the game, and since then
	logs       map[string]map[ring][]event
	sealed     map[string]time.Duration // what the counters of a key have counted before cannot be refunded
}

// ring says which requests are kept together: all that are listed, or those that are counted in sub-windows of one width.
type ring struct {
	window  time.Duration
	buckets int
}

func ringOf(l ratelimit.Limit) ring {
	if l.Buckets == 0 {
		return ring{}
	}
	return ring{l.Window, l.Buckets}
}

type event struct {
	at time.Duration
	id uuid.UUID
}

type refundable struct {
	key    string
	ticket ratelimit.Ticket
}

func (m *model) take(id uuid.UUID, claims []ratelimit.Claim) []ratelimit.Decision {
	decisions := make([]ratelimit.Decision, len(claims))
	all := true
	for i, c := range claims {
		if c.Cost > 0 {
			m.settle(c)
		}
		decisions[i] = m.decide(c, 0)
		all = all && decisions[i].Allowed
	}
	for i, c := range claims {
		switch {
		case !decisions[i].Allowed:
		case c.Cost == 0:
			decisions[i].Reason = ratelimit.Looked
		case !all:
			decisions[i].Reason = ratelimit.Withheld
		default:
			for r := range m.logs[c.Key] {
				for range c.Cost {
					m.logs[c.Key][r] = append(m.logs[c.Key][r], event{m.now, id})
				}
			}
			decisions[i] = m.decide(c, c.Cost)
			decisions[i].Reason = ratelimit.Counted
		}
	}
	return decisions
}

// settle drops what need not be kept, and brings entries ahead of the clock back to it.
func (m *model) settle(c ratelimit.Claim) {
	if m.logs[c.Key] == nil {
		m.logs[c.Key] = make(map[ring][]event)
	}
	for _, l := range c.Limits {
		var kept []event
		for _, e := range m.logs[c.Key][ringOf(l)] {
			e.at = min(m.now, e.at)
			if l.Buckets == 0 && e.at > m.now-c.Kept() || l.Buckets > 0 && m.leaves(e, l) > m.now {
				kept = append(kept, e)
			}
		}
		m.logs[c.Key][ringOf(l)] = kept
	}
}

// leaves returns when an entry no longer counts.
func (m *model) leaves(e event, l ratelimit.Limit) time.Duration {
	at := min(m.now, e.at)
	if l.Buckets > 0 { // when its sub-window, as a whole, is older than the window
		at = m.ends(at, l)
	}
	return at + l.Window
}

// ends returns the end of the sub-window in which a time lies.
func (m *model) ends(at time.Duration, l ratelimit.Limit) time.Duration {
	since := (m.start + at) % l.Width()
	if since < 0 {
		since += l.Width()
	}
	return at - since + l.Width()
}

// decide answers a claim of which charged entries are already in the log.
func (m *model) decide(c ratelimit.Claim, charged int) ratelimit.Decision {
	var binding ratelimit.Decision
	for i, limit := range c.Limits {
		d := m.under(m.logs[c.Key][ringOf(limit)], limit, max(1, c.Cost), charged)
		if i == 0 || slices.Compare(weight(d), weight(binding)) > 0 {
			binding = d
		}
	}
	return binding
}

// weight orders decisions by how much they bind, in lexical order: what never fits before what waits, the
// longest wait first, then what is allowed, the one with least left first, then the longest wait for more.
func weight(d ratelimit.Decision) []int64 {
	switch {
	case d.Reason == ratelimit.TooCostly:
		return []int64{2}
	case !d.Allowed:
		return []int64{1, int64(d.RetryAfter)}
	}
	return []int64{0, -int64(d.Remaining), int64(d.ResetAfter)}
}

func (m *model) under(log []event, limit ratelimit.Limit, cost, charged int) ratelimit.Decision {
	left := func(after time.Duration) int { return limit.MaxRequests - m.count(log, limit, after) }
	d := ratelimit.Decision{
		Allowed:   left(0)+charged >= cost,
		Limit:     limit,
		Remaining: max(0, left(0)),
	}
	if m.count(log, limit, 0) > 0 {
		d.ResetAfter = m.first(log, limit, func(after time.Duration) bool { return left(after) > max(0, left(0)) })
	}
	switch {
	case d.Allowed:
	case cost > limit.MaxRequests:
		d.Reason = ratelimit.TooCostly
	default:
		d.Reason = ratelimit.Exhausted
		d.RetryAfter = m.first(log, limit, func(after time.Duration) bool { return left(after) >= cost })
	}
	return d
}

// count returns how many entries count so long after now.
func (m *model) count(log []event, limit ratelimit.Limit, after time.Duration) int {
	n := 0
	for _, e := range log {
		if m.leaves(e, limit) > m.now+after {
			n++
		}
	}
	return n
}

// first returns the earliest time after now, of those at which an entry leaves, when ok holds.
func (m *model) first(log []event, limit ratelimit.Limit, ok func(after time.Duration) bool) time.Duration {
	var best time.Duration
	for _, e := range log {
		after := m.leaves(e, limit) - m.now
		if after > 0 && ok(after) && (best == 0 || after < best) {
			best = after
		}
	}
	return best
}

func (m *model) refund(r refundable) {
	for at, log := range m.logs[r.key] {
		m.logs[r.key][at] = slices.DeleteFunc(log, func(e event) bool { return e.id == r.ticket.ID })
	}
}

// reset forgets all.
func (m *model) reset(c ratelimit.Claim) {
	delete(m.logs, c.Key)
	m.seal(c)
}

// seal notes that no request of a sub-window that has begun can be refunded any more: the store does not know which of them
// came before.
func (m *model) seal(c ratelimit.Claim) {
	for _, l := range c.Limits {
		if l.Buckets > 0 {
			m.sealed[c.Key] = max(m.sealed[c.Key], m.ends(m.now, l))
		}
	}
}
