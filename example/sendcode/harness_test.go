package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

// testApp is the application behind the server that run would start, on connections in memory: a test chooses
// the address of the peer, and sees every byte of the answer.
type testApp struct {
	t        testing.TB
	listener *pipeListener
	server   *http.Server
	mails    *outbox
}

func startApp(t testing.TB, framework string, limits ratelimit.Config) *testApp {
	t.Helper()
	limiter, err := ratelimit.New(limits)
	if err != nil {
		t.Fatal(err)
	}
	silent := slog.New(slog.DiscardHandler)
	mails := &outbox{last: make(map[string]string)}
	service := &service{codes: newCodeStore(time.Now, 100), sender: mails, logger: silent}
	app := &testApp{
		t:        t,
		listener: &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})},
		server:   newServer(frameworks[framework](service, limiter), silent),
		mails:    mails,
	}
	done := make(chan struct{})
	go func() { defer close(done); app.server.Serve(app.listener) }()
	t.Cleanup(func() { app.server.Close(); <-done; limiter.Close() })
	return app
}

// exchange sends one request on a connection of its own, and returns the whole answer.
func (a *testApp) exchange(peer, request string) string {
	a.t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	a.listener.conns <- peerConn{server, peerAddr(peer)}
	go io.WriteString(client, request) // a server that does not want all of it answers before it has all
	response, err := io.ReadAll(client)
	if err != nil {
		a.t.Errorf("the answer breaks off: %v", err)
	}
	return string(response)
}

// outbox is a Sender that keeps the last code of each address.
type outbox struct {
	fails string // the address to which nothing can be sent

	mu   sync.Mutex
	last map[string]string
}

func (o *outbox) Send(_ context.Context, address, code string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if address == o.fails {
		return errors.New("the relay is down")
	}
	o.last[address] = code
	return nil
}

func (o *outbox) lastTo(address string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last[address]
}

type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return peerAddr("192.0.2.1:80") }

// peerConn is a connection from an address of the test's choice.
type peerConn struct {
	net.Conn
	peer net.Addr
}

func (c peerConn) RemoteAddr() net.Addr { return c.peer }

type peerAddr string

func (peerAddr) Network() string  { return "tcp" }
func (a peerAddr) String() string { return string(a) }

// patience is for what must not happen on a machine that is merely slow.
const patience = 30 * time.Second

// request writes an HTTP request whose first line begins with line, with extra header lines. The body "chunked n"
// stands for a chunk of n bytes.
func request(line, body string, header ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n", line)
	for _, h := range header {
		b.WriteString(h + "\r\n")
	}
	switch size, chunked := strings.CutPrefix(body, "chunked "); {
	case chunked:
		n, _ := strconv.Atoi(size)
		body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n, strings.Repeat(" ", n))
	case body != "":
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	return b.String() + "\r\n" + body
}
