// Package faultproxy is a TCP proxy before a Redis server, for tests of what a network does to a client: delay, loss,
// cut connections, silence.
//
//	proxy := faultproxy.Start(t, server.Addr())
//	client := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
//	proxy.LoseReplies(1, "evalsha")
//	… // the next script is run, and nobody learns of it
//	proxy.Pass()
//
// A Proxy is in one mode at a time, that of the method called last; it begins with Pass. Each may be called at any
// time, by any goroutine: it holds for what passes the proxy from then on, whole requests, over connections old and
// new. Reset alone is no mode but a moment.
//
// The proxy knows where a request ends, for which the client must speak RESP in the clear. It does not know where a
// reply ends: it takes what comes back for the reply to the latest request, so that a client which sends a request
// before it has the reply to the last one (a pipeline) may lose both replies where one is to be lost.
package faultproxy

import (
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Proxy passes the connections to its address on to another, as well as its mode allows. It ends with its test.
type Proxy struct {
	t      testing.TB
	addr   string
	target string
	all    sync.WaitGroup
	done   chan struct{} // closed when the test ends

	mu       sync.Mutex
	mode     mode
	listener net.Listener // nil while it refuses
	links    map[*link]bool
}

type mode struct {
	what     what
	delay    time.Duration
	left     int      // requests that are still to be lost, or their replies
	commands []string // which; any if there are none
}

type what int

const (
	pass what = iota
	dropRequests
	dropReplies
	loseRequests
	loseReplies
	blackhole
	refuse
)

// Start returns a proxy to target, a host:port, that listens on a port of 127.0.0.1.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, done: make(chan struct{}), links: map[*link]bool{}}
	l := listen(t)
	p.addr = l.Addr().String()
	p.serveLocked(l)
	t.Cleanup(p.close)
	return p
}

// Addr is host:port, the same as long as the test runs.
func (p *Proxy) Addr() string { return p.addr }

// Pass passes everything on.
func (p *Proxy) Pass() { p.set(mode{}) }

// DelayReplies passes everything on, what the server says d later than it said it.
func (p *Proxy) DelayReplies(d time.Duration) { p.set(mode{delay: d}) }

// DropRequests swallows every request: it is not executed, and no reply comes. Connections stay open.
func (p *Proxy) DropRequests() { p.set(mode{what: dropRequests}) }

// DropReplies swallows what the server says: requests are executed, and no reply comes. Connections stay open.
func (p *Proxy) DropReplies() { p.set(mode{what: dropReplies}) }

// LoseRequests cuts the connection instead of passing on each of the next n requests: they are not executed. With
// commands it is only these, in lower case, that count and are lost. Everything else is passed on.
func (p *Proxy) LoseRequests(n int, commands ...string) {
	p.set(mode{what: loseRequests, left: n, commands: commands})
}

// LoseReplies is LoseRequests, but the connection is cut when the server replies: they are executed.
func (p *Proxy) LoseReplies(n int, commands ...string) {
	p.set(mode{what: loseReplies, left: n, commands: commands})
}

// Blackhole accepts new connections and says nothing on them, whatever the mode is later. Those that are open already
// go on.
func (p *Proxy) Blackhole() { p.set(mode{what: blackhole}) }

// Refuse refuses new connections. Those that are open already go on.
func (p *Proxy) Refuse() { p.set(mode{what: refuse}) }

// Reset cuts every connection that is open now, with a TCP reset.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
	awaitForks()
}

// awaitForks waits for the processes that are being started: until they run, they hold a copy of every descriptor, and
// keep open what has just been closed.
func awaitForks() {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
}

func (p *Proxy) set(m mode) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended() {
		return
	}
	p.mode = m
	switch listens := p.listener != nil; {
	case m.what == refuse && listens:
		p.listener.Close()
		awaitForks()
		p.listener = nil
	case m.what != refuse && !listens:
		l, err := net.Listen("tcp", p.addr)
		if err != nil {
			p.t.Errorf("faultproxy: somebody has taken its port: %v", err)
			return
		}
		p.serveLocked(l)
	}
}

// serveLocked accepts connections until l is closed.
func (p *Proxy) serveLocked(l net.Listener) {
	p.listener = l
	p.all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.serve(client) })
		}
	})
}

func (p *Proxy) close() {
	p.mu.Lock()
	close(p.done)
	if p.listener != nil {
		p.listener.Close()
	}
	for l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	p.all.Wait()
}

func (p *Proxy) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// fate says what becomes of a request, and counts it.
func (p *Proxy) fate(command string) what {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.mode
	switch m.what {
	case dropRequests:
		return dropRequests
	case loseRequests, loseReplies:
		if m.left > 0 && (len(m.commands) == 0 || slices.Contains(m.commands, command)) {
			m.left--
			return m.what
		}
	}
	return pass
}

// replyPasses waits as long as a reply is to be delayed, and says whether it goes on then.
func (p *Proxy) replyPasses() bool {
	p.mu.Lock()
	m := p.mode
	p.mu.Unlock()
	if m.delay > 0 {
		select {
		case <-time.After(m.delay):
		case <-p.done:
		}
	}
	return m.what != dropReplies
}

// listen takes a port that lies below those which systems give to outgoing connections: a client that dials a proxy
// which refuses would one day be connected to itself. It also lies above those of redistest.
func listen(t testing.TB) net.Listener {
	t.Helper()
	var err error
	for range 100 {
		var l net.Listener
		port := strconv.Itoa(32_000 + rand.IntN(768))
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return l
		}
	}
	t.Fatalf("faultproxy: no free port on 127.0.0.1: %v", err)
	return nil
}
