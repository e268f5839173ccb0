package sash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/keyexpr"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/stdmw"
)

// A hostile client against handlers as applications write them. Whatever it sends, a handler takes for the e-mail
// what the limiter has counted, or the request is refused.

// quota is how often a handler here may be reached for one e-mail.
const quota = 2

// A reader is a handler, by how it finds the e-mail in a request, with the key expression that counts for it.
type reader struct {
	name  string
	key   string
	mount mount

	// canonical is what is counted of what the handler reads, where that is not the same.
	canonical func(email string) string
}

// mount makes a handler for / with a limit. It calls send where an application would send the e-mail.
type mount func(limiter *ratelimit.Limiter, rule sash.Rule, send func(email string)) http.Handler

func inGin(find func(*gin.Context) (string, error)) mount {
	return func(limiter *ratelimit.Limiter, rule sash.Rule, send func(string)) http.Handler {
		r := newEngine()
		r.Any("/", ginmw.Decorator{Limiter: limiter}.Limit(rule), func(c *gin.Context) {
			if email, err := find(c); err == nil && email != "" {
				send(email)
			} else {
				c.Status(http.StatusBadRequest)
			}
		})
		return r
	}
}

func newEngine() *gin.Engine {
	gin.SetMode(gin.TestMode)
	return gin.New()
}

func inStd(find func(*http.Request) (string, error)) mount {
	return func(limiter *ratelimit.Limiter, rule sash.Rule, send func(string)) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/{$}", stdmw.Decorator{Limiter: limiter}.Limit(rule)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if email, err := find(r); err == nil && email != "" {
				send(email)
			} else {
				w.WriteHeader(http.StatusBadRequest)
			}
		})))
		return mux
	}
}

func typedInGin(limiter *ratelimit.Limiter, rule sash.Rule, send func(string)) http.Handler {
	r := newEngine()
	r.Any("/", ginmw.Handle(ginmw.Decorator{Limiter: limiter}, typedSend(send), rule))
	return r
}

func typedInStd(limiter *ratelimit.Limiter, rule sash.Rule, send func(string)) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/{$}", stdmw.Handle(stdmw.Decorator{Limiter: limiter}, typedSend(send), rule))
	return mux
}

func typedSend(send func(string)) func(context.Context, message) (string, error) {
	return func(_ context.Context, in message) (string, error) {
		send(in.Email)
		return "sent", nil
	}
}

// message is what the handlers bind a request to.
type message struct {
	Email string `json:"email" form:"email" yaml:"email" xml:"email" header:"X-Email"`
}

