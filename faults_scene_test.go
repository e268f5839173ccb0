package sash_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/internal/faultproxy"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/oracle"
	"github.com/sashlimit/sash/ratelimit/redisstore"
	"github.com/sashlimit/sash/stdmw"
)

// scene is a Redis and the applications behind it: each has a Limiter and a client of its own, and mostly keys as
// well, as if it were the only one.
type scene struct {
	*testing.T
	fault
	epoch    time.Time
	services []*service

	server *redistest.Server
	proxy  *faultproxy.Proxy // between the applications and the server
	addr   atomic.Value      // what they dial

	// Only where the fault is about them:
	replica  *redistest.Server
	sentinel *redistest.Sentinel
	cluster  *redistest.Cluster
	connect  func() redis.UniversalClient // instead of dialling addr

	befell, ended atomic.Int64 // when, since the epoch; 0 for not yet
}

const (
	hotKey = "hot" // the key that is asked for all the time; every other one is asked for once

	beat        = 40 * time.Millisecond // between two requests for the hot key
	beforeFault = 400 * time.Millisecond
	duringFault = 800 * time.Millisecond
	afterFault  = 600 * time.Millisecond

	eventually = 30 * time.Second // for what must happen some time
)

// hotLimit is used up in the middle of an outage, and has not come back at its end.
var hotLimit = ratelimit.Limit{MaxRequests: 20, Window: 2 * time.Second}

// inParallel is t.Parallel for a test with clients of servers that fail. They would tell of every failed dial; they are told
// not to while no other test runs, for their logger knows no lock.
func inParallel(t *testing.T) {
	logging.Disable()
	t.Parallel()
}

func newScene(t *testing.T, f fault) *scene {
	s := &scene{T: t, fault: f, epoch: time.Now(), server: redistest.Start(t)}
	s.proxy = faultproxy.Start(t, s.server.Addr())
	s.addr.Store(s.proxy.Addr())
	s.connect = func() redis.UniversalClient { return redis.NewClient(s.options()) }
	if f.stage != nil {
		f.stage(s)
	}
	return s
}

// options are those that the README recommends.
func (s *scene) options() *redis.Options {
	return &redis.Options{
		Addr: s.proxy.Addr(), ContextTimeoutEnabled: true, DialerRetries: 1,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.addr.Load().(string))
		},
	}
}

// play opens applications, lets the fault befall the scene under load, and ends when every application is closed.
func (s *scene) play(open func()) {
	s.Helper()
	end := func() {}
	if s.atStart {
		end = s.begin()
	}
	s.labelled(open)
	stop := s.load()
	if !s.atStart {
		time.Sleep(beforeFault)
		end = s.begin()
	}
	time.Sleep(duringFault)
	end()
	s.ended.Store(int64(s.now()))
	s.await("the store to decide again", func(v *service) bool { return v.back.Load() > 0 })
	time.Sleep(afterFault)
	stop()
	s.labelled(func() {
		s.await("the hot key to be allowed again", func(v *service) bool { return v.visit(hotKey).decision.Reason == ratelimit.Counted })
	})
	s.close()
}

func (s *scene) begin() (end func()) {
	s.Helper()
	s.befell.Store(max(1, int64(s.now())))
	return s.befall(s)
}

func (s *scene) now() time.Duration { return time.Since(s.epoch) }

// everyPolicy opens an application for each adapter and Policy.
func (s *scene) everyPolicy() {
	timeout := longTimeout
	if s.silent {
		timeout = shortTimeout
	}
	for _, policy := range []ratelimit.Policy{ratelimit.FailOpen, ratelimit.FailClosed, ratelimit.FailLocal} {
		for adapter := range adapters {
			name := fmt.Sprint(adapter, ", ", policy)
			s.serve(adapter, name, s.connect(), ratelimit.Config{OnFailure: policy, Timeout: timeout})
		}
	}
}

// load has every application asked for the hot key and for new ones, whatever becomes of the requests before. It ends when
// all of them have been answered.
func (s *scene) load() (stop func()) {
	quit, all := make(chan struct{}), new(sync.WaitGroup)
	s.labelled(func() {
		for _, v := range s.services {
			all.Go(func() { v.load(quit) })
		}
	})
	return func() { close(quit); all.Wait() }
}

