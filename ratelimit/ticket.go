package ratelimit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Ticket names exactly the entries that one allowed claim wrote to its log, so that they can be refunded.
// The zero Ticket names none.
type Ticket struct {
	ID   uuid.UUID
	Cost int

	// Counters names the sub-windows in which limits in Buckets have counted the claim; "" if there are no such limits.
	// It is a word for each, behind "log" if others have listed it: "log 60x1m0s.t4xh5k" is sub-window t4xh5k (in base 36)
	// of the 60 in a minute.
	Counters string
}

// SubWindow is one in which a claim was counted.
type SubWindow struct {
	Limit        // its Window and Buckets; MaxRequests is 1
	Number int64 // i, on the store's clock
}

// leaves is when its requests no longer count.
func (w SubWindow) leaves() time.Duration { return time.Duration(w.Number)*w.Width() + w.Span() }

const (
	listed = "log"
	base   = 36 // of numbers of sub-windows
)

// CountersAt is the Counters of a ticket for the claim, if it was counted then, on the store's clock.
func (c *Claim) CountersAt(now time.Duration) string {
	lists, counts := c.Kinds()
	if !counts {
		return ""
	}
	var names []byte
	if lists {
		names = append(names, listed...)
	}
	for i := range c.Limits {
		l := &c.Limits[i]
		if l.Buckets == 0 || slices.ContainsFunc(c.Limits[:i], l.sharesRing) {
			continue
		}
		if len(names) > 0 {
			names = append(names, ' ')
		}
		names = append(strconv.AppendInt(names, int64(l.Buckets), 10), 'x')
		names = append(append(names, l.Window.String()...), '.')
		names = strconv.AppendInt(names, l.SubWindow(now), base)
	}
	return string(names)
}

// Kinds reports whether the claim has limits without Buckets, and limits with them.
func (c *Claim) Kinds() (lists, counts bool) {
	for i := range c.Limits {
		if c.Limits[i].Buckets == 0 {
			lists = true
		} else {
			counts = true
		}
	}
	return lists, counts
}

// SubWindows reads the Counters. listed tells whether the log has entries of the request as well. An error wraps ErrInvalid.
func (t Ticket) SubWindows() (windows []SubWindow, inLog bool, err error) {
	words, also := strings.CutPrefix(t.Counters, listed)
	for word := range strings.FieldsSeq(words) {
		w, ok := parseSubWindow(word)
		if !ok {
			return nil, false, fmt.Errorf("%w Ticket: %q names no counter", ErrInvalid, word)
		}
		windows = append(windows, w)
	}
	return windows, also || t.Counters == "", nil
}

func parseSubWindow(word string) (w SubWindow, ok bool) {
	point := strings.LastIndexByte(word, '.')
	buckets, window, _ := strings.Cut(word[:max(0, point)], "x")
	k, err := strconv.Atoi(buckets)
	if err != nil {
		return w, false
	}
	long, err := time.ParseDuration(window)
	if err != nil {
		return w, false
	}
	w.Limit = Limit{MaxRequests: 1, Window: long, Buckets: k}
	w.Number, err = strconv.ParseInt(word[point+1:], base, 64)
	return w, err == nil && k > 0 && w.Limit.Validate() == nil
}