var readers = []reader{
	{name: "Gin's ShouldBindJSON", key: "body.email", mount: inGin(bound((*gin.Context).ShouldBindJSON))},
	{name: "Gin's ShouldBindBodyWithJSON", key: "body.email", mount: inGin(bound((*gin.Context).ShouldBindBodyWithJSON))},
	{name: "Gin's ShouldBind of JSON", key: "body.email", mount: inGin(bound((*gin.Context).ShouldBind))},
	{name: "Gin's ShouldBind of JSON, where the form has other names", key: "body.email", mount: inGin(func(c *gin.Context) (string, error) {
		var in struct {
			Email string `json:"email" form:"mail" yaml:"mail"`
		}
		err := c.ShouldBind(&in)
		return in.Email, err
	})},
	{name: "io.ReadAll and json.Unmarshal in Gin", key: "body.email", mount: inGin(func(c *gin.Context) (string, error) { return unmarshal(c.Request) })},
	{name: "Gin's ShouldBindJSON of an e-mail in an object", key: "body.desk.email", mount: inGin(func(c *gin.Context) (string, error) {
		var in struct{ Desk message }
		err := c.ShouldBindJSON(&in)
		return in.Desk.Email, err
	})},
	{name: "Gin's ShouldBindJSON, counted by email()", key: "email(body.email)", mount: inGin(bound((*gin.Context).ShouldBindJSON)), canonical: canonicalEmail},
	{name: "Gin's PostForm", key: "form.email", mount: inGin(func(c *gin.Context) (string, error) { return c.PostForm("email"), nil })},
	{name: "Gin's ShouldBind of a form", key: "form.email", mount: inGin(bound((*gin.Context).ShouldBind))},
	{name: "Gin's ShouldBind of a form or a query", key: "form.email ?? query.email", mount: inGin(bound((*gin.Context).ShouldBind))},
	{name: "Gin's Query", key: "query.email", mount: inGin(func(c *gin.Context) (string, error) { return c.Query("email"), nil })},
	{name: "Gin's ShouldBindQuery", key: "query.email", mount: inGin(bound((*gin.Context).ShouldBindQuery))},
	{name: "Gin's GetHeader", key: `header("X-Email")`, mount: inGin(func(c *gin.Context) (string, error) { return c.GetHeader("x-email"), nil })},
	{name: "Gin's ShouldBindHeader", key: `header("X-Email")`, mount: inGin(bound((*gin.Context).ShouldBindHeader))},
	{name: "Gin's Cookie", key: `cookie("email")`, mount: inGin(func(c *gin.Context) (string, error) { return c.Cookie("email") })},
	{name: "a typed handler in Gin", key: "email", mount: typedInGin},

	{name: "json.Decoder", key: "body.email", mount: inStd(func(r *http.Request) (string, error) {
		var in message
		err := json.NewDecoder(r.Body).Decode(&in)
		return in.Email, err
	})},
	{name: "json.Unmarshal", key: "body.email", mount: inStd(unmarshal)},
	{name: "json.Unmarshal into a map", key: "body.email", mount: inStd(func(r *http.Request) (string, error) {
		var in map[string]any
		data, _ := io.ReadAll(r.Body)
		err := json.Unmarshal(data, &in)
		email, _ := in["email"].(string)
		return email, err
	})},
	{name: "a reader of JSON that stops at the first", key: "body.email", mount: inStd(firstMember)},
	{name: "a reader of JSON document after document", key: "body.email", mount: inStd(lastDocument)},
	{name: "a handler that takes JSON or a form, as declared", key: "body.email", mount: inStd(asDeclared)},
	{name: "FormValue", key: "form.email", mount: inStd(func(r *http.Request) (string, error) { return r.FormValue("email"), nil })},
	{name: "FormValue of a form or a query", key: "form.email ?? query.email", mount: inStd(func(r *http.Request) (string, error) { return r.FormValue("email"), nil })},
	{name: "PostFormValue", key: "form.email", mount: inStd(func(r *http.Request) (string, error) { return r.PostFormValue("email"), nil })},
	{name: "the last of a form's fields", key: "form.email", mount: inStd(func(r *http.Request) (string, error) {
		_ = r.ParseMultipartForm(1 << 20)
		all := append(r.PostForm["email"], "")
		return all[max(0, len(all)-2)], nil
	})},
	{name: "URL.Query", key: "query.email", mount: inStd(func(r *http.Request) (string, error) { return r.URL.Query().Get("email"), nil })},
	{name: "Header.Get", key: `header("X-Email")`, mount: inStd(func(r *http.Request) (string, error) { return r.Header.Get("X-Email"), nil })},
	{name: "Request.Cookie", key: `cookie("email")`, canonical: unescaped, mount: inStd(func(r *http.Request) (string, error) {
		c, err := r.Cookie("email")
		if err != nil {
			return "", err
		}
		return c.Value, nil
	})},
	{name: "a typed handler", key: "email", mount: typedInStd},
}

func bound(bind func(*gin.Context, any) error) func(*gin.Context) (string, error) {
	return func(c *gin.Context) (string, error) {
		var in message
		err := bind(c, &in)
		return in.Email, err
	}
}

func unmarshal(r *http.Request) (string, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	var in message
	err = json.Unmarshal(data, &in)
	return in.Email, err
}

// firstMember looks no further than it must, as readers do that are made to be fast.
func firstMember(r *http.Request) (string, error) {
	decoder := json.NewDecoder(r.Body)
	for depth := 0; ; {
		token, err := decoder.Token()
		switch {
		case err != nil:
			return "", err
		case token == json.Delim('{') || token == json.Delim('['):
			depth++
		case token == json.Delim('}') || token == json.Delim(']'):
			depth--
		case token == "email" && depth == 1:
			value, err := decoder.Token()
			email, _ := value.(string)
			return email, err
		}
	}
}

