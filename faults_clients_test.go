package sash_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/internal/faultproxy"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
	"github.com/sashlimit/sash/stdmw"
)

// Clients that hang up, code that panics, ways to the store that never end, and a store that answers somebody else.

// Where a limiter that fails open takes a client's hanging up for a failure of its store, hanging up is the way past it.
func TestAClientThatHangsUpAtOnceNeverGetsThrough(t *testing.T) {
	inParallel(t)
	client := redistest.Start(t).Client()
	for adapter, mount := range adapters {
		t.Run(adapter, func(t *testing.T) {
			lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(client), Timeout: patience, AskAlways: true, OnFailure: ratelimit.FailOpen})
			if err != nil {
				t.Fatal(err)
			} // it is not closed: nobody waits for the handlers of streams that were reset
			var handled atomic.Int64
			handler := mount(lim, sash.Rule{Name: strings.ReplaceAll(adapter, "/", "-"), KeyExpr: "params.key", Limits: hourly(1)},
				func(http.ResponseWriter, *http.Request) { handled.Add(1) })
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/victim", nil))
			if handled.Load() != 1 {
				t.Fatal("the first request is not allowed")
			}
			for name, hangUp := range map[string]func(*testing.T, http.Handler, int){
				"before it is asked for": hungUpBefore,
				"on a connection":        hangUpOnConnections,
				"on a stream of HTTP/2":  hangUpOnStreams,
			} {
				denied := func() uint64 { return lim.Stats().Denied[ratelimit.Exhausted] }
				enough, late := denied()+500, time.Now().Add(eventually)
				for denied() < enough && handled.Load() == 1 { // many do not get as far as the Limiter
					if hangUp(t, handler, 500); time.Now().After(late) {
						t.Fatalf("%s: the Limiter is hardly asked", name)
					}
				}
				if n := handled.Load(); n != 1 {
					t.Errorf("%s: the handler has run %d times", name, n-1)
				}
			}
			if stats := lim.Stats(); stats.Allowed[ratelimit.FailedOpen] > 0 {
				t.Errorf("a hang-up is taken for a failure: %v", stats)
			}
		})
	}
}

// hungUpBefore sends n requests whose clients have gone.
func hungUpBefore(t *testing.T, handler http.Handler, n int) {
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for range n {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, "GET", "/victim", nil))
	}
}

// hangUpOnConnections sends n requests over a connection each, that is closed at once: every other one by a reset.
func hangUpOnConnections(t *testing.T, handler http.Handler, n int) {
	server := httptest.NewServer(handler)
	defer server.Close() // waits for the handlers
	for i := range n {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "GET /victim HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if i%2 == 0 {
			conn.(*net.TCPConn).SetLinger(0)
		}
		conn.Close()
	}
}

// hangUpOnStreams sends n requests over one connection of HTTP/2, and resets the stream of each at once.
func hangUpOnStreams(t *testing.T, handler http.Handler, n int) {
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // to which net/http writes handshakes that were not ended
	server.StartTLS()
	defer server.Close()
	for range n {
		ctx, hangUp := context.WithCancel(t.Context())
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { hangUp() }})
		r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/victim", nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := server.Client().Do(r); err == nil { // it was quicker
			response.Body.Close()
		}
		hangUp()
	}
}

// Behind recovery middleware a panic can become an empty 200, and without one a connection that ends.
func TestAPanicIsAnAnswerAndTheConnectionGoesOn(t *testing.T) {
	inParallel(t)
	for what, value := range map[string]any{
		"text": "boom", "an error": errors.New("boom"), "http.ErrAbortHandler": http.ErrAbortHandler,
		"a broken pipe": &net.OpError{Op: "write", Err: syscall.EPIPE},
	} {
		for adapter, mount := range recovering {
			for _, policy := range []ratelimit.Policy{ratelimit.FailOpen, ratelimit.FailClosed, ratelimit.FailLocal} {
				lim, err := ratelimit.New(ratelimit.Config{Store: panicking{value}, OnFailure: policy})
				if err != nil {
					t.Fatal(err)
				}
				statuses := map[ratelimit.Policy][]int{
					ratelimit.FailOpen: {200, 200, 200, 200, 200}, ratelimit.FailClosed: {503, 503, 503, 503, 503}, ratelimit.FailLocal: {200, 200, 429, 429, 429},
				}[policy]
				mustAnswerOverOneConnection(t, fmt.Sprintf("%s: the store panics with %s, %v", adapter, what, policy),
					mount(lim, nil, sash.Rule{Name: "r", KeyExpr: `"k"`, Limits: hourly(2)}), statuses)
				lim.Close()
			}
			lim, err := ratelimit.New(ratelimit.Config{})
			if err != nil {
				t.Fatal(err)
			}
			mustAnswerOverOneConnection(t, fmt.Sprintf("%s: a value of the application's panics with %s", adapter, what),
				mount(lim, panicking{value}, sash.Rule{Name: "r", KeyExpr: "vars.user", Limits: hourly(2)}), []int{400, 400, 400})
			lim.Close()
		}
	}
}

