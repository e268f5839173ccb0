package faultproxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/faultproxy"
	"github.com/sashlimit/sash/internal/redistest"
)

// What a client sees through the proxy, and what a second one, past it, finds to have happened.

func TestEverythingPassesUntilSomethingElseIsSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	big := strings.Repeat("x\r\n", 1<<18)
	if err := b.client.Set(t.Context(), "big", big, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := b.client.Get(t.Context(), "big").Val(); got != big {
		t.Errorf("of %d bytes %d came back", len(big), len(got))
	}
	replies, err := b.client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for range 100 {
			p.Incr(t.Context(), "pipelined")
		}
		return nil
	})
	if err != nil || len(replies) != 100 || b.direct.Get(t.Context(), "pipelined").Val() != "100" {
		t.Errorf("of a pipeline of 100, %d replies, %v", len(replies), err)
	}
}

func TestARepliesDelayIsTheLeastThatItTakes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const delay = 30 * time.Millisecond
	b.proxy.DelayReplies(delay)
	began := time.Now()
	b.mustIncr(1)
	if took := time.Since(began); took < delay {
		t.Errorf("it took %v", took)
	}
	b.proxy.DelayReplies(time.Hour)
	b.mustNotAnswer()
	b.mustHold(2)
	b.proxy.Pass()
	b.mustIncr(3)
}

func TestADroppedRequestIsNotExecutedAndItsConnectionStaysOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.mustIncr(1)
	b.proxy.DropRequests()
	b.mustNotAnswer()
	b.proxy.Pass()
	b.mustIncr(2)
}

func TestADroppedReplyIsOneToARequestThatWasExecuted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.mustIncr(1)
	b.proxy.DropReplies()
	b.mustNotAnswer()
	b.mustHold(2)
	b.proxy.Pass()
	b.mustIncr(3)
}

func TestSoManyRequestsAreLostAndNoMore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.mustIncr(1)
	b.proxy.LoseRequests(2, "incr")
	for range 2 {
		b.mustEnd(io.EOF)
		b.mustHold(1)
	}
	b.mustIncr(2)
}

func TestSoManyRepliesAreLostAndNoMoreAndWhatTheyAnswerIsExecuted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.mustIncr(1)
	b.proxy.LoseReplies(2, "incr")
	for i := range 2 {
		if err := b.client.Ping(t.Context()).Err(); err != nil {
			t.Errorf("another command: %v", err)
		}
		b.mustEnd(io.EOF)
		b.mustHold(2 + i)
	}
	b.mustIncr(4)
}

func TestWithoutANameEveryRequestCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.mustIncr(1)
	b.proxy.LoseReplies(1)
	b.mustEnd(io.EOF)
	b.mustIncr(3)
}

// A plain connection: go-redis reports a reset as the end of its connection.
func TestAResetCutsWhatIsOpenAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn, err := net.Dial("tcp", b.proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "INCR n\r\n")
	reply := make([]byte, len(":1\r\n"))
	if _, err := io.ReadFull(conn, reply); err != nil || string(reply) != ":1\r\n" {
		t.Errorf("got %q, %v", reply, err)
	}
	b.proxy.Reset()
	if _, err := conn.Read(reply); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
	b.mustIncr(2)
}

func TestABlackHoleSwallowsNewConnectionsAndLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.mustIncr(1)
	b.proxy.Blackhole()
	b.mustIncr(2)
	b.proxy.Reset()
	b.mustNotAnswer()
	b.proxy.Pass()
	b.mustIncr(3)
}

func TestWhereConnectionsAreRefusedThoseThatAreOpenGoOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.mustIncr(1)
	b.proxy.Refuse()
	b.proxy.Refuse() // a second time changes nothing
	b.mustIncr(2)
	b.proxy.Reset()
	b.mustEnd(syscall.ECONNREFUSED)
	b.proxy.Pass()
	b.mustIncr(3)
}