func lastDocument(r *http.Request) (string, error) {
	decoder := json.NewDecoder(r.Body)
	var in message
	for {
		if err := decoder.Decode(&in); errors.Is(err, io.EOF) {
			return in.Email, nil
		} else if err != nil {
			return "", err
		}
	}
}

func asDeclared(r *http.Request) (string, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "application/json" {
		return unmarshal(r)
	}
	return r.FormValue("email"), nil
}

func canonicalEmail(s string) string {
	s, _ = keyexpr.CanonicalEmail(s)
	return s
}

func unescaped(s string) string {
	if decoded, err := url.QueryUnescape(s); err == nil {
		return decoded
	}
	return s
}

// readsABody says that nothing but the body tells the reader the e-mail, and that it is bound behind the limit.
func (r reader) readsABody() bool { return strings.Contains(r.key, "body.") || r.key == "form.email" }

// A limited handler is a reader behind a limit, with a record of what came through.
type limited struct {
	handler http.Handler
	ledger  *ledger

	mu   sync.Mutex
	t    testing.TB
	sent []string // what was counted for each e-mail that was sent
}

func (r reader) open(t testing.TB, store ratelimit.Store) *limited {
	t.Helper()
	h := &limited{ledger: &ledger{Store: store}, t: t}
	limiter, err := ratelimit.New(ratelimit.Config{Store: h.ledger, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { limiter.Close() })
	rule := sash.Rule{Name: "send", KeyExpr: r.key, Limits: hourly(quota)}
	h.handler = r.mount(limiter, rule, func(email string) {
		if r.canonical != nil {
			email = r.canonical(email)
		}
		h.note(r.name, email)
	})
	return h
}

func (h *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.ledger.asked() // for another request, which is no excuse for this one
	h.handler.ServeHTTP(w, r)
}

// note records an e-mail that was sent, and checks that it is the one that was counted.
func (h *limited) note(reader, email string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch counted := h.ledger.asked(); {
	case counted != ratelimit.Key("send", email):
		h.t.Errorf("%s: the handler reads %.80q, but the limiter counted %s", reader, email, counted)
	case len(counted) > 257:
		h.t.Errorf("%s: a key of %d bytes", reader, len(counted))
	}
	h.sent = append(h.sent, email)
}

// atNoon is a store in memory in which no time passes.
func atNoon() ratelimit.Store {
	return ratelimit.NewMemoryStore(ratelimit.MemoryConfig{Now: func() time.Time { return noon }})
}

// sends is how many e-mails were sent so far.
func (h *limited) sends() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sent)
}

// ledger is a store that remembers for which key it was asked last.
type ledger struct {
	ratelimit.Store

	mu  sync.Mutex
	key string
}

func (l *ledger) Take(ctx context.Context, id uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	l.mu.Lock()
	l.key = claims[0].Key
	l.mu.Unlock()
	return l.Store.Take(ctx, id, claims, decisions)
}

// asked returns the key and forgets it.
func (l *ledger) asked() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := l.key
	l.key = ""
	return key
}

// eachReader runs test for every reader.
func eachReader(t *testing.T, test func(*testing.T, reader)) {
	t.Helper()
	for _, r := range readers {
		t.Run(r.name, func(t *testing.T) { t.Parallel(); test(t, r) })
	}
}

func TestAHandlerReadsWhatWasCountedWhateverAClientSends(t *testing.T) {
	t.Parallel()
	all := tricks()
	eachReader(t, func(t *testing.T, r reader) {
		reached := false
		for _, tr := range all {
			h := r.open(t, atNoon())
			for i := range quota + 1 {
				before := h.sends()
				w := httptest.NewRecorder()
				h.ServeHTTP(w, tr.request())
				switch went := h.sends() > before; {
				case went && tr.refused && r.readsABody():
					t.Errorf("%s: the handler ran, although readers may differ in what the body says", tr.name)
				case went && i == quota:
					t.Errorf("%s: request %d went through", tr.name, i+1)
				case !went && (w.Code < 400 || w.Code > 499):
					t.Errorf("%s: answered with %d", tr.name, w.Code)
				}
			}
			reached = reached || h.sends() > 0
		}
		if !reached {
			t.Error("no request reached the handler, and nothing is proven")
		}
	})
}

