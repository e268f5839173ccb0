package redisstore

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

// question is a Take on its way. It shares nothing with whoever asked, who may have given up.
type question struct {
	id      uuid.UUID
	text    [textLength]byte // of the id
	keys    []string         // of Redis, for each claim: of its log, its counters, or both
	claims  []ratelimit.Claim
	answers []ratelimit.Decision
	err     error
	done    chan struct{}   // told once, with the answers or the error
	ctx     context.Context // of whoever asks

	next *question // one that is equal, and decided after this one: see group

	// Room for one claim of a few limits, as most questions are.
	key    [2]string
	claim  [1]ratelimit.Claim
	answer [1]ratelimit.Decision
	limits [4]ratelimit.Limit
}

const textLength = 36 // of a UUID in hex

// questions are lent, and used again. One that may still be on its way is not given back.
type questions struct{ pool sync.Pool }

// make returns a question about claims, whose logs lie at prefix and their keys.
func (p *questions) make(id uuid.UUID, prefix string, claims []ratelimit.Claim) *question {
	q, ok := p.pool.Get().(*question)
	if !ok {
		q = &question{done: make(chan struct{}, 1)}
	}
	q.id = id
	writeText(&q.text, id)
	q.keys, q.claims, q.answers = q.key[:0], append(q.claim[:0], claims...), append(q.answer[:0], make([]ratelimit.Decision, len(claims))...)
	limits := q.limits[:0]
	for i := range q.claims {
		c := &q.claims[i]
		key := prefix + ":" + c.Key
		lists, counts := c.Kinds()
		if lists {
			q.keys = append(q.keys, key)
		}
		if counts {
			q.keys = append(q.keys, countersKey(key))
		}
		first := len(limits)
		limits = append(limits, c.Limits...)
		c.Limits = limits[first:len(limits):len(limits)]
	}
	return q
}

// giveBack is for a question that has been answered.
func (p *questions) giveBack(q *question) {
	*q = question{done: q.done}
	p.pool.Put(q)
}

// writeText writes an id as its String gives it.
func writeText(text *[textLength]byte, id uuid.UUID) {
	hex.Encode(text[:8], id[:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:], id[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
}

// MarshalBinary gives the id as a command wants it: a question stands for it among the arguments.
func (q *question) MarshalBinary() ([]byte, error) { return q.text[:], nil }

// String gives the id to hooks of the client, which may print commands.
func (q *question) String() string { return string(q.text[:]) }

// deadline is when nobody waits for the answers any more.
func (q *question) deadline() time.Time {
	if d, ok := q.ctx.Deadline(); ok {
		return d
	}
	return time.Now().Add(patience)
}

// complete tells the claims that fit, and were not counted, why.
func (q *question) complete() {
	for n := range q.answers {
		switch d := &q.answers[n]; {
		case !d.Allowed || d.Reason == ratelimit.Counted:
		case q.claims[n].Cost == 0:
			d.Reason = ratelimit.Looked
		default:
			d.Reason = ratelimit.Withheld
		}
	}
}

// tail is what the script makes of the last 12 hex digits of an id.
func tail(id uuid.UUID) int64 {
	return int64(binary.BigEndian.Uint64(id[8:]) & (1<<48 - 1))
}

// The verdicts of take.lua.
const (
	denied = iota
	fits
	tooCostly
)

// decide takes in the answer to the n-th claim.
func (q *question) decide(n int, values []int64) error {
	if values == nil {
		return errTooShort
	}
	c, verdict, limit := &q.claims[n], values[0], values[1]
	if limit < 0 || limit >= int64(len(c.Limits)) || verdict < denied || verdict > tooCostly {
		return fmt.Errorf("redisstore: the script answered with verdict %d and limit %d of %d", verdict, limit, len(c.Limits))
	}
	d := &q.answers[n]
	*d = ratelimit.Decision{
		Allowed:    verdict == fits,
		Limit:      c.Limits[limit],
		Remaining:  int(values[2]),
		RetryAfter: time.Duration(values[3]) * time.Microsecond,
		ResetAfter: time.Duration(values[4]) * time.Microsecond,
	}
	switch verdict {
	case denied:
		d.Reason = ratelimit.Exhausted
	case tooCostly:
		d.Reason = ratelimit.TooCostly
	}
	return nil
}

// count completes the answer to a claim that was counted at now, on the server's clock, after so many that are equal.
func (q *question) count(n, after int, now time.Duration) {
	d, c := &q.answers[n], &q.claims[n]
	if c.Cost == 0 { // a look, of a request that was sent twice
		return
	}
	d.Remaining -= after * c.Cost // the answer is to the first of them
	d.Reason, d.Ticket = ratelimit.Counted, ratelimit.Ticket{ID: q.id, Cost: c.Cost, Counters: c.CountersAt(now)}
}

// forgetCounters is for a claim that was counted when it was first sent, nobody knows in which sub-window: a refund leaves
// its counters alone, and its entries can be told by their id.
func (q *question) forgetCounters(n int) {
	if t := &q.answers[n].Ticket; t.Counters != "" {
		t.Counters = "log"
	}
}