func TestAServerThatIsDownIsAConnectionThatEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := benchOn(t, server)
	b.mustIncr(1)
	server.Kill()
	for range 2 { // of the connection that was open, and of a new one
		if err := b.client.Incr(t.Context(), "n").Err(); err == nil {
			t.Error("somebody answers")
		}
	}
	server.Restart()
	b.mustIncr(1)
}

func TestModesMayChangeWhileConnectionsLive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var stop, wait = make(chan struct{}), sync.WaitGroup{}
	for range 8 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					b.client.Incr(ctx, "n") // whatever becomes of it
					cancel()
				}
			}
		})
	}
	for range 20 {
		for _, mode := range []func(){
			b.proxy.Pass, b.proxy.DropRequests, b.proxy.DropReplies, b.proxy.Reset, b.proxy.Blackhole, b.proxy.Refuse,
			func() { b.proxy.LoseReplies(3) }, func() { b.proxy.LoseRequests(3) }, func() { b.proxy.DelayReplies(time.Millisecond) },
		} {
			mode()
			time.Sleep(time.Millisecond) // for the modes to meet some traffic
		}
	}
	close(stop)
	wait.Wait()
	b.proxy.Pass()
	b.direct.Set(t.Context(), "n", 0, 0)
	b.client = b.newClient() // the old one's pool may remember for a second that it was refused
	b.mustIncr(1)
}

// It is not parallel, so that every proxy there is belongs to it.
func TestNothingOfAProxyOutlivesItsTest(t *testing.T) {
	t.Run("the test", func(t *testing.T) {
		for _, mode := range []func(*faultproxy.Proxy){
			(*faultproxy.Proxy).Pass, (*faultproxy.Proxy).DropReplies, (*faultproxy.Proxy).Blackhole, (*faultproxy.Proxy).Refuse,
			func(p *faultproxy.Proxy) { p.DelayReplies(time.Hour) },
		} {
			b := newBench(t)
			b.mustIncr(1)
			mode(b.proxy)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			b.client.Incr(ctx, "n") // whatever becomes of it
			cancel()
		}
	})
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "faultproxy.(*Proxy)") {
			t.Errorf("a goroutine is left:\n%s", stack)
		}
	}
}

// bench is a proxy before a server, a client of it that sends each command once, and a client past it.
type bench struct {
	t              *testing.T
	server         *redistest.Server
	proxy          *faultproxy.Proxy
	client, direct *redis.Client
}

func newBench(t *testing.T) bench { return benchOn(t, redistest.Start(t)) }

func benchOn(t *testing.T, server *redistest.Server) bench {
	b := bench{t: t, server: server, proxy: faultproxy.Start(t, server.Addr()), direct: server.Client()}
	b.client = b.newClient()
	return b
}

func (b bench) newClient() *redis.Client {
	o := b.server.Options()
	o.Addr, o.ContextTimeoutEnabled = b.proxy.Addr(), true
	client := redis.NewClient(o)
	b.t.Cleanup(func() { client.Close() })
	return client
}

// mustIncr counts, through the proxy.
func (b bench) mustIncr(want int64) {
	b.t.Helper()
	got, err := b.client.Incr(b.t.Context(), "n").Result()
	if err != nil || got != want {
		b.t.Errorf("got %d, %v; want %d", got, err, want)
	}
}

// mustNotAnswer counts, through the proxy, and gives up waiting.
func (b bench) mustNotAnswer() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 50*time.Millisecond) // real time: a real connection
	defer cancel()
	err := b.client.Incr(ctx, "n").Err()
	if !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		b.t.Errorf("got %v, want silence", err)
	}
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// mustEnd counts, through the proxy, and wants this to become of the connection.
func (b bench) mustEnd(want error) {
	b.t.Helper()
	if err := b.client.Incr(b.t.Context(), "n").Err(); !errors.Is(err, want) {
		b.t.Errorf("got %v, want %v", err, want)
	}
}

// mustHold asks past the proxy.
func (b bench) mustHold(want int) {
	b.t.Helper()
	if got := b.direct.Get(b.t.Context(), "n").Val(); got != fmt.Sprint(want) {
		b.t.Errorf("the server holds %s, want %d", got, want)
	}
}
