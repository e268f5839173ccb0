package redisstore_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/oracle"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// Two processes, whose limiters decide 200 requests a second together, lose their master on the way. What became of the
// requests is logged (go test -v), not judged: how long a failover takes, and what it loses, is not ours.
func TestBehindSentinelDecisionsSucceedAgainAfterAFailover(t *testing.T) {
	t.Parallel()
	for _, policy := range []ratelimit.Policy{ratelimit.FailOpen, ratelimit.FailClosed, ratelimit.FailLocal} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			failOver(t, policy, (*redistest.Server).Kill, (*redistest.Server).Restart)
		})
	}
	t.Run("of a master that wakes up later", func(t *testing.T) {
		t.Parallel()
		failOver(t, ratelimit.FailLocal, (*redistest.Server).Freeze, (*redistest.Server).Thaw)
	})
}

// failOver has the master go down under traffic, and come back, as a replica then, once there is another.
func failOver(t *testing.T, policy ratelimit.Policy, down, up func(*redistest.Server)) {
	t.Helper()
	sentinel := redistest.StartSentinel(t, 2)
	var log lockedBuffer
	traffic := newTraffic(t, ratelimit.Config{OnFailure: policy, Logger: slog.New(slog.NewTextHandler(&log, nil))}, sentinel)
	traffic.start()
	time.Sleep(time.Second) // of traffic before, and as much afterwards, to compare with
	began, master := time.Now(), sentinel.Master()
	down(master)
	sentinel.Successor(master)
	elected := time.Now()
	up(master)
	traffic.awaitDecisions()
	back := time.Now()
	time.Sleep(time.Second)
	traffic.stop()

	if strings.Contains(log.String(), "panicked") {
		t.Error(log.String())
	}
	most := traffic.mostInOneWindow()
	if bound := len(traffic.lims) * twentyPerTwoSeconds.MaxRequests; policy == ratelimit.FailLocal && most > bound {
		t.Errorf("%d requests were allowed in one window, want %d in each process at most", most, bound)
	}
	t.Logf("a new master after %.1f s, decisions by it after %.1f s: %s",
		elected.Sub(began).Seconds(), back.Sub(began).Seconds(), traffic)
}

// traffic is 200 requests a second: a quarter on one key, whose limit they exceed, the others on many keys that have room.
type traffic struct {
	t    *testing.T
	lims []*ratelimit.Limiter
	rec  *oracle.Recorder // of the one key
	quit chan struct{}
	wait sync.WaitGroup

	mu      sync.Mutex
	reasons map[ratelimit.Reason]int
	counted []time.Time // when each limiter's latest request that its store has counted began
	slowest time.Duration
}

var (
	twentyPerTwoSeconds = ratelimit.Limit{MaxRequests: 20, Window: 2 * time.Second}
	thousandPerMinute   = ratelimit.Limit{MaxRequests: 1000, Window: time.Minute}
)

// newTraffic makes the limiters of two processes, each with a client of its own.
func newTraffic(t *testing.T, config ratelimit.Config, sentinel *redistest.Sentinel) *traffic {
	tr := &traffic{
		t: t, rec: oracle.NewRecorder(), quit: make(chan struct{}),
		reasons: make(map[ratelimit.Reason]int), counted: make([]time.Time, 2),
	}
	for range tr.counted {
		config.Store = redisstore.New(sentinel.Client())
		lim, err := ratelimit.New(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { lim.Close() })
		tr.lims = append(tr.lims, lim)
	}
	return tr
}

func (tr *traffic) start() {
	tr.wait.Go(func() {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-tr.quit:
				return
			case <-ticker.C: // whether or not the requests before have been answered
				tr.wait.Go(func() { tr.request(i) })
			}
		}
	})
}

func (tr *traffic) stop() {
	close(tr.quit)
	tr.wait.Wait()
}

func (tr *traffic) request(i int) {
	process, began := i%len(tr.lims), time.Now()
	var d ratelimit.Decision
	var err error
	if i/len(tr.lims)%4 == 0 {
		call := tr.rec.Begin()
		if d, err = tr.lims[process].Allow(tr.t.Context(), "hot", twentyPerTwoSeconds); d.Allowed {
			call.Allowed()
		} else {
			call.Denied()
		}
	} else {
		d, err = tr.lims[process].Allow(tr.t.Context(), fmt.Sprint("k", i%1000), thousandPerMinute)
	}
	if err != nil {
		tr.t.Error(err)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.reasons[d.Reason]++
	tr.slowest = max(tr.slowest, time.Since(began))
	if d.Reason == ratelimit.Counted && began.After(tr.counted[process]) {
		tr.counted[process] = began
	}
}

// awaitDecisions returns when requests that begin from now on are counted, those of each process.
func (tr *traffic) awaitDecisions() {
	tr.t.Helper()
	now := time.Now()
	await(tr.t, "every process has its requests counted again", func() bool {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		for _, counted := range tr.counted {
			if counted.Before(now) {
				return false
			}
		}
		return true
	})
}

// mostInOneWindow is how many requests on the one key were allowed in some window, for certain.
func (tr *traffic) mostInOneWindow() int {
	return oracle.Check(tr.rec.History(), twentyPerTwoSeconds.MaxRequests, twentyPerTwoSeconds.Window).Most
}

func (tr *traffic) String() string {
	return fmt.Sprintf("%v; the slowest took %v; most on one key in one window %d of %d",
		tr.reasons, tr.slowest.Round(time.Millisecond), tr.mostInOneWindow(), twentyPerTwoSeconds.MaxRequests)
}

// lockedBuffer is a strings.Builder for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