// Whatever spelling a client finds for a mailbox, each is counted where the others are.
func TestAllTricksTogetherAreNoWayAroundALimit(t *testing.T) {
	t.Parallel()
	all := tricks()
	eachReader(t, func(t *testing.T, r reader) {
		h := r.open(t, atNoon())
		for range 2 {
			for _, tr := range all {
				h.ServeHTTP(httptest.NewRecorder(), tr.request())
			}
		}
		h.wantWithinQuota(t, "all of them")
		if !slices.Contains(h.sent, "me@x.org") {
			t.Error("the honest requests were not sent, and nothing is proven")
		}
	})
}

// Whoever reads answers and logs learns nothing of what clients send, least of all when something fails.
func TestNothingThatAClientSendsIsRepeated(t *testing.T) {
	t.Parallel()
	all := tricks()
	eachReader(t, func(t *testing.T, r reader) {
		for name, store := range map[string]ratelimit.Store{"a store that answers": atNoon(), "a store that fails": failing{}} {
			var logged bytes.Buffer
			limiter, err := ratelimit.New(ratelimit.Config{Store: store, Timeout: patience, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer limiter.Close()
			h := r.mount(limiter, sash.Rule{Name: "send", KeyExpr: r.key, Limits: hourly(quota)}, func(string) {})
			for _, tr := range all {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, tr.request())
				if said := fmt.Sprint(w.Header(), w.Body); strings.Contains(said, "x.org") {
					t.Errorf("%s, %s: answered with %s", name, tr.name, said)
				}
			}
			limiter.Close()
			if strings.Contains(logged.String(), "x.org") {
				t.Errorf("%s: logged %s", name, &logged)
			}
		}
	})
}

// failing is a store that is out of order.
type failing struct{ ratelimit.Store }

func (failing) Take(context.Context, uuid.UUID, []ratelimit.Claim, []ratelimit.Decision) error {
	return errors.New("out of order")
}

// The bound is many times the cap, since small values take more memory than text. What it keeps out is what grows with
// the depth, with what is beyond the cap, or with what a body decodes to. It is not for what handlers do.
func TestNoRequestTakesMuchMemory(t *testing.T) {
	const bound = 64 * keyexpr.DefaultMaxBodyBytes
	all := tricks()
	for _, r := range readers {
		limiter, err := ratelimit.New(ratelimit.Config{Store: atNoon()})
		if err != nil {
			t.Fatal(err)
		}
		never := sash.Rule{Name: "send", KeyExpr: r.key, Limits: hourly(1), Cost: "2"}
		h := r.mount(limiter, never, func(string) { t.Errorf("%s: the handler ran", r.name) })
		for _, tr := range all {
			request, w := tr.request(), httptest.NewRecorder()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			h.ServeHTTP(w, request)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > bound {
				t.Errorf("%s, %s: %d KiB for %d of body", r.name, tr.name, took>>10, len(tr.body)>>10)
			}
		}
		limiter.Close()
	}
}

func TestSpellingsOfAMailboxAreOneQuota(t *testing.T) {
	eachAdapter(t, func(t *testing.T, app *app) {
		app.on(t, atNoon())
		app.handle("POST", "/", sash.Rule{Name: "r", KeyExpr: "email(body.email)", Limits: hourly(1)})
		for i, spelling := range []string{
			"bob@example.com", "Bob@example.com", "bob@EXAMPLE.com", " bob@example.com", "bob@example.com\r\n", "\u00a0bob@example.com\u3000",
			"\uff42\uff4f\uff42@example.com", "bob\uff20example.com", "bob@example\uff0ecom", "bob@example\u3002com", "bob@example\uff61com",
			"\U0001d41b\U0001d428\U0001d41b@example.com", "\u24d1ob@example.com", "BO\u0042@ex\u00aample.com",
		} {
			body, err := json.Marshal(map[string]string{"email": spelling})
			if err != nil {
				t.Fatal(err)
			}
			want := http.StatusTooManyRequests
			if i == 0 {
				want = http.StatusOK
			}
			app.post(t, "/", string(body)).wants(t, want, "")
		}
	})
}

func TestWhatDoesNotShowIsInNoMailbox(t *testing.T) {
	eachAdapter(t, func(t *testing.T, app *app) {
		app.on(t, atNoon())
		app.handle("POST", "/", sash.Rule{Name: "r", KeyExpr: "email(body.email)", Limits: hourly(1)})
		for _, hidden := range slices.Concat(runesUpTo(0x1f), []rune{0x7f, 0x80, 0x9f, 0xad, 0x34f, 0x61c, 0x115f, 0x180b, 0x200b, 0x200e, 0x202e, 0x2028, 0x2060, 0x3164, 0xfe0f, 0xfeff, 0xe0001, 0xe0100}) {
			body, err := json.Marshal(map[string]string{"email": "bo" + string(hidden) + "b@example.com"})
			if err != nil {
				t.Fatal(err)
			}
			app.post(t, "/", string(body)).wants(t, http.StatusBadRequest, "")
		}
		app.post(t, "/", `{"email":"bob@example.com"}`).wants(t, http.StatusOK, "")
	})
}

func runesUpTo(last rune) (all []rune) {
	for r := range last + 1 {
		all = append(all, r)
	}
	return all
}

func TestKeysOfAnyBytesAreKeptApart(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("GET", "/", sash.Rule{Name: "r", KeyExpr: "query.k", Limits: hourly(1)})
		app.handle("GET", "/two", sash.Rule{Name: "two", KeyExpr: "[query.k, query.l]", Limits: hourly(1)})
		long := strings.Repeat("x", 10_000)
		keys := []string{"bob", "bob\x00", "bob\n", "bob\r\n", "bob:", "{bob}", "bob*", "b?b", "bob\xff", "bob\xfe", "bob\ufffd", "%00", " ", "#", "r:bob", long, long + "y"}
		for _, key := range keys {
			app.get(t, "/?k="+url.QueryEscape(key)).wants(t, 200, `"r";r=0`)
		}
		for _, key := range keys {
			app.get(t, "/?k="+url.QueryEscape(key)).wants(t, 429, `"r";r=0`)
		}
		app.get(t, "/?k=").wants(t, 400, ``)

		for _, parts := range []string{"k=a:b&l=c", "k=a&l=b:c", "k=a%00b&l=c", "k=a&l=%00bc", "k=a,b&l=c", "k=ab&l=c"} {
			app.get(t, "/two?"+parts).wants(t, 200, `"two";r=0`)
		}
	})
}

