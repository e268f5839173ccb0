package sash_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
	"github.com/sashlimit/sash/ratelimit/redisstore"
	"github.com/sashlimit/sash/stdmw"
)

// app is one application behind one adapter. Its handlers echo the body. Its settings are those of a Decorator,
// and are read when the first handler is declared.
type app struct {
	limiter *ratelimit.Limiter
	trusted []netip.Prefix
	field   sash.ProxyHeader
	ipv6    int // prefix
	vars    map[string]any
	denied  func(http.ResponseWriter, ratelimit.Decision)
	failed  func(http.ResponseWriter, error)

	plain      string // the message of denials in plain JSON
	skip       string
	dialect    headers.Dialect
	showDryRun bool
	observe    func(rule string, d ratelimit.Decision)
	respond    http.HandlerFunc // in the place of the echo

	adapter func(*app) router
	router  router
	handled int // requests that reached a handler
}

// router is what the two frameworks have in common. Paths are written as net/http writes them.
type router interface {
	http.Handler
	handle(method, path string, rules []sash.Rule)
	handleTyped(path string, maxBody int64, rules []sash.Rule) // POST
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// everywhere runs test through both adapters over both stores.
func everywhere(t *testing.T, test func(*testing.T, *app)) {
	t.Helper()
	server := redistest.Start(t)
	eachAdapter(t, func(t *testing.T, app *app) {
		t.Run("memory", func(t *testing.T) {
			app := *app
			app.on(t, ratelimit.NewMemoryStore(ratelimit.MemoryConfig{Now: func() time.Time { return noon }}))
			test(t, &app)
		})
		t.Run("redis", func(t *testing.T) {
			app, client := *app, server.Client()
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			app.on(t, redisstore.New(client))
			test(t, &app)
		})
	})
}

// eachAdapter runs test through both adapters. The test chooses the store.
func eachAdapter(t *testing.T, test func(*testing.T, *app)) {
	t.Helper()
	t.Run("ginmw", func(t *testing.T) { test(t, &app{adapter: newGinRouter}) })
	t.Run("stdmw", func(t *testing.T) { test(t, &app{adapter: newStdRouter}) })
}

// on gives the app a Limiter on store; nil stands for memory.
func (a *app) on(t *testing.T, store ratelimit.Store) {
	t.Helper()
	lim, err := ratelimit.New(ratelimit.Config{Store: store, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lim.Close() })
	a.limiter = lim
}

func (a *app) handle(method, path string, rules ...sash.Rule) {
	if a.router == nil {
		a.router = a.adapter(a)
	}
	a.router.handle(method, path, rules)
}

func (a *app) handleTyped(path string, maxBody int64, rules ...sash.Rule) {
	if a.router == nil {
		a.router = a.adapter(a)
	}
	a.router.handleTyped(path, maxBody, rules)
}

func (a *app) echo(w http.ResponseWriter, r *http.Request) {
	a.handled++
	if a.respond != nil {
		a.respond(w, r)
		return
	}
	io.Copy(w, r.Body)
}

type ginRouter struct {
	*gin.Engine
	app   *app
	limit ginmw.Decorator
}

func newGinRouter(a *app) router {
	gin.SetMode(gin.TestMode)
	r := ginRouter{Engine: gin.New(), app: a, limit: ginmw.Decorator{
		Limiter: a.limiter, TrustedProxies: a.trusted, ProxyHeader: a.field, IPv6Prefix: a.ipv6,
		Skip: a.skip, Headers: a.dialect, ShowDryRun: a.showDryRun,
	}}
	if a.observe != nil {
		r.limit.Observe = func(_ *gin.Context, rule string, d ratelimit.Decision) { a.observe(rule, d) }
	}
	if a.plain != "" {
		r.limit.Denied = ginmw.PlainJSON(a.plain)
	}
	if a.denied != nil {
		r.limit.Denied = func(c *gin.Context, d ratelimit.Decision) { a.denied(c.Writer, d) }
	}
	if a.failed != nil {
		r.limit.Failed = func(c *gin.Context, err error) { a.failed(c.Writer, err) }
	}
	r.Use(func(c *gin.Context) {
		for name, value := range a.vars {
			c.Set(name, value)
		}
	})
	return r
}

func (r ginRouter) handle(method, path string, rules []sash.Rule) {
	path = strings.NewReplacer("{", ":", "}", "").Replace(path)
	r.Handle(method, path, r.limit.Limit(rules...), gin.WrapF(r.app.echo))
}

func (r ginRouter) handleTyped(path string, maxBody int64, rules []sash.Rule) {
	r.limit.MaxBodyBytes = maxBody
	r.POST(path, ginmw.Handle(r.limit, r.app.typed, rules...))
}

type stdRouter struct {
	*http.ServeMux
	app   *app
	limit stdmw.Decorator
}

func newStdRouter(a *app) router {
	r := stdRouter{ServeMux: http.NewServeMux(), app: a, limit: stdmw.Decorator{
		Limiter: a.limiter, TrustedProxies: a.trusted, ProxyHeader: a.field, IPv6Prefix: a.ipv6,
		Skip: a.skip, Headers: a.dialect, ShowDryRun: a.showDryRun,
	}}
	if a.observe != nil {
		r.limit.Observe = func(_ *http.Request, rule string, d ratelimit.Decision) { a.observe(rule, d) }
	}
	if a.plain != "" {
		r.limit.Denied = stdmw.PlainJSON(a.plain)
	}
	if a.denied != nil {
		r.limit.Denied = func(w http.ResponseWriter, _ *http.Request, d ratelimit.Decision) { a.denied(w, d) }
	}
	if a.failed != nil {
		r.limit.Failed = func(w http.ResponseWriter, _ *http.Request, err error) { a.failed(w, err) }
	}
	if a.vars != nil {
		r.limit.Vars = func(_ *http.Request, name string) (any, bool) { v, ok := a.vars[name]; return v, ok }
	}
	return r
}

func (r stdRouter) handle(method, path string, rules []sash.Rule) {
	if path == "/" {
		path = "/{$}"
	}
	r.Handle(method+" "+path, r.limit.Limit(rules...)(http.HandlerFunc(r.app.echo)))
}

func (r stdRouter) handleTyped(path string, maxBody int64, rules []sash.Rule) {
	r.limit.MaxBodyBytes = maxBody
	r.Handle("POST "+path, stdmw.Handle(r.limit, r.app.typed, rules...))
}

// from and with shape a request.
func from(remoteAddr string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = remoteAddr }
}

