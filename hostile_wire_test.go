package sash_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/keyexpr"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/stdmw"
)

// What only a client that writes its own bytes can send, to real servers.

// A wire is what such a client writes before it closes its side of the connection.
type wire struct{ name, text string }

var quiet = log.New(io.Discard, "", 0)

func wires() []wire {
	const (
		me    = `{"email":"me@x.org"}` // 20 bytes
		chunk = "14\r\n" + me + "\r\n"
	)
	post := func(fields, body string) string {
		return "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + fields + "\r\n" + body
	}
	get := func(fields string) string { return "GET / HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n" }
	const honest = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n" + me
	all := []wire{
		{"an honest body", honest},
		{"an honest form", "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 14\r\n\r\nemail=me@x.org"},
		{"an honest query", "GET /?email=me@x.org HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"an honest field", get("X-Email: me@x.org\r\n")},
		{"an honest cookie", get("Cookie: email=me@x.org\r\n")},
		{"an honest object", post("Content-Length: 31\r\n", `{"desk":{"email":"me@x.org"}}  `)},

		{"one request more than the quota, at once", strings.Repeat(honest, quota+1)},
		{"many requests, at once, of which every other one is bad", strings.Repeat(honest+post("Content-Length: 1\r\n", "{"), quota+1)},
		{"a body in chunks", post("Transfer-Encoding: chunked\r\n", chunk+"0\r\n\r\n")},
		{"a body in chunks of one byte", post("Transfer-Encoding: chunked\r\n", eachByte(me)+"0\r\n\r\n")},
		{"chunks with extensions and zeros", post("Transfer-Encoding: chunked\r\n", "00000014;email=victim@x.org\r\n"+me+"\r\n000\r\n\r\n")},
		{"chunks that do not end", post("Transfer-Encoding: chunked\r\n", chunk)},
		{"a chunk that is too short", post("Transfer-Encoding: chunked\r\n", "15\r\n"+me+"\r\n0\r\n\r\n")},
		{"a chunk of a length that is none", post("Transfer-Encoding: chunked\r\n", "-14\r\n"+me+"\r\n0\r\n\r\n")},
		{"a chunk as long as can be", post("Transfer-Encoding: chunked\r\n", "7fffffffffffffff\r\n"+me+"\r\n0\r\n\r\n")},
		{"a trailer of a field's name", post("Transfer-Encoding: chunked\r\nTrailer: X-Email\r\nX-Email: me@x.org\r\n", chunk+"0\r\nX-Email: victim@x.org\r\n\r\n")},
		{"a trailer that was not announced", post("Transfer-Encoding: chunked\r\n", chunk+"0\r\nX-Email: victim@x.org\r\nCookie: email=victim@x.org\r\n\r\n")},
		{"a length and chunks", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunk+"0\r\n\r\n")},
		{"chunks and a length", post("Transfer-Encoding: chunked\r\nContent-Length: 200\r\n", chunk+"0\r\n\r\n")},
		{"chunks twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunk+"0\r\n\r\n")},
		{"chunks of gzip", post("Transfer-Encoding: gzip, chunked\r\n", chunk+"0\r\n\r\n")},
		{"chunks of another kind", post("Transfer-Encoding: xchunked\r\nContent-Length: 20\r\n", me)},
		{"chunks in HTTP/1.0", strings.Replace(post("Transfer-Encoding: chunked\r\nContent-Length: 20\r\n", me), "HTTP/1.1", "HTTP/1.0", 1)},
		{"the length twice", post("Content-Length: 20\r\nContent-Length: 20\r\n", me)},
		{"two lengths", post("Content-Length: 20\r\nContent-Length: 2\r\n", me)},
		{"a list of lengths", post("Content-Length: 20, 20\r\n", me)},
		{"a length with a sign", post("Content-Length: +20\r\n", me)},
		{"a length that is too long", post("Content-Length: 21\r\n", me)},
		{"a length that is too short", post("Content-Length: 19\r\n", me)},
		{"a length of another body, which is the next request", post("Content-Length: 20\r\n", me+honest)},
		{"no length", post("", me)},
		{"a length over the cap, and no body", post("Content-Length: 1000000\r\n", "")},
		{"a length over the cap, and little of the body", post("Content-Length: 100000\r\n", me)},
		{"a client that waits to be asked", post("Expect: 100-continue\r\nContent-Length: 20\r\n", me)},
		{"a client that waits to be asked for too much", post("Expect: 100-continue\r\nContent-Length: 1000000\r\n", "")},
		{"a client that expects the impossible", post("Expect: 200-ok\r\nContent-Length: 20\r\n", me)},
		{"a GET with a body", strings.Replace(honest, "POST", "GET", 1)},
		{"a HEAD with a body", strings.Replace(honest, "POST", "HEAD", 1)},
		{"a method that there is not", strings.Replace(honest, "POST", "FROB", 1)},
		{"a method in small letters", strings.Replace(honest, "POST", "post", 1)},
		{"CONNECT", strings.Replace(honest, "POST /", "CONNECT x:80", 1)},
		{"a target with a host", strings.Replace(honest, "POST /", "POST http://y/", 1)},
		{"a target with a user", strings.Replace(honest, "POST /", "POST http://me:secret@x/", 1)},
		{"a target that is no path", strings.Replace(honest, "POST /", "POST *", 1)},
		{"a target with a fragment", "GET /?email=me@x.org#&email=victim@x.org HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"two hosts", post("Host: y\r\nContent-Length: 20\r\n", me)},
		{"HTTP/1.0", strings.Replace(honest, "HTTP/1.1", "HTTP/1.0", 1)},
		{"HTTP/1.9", strings.Replace(honest, "HTTP/1.1", "HTTP/1.9", 1)},
		{"HTTP/2 without saying so", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
		{"line ends without carriage return", strings.ReplaceAll(honest, "\r", "")},
		{"a carriage return in a field", get("X-Email: me@x.org\rX-Email: victim@x.org\r\n")},
		{"a field in two lines", get("X-Email: me@x.org\r\nX-Email: victim@x.org\r\n")},
		{"a field in small letters, and in capitals", get("x-email: me@x.org\r\nX-EMAIL: victim@x.org\r\n")},
		{"a field with an underscore", get("X_Email: victim@x.org\r\nX-Email: me@x.org\r\n")},
		{"a field with an underscore alone", get("X_Email: victim@x.org\r\n")},
		{"a field that goes on in the next line", get("X-Email: me@x.org\r\n victim@x.org\r\n")},
		{"a first field that goes on from nothing", get(" X-Email: me@x.org\r\n")},
		{"a field with a space before the colon", get("X-Email : me@x.org\r\n")},
		{"a field without a colon", get("X-Email\r\n")},
		{"a field with NUL", get("X-Email: me@x.org\x00\r\n")},
		{"a field with a byte that is no text", get("X-Email: me\xff@x.org\r\n")},
		{"a field with space around", get("X-Email: \t me@x.org \t\r\n")},
		{"a field of 900 KB", get("X-Email: " + strings.Repeat("x", 900<<10) + "\r\n")},
		{"cookies in two lines", get("Cookie: email=me@x.org\r\nCookie: email=victim@x.org\r\n")},
		{"the type in two lines", "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 20\r\n\r\n" + me},
		{"the type in the next line", "POST /?email=victim@x.org HTTP/1.1\r\nHost: x\r\nContent-Type:\r\n application/json\r\nContent-Length: 20\r\n\r\n" + me},
	}
	return all
}

// eachByte are chunks of one byte.
func eachByte(s string) string {
	var chunks strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&chunks, "1\r\n%c\r\n", s[i])
	}
	return chunks.String()
}

// say writes text to a server, and returns the statuses of its answers, 100 among them.
func say(t testing.TB, server *httptest.Server, text string) []int {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute)) // only if something hangs
	go func() {
		_, _ = io.WriteString(conn, text) // a server may stop to read
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	return statuses(t, conn, text)
}

