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
	flights [maxFlights]time.Time // when each must be over; zero: there is none
	flying  sync.WaitGroup
}

// take has a question answered. One that waits returns as soon as ctx is done; it may then have been sent or not.
func (l *lane) take(ctx context.Context, q *question) error {
	aboard, flight, err := l.enter(ctx, q)
	switch {
	case err != nil:
		return err
	case aboard != nil:
		l.fly(ctx, aboard, flight)
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

// enter has a question wait, or if there is a flight free, fly at once with all that waits.
func (l *lane) enter(ctx context.Context, q *question) (aboard []*question, flight int, err error) {
	q.ctx = ctx
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= maxWaiting {
		return nil, 0, errCrowded
	}
	flight = l.free()
	if flight < 0 || len(l.waiting) > 0 {
		q.done = make(chan struct{})
	}
	l.waiting = append(l.waiting, q)
	if flight < 0 {
		return nil, 0, nil
	}
	l.flying.Add(1)
	return l.board(flight), flight, nil
}

// free returns a flight that is not under way, or below 0. One that should be over is not waited for: its client does
// not mind its context.
func (l *lane) free() int {
	for i, end := range l.flights {
		if end.IsZero() || time.Now().After(end) {
			return i
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

// board returns the questions for the next call, nil if there are none. The flight must be over when the latest of them is.
func (l *lane) board(flight int) []*question {
	n := min(len(l.waiting), maxAboard)
	if n == 0 {
		return nil
	}
	aboard := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	end := aboard[0].deadline()
	for _, q := range aboard[1:] {
		if d := q.deadline(); d.After(end) {
			end = d
		}
	}
	l.flights[flight] = end
	return aboard
}

// fly asks what is aboard, and if more has come to wait meanwhile, sees to it that it is asked as well.
func (l *lane) fly(ctx context.Context, aboard []*question, flight int) {
	defer l.flying.Done()
	end := l.flights[flight]
	l.land(ctx, aboard, end)

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flights[flight] != end {
		return // it was given up, and another took its place
	}
	l.flights[flight] = time.Time{}
	if next := l.board(flight); next != nil {
		l.flying.Add(1)
		go l.fly(context.WithoutCancel(ctx), next, flight)
	}
}

// land asks, and tells those who wait.
func (l *lane) land(ctx context.Context, aboard []*question, end time.Time) {
	defer func() {
		if p := recover(); p != nil {
			fail(aboard, fmt.Errorf("redisstore: the client panicked: %v", p))
		}
		for _, q := range aboard {
			if q.done != nil {
				close(q.done)
			}
		}
	}()
	if len(aboard) > 1 || aboard[0].done != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(context.WithoutCancel(ctx), end)
		defer cancel()
	}
	l.ask(ctx, aboard)
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
