package benchmarks

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/oracle"
	"github.com/sashlimit/sash/ratelimit/redisstore"
	"github.com/sashlimit/sash/stdmw"
)

// What an outage of Redis costs the requests behind a limit, and what a flood costs the process. Each test prints a
// table, and fails where a figure breaks a promise. On a machine that does other work as well the latencies are its own.

var outages = flag.Bool("outages", false, "measure outages of Redis, half a minute each, and floods")

func measure(t *testing.T) {
	t.Helper()
	if !*outages {
		t.Skip("it takes minutes: -outages asks for it")
	}
	logging.Disable() // the client tells of every failed dial
}

const (
	perSecond = 200
	hotEvery  = 4 // every so many requests are for one key; the others are for coldKeys in turn
	coldKeys  = 1000

	healthy = 5 * time.Second
	down    = 10 * time.Second
	back    = 5 * time.Second

	noise    = 50 * time.Millisecond // of the machine
	wantP99  = 5 * time.Millisecond  // once no request waits for Redis
	wantBack = 1500 * time.Millisecond
)

var twentyPerTenSeconds = ratelimit.Limit{MaxRequests: 20, Window: 10 * time.Second}

// faults happen to a server, and end.
var faults = []struct {
	name        string
	begin, heal func(*redistest.Server)
}{
	{"SIGKILL, empty restart", (*redistest.Server).Kill, (*redistest.Server).Restart},
	{"SIGSTOP", (*redistest.Server).Freeze, (*redistest.Server).Thaw},
}

// TestOutage plays ten seconds without Redis for each fault and Policy, and takes every request's time.
func TestOutage(t *testing.T) {
	measure(t)
	var rows []string
	for _, f := range faults {
		for _, policy := range []ratelimit.Policy{ratelimit.FailOpen, ratelimit.FailClosed, ratelimit.FailLocal} {
			t.Run(f.name+"/"+policy.String(), func(t *testing.T) {
				server := redistest.Start(t)
				r := newRun(t, server.Addr(), policy)
				stop := r.load()
				time.Sleep(healthy)
				r.fell = r.now()
				f.begin(server)
				time.Sleep(down)
				f.heal(server)
				r.healed = r.now()
				time.Sleep(back)
				stop()
				r.judge()
				rows = append(rows, fmt.Sprintf("| %s | %s %s", f.name, policy, r.row()))
			})
		}
	}
	t.Log("\n| fault | policy | healthy p50 | until the breaker opens: requests, p50 / p99 / max | then: requests, p50 / p99 / max | answers to lawful requests | hot key allowed | most in 10 s for certain (limit 20) | back after |\n" +
		"|---|---|---|---|---|---|---|---|---|\n" + strings.Join(rows, "\n"))
}

// run is one application under load, and what became of its requests.
type run struct {
	*testing.T
	policy       ratelimit.Policy
	epoch        time.Time
	fell, healed time.Duration // since the epoch
	handler      http.Handler

	mu       sync.Mutex
	requests []*request
}

// request is one of them.
type request struct {
	hot               bool
	began, ran, ended time.Duration
	status            int
	reason            ratelimit.Reason
}

// requestKey is that of a request in its context.
type requestKey struct{}

func newRun(t *testing.T, addr string, policy ratelimit.Policy) *run {
	r := &run{T: t, policy: policy, epoch: time.Now()}
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
	t.Cleanup(func() { client.Close() })
	lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(client), OnFailure: policy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lim.Close() })
	limit := stdmw.Decorator{Limiter: lim, Observe: func(r *http.Request, _ string, d ratelimit.Decision) {
		r.Context().Value(requestKey{}).(*request).reason = d.Reason
	}}
	mux := http.NewServeMux()
	rule := sash.Rule{Name: "r", KeyExpr: "params.key", Limits: []ratelimit.Limit{twentyPerTenSeconds}}
	mux.Handle("GET /{key}", limit.Limit(rule)(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		q.Context().Value(requestKey{}).(*request).ran = r.now()
	})))
	r.handler = mux
	return r
}

func (r *run) now() time.Duration { return time.Since(r.epoch) }

// load sends requests, whatever becomes of those before.
func (r *run) load() (stop func()) {
	quit, all := make(chan struct{}), new(sync.WaitGroup)
	all.Go(func() {
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			case <-tick.C:
				all.Go(func() { r.send(i) })
			}
		}
	})
	return func() { close(quit); all.Wait() }
}

func (r *run) send(i int) {
	q := &request{hot: i%hotEvery == 0}
	path := "/hot"
	if !q.hot {
		path = fmt.Sprint("/cold", i%coldKeys)
	}
	w := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(context.WithValue(context.Background(), requestKey{}, q), "GET", path, nil)
	q.began = r.now()
	r.handler.ServeHTTP(w, req)
	q.ended = r.now()
	q.status = w.Code
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, q)
}