func statuses(t testing.TB, r io.Reader, text string) (all []int) {
	t.Helper()
	method, _, _ := strings.Cut(text, " ")
	answers := bufio.NewReader(r)
	for {
		answer, err := http.ReadResponse(answers, &http.Request{Method: method})
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%.40q: the server hangs", text)
			}
			return all
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		all = append(all, answer.StatusCode)
	}
}

// host serves one limited handler after the other at one address.
type host struct {
	*httptest.Server
	current atomic.Pointer[limited]
}

func newHost(t testing.TB) *host {
	s := &host{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.current.Load().ServeHTTP(w, r) }))
	s.Config.ErrorLog = quiet
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func TestAHandlerReadsWhatWasCountedWhateverComesOverTheWire(t *testing.T) {
	t.Parallel()
	all, closing := wires(), t // together: a server waits for half a second before it hangs up on a bad client
	eachReader(t, func(t *testing.T, r reader) {
		server, reached := newHost(closing), false
		for _, w := range all {
			h := r.open(t, atNoon())
			server.current.Store(h)
			for range quota + 1 {
				for _, status := range say(t, server.Server, w.text) {
					if status >= 500 && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported {
						t.Errorf("%s: answered with %d", w.name, status)
					}
				}
			}
			h.wantWithinQuota(t, w.name)
			reached = reached || h.sends() > 0
		}
		if !reached {
			t.Error("no request reached the handler, and nothing is proven")
		}
	})
}

