package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// maxFlights is how many calls of a lane are under way at a time. More would be emptier, and each costs both ends
	// a turn at their sockets.
	maxFlights = 4

	// maxAboard is how many questions one call carries: Redis does nothing else while it answers them.
	maxAboard = 128

	// maxWaiting bounds the questions that wait for a call to return.
	maxWaiting = 16_384

	// patience is for questions that come without a deadline.
	patience = 10 * time.Second
)

var errCrowded = errors.New("redisstore: too many requests wait for the server")

// lane is the way to one server. A question that comes while few calls are under way is sent at once; those that come
// while many are wait for one of these to return, and travel together. So a call is as full as the load makes it, and
// a question that is alone waits for nobody.
type lane struct {
	ask func(ctx context.Context, questions []*question) // gives each its answers, or an error

	mu      sync.Mutex
	waiting []*question
	ends    [maxFlights]time.Time // when each flight must be over; zero: it is not under way
	flying  running
}

// take has a question answered. It returns as soon as ctx is done; the question may then have been sent or not.
func (l *lane) take(ctx context.Context, q *question) error {
	q.ctx = ctx
	if err := l.enter(q); err != nil {
		return err
	}
	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
		l.leave(q)
		return ctx.Err()
	}
}

// enter has a question wait, and begins a flight if one is free.
func (l *lane) enter(q *question) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= maxWaiting {
		return errCrowded
	}
	l.waiting = append(l.waiting, q)
	if place := l.free(); place >= 0 {
		l.begin(q.ctx, place)
	}
	return nil
}

// begin sends what waits.
func (l *lane) begin(ctx context.Context, place int) {
	f := l.board(place)
	l.flying.run(func() { l.fly(context.WithoutCancel(ctx), f) })
}

// flight is one call.
type flight struct {
	place  int
	aboard []*question
	end    time.Time // when the latest of them must be answered
}

// free returns the place of a flight that is not under way, or below 0. One that should be over is not waited for: its
// client does not mind its context.
func (l *lane) free() int {
	for place, end := range l.ends {
		if end.IsZero() || time.Now().After(end) {
			return place
		}
	}
	return -1
}

// leave takes a question out again, if it has not been sent.
func (l *lane) leave(q *question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(other *question) bool { return other == q })
}

// board fills a flight with what waits.
func (l *lane) board(place int) flight {
	n := min(len(l.waiting), maxAboard)
	f := flight{place: place, aboard: slices.Clone(l.waiting[:n])}
	l.waiting = slices.Delete(l.waiting, 0, n)
	for _, q := range f.aboard {
		if d := q.deadline(); d.After(f.end) {
			f.end = d
		}
	}
	l.ends[place] = f.end
	return f
}

// fly asks, and if more has come to wait meanwhile, sees to it that it is asked as well.
func (l *lane) fly(ctx context.Context, f flight) {
	l.land(ctx, f)

	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ends[f.place] != f.end: // it was given up, and another has its place
	case len(l.waiting) > 0:
		l.begin(ctx, f.place)
	default:
		l.ends[f.place] = time.Time{}
	}
}

// land asks, and tells those who wait. The call may last as long as the latest of them waits.
func (l *lane) land(ctx context.Context, f flight) {
	ctx, cancel := context.WithDeadline(ctx, f.end)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			fail(f.aboard, fmt.Errorf("redisstore: the client panicked: %v", p))
		}
		for _, q := range f.aboard {
			q.done <- struct{}{} // there is room
		}
	}()
	l.ask(ctx, f.aboard)
}

// fail gives questions an error.
func fail(questions []*question, err error) {
	for _, q := range questions {
		q.err = err
	}
}

// lanes are those to all servers.
type lanes struct {
	ask func(ctx context.Context, questions []*question)

	mu       sync.Mutex
	byServer map[string]*lane
}

func (ls *lanes) to(server string) *lane {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, ok := ls.byServer[server]
	if !ok {
		l = &lane{ask: ls.ask}
		ls.byServer[server] = l
	}
	return l
}

func (ls *lanes) wait() {
	ls.mu.Lock()
	all := slices.Collect(maps.Values(ls.byServer))
	ls.mu.Unlock()
	for _, l := range all {
		l.flying.wait()
	}
}