// without reports whether the store has not decided.
func (q *request) without() bool {
	return q.reason == ratelimit.FailedOpen || q.reason == ratelimit.FailedClosed || q.reason == ratelimit.FailedLocal
}

// opened is when the breaker can have opened at the latest: when the third request failed.
func (r *run) opened() time.Duration {
	var failed []time.Duration
	for _, q := range r.requests {
		if q.began >= r.fell && q.without() {
			failed = append(failed, q.ended)
		}
	}
	if len(failed) < 3 {
		r.Fatal("the fault has had no effect")
	}
	slices.Sort(failed)
	return failed[2]
}

// took returns, sorted, how long the requests took that began in [from, to).
func (r *run) took(from, to time.Duration) (took []time.Duration) {
	for _, q := range r.requests {
		if q.began >= from && q.began < to {
			took = append(took, q.ended-q.began)
		}
	}
	slices.Sort(took)
	return took
}

// recovered is how long after the fault a request was decided by the store again.
func (r *run) recovered() time.Duration {
	first := time.Duration(1<<63 - 1)
	for _, q := range r.requests {
		if q.began > r.healed && q.reason == ratelimit.Counted {
			first = min(first, q.ended)
		}
	}
	return first - r.healed
}

// answers counts the statuses of requests of one kind in the outage.
func (r *run) answers(hot bool) map[int]int {
	statuses := make(map[int]int)
	for _, q := range r.requests {
		if q.hot == hot && q.began >= r.fell && q.began < r.healed {
			statuses[q.status]++
		}
	}
	return statuses
}

// judged is what the oracle says of the hot key, over the whole run.
func (r *run) judged() oracle.Report {
	h := oracle.History{Clock: oracle.Clock{Drift: 1e-3, Tick: time.Microsecond}}
	for _, q := range r.requests {
		if q.hot && q.status == http.StatusOK {
			h.Allowed = append(h.Allowed, oracle.Interval{Begin: q.began, End: q.ran})
		}
	}
	return oracle.Check(h, twentyPerTenSeconds.MaxRequests, twentyPerTenSeconds.Window)
}

// judge holds the run to its promises.
func (r *run) judge() {
	r.Helper()
	before, then := r.took(r.fell, r.opened()), r.took(r.opened(), r.healed)
	if worst := percentile(before, 100); worst > ratelimit.DefaultTimeout+noise {
		r.Errorf("until the breaker opened a request took %v, want the Timeout at most", worst)
	}
	if got := percentile(then, 99); got > wantP99 {
		r.Errorf("once the breaker was open the 99th percentile was %v, want %v", got, wantP99)
	}
	if got := r.recovered(); got > wantBack {
		r.Errorf("the store decided again after %v, want %v", got, wantBack)
	}
	for _, q := range r.requests {
		if q.status >= 500 && r.policy != ratelimit.FailClosed {
			r.Errorf("a client was answered %d", q.status)
		}
	}
	if report := r.judged(); report.Verdict != oracle.Lawful && r.policy != ratelimit.FailOpen {
		r.Error(report)
	}
}

func (r *run) row() string {
	before, then := r.took(r.fell, r.opened()), r.took(r.opened(), r.healed)
	hot := r.answers(true)
	asked := 0
	for _, n := range hot {
		asked += n
	}
	return fmt.Sprintf("| %s | %d, %s | %d, %s | %s | %d of %d | %d | %.2f s |",
		ms(percentile(r.took(0, r.fell), 50)), len(before), spread(before), len(then), spread(then),
		strings.TrimPrefix(fmt.Sprint(r.answers(false)), "map"), hot[http.StatusOK], asked, r.judged().Most, r.recovered().Seconds())
}

func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

