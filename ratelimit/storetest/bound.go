package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

// Bound holds a store to what ratelimit.Limit promises of limits in Buckets, by a list of the times that were allowed:
//
//   - never are more than MaxRequests allowed in any (t-Window, t];
//   - a request is denied only if with it there were more than MaxRequests in (t-Window-w, t], where w is the Width;
//   - RetryAfter is when it is allowed, to the microsecond, if nothing else is meanwhile;
//   - as many requests as Remaining says, and no more, can still be allowed.
//
// Traffic is random, bursty, or made for the edges of sub-windows. It logs how near it came to the bound.
func Bound(t *testing.T, open func(t *testing.T) Backend) {
	backend := open(t)
	all := closest{short: hour}
	for _, limit := range boundLimits {
		for _, traffic := range traffics {
			t.Run(fmt.Sprintf("%v, %s", limit, traffic.name), func(t *testing.T) {
				p := &player{
					bench: bench{t, backend}, limit: limit, key: uuid.NewString(),
					rand:    rand.New(rand.NewPCG(uint64(limit.Buckets), uint64(limit.MaxRequests))),
					closest: closest{short: hour},
				}
				for p.closest.asked < asksOfPlayer {
					traffic.play(p)
				}
				all.take(p.closest)
			})
		}
	}
	t.Logf("%v", all)
	if all.most < 1 || all.short > tick {
		t.Error("it is not hard to stay so far from the bound: the traffic proves nothing")
	}
}

// asksOfPlayer is when a player begins no more rounds.
const asksOfPlayer = 150

// boundLimits are of sub-windows from 1 ms, the least there may be, to as wide as the window.
var boundLimits = []ratelimit.Limit{
	{MaxRequests: 1, Window: minute, Buckets: 1},
	{MaxRequests: 10, Window: minute, Buckets: 1},
	{MaxRequests: 5, Window: minute, Buckets: 2},
	{MaxRequests: 10, Window: 7 * second, Buckets: 7},
	{MaxRequests: 1, Window: 3*second + 10*tick, Buckets: 10},
	{MaxRequests: 10, Window: minute, Buckets: 10},
	{MaxRequests: 3, Window: 60 * time.Millisecond, Buckets: 60},
	{MaxRequests: 25, Window: hour, Buckets: 60},
	{MaxRequests: 10, Window: second, Buckets: 1000},
	{MaxRequests: 4, Window: hour, Buckets: 1000},
}

// traffics are what clients do; each call of play is one round of it.
var traffics = []struct {
	name string
	play func(*player)
}{
	{"knocking at every edge after a burst before one", (*player).knockAtEdges},
	{"waiting exactly RetryAfter", (*player).waitRetryAfter},
	{"paced at the limit", func(p *player) { p.pace(p.limit.Window / time.Duration(p.limit.MaxRequests)) }},
	{"paced a little faster", func(p *player) { p.pace(p.limit.Window * 9 / 10 / time.Duration(p.limit.MaxRequests)) }},
	{"at random, with refunds", (*player).random},
	{"in bursts", (*player).burst},
	{"of any cost", (*player).costly},
}

// knockAtEdges spends what there is just before a sub-window ends, and asks again at each edge that follows, a tick
// before it and a tick behind it, until all must have left. Of very many edges it takes those near the ends.
func (p *player) knockAtEdges() {
	w := p.limit.Width()
	p.wait(w - p.now()%w - tick)
	for range 1 + p.rand.IntN(p.limit.MaxRequests+1) {
		p.ask(1)
	}
	began, k := p.now()+tick, p.limit.Buckets
	for i := range k + 3 {
		if i > 4 && i < k-4 {
			continue
		}
		for _, at := range []time.Duration{-tick, 0, tick} {
			p.wait(max(0, began+time.Duration(i)*w+at-p.now()))
			p.ask(1)
		}
	}
}

// waitRetryAfter spends what there is, and then comes back as it is told, a tick too early at first.
func (p *player) waitRetryAfter() {
	p.wait(p.upTo(p.limit.Width()))
	cost := 1 + p.rand.IntN(p.limit.MaxRequests)
	d := p.ask(cost)
	if d.Allowed {
		return
	}
	p.wait(d.RetryAfter - tick)
	if again := p.ask(cost); again.Allowed || again.RetryAfter != tick {
		p.Errorf("a tick before RetryAfter is over: %+v", again)
	}
	p.wait(tick)
	if again := p.ask(cost); !again.Allowed {
		p.Errorf("when RetryAfter is over: %+v", again)
	}
}

func (p *player) pace(gap time.Duration) {
	p.ask(1)
	p.wait(gap.Truncate(tick))
}

func (p *player) random() {
	mean := float64(p.limit.Window) / float64(p.limit.MaxRequests) / 1.5
	p.wait(time.Duration(p.rand.ExpFloat64() * mean).Truncate(tick))
	p.ask(1)
	if p.rand.IntN(8) == 0 {
		p.refundAny()
	}
}