// recovering mount a handler under /, behind a rule and Gin's Recovery or net/http's own, with a value for vars.user.
var recovering = map[string]func(lim *ratelimit.Limiter, user any, rule sash.Rule) http.Handler{
	"gin": func(lim *ratelimit.Limiter, user any, rule sash.Rule) http.Handler {
		gin.SetMode(gin.TestMode)
		r := gin.New()
		r.Use(gin.RecoveryWithWriter(io.Discard), func(c *gin.Context) { c.Set("user", user) })
		r.GET("/", ginmw.Decorator{Limiter: lim}.Limit(rule), gin.WrapF(sayHandled))
		return r
	},
	"net/http": func(lim *ratelimit.Limiter, user any, rule sash.Rule) http.Handler {
		limit := stdmw.Decorator{Limiter: lim, Vars: func(*http.Request, string) (any, bool) { return user, true }}
		return limit.Limit(rule)(http.HandlerFunc(sayHandled))
	},
	"net/http, whose Vars panics": func(lim *ratelimit.Limiter, user any, rule sash.Rule) http.Handler {
		limit := stdmw.Decorator{Limiter: lim, Vars: func(*http.Request, string) (any, bool) { panic(user.(panicking).value) }}
		return limit.Limit(rule)(http.HandlerFunc(sayHandled))
	},
}

func sayHandled(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "handled") }

// panicking is a store, and a value of an application's, that panics where it is asked.
type panicking struct{ value any }

func (p panicking) Take(context.Context, uuid.UUID, []ratelimit.Claim, []ratelimit.Decision) error {
	panic(p.value)
}
func (p panicking) Refund(context.Context, string, ratelimit.Ticket) error { panic(p.value) }
func (p panicking) Reset(context.Context, string) error                    { panic(p.value) }
func (p panicking) MarshalText() ([]byte, error)                           { panic(p.value) }

// mustAnswerOverOneConnection sends a request for each status. Every answer has a body, a 200 the handler's.
func mustAnswerOverOneConnection(t *testing.T, what string, handler http.Handler, statuses []int) {
	t.Helper()
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // to which net/http writes panics
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	for i, want := range statuses {
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Errorf("%s, request %d: %v", what, i+1, err)
			continue
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != want || len(body) == 0 || (want == 200) != (string(body) == "handled") {
			t.Errorf("%s, request %d: status %d, want %d; body %q", what, i+1, response.StatusCode, want, body)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%s: it took %d connections", what, n)
	}
}

func TestAWayThatNeverEndsHoldsUpNobody(t *testing.T) {
	inParallel(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	proxy := faultproxy.Start(t, "127.0.0.1:1")
	proxy.Blackhole()
	for what, options := range map[string]*redis.Options{
		"a name that nobody resolves, and a resolver that heeds no deadline": {Dialer: func(context.Context, string, string) (net.Conn, error) {
			<-release
			return nil, errors.New("released")
		}},
		"TLS with a server that is silent":        {Addr: proxy.Addr(), TLSConfig: &tls.Config{ServerName: "redis"}},
		"a client that waits as long as it takes": {Addr: proxy.Addr(), ReadTimeout: -1, WriteTimeout: -1, DialTimeout: time.Hour},
	} {
		client := redis.NewClient(options)
		t.Cleanup(func() { client.Close() })
		lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(client), OnFailure: ratelimit.FailClosed})
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			for i := range 5 {
				if d, err := lim.Allow(t.Context(), "k", hourly(1)...); err != nil || d.Reason != ratelimit.FailedClosed {
					t.Errorf("%s, request %d: %+v, %v", what, i+1, d, err)
				}
			}
		}()
		select {
		case <-answered:
		case <-time.After(eventually):
			t.Fatalf("%s: the requests are held up", what)
		}
	}
}

