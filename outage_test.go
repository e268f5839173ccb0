package sash_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// down gives the app a Limiter whose Redis is not there.
func (a *app) down(t *testing.T, policy ratelimit.Policy) {
	t.Helper()
	logging.Disable() // the client tells of every failed dial
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
	t.Cleanup(func() { client.Close() })
	lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(client), Timeout: patience, OnFailure: policy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lim.Close() })
	a.limiter = lim
}

func TestAnOutageIsAnsweredAsThePolicySays(t *testing.T) {
	for _, test := range []struct {
		name           string
		limiter, rule  ratelimit.Policy
		statuses       []int
		field, retries string // of the last
	}{
		{"by default it is open", ratelimit.Inherit, ratelimit.Inherit, []int{200, 200, 200, 200}, "", ""},
		{"closed", ratelimit.FailClosed, ratelimit.Inherit, []int{503, 503}, "", "1"},
		{"local", ratelimit.FailLocal, ratelimit.Inherit, []int{200, 200, 429, 429}, `"r";r=0;t=3600`, "3600"},
		{"a rule of its own: open", ratelimit.FailClosed, ratelimit.FailOpen, []int{200, 200, 200}, "", ""},
		{"a rule of its own: closed", ratelimit.FailOpen, ratelimit.FailClosed, []int{503}, "", "1"},
		{"a rule of its own: local", ratelimit.FailClosed, ratelimit.FailLocal, []int{200, 200, 429}, `"r";r=0;t=3600`, "3600"},
	} {
		eachAdapter(t, func(t *testing.T, app *app) {
			app.down(t, test.limiter)
			app.handle("GET", "/", sash.Rule{Name: "r", KeyExpr: "ip", Limits: hourly(2), OnFailure: test.rule})
			var got answer
			for i, want := range test.statuses {
				if got = app.get(t, "/"); got.status != want {
					t.Errorf("%s, request %d: status %d, want %d", test.name, i+1, got.status, want)
				}
			}
			if field, retry := got.header.Get("RateLimit"), got.header.Get("Retry-After"); field != test.field || retry != test.retries {
				t.Errorf("%s: RateLimit: %s, Retry-After: %s; want %s and %s", test.name, field, retry, test.field, test.retries)
			}
			if got.status == 503 && got.problem(t)["type"] != "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity" {
				t.Errorf("%s: the problem document is %s", test.name, got.body)
			}
		})
	}
}

func TestFailedIsToldOfARuleThatFailsClosed(t *testing.T) {
	eachAdapter(t, func(t *testing.T, app *app) {
		app.down(t, ratelimit.FailClosed)
		app.failed = func(w http.ResponseWriter, err error) {
			if unavailable, ok := errors.AsType[*sash.UnavailableError](err); !ok || unavailable.RetryAfter != time.Second {
				t.Errorf("got %v", err)
			}
			w.WriteHeader(sash.Status(err))
		}
		app.handle("GET", "/", sash.Rule{Name: "r", KeyExpr: "ip", Limits: hourly(2)})
		if got := app.get(t, "/"); got.status != 503 || got.header.Get("Retry-After") != "1" || app.handled > 0 {
			t.Errorf("got %+v, and %d requests handled", got, app.handled)
		}
	})
}

// A body whose client waits for 100 Continue is not asked for, and one that trickles in holds nothing up.
func TestARequestThatIsDeniedAnywayIsAnsweredBeforeItsBodyIsRead(t *testing.T) {
	byAddress := sash.Rule{Name: "address", KeyExpr: "ip", Limits: hourly(1)}
	byUser := sash.Rule{Name: "user", KeyExpr: "body.user", Limits: hourly(9)}
	inTyped := sash.Rule{Name: "user", KeyExpr: "email", Limits: hourly(9)}
	post := func(app *app, path, expect string) (status int, read bool) {
		body := &readBody{Reader: strings.NewReader(`{"user":"bob","email":"bob@example.com"}`)}
		r := httptest.NewRequestWithContext(t.Context(), "POST", path, body)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Expect", expect)
		w := httptest.NewRecorder()
		app.router.ServeHTTP(w, r)
		return w.Code, body.read
	}
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("POST", "/raw", byUser, byAddress)
		app.handleTyped("/typed", 0, inTyped, byAddress)
		if status, read := post(app, "/raw", ""); status != 200 || !read {
			t.Errorf("the first: %d, its body is read: %v", status, read)
		}
		for _, path := range []string{"/raw", "/typed"} {
			if status, read := post(app, path, "100-continue"); status != 429 || read {
				t.Errorf("%s, a client that waits for 100 Continue: %d, its body is read: %v", path, status, read)
			}
			if status, read := post(app, path, ""); status != 429 || read {
				t.Errorf("%s, another: %d, its body is read: %v", path, status, read)
			}
		}
		if stats := app.limiter.Stats(); stats.Allowed[ratelimit.Looked] > 0 {
			t.Errorf("looking before the body is counted as a decision: %+v", stats)
		}
	})
}

type readBody struct {
	io.Reader
	read bool
}

func (b *readBody) Read(p []byte) (int, error) { b.read = true; return b.Reader.Read(p) }

func TestKeysUnderASecretTellNobodyWhoseTheyAre(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(client), Timeout: patience, KeySecret: []byte("0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lim.Close() })
	eachAdapter(t, func(t *testing.T, app *app) {
		app.limiter = lim
		app.handle("GET", "/", sash.Rule{Name: "codes", KeyExpr: "query.email", Limits: hourly(1)})
		if err := lim.Reset(t.Context(), ratelimit.Key("codes", "bob@example.com")); err != nil {
			t.Fatal(err)
		}
		app.get(t, "/?email=bob@example.com").wants(t, 200, `"codes";r=0`) // so the Reset has found it
		app.get(t, "/?email=bob@example.com").wants(t, 429, `"codes";r=0`)
		app.get(t, "/?email=eve@example.com").wants(t, 200, `"codes";r=0`)
		if err := lim.Reset(t.Context(), ratelimit.Key("codes", "eve@example.com")); err != nil {
			t.Fatal(err)
		}
	})
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, "rate_limit:codes:#") || strings.Contains(key, "example") {
			t.Errorf("a key is %s", key)
		}
	}
	if len(keys) == 0 {
		t.Error("there is no key")
	}
}

// The Limiter writes the keys of the logs into the claims: what is refunded or forgotten is still the rule's own key.
func TestUnderASecretTooARequestIsRefundedAndAKeyForgotten(t *testing.T) {
	lim, err := ratelimit.New(ratelimit.Config{KeySecret: []byte("0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lim.Close() })
	eachAdapter(t, func(t *testing.T, app *app) {
		app.limiter = lim
		app.respond = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }
		app.handle("POST", "/",
			sash.Rule{Name: "refunds", KeyExpr: "ip", Limits: hourly(1), CountIf: "response.status < 500"},
			sash.Rule{Name: "forgets", KeyExpr: "ip", Limits: hourly(1), ResetIf: "response.status == 503"})
		for range 3 {
			app.post(t, "/", "").wants(t, 503, `"refunds";r=0`)
		}
	})
}