func (p *player) burst() {
	p.wait(p.upTo(2 * p.limit.Span()))
	for range p.rand.IntN(2 * p.limit.MaxRequests) {
		p.ask(1)
		p.wait(p.upTo(p.limit.Width() / 4))
	}
}

func (p *player) costly() {
	p.wait(p.upTo(p.limit.Window))
	p.ask(1 + p.rand.IntN(p.limit.MaxRequests))
}

// player is a client with a key of its own, and what it has been allowed.
type player struct {
	bench
	limit   ratelimit.Limit
	key     string
	rand    *rand.Rand
	allowed []grant // oldest first, an entry for each of a cost
	closest closest
}

type grant struct {
	at     time.Duration
	ticket ratelimit.Ticket
}

func (p *player) now() time.Duration { return p.Now() }

// wait lets some time pass, of which a server's clock sees whole ticks.
func (p *player) wait(d time.Duration) {
	if d > 0 {
		p.Advance(d)
	}
}

func (p *player) upTo(d time.Duration) time.Duration {
	return time.Duration(p.rand.Int64N(int64(d/tick)+1)) * tick
}

// ask asks, and holds the answer to the bound. Keys outlive the test where they expire by a real clock.
func (p *player) ask(cost int) ratelimit.Decision {
	p.Helper()
	d := p.take(ratelimit.Claim{Key: p.key, Limits: []ratelimit.Limit{p.limit}, Cost: cost, Keep: hour})[0]
	if d.Allowed {
		for range cost {
			p.allowed = append(p.allowed, grant{p.now(), d.Ticket})
		}
	}
	p.closest.asked++
	p.judge(d, cost)
	return d
}

// judge says it all by the age of the n-th newest request that was allowed: there are n in a window if that is not over.
func (p *player) judge(d ratelimit.Decision, cost int) {
	p.Helper()
	n, window, span := p.limit.MaxRequests, p.limit.Window, p.limit.Span()
	if p.age(n+1) < window {
		p.Errorf("at %v: more than %d allowed in a window, of %v", p.now(), n, p.allowed)
	}
	if p.age(n+1-d.Remaining) < window {
		p.Errorf("at %v: %d remain, which were too many, after %v", p.now(), d.Remaining, p.allowed)
	}
	if d.Remaining < n && p.age(n-d.Remaining) >= span {
		p.Errorf("at %v: %d remain, and there is room for more, after %v", p.now(), d.Remaining, p.allowed)
	}
	p.closest.most = max(p.closest.most, float64(p.within(window))/float64(n))
	if d.Allowed {
		return
	}
	// It can be allowed when this one, and so all before it, no longer counts.
	binds := p.age(n + 1 - cost)
	if binds >= span {
		p.Errorf("at %v: cost %d was denied needlessly, after %v", p.now(), cost, p.allowed)
		return
	}
	w, made := p.limit.Width(), p.now()-binds
	if want := made - made%w + span - p.now(); d.RetryAfter != want {
		p.Errorf("at %v: RetryAfter is %v, want %v, after %v", p.now(), d.RetryAfter, want, p.allowed)
	}
	if binds >= window {
		p.closest.needless++
		p.closest.short = min(p.closest.short, span-binds)
	}
}

// age is how long ago the n-th newest request was allowed; for ever, if there were not as many.
func (p *player) age(n int) time.Duration {
	if n > len(p.allowed) {
		return ratelimit.MaxWindow
	}
	if n <= 0 {
		return -1
	}
	return p.now() - p.allowed[len(p.allowed)-n].at
}

// within is how many requests were allowed since then.
func (p *player) within(window time.Duration) int {
	n := 0
	for p.age(n+1) < window {
		n++
	}
	return n
}

// refundAny refunds one of the latest requests.
func (p *player) refundAny() {
	if len(p.allowed) == 0 {
		return
	}
	latest := p.allowed[max(0, len(p.allowed)-p.limit.MaxRequests):]
	g := latest[p.rand.IntN(len(latest))]
	p.refund(p.key, g.ticket)
	p.allowed = slices.DeleteFunc(p.allowed, func(other grant) bool { return other.ticket.ID == g.ticket.ID })
}

// closest is how near to the bound traffic came.
type closest struct {
	asked, needless int
	most            float64       // allowed in a window, of MaxRequests
	short           time.Duration // by how much younger than Window+w what was on account of which a request was denied needlessly
	share           float64       // of requests that an exact log would have allowed, and were denied: where it is largest
}

func (c *closest) take(run closest) {
	c.asked, c.needless = c.asked+run.asked, c.needless+run.needless
	c.most, c.short = max(c.most, run.most), min(c.short, run.short)
	c.share = max(c.share, float64(run.needless)/float64(max(1, run.asked)))
}

func (c closest) String() string {
	return fmt.Sprintf("%d requests, of which %d were denied that an exact log would have allowed, on account of others up to Window+w-%v old; "+
		"%.0f%% of one traffic on one limit; at most %.4g of MaxRequests were allowed in a window",
		c.asked, c.needless, c.short, 100*c.share, c.most)
}
