package sash_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

// FuzzHandlersAgree: whatever body, type and query a client sends, every handler that reads a body reads the e-mail
// that was counted, or none.
func FuzzHandlersAgree(f *testing.F) {
	for _, tr := range tricks() {
		r := tr.request()
		if r.Method == http.MethodPost && len(tr.body) < 1_000 {
			f.Add([]byte(tr.body), r.Header.Get("Content-Type"), r.URL.RawQuery)
		}
	}
	handlers := unlimited(f, func(r reader) bool {
		return strings.Contains(r.key, "body.") || strings.Contains(r.key, "form.") || r.key == "email"
	})
	f.Fuzz(func(t *testing.T, body []byte, contentType, query string) {
		for _, h := range handlers {
			h.t = t
			h.ServeHTTP(httptest.NewRecorder(), fuzzedRequest(http.MethodPost, query, contentType, body))
		}
	})
}

// FuzzFormQuery: a form field and a query parameter are what net/url makes of them, and what handlers read, by whatever
// method they come; a value that could be another is none.
func FuzzFormQuery(f *testing.F) {
	for _, tr := range append(formTricks(), multipartTricks()...) {
		if r := tr.request(); len(tr.body)+len(r.URL.RawQuery) < 1_000 {
			f.Add(r.Method, r.Header.Get("Content-Type"), r.URL.RawQuery, []byte(tr.body))
		}
	}
	handlers := unlimited(f, func(r reader) bool { return strings.Contains(r.key, "form.") || strings.Contains(r.key, "query.") })
	f.Fuzz(func(t *testing.T, method, contentType, query string, body []byte) {
		for _, h := range handlers {
			h.t, h.sent = t, nil
			r := fuzzedRequest(method, query, contentType, body)
			h.ServeHTTP(httptest.NewRecorder(), r)
			for _, email := range h.sent {
				wantAmongValues(t, email, query, contentType, body)
			}
		}
	})
}

// wantAmongValues checks that an e-mail is the only one that the request can mean.
func wantAmongValues(t *testing.T, email, query, contentType string, body []byte) {
	t.Helper()
	inQuery, _ := url.ParseQuery(query)
	var inBody url.Values
	if contentType == "application/x-www-form-urlencoded" {
		inBody, _ = url.ParseQuery(string(body))
	}
	for _, values := range [][]string{inQuery["email"], inBody["email"]} {
		if len(values) == 0 {
			continue
		}
		for _, value := range values {
			if value != values[0] && values[0] == email {
				t.Errorf("%q was sent, of %q", email, values)
			}
		}
	}
}

func fuzzedRequest(method, query, contentType string, body []byte) *http.Request {
	return &http.Request{
		Method: method, URL: &url.URL{Path: "/", RawQuery: query}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Host: "x", RemoteAddr: "192.0.2.1:1",
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// unlimited puts those readers behind limits that deny nobody.
func unlimited(f *testing.F, wanted func(reader) bool) (all []*limited) {
	for _, r := range readers {
		if wanted(r) {
			all = append(all, r.open(f, generous{}))
		}
	}
	return all
}

// generous is a store that allows everything and remembers nothing.
type generous struct{ ratelimit.Store }

func (generous) Take(_ context.Context, _ uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	for i := range decisions {
		decisions[i] = ratelimit.Decision{Allowed: true, Limit: claims[i].Limits[0]}
	}
	return nil
}

// FuzzHTTPRaw: whatever bytes a client writes to a server, and however often, no handler sends to anybody more often
// than the quota.
func FuzzHTTPRaw(f *testing.F) {
	for _, w := range wires() {
		if len(w.text) > 2_000 {
			continue
		}
		for i := range readers {
			if i%5 == len(w.text)%5 {
				f.Add([]byte(w.text), uint8(i))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, which uint8) {
		synctest.Test(t, func(t *testing.T) { // a server waits for half a second before it hangs up
			h := readers[int(which)%len(readers)].open(t, atNoon())
			for range quota + 1 {
				serve(h, text)
			}
			h.wantWithinQuota(t, string(text))
		})
	})
}

// serve lets a server answer a connection on which text arrives, and then its end.
func serve(h http.Handler, text []byte) {
	gone := make(chan struct{})
	server := &http.Server{Handler: h, ErrorLog: quiet, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(gone)
		}
	}}
	listener := &oneConn{conn: &recorded{in: bytes.NewReader(text)}, closed: make(chan struct{})}
	go func() { _ = server.Serve(listener) }()
	<-gone
	_ = server.Close()
}

// oneConn is a listener to which one connection comes.
type oneConn struct {
	conn   net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (conn net.Conn, err error) {
	if conn, l.conn = l.conn, nil; conn != nil {
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error   { close(l.closed); return nil } // the server closes it once
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// recorded is a connection on which everything has been said.
type recorded struct{ in *bytes.Reader }

func (c *recorded) Read(p []byte) (int, error)       { return c.in.Read(p) }
func (c *recorded) Write(p []byte) (int, error)      { return len(p), nil }
func (c *recorded) Close() error                     { return nil }
func (c *recorded) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 80} }
func (c *recorded) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
func (c *recorded) SetDeadline(time.Time) error      { return nil }
func (c *recorded) SetReadDeadline(time.Time) error  { return nil }
func (c *recorded) SetWriteDeadline(time.Time) error { return nil }