// await polls until something is so of every application.
func (s *scene) await(what string, happened func(*service) bool) {
	s.Helper()
	late := time.Now().Add(eventually)
	for _, v := range s.services {
		for !happened(v) {
			if time.Now().After(late) {
				s.Fatalf("%s: waited in vain for %s; its last answer is %+v", v.name, what, v.last())
			}
			time.Sleep(beat)
		}
	}
}

// again does something again and again, until it is stopped.
func (s *scene) again(every time.Duration, do func()) (stop func()) {
	quit, all := make(chan struct{}), new(sync.WaitGroup)
	all.Go(func() {
		for tick := time.NewTicker(every); ; {
			select {
			case <-tick.C:
				do()
			case <-quit:
				tick.Stop()
				return
			}
		}
	})
	return func() { close(quit); all.Wait() }
}

// keys is how many a server has.
func (s *scene) keys(server *redistest.Server) int64 {
	s.Helper()
	n, err := server.Client().DBSize(s.Context()).Result()
	s.must(err)
	return n
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// close ends the applications, of which nothing must be left.
func (s *scene) close() {
	s.Helper()
	for _, v := range s.services {
		if err := v.close(); err != nil {
			s.Errorf("%s: %v", v.name, err)
		}
	}
	var stacks string
	for late := time.Now().Add(eventually); time.Now().Before(late); time.Sleep(beat) {
		if stacks = goroutines(s.Name()); stacks == "" {
			return
		}
	}
	s.Errorf("these goroutines are left:\n%s", stacks)
}

// labelled runs f, whose goroutines and those that they start bear the scene's name.
func (s *scene) labelled(f func()) {
	pprof.Do(context.Background(), pprof.Labels("scene", s.Name()), func(context.Context) { f() })
}

// goroutines returns the stacks of those that bear a scene's name.
func goroutines(scene string) string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return err.Error()
	}
	var found []string
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, fmt.Sprintf("%q:%q", "scene", scene)) {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// service is one application: a handler behind a limit, and what became of the requests to it.
type service struct {
	*scene
	name    string
	prefix  string // of its keys
	policy  ratelimit.Policy
	limiter *ratelimit.Limiter
	client  redis.UniversalClient
	handler http.Handler
	back    atomic.Int64 // when the store was first seen to decide again, since the epoch

	mu     sync.Mutex
	visits []*visit
}

// visit is one request, and what became of it.
type visit struct {
	key               string
	began, ran, ended time.Duration // since the epoch; ran: when the handler did
	handled           int           // how often
	decision          ratelimit.Decision
	status            int
	retryAfter        string
}

// visitKey is that of a visit in the context of its request.
type visitKey struct{}

// adapters mount a handler under /{key}, behind a rule.
var adapters = map[string]func(limiter *ratelimit.Limiter, rule sash.Rule, handler http.HandlerFunc) http.Handler{
	"gin": func(limiter *ratelimit.Limiter, rule sash.Rule, handler http.HandlerFunc) http.Handler {
		gin.SetMode(gin.TestMode)
		r := gin.New()
		limit := ginmw.Decorator{Limiter: limiter, Observe: func(c *gin.Context, _ string, d ratelimit.Decision) { observe(c.Request, d) }}
		r.GET("/:key", limit.Limit(rule), gin.WrapF(handler))
		return r
	},
	"net/http": func(limiter *ratelimit.Limiter, rule sash.Rule, handler http.HandlerFunc) http.Handler {
		mux := http.NewServeMux()
		limit := stdmw.Decorator{Limiter: limiter, Observe: func(r *http.Request, _ string, d ratelimit.Decision) { observe(r, d) }}
		mux.Handle("GET /{key}", limit.Limit(rule)(handler))
		return mux
	},
}

func observe(r *http.Request, d ratelimit.Decision) {
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		v.decision = d
	}
}

// serve starts one application, whose keys begin with a prefix.
func (s *scene) serve(adapter, prefix string, client redis.UniversalClient, config ratelimit.Config) *service {
	s.Helper()
	v := &service{scene: s, name: prefix, prefix: prefix, policy: config.OnFailure, client: client}
	config.Store = redisstore.New(client).WithPrefix(prefix)
	var err error
	v.limiter, err = ratelimit.New(config)
	s.must(err)
	s.Cleanup(func() { v.close() })
	v.handler = adapters[adapter](v.limiter, sash.Rule{Name: "r", KeyExpr: "params.key", Limits: []ratelimit.Limit{hotLimit}}, v.handle)
	s.services = append(s.services, v)
	return v
}