// wantWithinQuota checks that no e-mail was sent more often than it may be.
func (h *limited) wantWithinQuota(t testing.TB, after string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	times := map[string]int{}
	for _, email := range h.sent {
		if times[email]++; times[email] == quota+1 {
			t.Errorf("%s: %.80q was sent more than %d times", after, email, quota)
		}
	}
}

func TestNoSpellingOfAPathIsAnotherQuota(t *testing.T) {
	t.Parallel()
	rule := sash.SlidingWindowLimit("[ip, route]", time.Hour, quota)
	for name, mount := range map[string]func(*ratelimit.Limiter, http.HandlerFunc) http.Handler{
		"Gin": func(lim *ratelimit.Limiter, handle http.HandlerFunc) http.Handler {
			r := newEngine()
			r.POST("/login", ginmw.Decorator{Limiter: lim}.Limit(rule), gin.WrapF(handle))
			return r
		},
		"Gin, as lenient as can be": func(lim *ratelimit.Limiter, handle http.HandlerFunc) http.Handler {
			r := newEngine()
			r.RedirectFixedPath, r.RemoveExtraSlash, r.UseRawPath = true, true, true
			r.POST("/login", ginmw.Decorator{Limiter: lim}.Limit(rule), gin.WrapF(handle))
			return r
		},
		"ServeMux": func(lim *ratelimit.Limiter, handle http.HandlerFunc) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/login", stdmw.Decorator{Limiter: lim}.Limit(rule)(handle))
			return mux
		},
		"chi": func(lim *ratelimit.Limiter, handle http.HandlerFunc) http.Handler {
			r := chi.NewRouter()
			r.With(stdmw.Decorator{Limiter: lim}.Limit(rule)).Post("/login", handle)
			return r
		},
		"a handler without a mux": func(lim *ratelimit.Limiter, handle http.HandlerFunc) http.Handler {
			return stdmw.Decorator{Limiter: lim}.Limit(byAddress)(handle)
		},
	} {
		ran := 0
		lim, err := ratelimit.New(ratelimit.Config{Store: atNoon()})
		if err != nil {
			t.Fatal(err)
		}
		h := mount(lim, func(http.ResponseWriter, *http.Request) { ran++ })
		for _, target := range append(spellings("login"), "/login") {
			text := "POST " + target + " HTTP/1.1\r\nHost: x\r\nX-HTTP-Method-Override: GET\r\n\r\n"
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
			if err != nil {
				continue // a server answers it with 400
			}
			r.RemoteAddr = "192.0.2.1:1"
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		if ran != quota {
			t.Errorf("%s: the handler ran %d times, want %d", name, ran, quota)
		}
	}
}

// byAddress is counted whatever the route is.
var byAddress = sash.SlidingWindowLimit("ip", time.Hour, quota)

// spellings are targets that somebody might take for /name.
func spellings(name string) []string {
	var all []string
	for i := range name { // each letter in capitals, and escaped, in both cases of the digits
		before, letter, after := name[:i], name[i:i+1], name[i+1:]
		all = append(all, "/"+before+strings.ToUpper(letter)+after,
			fmt.Sprintf("/%s%%%02x%s", before, letter, after), fmt.Sprintf("/%s%%%02X%s", before, letter, after), fmt.Sprintf("/%s%%25%02x%s", before, letter, after))
	}
	for _, before := range []string{"//", "///", "/./", "/../", "/x/../", "/%2e/", "/%2e%2e/", "/%2f", "%2f", "/%5c", "/;/", "http://y/", "http://me@x//", "*/", "/%00/", "/%20"} {
		all = append(all, before+name)
	}
	for _, behind := range []string{"/", "//", "/.", "/..", "/../login", "%2f", "%2F", "%5c", "%00", "%0a", "%20", ";", ";x=1", "?", "?x", "#", "?route=/x", ".json", "/%2e%2e/login", "%", "%zz"} {
		all = append(all, "/"+name+behind)
		for _, before := range []string{"//", "/./", "/x/../", "/%2f", "http://y/"} {
			all = append(all, before+name+behind)
		}
	}
	return append(all, "/"+strings.ToUpper(name), "/"+strings.Repeat("/", 1_000)+name)
}