func with(field, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(field, value) }
}

func (a *app) get(t *testing.T, url string, shape ...func(*http.Request)) answer {
	return a.do(t, httptest.NewRequestWithContext(t.Context(), "GET", url, nil), shape)
}

func (a *app) post(t *testing.T, url, body string, shape ...func(*http.Request)) answer {
	r := httptest.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return a.do(t, r, shape)
}

func (a *app) do(t *testing.T, r *http.Request, shape []func(*http.Request)) answer {
	t.Helper()
	for _, s := range shape {
		s(r)
	}
	w := httptest.NewRecorder()
	a.router.ServeHTTP(w, r)
	for _, values := range w.Header() {
		for i := range values {
			values[i] = atOnce(values[i])
		}
	}
	return answer{w.Code, w.Header(), atOnce(w.Body.String())}
}

var nearlyAnHour = regexp.MustCompile(`\b3[0-5]\d\d\b`)

// atOnce takes back what a real server's clock went on between two requests, which on a busy machine may be
// seconds: where an hour was to be waited, it still says 3600.
func atOnce(text string) string { return nearlyAnHour.ReplaceAllString(text, "3600") }

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   string
}

// wants checks the status, and that the RateLimit field contains limit.
func (a answer) wants(t *testing.T, status int, limit string) {
	t.Helper()
	if a.status != status {
		t.Errorf("status %d, want %d; body %s", a.status, status, a.body)
	}
	if got := a.header.Get("RateLimit"); !strings.Contains(got, limit) {
		t.Errorf("RateLimit: %s, want %s in it", got, limit)
	}
}

// problem reads a problem document.
func (a answer) problem(t *testing.T) map[string]any {
	t.Helper()
	var p map[string]any
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s is no problem document: %v: %s", a.header.Get("Content-Type"), err, a.body)
	}
	return p
}
