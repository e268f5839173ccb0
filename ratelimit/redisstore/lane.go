package redisstore

import (
	"context"
	"errors"
	"fmt"
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

// lane is the way to one server. A question that comes while few calls are under way is sent at once, by whoever asks;
// those that come while many are wait for one of these to return, and travel together. So a call is as full as the
// load makes it, and a question that is alone costs what a plain call costs.
type lane struct {
	ask func(ctx context.Context, questions []*question) // gives each its answers, or an error

	mu      sync.Mutex
	waiting []*question
	ends    [maxFlights]time.Time // when each flight must be over; zero: it is not under way
	flying  sync.WaitGroup
}

// take has a question answered. One that waits returns as soon as ctx is done; it may then have been sent or not.
func (l *lane) take(ctx context.Context, q *question) error {
	q.ctx = ctx
	f, err := l.enter(q)
	switch {
	case err != nil:
		return err
	case f.aboard != nil:
		l.fly(ctx, f)
		return nil
	}
	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
		l.leave(q)
		return ctx.Err()
	}
}

// flight is one call.
type flight struct {
	place  int
	aboard []*question
	end    time.Time // when the latest of them must be answered
}

// enter has a question wait, or if a flight is free, fly at once with all that waits.
func (l *lane) enter(q *question) (f flight, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= maxWaiting {
		return f, errCrowded
	}
	place := l.free()
	if place < 0 || len(l.waiting) > 0 {
		q.done = make(chan struct{})
	}
	l.waiting = append(l.waiting, q)
	if place < 0 {
		return f, nil
	}
	l.flying.Add(1)
	return l.board(place), nil
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

// board fills a flight with what waits. Nobody is aboard if nothing does.
func (l *lane) board(place int) flight {
	f := flight{place: place}
	n := min(len(l.waiting), maxAboard)
	if n == 0 {
		return f
	}
	f.aboard = slices.Clone(l.waiting[:n])
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
	defer l.flying.Done()
	l.land(ctx, f)

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends[f.place] != f.end {
		return // it was given up, and another has its place
	}
	l.ends[f.place] = time.Time{}
	if next := l.board(f.place); next.aboard != nil {
		l.flying.Add(1)
		go l.fly(context.WithoutCancel(ctx), next)
	}
}

// land asks, and tells those who wait. It is given as long as the latest of them waits; a question that is alone has its
// own context.
func (l *lane) land(ctx context.Context, f flight) {
	defer func() {
		if p := recover(); p != nil {
			fail(f.aboard, fmt.Errorf("redisstore: the client panicked: %v", p))
		}
		for _, q := range f.aboard {
			if q.done != nil {
				close(q.done)
			}
		}
	}()
	if len(f.aboard) > 1 || f.aboard[0].done != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(context.WithoutCancel(ctx), f.end)
		defer cancel()
	}
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
	defer ls.mu.Unlock()
	for _, l := range ls.byServer {
		l.flying.Wait()
	}
}