// A path parameter is what the handler reads, not how it is spelled.
func TestAPathParameterIsCountedAsTheHandlerReadsIt(t *testing.T) {
	t.Parallel()
	rule := sash.Rule{Name: "send", KeyExpr: "params.id", Limits: hourly(quota)}
	for name, mount := range map[string]mount{
		"Gin": func(lim *ratelimit.Limiter, rule sash.Rule, send func(string)) http.Handler {
			r := newEngine()
			r.POST("/users/:id", ginmw.Decorator{Limiter: lim}.Limit(rule), func(c *gin.Context) { send(c.Param("id")) })
			return r
		},
		"Gin, by the raw path": func(lim *ratelimit.Limiter, rule sash.Rule, send func(string)) http.Handler {
			r := newEngine()
			r.UseRawPath = true
			r.POST("/users/*id", ginmw.Decorator{Limiter: lim}.Limit(rule), func(c *gin.Context) { send(c.Param("id")) })
			return r
		},
		"ServeMux": func(lim *ratelimit.Limiter, rule sash.Rule, send func(string)) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("POST /users/{id...}", stdmw.Decorator{Limiter: lim}.Limit(rule)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { send(r.PathValue("id")) })))
			return mux
		},
		"chi": func(lim *ratelimit.Limiter, rule sash.Rule, send func(string)) http.Handler {
			r := chi.NewRouter()
			r.With(stdmw.Decorator{Limiter: lim}.Limit(rule)).Post("/users/{id}", func(_ http.ResponseWriter, r *http.Request) { send(chi.URLParam(r, "id")) })
			return r
		},
	} {
		h := reader{name: name, mount: mount, key: rule.KeyExpr}.open(t, atNoon())
		for _, target := range append(spellings("bob"), "/bob", "/bob", "/bob", "/a%2fb", "/a%2Fb", "/%41", "/A", "/%C3%A9", "/%ff") {
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST /users" + target + " HTTP/1.1\r\nHost: x\r\n\r\n")))
			if err == nil {
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
		if h.sends() == 0 {
			t.Errorf("%s: no request reached the handler", name)
		}
		h.wantWithinQuota(t, name)
	}
}

// A quota is that of the declaration, by whatever method a request comes to it.
func TestNoMethodIsAnotherQuota(t *testing.T) {
	t.Parallel()
	for name, mount := range map[string]func(*ratelimit.Limiter, http.HandlerFunc) http.Handler{
		"ServeMux, where GET is HEAD too": func(lim *ratelimit.Limiter, handle http.HandlerFunc) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("GET /code", stdmw.Decorator{Limiter: lim}.Limit(byAddress)(handle))
			return mux
		},
		"ServeMux, every method": func(lim *ratelimit.Limiter, handle http.HandlerFunc) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/code", stdmw.Decorator{Limiter: lim}.Limit(byAddress)(handle))
			return mux
		},
		"ServeMux, a rule with a name on two routes": func(lim *ratelimit.Limiter, handle http.HandlerFunc) http.Handler {
			mux := http.NewServeMux()
			named := sash.Rule{Name: "code", KeyExpr: "ip", Limits: hourly(quota)}
			mux.Handle("GET /code", stdmw.Decorator{Limiter: lim}.Limit(named)(handle))
			mux.Handle("POST /code", stdmw.Decorator{Limiter: lim}.Limit(named)(handle))
			return mux
		},
		"Gin, every method": func(lim *ratelimit.Limiter, handle http.HandlerFunc) http.Handler {
			r := newEngine()
			r.Any("/code", ginmw.Decorator{Limiter: lim}.Limit(byAddress), gin.WrapF(handle))
			return r
		},
		"Gin, GET and HEAD": func(lim *ratelimit.Limiter, handle http.HandlerFunc) http.Handler {
			r := newEngine()
			r.GET("/code", ginmw.Decorator{Limiter: lim}.Limit(byAddress), gin.WrapF(handle))
			r.HEAD("/code", ginmw.Decorator{Limiter: lim}.Limit(byAddress), gin.WrapF(handle))
			return r
		},
	} {
		ran := 0
		lim, err := ratelimit.New(ratelimit.Config{Store: atNoon()})
		if err != nil {
			t.Fatal(err)
		}
		h := mount(lim, func(http.ResponseWriter, *http.Request) { ran++ })
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "PUT", "TRACE", "GET", "FROB", "get", "CONNECT"} {
			for _, field := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
				r := httptest.NewRequest(method, "/code?_method=HEAD", nil)
				r.Header.Set(field, "HEAD")
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
		if ran != quota {
			t.Errorf("%s: the handler ran %d times, want %d", name, ran, quota)
		}
	}
}