// logOf is the name that the server knows a key by.
func (v *service) logOf(key string) string { return ratelimit.Key(v.prefix, "r", key) }

func (v *service) handle(w http.ResponseWriter, r *http.Request) {
	visit := r.Context().Value(visitKey{}).(*visit)
	visit.ran = v.now()
	visit.handled++
	io.WriteString(w, "handled")
}

func (v *service) close() error {
	err := v.limiter.Close()
	v.client.Close() // it may be closed already
	return err
}

func (v *service) load(quit <-chan struct{}) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for i := 0; ; i++ {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		all.Go(func() { v.visit(hotKey) })
		if i%2 == 0 {
			all.Go(func() { v.visit("cold" + strconv.Itoa(i)) })
		}
	}
}

// visit sends one request.
func (v *service) visit(key string) *visit {
	got := &visit{key: key}
	ctx := context.WithValue(context.Background(), visitKey{}, got)
	r := httptest.NewRequestWithContext(ctx, "GET", "/"+key, nil)
	w := httptest.NewRecorder()
	got.began = v.now()
	v.handler.ServeHTTP(w, r)
	got.ended = v.now()
	got.status, got.retryAfter = w.Code, w.Header().Get("Retry-After")
	v.note(got)
	return got
}

func (v *service) note(got *visit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.visits = append(v.visits, got)
	if ended := v.ended.Load(); ended > 0 && int64(got.began) > ended && got.decision.Reason == ratelimit.Counted {
		v.back.CompareAndSwap(0, int64(got.ended))
	}
}

func (v *service) last() visit {
	v.mu.Lock()
	defer v.mu.Unlock()
	return *v.visits[len(v.visits)-1]
}

// mustKeepThePromise holds the application to all that is true under every fault.
func (v *service) mustKeepThePromise() {
	v.Helper()
	v.mustAnswer()
	v.mustHaveCounted()
	v.mustBeLawful()
}

// withoutStore is the Reason of each Policy.
var withoutStore = map[ratelimit.Policy]ratelimit.Reason{
	ratelimit.FailOpen:   ratelimit.FailedOpen,
	ratelimit.FailClosed: ratelimit.FailedClosed,
	ratelimit.FailLocal:  ratelimit.FailedLocal,
}

// byStore reports whether a decision is the store's, be it remembered.
func byStore(d ratelimit.Decision) bool {
	return d.Reason == ratelimit.Counted || d.Reason == ratelimit.Exhausted || d.Reason == ratelimit.CachedExhausted
}

var wholeSeconds = regexp.MustCompile(`^[1-9][0-9]*$`)

// mustAnswer checks every answer: a 200 comes from the handler, a 429 is for who has used up a quota, and a 503 is for who
// fails closed.
func (v *service) mustAnswer() {
	v.Helper()
	for _, got := range v.visits {
		v.mustBeAnswered(got)
	}
}

func (v *service) mustBeAnswered(got *visit) {
	v.Helper()
	want := http.StatusOK
	switch {
	case got.decision.Reason == ratelimit.FailedClosed:
		want = http.StatusServiceUnavailable
	case !got.decision.Allowed:
		want = http.StatusTooManyRequests
	}
	switch {
	case got.status != want, (got.status == http.StatusOK) != (got.handled == 1), got.handled > 1:
		v.Errorf("%s: want status %d, and a 200 to be the handler's own: %+v", v.name, want, got)
	case want != http.StatusOK && !wholeSeconds.MatchString(got.retryAfter):
		v.Errorf("%s: it is not told when to come back: %+v", v.name, got)
	case want == http.StatusTooManyRequests && got.key != hotKey:
		v.Errorf("%s: a lawful request is denied: %+v", v.name, got)
	case !byStore(got.decision) && got.decision.Reason != withoutStore[v.policy]:
		v.Errorf("%s: another policy has decided: %+v", v.name, got)
	}
}

// mustHaveCounted compares the Limiter's own figures with what the requests were told.
func (v *service) mustHaveCounted() {
	v.Helper()
	allowed, denied := map[ratelimit.Reason]uint64{}, map[ratelimit.Reason]uint64{}
	for _, got := range v.visits {
		if got.decision.Allowed {
			allowed[got.decision.Reason]++
		} else {
			denied[got.decision.Reason]++
		}
	}
	if stats := v.limiter.Stats(); !maps.Equal(stats.Allowed, allowed) || !maps.Equal(stats.Denied, denied) {
		v.Errorf("%s: the Limiter counts %v, and there were %v and %v", v.name, stats, allowed, denied)
	}
}

