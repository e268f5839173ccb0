package redisstore_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/oracle"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// These tests drive a real server in real time: what they wait for is the windows of that server.

// Two hundred clients of four processes' worth of connections ask for one key, for three windows and more.
// From when each request began and ended the oracle proves whether some window must have held too many, and
// whether a denial cannot have been right.
func TestHundredsOfClientsAreHeldToTheLimitInEveryWindow(t *testing.T) {
	t.Parallel()
	const clients = 200
	limit := ratelimit.Limit{MaxRequests: 100, Window: time.Second}
	server := redistest.Start(t)
	rec, lims := oracle.NewRecorder(), limiters(t, server, 4)
	// As long as it takes: some windows after the first, and no verdict on how fast the machine is.
	enough, patience := int64(3*limit.MaxRequests+limit.MaxRequests/2), time.Now().Add(time.Minute)
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for i := range clients {
		wait.Go(func() {
			for allowed.Load() < enough && time.Now().Before(patience) {
				if ask(t, rec, lims[i%len(lims)], limit) {
					allowed.Add(1)
				}
				time.Sleep(rand.N(40 * time.Millisecond)) // a client's pause between its requests
			}
		})
	}
	wait.Wait()
	judge(t, rec, limit, 3*limit.MaxRequests)
}

// The attack on every fixed window and every estimate: a burst at the end of a window, and another as soon as
// the next could begin.
func TestABurstOverTheEdgeOfAWindowIsHeldToTheLimit(t *testing.T) {
	t.Parallel()
	limit := ratelimit.Limit{MaxRequests: 50, Window: time.Second}
	rec := oracle.NewRecorder()
	lims := limiters(t, redistest.Start(t), 2)
	ask(t, rec, lims[0], limit)
	time.Sleep(limit.Window * 9 / 10)
	for range 8 { // eight bursts over 1.2 windows
		var wait sync.WaitGroup
		for i := range 2 * limit.MaxRequests {
			wait.Go(func() { ask(t, rec, lims[i%len(lims)], limit) })
		}
		wait.Wait()
		time.Sleep(150 * time.Millisecond)
	}
	judge(t, rec, limit, 2*limit.MaxRequests-1)
}

// limiters returns n limiters, each with a client of its own, that are given the time to answer on a busy machine.
func limiters(t *testing.T, server *redistest.Server, n int) []*ratelimit.Limiter {
	t.Helper()
	lims := make([]*ratelimit.Limiter, n)
	for i := range lims {
		lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(server.Client()), Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { lim.Close() })
		lims[i] = lim
	}
	return lims
}

// ask sends one request for the one key, takes down what became of it, and reports whether it was allowed.
func ask(t *testing.T, rec *oracle.Recorder, lim *ratelimit.Limiter, limit ratelimit.Limit) bool {
	call := rec.Begin()
	d, err := lim.Allow(t.Context(), "hot", limit)
	switch {
	case err != nil || d.Reason == ratelimit.FailedOpen:
		call.Doubtful()
		t.Errorf("no decision: %+v, %v", d, err)
	case d.Allowed:
		call.Allowed()
	default:
		call.Denied()
	}
	return err == nil && d.Allowed
}

// judge asks the oracle, and whether there was anything to judge: at least so many requests were allowed.
func judge(t *testing.T, rec *oracle.Recorder, limit ratelimit.Limit, atLeast int) {
	t.Helper()
	h := rec.History()
	h.Clock = oracle.Clock{Drift: 500e-6, Tick: time.Microsecond} // the server's may be slewed
	report := oracle.Check(h, limit.MaxRequests, limit.Window)
	if !report.OK() {
		t.Error(report)
	}
	if len(h.Allowed) < atLeast || len(h.Denied) == 0 {
		t.Errorf("%d allowed and %d denied: want %d allowed at least, and some denied", len(h.Allowed), len(h.Denied), atLeast)
	}
	t.Logf("%d allowed, %d denied, at most %d for certain in one window", len(h.Allowed), len(h.Denied), report.Most)
}