// HTTP/2 has no lengths that a client must keep, sends its fields in small letters and its cookies in pieces.
func TestAHandlerReadsWhatWasCountedOverHTTP2(t *testing.T) {
	t.Parallel()
	const me = `{"email":"me@x.org"}`
	eachReader(t, func(t *testing.T, r reader) {
		h := r.open(t, atNoon())
		server := httptest.NewUnstartedServer(h)
		server.EnableHTTP2 = true
		server.Config.ErrorLog = quiet
		server.StartTLS()
		defer server.Close()
		for range quota + 1 {
			for _, body := range []io.Reader{strings.NewReader(me), struct{ io.Reader }{strings.NewReader(me)}} {
				request, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/", body)
				if err != nil {
					t.Fatal(err)
				}
				request.Header = http.Header{
					"Content-Type": {"application/json"}, "X-Email": {"me@x.org", "victim@x.org"}, "X_email": {"victim@x.org"},
					"Cookie": {"a=b", "email=me@x.org", "email=victim@x.org"},
				}
				request.Trailer = http.Header{"X-Email": {"victim@x.org"}}
				answer, err := server.Client().Do(request)
				if err != nil {
					continue // the trailer of a request that was answered before it came breaks the connection
				}
				answer.Body.Close()
				if answer.ProtoMajor != 2 || answer.StatusCode >= 500 {
					t.Errorf("%s: %d", answer.Proto, answer.StatusCode)
				}
			}
		}
		h.wantWithinQuota(t, "HTTP/2")
	})
}

func TestABodyOverTheCapIsTooLargeHoweverItComes(t *testing.T) {
	t.Parallel()
	head := "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	large := padded(keyexpr.DefaultMaxBodyBytes + 1)
	for name, text := range map[string]string{
		"with its length":                    fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(large), large),
		"with its length, and not asked for": fmt.Sprintf("%sContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", head, len(large)),
		"in chunks":                          fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(large), large),
	} {
		for _, r := range readers {
			if r.key != "body.email" {
				continue
			}
			server := newHost(t)
			h := r.open(t, atNoon())
			server.current.Store(h)
			if got := say(t, server.Server, text); !slices.Equal(got, []int{http.StatusRequestEntityTooLarge}) || h.ledger.asked() != "" {
				t.Errorf("%s, %s: answered with %d", r.name, name, got)
			}
		}
	}
}

// Requests whose bodies never arrive cost nobody's quota.
func TestABodyThatIsBrokenOffIsNotCounted(t *testing.T) {
	t.Parallel()
	for _, r := range readers {
		if r.key != "body.email" {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			h, done := r.open(t, atNoon()), make(chan struct{})
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r)
				done <- struct{}{}
			}))
			server.EnableHTTP2 = true
			server.Config.ErrorLog = quiet
			server.StartTLS()
			defer server.Close()
			for range quota {
				breakOff(t, server)
				<-done
			}
			if key := h.ledger.asked(); key != "" || h.sends() != 0 {
				t.Errorf("%s was counted, and %d sent", key, h.sends())
			}
		})
	}
}

// breakOff sends a body in HTTP/2 but for its end, and resets the stream.
func breakOff(t *testing.T, server *httptest.Server) {
	t.Helper()
	ctx, hangUp := context.WithCancel(t.Context())
	body, endless := io.Pipe()
	request, err := http.NewRequestWithContext(ctx, "POST", server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	go func() {
		_, _ = io.WriteString(endless, `{"email":"me@x.org"}`) // returns when the client has taken it
		hangUp()
		_ = endless.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if answer, err := server.Client().Do(request); err == nil {
		answer.Body.Close()
		t.Errorf("answered with %d", answer.StatusCode)
	}
}