// A store whose goroutine ends gives no answer either.
func TestAStoreThatEndsItsGoroutineHasFailed(t *testing.T) {
	inParallel(t)
	lim, err := ratelimit.New(ratelimit.Config{Store: ending{}, OnFailure: ratelimit.FailClosed})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := lim.Allow(t.Context(), "k", hourly(1)...); err != nil || d.Reason != ratelimit.FailedClosed {
		t.Errorf("got %+v, %v", d, err)
	}
}

type ending struct{ ratelimit.Store }

func (ending) Take(context.Context, uuid.UUID, []ratelimit.Claim, []ratelimit.Decision) error {
	runtime.Goexit()
	return nil
}

// A client that has mixed up its replies hands a request the decision about another.
func TestADecisionAboutAnotherRequestIsNone(t *testing.T) {
	inParallel(t)
	const rounds, requests = 20, 20
	swap := startSwap(t, redistest.Start(t).Addr())
	ask := func(timeout time.Duration) (allowed, denied, failed int64) {
		var by [100]atomic.Int64 // Reason
		client := redis.NewClient(&redis.Options{Addr: swap.addr, Protocol: 2, ContextTimeoutEnabled: true, DialerRetries: 1})
		defer client.Close()
		lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(client), OnFailure: ratelimit.FailClosed, Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		defer lim.Close()
		var all sync.WaitGroup
		for i := range requests {
			all.Go(func() {
				key, limits := "free", hourly(1000)
				if i%2 == 0 {
					key, limits = "full", hourly(1)
				}
				d, _ := lim.Allow(t.Context(), key, limits...)
				by[d.Reason].Add(1)
			})
		}
		all.Wait()
		return by[ratelimit.Counted].Load(), by[ratelimit.Exhausted].Load() + by[ratelimit.CachedExhausted].Load(), by[ratelimit.FailedClosed].Load()
	}
	ask(longTimeout)
	if allowed, denied, failed := ask(longTimeout); allowed != requests/2 || denied != requests/2 {
		t.Fatalf("in good health: %d allowed, %d denied, %d failed", allowed, denied, failed)
	}
	swap.on.Store(true)
	for range rounds {
		if allowed, denied, _ := ask(shortTimeout); allowed != 0 || denied != 0 {
			t.Errorf("%d allowed and %d denied by the answer to another", allowed, denied)
		}
	}
	if n := swap.swapped.Load(); n < rounds {
		t.Errorf("only %d answers were swapped", n)
	}
}

// swap is a proxy that answers two scripts at a time, when it is on: each with the reply to the other.
type swap struct {
	addr, target  string
	on            atomic.Bool
	swapped       atomic.Int64
	done          chan struct{}
	first, second chan string // of two scripts, their replies
}

func startSwap(t *testing.T, target string) *swap {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &swap{
		addr: listener.Addr().String(), target: target,
		done: make(chan struct{}), first: make(chan string), second: make(chan string),
	}
	var all sync.WaitGroup
	t.Cleanup(func() { close(s.done); listener.Close(); all.Wait() })
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.serve(conn) })
		}
	})
	return s
}

// serve passes on one command after the other, and its reply.
func (s *swap) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", s.target)
	if err != nil {
		return
	}
	defer server.Close()
	for fromClient, fromServer := bufio.NewReader(client), bufio.NewReader(server); ; {
		command, err := readRESP(fromClient)
		if err != nil {
			return
		}
		io.WriteString(server, command)
		reply, err := readRESP(fromServer)
		if err != nil {
			return
		}
		if s.on.Load() && strings.Contains(command, "evalsha") {
			reply = s.swap(reply)
		}
		if _, err := io.WriteString(client, reply); err != nil {
			return
		}
	}
}

// swap returns the reply to another script, which gets this one, or "" if there is none until the end.
func (s *swap) swap(mine string) (theirs string) {
	select {
	case theirs = <-s.first:
		s.second <- mine
		s.swapped.Add(2)
		return theirs
	case s.first <- mine:
		return <-s.second
	case <-s.done:
		return ""
	}
}

// readRESP reads one value as it stands there.
func readRESP(r *bufio.Reader) (string, error) {
	value, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(value[1:]))
	switch value[0] {
	case '$':
		if n < 0 {
			return value, nil
		}
		text := make([]byte, n+len("\r\n"))
		_, err := io.ReadFull(r, text)
		return value + string(text), err
	case '*':
		for range n {
			element, err := readRESP(r)
			if err != nil {
				return "", err
			}
			value += element
		}
	}
	return value, nil
}