func spread(sorted []time.Duration) string {
	return fmt.Sprintf("%s / %s / %s", ms(percentile(sorted, 50)), ms(percentile(sorted, 99)), ms(percentile(sorted, 100)))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

// flooded is asked for first, and again after the flood.
const (
	flooded = "exhausted"
	flood   = 1_000_000
	atOnce  = 500 // claims in a request
)

var fivePerTenMinutes = ratelimit.Limit{MaxRequests: 5, Window: 10 * time.Minute}

// TestFlood asks for a million keys, once each, and weighs the process before and after.
func TestFlood(t *testing.T) {
	measure(t)
	var rows []string
	for _, test := range []struct {
		name  string
		store func(*testing.T) ratelimit.Store
	}{
		{"memory store, MaxKeys 1,000,000", func(*testing.T) ratelimit.Store { return nil }},
		{"Redis, LocalKeys 100,000", func(t *testing.T) ratelimit.Store { return redisstore.New(redistest.Start(t).Client()) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			lim, err := ratelimit.New(ratelimit.Config{Store: test.store(t), Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer lim.Close()
			ask(t, lim, 2*fivePerTenMinutes.MaxRequests, flooded)
			before := heap()
			for i := 0; i < flood; i += atOnce {
				claimAtOnce(t, lim, i)
			}
			after := heap()
			again := ask(t, lim, fivePerTenMinutes.MaxRequests, flooded)
			if again > 0 {
				t.Errorf("the exhausted key is allowed %d requests more", again)
			}
			rows = append(rows, fmt.Sprintf("| %s | %.1f MB | %.1f MB | %.0f | %d of %d |", test.name,
				mb(before), mb(after), float64(after-before)/flood, again, fivePerTenMinutes.MaxRequests))
		})
	}
	t.Log("\n| store | heap before | after 1,000,000 keys | bytes for each key asked | exhausted key allowed again |\n|---|---|---|---|---|\n" + strings.Join(rows, "\n"))
}

// claimAtOnce asks for some keys by one request.
func claimAtOnce(t *testing.T, lim *ratelimit.Limiter, from int) {
	t.Helper()
	claims := make([]ratelimit.Claim, atOnce)
	for i := range claims {
		claims[i] = ratelimit.Claim{Key: fmt.Sprint("user-", from+i), Limits: []ratelimit.Limit{fivePerTenMinutes}, Cost: 1}
	}
	if _, err := lim.AllowAll(t.Context(), claims...); err != nil {
		t.Fatal(err)
	}
}

// ask asks n times, and returns how many were allowed.
func ask(t *testing.T, lim *ratelimit.Limiter, n int, key string) (allowed int) {
	t.Helper()
	for range n {
		d, err := lim.Allow(t.Context(), key, fivePerTenMinutes)
		if err != nil || d.Reason == ratelimit.FailedOpen {
			t.Fatal(d, err)
		}
		if d.Allowed {
			allowed++
		}
	}
	return allowed
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first has found to be finalised
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

// TestDeniedFlood asks Redis for an exhausted key as fast as it goes, with and without the memory of denials.
func TestDeniedFlood(t *testing.T) {
	measure(t)
	const lasts = 3 * time.Second
	var rows []string
	for _, callers := range []int{1, 64} {
		var rates [2]float64
		for i, askAlways := range []bool{false, true} {
			client := redistest.Start(t).Client()
			lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(client), Timeout: time.Minute, AskAlways: askAlways})
			if err != nil {
				t.Fatal(err)
			}
			ask(t, lim, 2*fivePerTenMinutes.MaxRequests, flooded)
			rates[i] = denials(t, lim, callers, lasts)
			lim.Close()
		}
		rows = append(rows, fmt.Sprintf("| %d | %.0f | %.0f | %.0f × |", callers, rates[0], rates[1], rates[0]/rates[1]))
	}
	t.Log("\n| callers | denials remembered, per second | AskAlways, per second | |\n|---|---|---|---|\n" + strings.Join(rows, "\n"))
}

// denials returns how many a second there are.
func denials(t *testing.T, lim *ratelimit.Limiter, callers int, lasts time.Duration) float64 {
	t.Helper()
	var all sync.WaitGroup
	counts := make([]int, callers)
	began := time.Now()
	for c := range callers {
		all.Go(func() {
			for time.Since(began) < lasts {
				if d, err := lim.Allow(t.Context(), flooded, fivePerTenMinutes); err != nil || d.Allowed {
					t.Errorf("%+v, %v", d, err)
					return
				}
				counts[c]++
			}
		})
	}
	all.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / time.Since(began).Seconds()
}

// TestHotKey fills one log to the most that a limit may hold, and lets Redis say how long it runs the script on it.
func TestHotKey(t *testing.T) {
	measure(t)
	client := redistest.Start(t).Client()
	lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(client).WithoutCoalescing(), Timeout: time.Minute, AskAlways: true})
	if err != nil {
		t.Fatal(err)
	}
	defer lim.Close()
	full := ratelimit.Limit{MaxRequests: 10_000, Window: 10 * time.Second}
	for range 10 {
		if d, err := lim.AllowN(t.Context(), "hot", full.MaxRequests/10, full); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	client.ConfigResetStat(t.Context())
	for range 5000 {
		if d, err := lim.Allow(t.Context(), "hot", full); err != nil || d.Reason != ratelimit.Exhausted {
			t.Fatal(d, err)
		}
	}
	histogram := client.Do(t.Context(), "LATENCY", "HISTOGRAM", "evalsha").Val()
	time.Sleep(full.Window) // now all have left, and the next request drops them
	client.ConfigResetStat(t.Context())
	if d, err := lim.Allow(t.Context(), "hot", full); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	t.Logf("\n10,000 entries, 5,000 denials; how many calls took up to so many µs: %v\nthe one that drops 10,000 entries: %v",
		histogram, client.Do(t.Context(), "LATENCY", "HISTOGRAM", "evalsha").Val())
}