// mustBeLawful has the oracle judge what was allowed on the hot key. Under FailOpen that is what the store has allowed:
// what was let in without it is not limited, and comes only in an outage (mustHaveAskedTheStoreOutsideTheOutage).
func (v *service) mustBeLawful() {
	v.Helper()
	h := history(v)
	h.Clock.Tick = shortTimeout // as late as an answer may have been that the process counts by
	report := oracle.Check(h, hotLimit.MaxRequests, hotLimit.Window)
	if report.Verdict != oracle.Lawful {
		v.Errorf("%s: %v", v.name, report)
	}
	// What a server has lost it is told as of when that arrives, which may keep a place taken for as much longer again.
	h.Clock.Tick = 2 * shortTimeout
	if report := oracle.Check(h, hotLimit.MaxRequests, hotLimit.Window); len(report.FalseDenials) > 0 {
		v.Errorf("%s: %v", v.name, report)
	}
	if v.policy == ratelimit.FailLocal {
		v.mustDenyAloneOnlyWhatItMust()
	}
}

// counted is history as the law judges it.
func counted(services ...*service) oracle.History {
	h := history(services...)
	h.Clock.Tick = shortTimeout // as late as an answer may have been that a process counts by
	return h
}

// history is what became of the requests for the hot key. Of one that the store did not decide nobody knows whether it was
// counted there, or will be.
func history(services ...*service) oracle.History {
	h := oracle.History{Clock: clocks}
	for _, v := range services {
		for _, got := range v.visits {
			seen := oracle.Interval{Begin: got.began, End: got.ended}
			switch d := got.decision; {
			case got.key != hotKey:
			case d.Allowed && d.Reason != ratelimit.FailedOpen:
				seen.End = got.ran
				h.Allowed = append(h.Allowed, seen)
			case byStore(d):
				h.Denied = append(h.Denied, seen)
			default:
				seen.End = v.now()
				h.Doubtful = append(h.Doubtful, seen)
			}
		}
	}
	return h
}

// clocks is how far the server's and ours may be apart in rate, which is what the Limiter allows for.
var clocks = oracle.Clock{Drift: 1e-3, Tick: time.Microsecond}

// mustDenyAloneOnlyWhatItMust judges the denials of a process that has decided alone by what it had allowed itself.
func (v *service) mustDenyAloneOnlyWhatItMust() {
	v.Helper()
	h := history(v)
	h.Denied, h.Doubtful = nil, nil
	for _, got := range v.visits {
		if got.key == hotKey && !got.decision.Allowed && got.decision.Reason == ratelimit.FailedLocal {
			h.Denied = append(h.Denied, oracle.Interval{Begin: got.began, End: got.ended})
		}
	}
	if report := oracle.Check(h, hotLimit.MaxRequests, hotLimit.Window); len(report.FalseDenials) > 0 {
		v.Errorf("%s, alone: %v", v.name, report)
	}
}

// mustHaveDecidedWithoutTheStore finds a fault that was none.
func (v *service) mustHaveDecidedWithoutTheStore() {
	v.Helper()
	for _, got := range v.visits {
		if !byStore(got.decision) {
			return
		}
	}
	v.Errorf("%s: every decision is the store's: the fault has had no effect", v.name)
}

// mustHaveAskedTheStoreOutsideTheOutage wants no other Reason before the fault, and after the store was seen to be back.
// Where the Timeout is short a busy machine can be the reason at any time.
func (v *service) mustHaveAskedTheStoreOutsideTheOutage() {
	v.Helper()
	if v.silent {
		return
	}
	for _, got := range v.visits {
		outside := int64(got.ended) < v.befell.Load() || int64(got.began) > v.back.Load()
		if outside && !byStore(got.decision) {
			v.Errorf("%s: from %v to %v there was an outage: %+v", v.name, time.Duration(v.befell.Load()), time.Duration(v.back.Load()), got)
		}
	}
}

func (v *service) mustHaveAskedTheStoreAlways() {
	v.Helper()
	for _, got := range v.visits {
		if !byStore(got.decision) {
			v.Errorf("%s: the store has not decided: %+v", v.name, got)
		}
	}
}

// together runs n goroutines of the test, and waits for them.
func together(n int, f func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(f)
	}
	all.Wait()
}