// A body that comes too slowly is as little of a request as one that is broken off. The wait is the server's own, its
// ReadTimeout, here one that is over at once.
func TestABodyThatComesTooSlowlyIsNotCounted(t *testing.T) {
	t.Parallel()
	const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	for _, r := range readers {
		if r.key != "body.email" {
			continue
		}
		for _, text := range []string{head + "Content-Length: 20\r\n\r\n", head + "Transfer-Encoding: chunked\r\n\r\n14\r\n" + `{"email":"me@x.org"}` + "\r\n"} {
			h := r.open(t, atNoon())
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).SetReadDeadline(time.Now())
				h.ServeHTTP(w, r)
			}))
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, text)
			if got := statuses(t, conn, text); len(got) != 1 || got[0] != http.StatusRequestTimeout {
				t.Errorf("%s: answered with %d, want 408", r.name, got)
			}
			conn.Close()
			server.Close()
			if key := h.ledger.asked(); key != "" || h.sends() != 0 {
				t.Errorf("%s: %q was counted, %d sent", r.name, key, h.sends())
			}
		}
	}
}

// Middleware that takes something away from a body leaves no request of which another key could be made.
func TestABodyThatIsShorterThanItSaysIsNotCounted(t *testing.T) {
	t.Parallel()
	eachReader(t, func(t *testing.T, r reader) {
		if h := r.open(t, atNoon()); r.readsABody() {
			request := trick{line: "POST /", fields: asJSON, body: `{"email":"me@x.org"}`}.request()
			request.ContentLength++
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, request); w.Code != http.StatusBadRequest || h.ledger.asked() != "" {
				t.Errorf("%d, and it was counted", w.Code)
			}
		}
	})
}
