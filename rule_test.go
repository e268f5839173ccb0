package sash_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
)

// What a Rule can say, through both adapters and over both stores.

// hourly are limits of so many requests in an hour.
func hourly(maxRequests int) []ratelimit.Limit {
	return []ratelimit.Limit{{MaxRequests: maxRequests, Window: time.Hour}}
}

func TestSeveralWindowsOfARuleCountOneLog(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("GET", "/", sash.Rule{Name: "r", KeyExpr: "ip", Limits: append(hourly(1), ratelimit.Limit{MaxRequests: 5, Window: 24 * time.Hour})})
		app.get(t, "/").wants(t, 200, `"r-3600s";r=0;t=3600`)
		app.get(t, "/").wants(t, 429, `"r-3600s";r=0;t=3600`)
	})
}

func TestAPlanIsChosenForEachRequest(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("GET", "/", sash.Rule{
			Name: "api", KeyExpr: "query.user",
			LimitsBy: `header("X-Plan") == "pro" ? "pro" : "free"`,
			Plans:    map[string][]ratelimit.Limit{"free": hourly(1), "pro": hourly(3)},
		})
		app.get(t, "/?user=a").wants(t, 200, `"api";r=0`)
		app.get(t, "/?user=a").wants(t, 429, ``)
		app.get(t, "/?user=a", with("X-Plan", "pro")).wants(t, 200, `"api";r=1`) // the same log, of which one is used
		if got := app.get(t, "/?user=b", with("X-Plan", "pro")).header.Get("RateLimit-Policy"); got != `"api";q=3;w=3600` {
			t.Errorf("RateLimit-Policy: %s", got)
		}
	})
}

func TestAPlanWithAShortWindowForgetsNothingThatAnotherCounts(t *testing.T) {
	eachAdapter(t, func(t *testing.T, app *app) {
		clock := noon
		app.on(t, ratelimit.NewMemoryStore(ratelimit.MemoryConfig{Now: func() time.Time { return clock }}))
		app.handle("GET", "/", sash.Rule{
			Name: "api", KeyExpr: `"k"`, LimitsBy: "query.plan",
			Plans: map[string][]ratelimit.Limit{"hour": hourly(2), "minute": {{MaxRequests: 1, Window: time.Minute}}},
		})
		app.get(t, "/?plan=hour").wants(t, 200, `;r=1`)
		clock = clock.Add(2 * time.Minute)
		app.get(t, "/?plan=minute").wants(t, 200, `;r=0`)
		clock = clock.Add(28 * time.Minute)
		app.get(t, "/?plan=hour").wants(t, 429, `;r=0;t=1800`)
		app.get(t, "/?plan=day").wants(t, 400, ``)
	})
}

func TestAFunctionMayTellTheLimits(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		quota, window := map[string]int{"a": 1, "b": 2}, time.Hour
		app.handle("GET", "/", sash.Rule{
			Name: "api", KeyExpr: "query.user", LimitsBy: "query.user", Keep: time.Hour,
			LimitsFunc: func(_ context.Context, user string) ([]ratelimit.Limit, error) {
				if quota[user] == 0 {
					return nil, errors.New("unknown user")
				}
				return []ratelimit.Limit{{MaxRequests: quota[user], Window: window}}, nil
			},
		})
		app.get(t, "/?user=a").wants(t, 200, `"api";r=0`)
		app.get(t, "/?user=b").wants(t, 200, `"api";r=1`)
		quota["a"] = 2 // at run time: the same log under another limit
		app.get(t, "/?user=a").wants(t, 200, `"api";r=0`)
		window = 2 * time.Hour
		app.get(t, "/?user=b").wants(t, 503, ``) // longer than Keep
		window = time.Hour
		if got := app.get(t, "/?user=c"); got.status != 503 || strings.Contains(got.body, "unknown user") {
			t.Errorf("a function that fails leaves nothing to decide by: %d %s", got.status, got.body)
		}
	})
}

func TestWhenTheConditionIsFalseTheRuleDoesNotConcernTheRequest(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("POST", "/", sash.Rule{Name: "r", KeyExpr: "body.email", Limits: hourly(1), When: `header("X-Test") != "1"`})
		app.post(t, "/", `{"email":"a"}`).wants(t, 200, `"r";r=0`)
		app.post(t, "/", `{"email":"a"}`).wants(t, 429, ``)
		got := app.post(t, "/", `no JSON at all`, with("X-Test", "1"))
		if got.status != 200 || got.header.Get("RateLimit-Policy") != "" || got.body != "no JSON at all" {
			t.Errorf("got %d %v %q; want a response that knows of no limit", got.status, got.header, got.body)
		}
	})
}

func TestACostCountsForMany(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("POST", "/", sash.Rule{Name: "mails", KeyExpr: "ip", Limits: hourly(5), Cost: "len(body.to)"})
		app.post(t, "/", `{"to":["a","b","c"]}`).wants(t, 200, `"mails";r=2`)
		app.post(t, "/", `{"to":["a","b","c"]}`).wants(t, 429, `"mails";r=2`)
		app.post(t, "/", `{"to":[]}`).wants(t, 200, `"mails";r=2`) // only looks
		app.post(t, "/", `{"to":["a","b"]}`).wants(t, 200, `"mails";r=0`)
		never := app.post(t, "/", `{"to":["a","b","c","d","e","f"]}`)
		never.wants(t, 429, `"mails";r=0`)
		if never.header.Get("Retry-After") != "" || never.problem(t)["detail"] != "The request costs more than the quota, and will never be allowed." {
			t.Errorf("no waiting helps: %v %s", never.header, never.body)
		}
		app.post(t, "/", `{"to":"a"}`).wants(t, 429, ``) // text has a length too
		app.post(t, "/", `{}`).wants(t, 400, ``)
	})
}

func TestOnlyFailuresAreCountedAndASuccessForgetsThem(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.respond = func(w http.ResponseWriter, r *http.Request) {
			status, _ := strconv.Atoi(r.Header.Get("X-Status"))
			w.Header().Set("X-Outcome", r.Header.Get("X-Outcome"))
			w.WriteHeader(status)
		}
		app.handle("POST", "/login", sash.Rule{
			Name: "failed-logins", KeyExpr: "query.user", Limits: hourly(2),
			CountIf: `response.status == 401`,
			ResetIf: `response.status == 200 && response.header("X-Outcome") == "welcome"`,
		})
		login := func(status int, more ...func(*http.Request)) answer {
			return app.post(t, "/login?user=bob", "", append(more, with("X-Status", strconv.Itoa(status)))...)
		}
		for range 5 {
			login(503).wants(t, 503, `"failed-logins";r=1`) // reserved while it runs, and then refunded
		}
		login(401).wants(t, 401, `;r=1`)
		login(200, with("X-Outcome", "welcome")).wants(t, 200, `;r=0`)
		login(401).wants(t, 401, `;r=1`) // forgotten
		login(401).wants(t, 401, `;r=0`)
		login(200).wants(t, 429, ``) // two failures: not even a right password is tried
	})
}

func TestAHandlerThatPanicsCountsAsA500(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.respond = func(http.ResponseWriter, *http.Request) { panic("boom") }
		app.handle("GET", "/", sash.Rule{Name: "r", KeyExpr: "ip", Limits: hourly(1), CountIf: "response.status < 500"})
		for range 3 {
			func() {
				defer func() {
					if recover() != "boom" {
						t.Error("the panic did not reach the server")
					}
				}()
				app.get(t, "/")
			}()
		}
		if app.handled != 3 {
			t.Errorf("the handler ran %d times, want 3: none of them counts", app.handled)
		}
	})
}

// A proxy panics with ErrAbortHandler when its client hangs up: who has been answered has been answered.
func TestAHandlerThatPanicsAfterItHasAnsweredCountsAsItAnswered(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.respond = func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte("all there is"))
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		app.handle("GET", "/", sash.Rule{Name: "r", KeyExpr: "ip", Limits: hourly(1), CountIf: "response.status < 500"})
		func() {
			defer func() { _ = recover() }()
			app.get(t, "/")
		}()
		app.get(t, "/").wants(t, 429, ``)
	})
}

func TestADryRunDeniesNobodyWhateverIsWrongWithIt(t *testing.T) {
	eachAdapter(t, func(t *testing.T, app *app) {
		app.on(t, nil)
		app.skip = "body.skip"
		app.handle("POST", "/", sash.Rule{Name: "r", KeyExpr: "ip", Limits: hourly(1), DryRun: true})
		app.post(t, "/", "no JSON").wants(t, 200, ``)
		app.limiter.Close()
		app.post(t, "/", `{"skip":false}`).wants(t, 200, ``)
	})
}

func TestWhatIsDeclaredIsTheRulesOwn(t *testing.T) {
	eachAdapter(t, func(t *testing.T, app *app) {
		app.on(t, nil)
		plans := map[string][]ratelimit.Limit{"a": hourly(1)}
		app.handle("GET", "/", sash.Rule{Name: "r", KeyExpr: "ip", LimitsBy: `"a"`, Plans: plans})
		plans["a"][0].MaxRequests = 9
		app.limiter.Rules()[0].Plans["a"][0].MaxRequests = 9
		app.get(t, "/").wants(t, 200, `"r";r=0`)
	})
}

func TestAWatchedHandlerMayStillFlushAndHijack(t *testing.T) {
	eachAdapter(t, func(t *testing.T, app *app) {
		app.on(t, nil)
		app.respond = func(w http.ResponseWriter, r *http.Request) {
			controller := http.NewResponseController(w)
			if err := controller.Flush(); err != nil {
				t.Errorf("Flush: %v", err)
			}
			if _, ok := w.(http.Flusher); !ok {
				t.Errorf("%T is no Flusher", w)
			}
		}
		app.handle("GET", "/", sash.Rule{Name: "r", KeyExpr: "ip", Limits: hourly(9), CountIf: "response.status < 500"})
		app.get(t, "/").wants(t, 200, `;r=8`)

		app.respond = func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Errorf("Hijack: %v", err)
				return
			}
			conn.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
			conn.Close()
		}
		if got := hijacked(t, app.router); got != "HTTP/1.1 204 No Content\r\n" {
			t.Errorf("the hijacked connection says %q", got)
		}
	})
}

// hijacked serves one request on a real connection, and returns the first line of what comes back.
func hijacked(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	go server.Serve(l)
	defer server.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func TestADryRunDecidesAndCountsButNeverDenies(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		var seen []string
		app.observe = func(rule string, d ratelimit.Decision) {
			seen = append(seen, fmt.Sprint(rule, " ", d.Reason, " ", d.Allowed))
		}
		app.showDryRun = true
		rule := sash.Rule{Name: "r", KeyExpr: "query.user", Limits: hourly(1)}
		trial := rule
		trial.DryRun = true
		app.handle("GET", "/live", rule)
		app.handle("GET", "/trial", trial)

		got := app.get(t, "/trial?user=bob")
		got.wants(t, 200, ``)
		if got.header.Get("RateLimit") != "" || got.header.Get("RateLimit-Dry-Run") != `"r";r=0;t=3600` {
			t.Errorf("a dry run speaks in a field of its own: %v", got.header)
		}
		app.get(t, "/trial?user=bob").wants(t, 200, ``)
		app.get(t, "/trial").wants(t, 200, ``) // not even for want of a key
		app.get(t, "/live?user=bob").wants(t, 200, `"r";r=0`)
		app.get(t, "/live?user=bob").wants(t, 429, ``)
		if got, want := strings.Join(seen, "; "), "r (dry run) counted true; r (dry run) shadowed true; r (dry run) undecided true; r counted true; r exhausted false"; got != want {
			t.Errorf("observed %s\nwant %s", got, want)
		}
	})
}

func TestSkippedRequestsAreNoRulesConcern(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.skip = `request.path == "/health"`
		app.handle("GET", "/health", sash.SlidingWindowLimit("ip", time.Hour, 1))
		app.handle("GET", "/", sash.SlidingWindowLimit("ip", time.Hour, 1))
		for range 3 {
			app.get(t, "/health").wants(t, 200, ``)
		}
		app.get(t, "/").wants(t, 200, `;r=0`)
		app.get(t, "/").wants(t, 429, ``)
	})
}

func TestOtherDialectsTellTheSame(t *testing.T) {
	for dialect, want := range map[headers.Dialect]map[string]string{
		headers.Draft6:     {"RateLimit-Limit": "3", "RateLimit-Remaining": "2", "RateLimit-Reset": "3600"},
		headers.XRateLimit: {"X-RateLimit-Limit": "3", "X-RateLimit-Remaining": "2"},
		headers.None:       {"RateLimit": "", "RateLimit-Policy": "", "X-RateLimit-Limit": ""},
	} {
		eachAdapter(t, func(t *testing.T, app *app) {
			app.on(t, nil)
			app.dialect = dialect
			app.handle("GET", "/", sash.SlidingWindowLimit("ip", time.Hour, 3))
			got := app.get(t, "/")
			for field, value := range want {
				if got.header.Get(field) != value {
					t.Errorf("%v: %s: %q, want %q", dialect, field, got.header.Get(field), value)
				}
			}
		})
	}
}

func TestADenialNamesEveryViolatedPolicy(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		var denied ratelimit.Decision
		app.denied = func(w http.ResponseWriter, d ratelimit.Decision) { denied = d; w.WriteHeader(429) }
		app.handle("GET", "/",
			sash.Rule{Name: "a", KeyExpr: `"x"`, Limits: hourly(1)},
			sash.Rule{Name: "b", KeyExpr: `"x"`, Limits: hourly(9)},
			sash.Rule{Name: "c", KeyExpr: `"x"`, Limits: hourly(1)})
		app.get(t, "/").wants(t, 200, ``)
		app.get(t, "/").wants(t, 429, ``)
		if got := fmt.Sprint(denied.Violated); got != "[a c]" {
			t.Errorf("violated: %s, want [a c]", got)
		}
	})
}

func TestRulesAreListedWithWhereTheyAreDeclaredAndMounted(t *testing.T) {
	eachAdapter(t, func(t *testing.T, app *app) {
		app.on(t, nil)
		app.handle("GET", "/a", sash.Rule{Name: "r", KeyExpr: `[ip, header("X")]`, Limits: hourly(1)})
		app.get(t, "/a", with("X", "1"))
		rules := app.limiter.Rules()
		if len(rules) != 1 {
			t.Fatalf("%d rules are listed", len(rules))
		}
		r := rules[0]
		if r.Name != "r" || fmt.Sprint(r.Reads) != `[header("X") ip]` || !strings.HasPrefix(r.Declared, "app_test.go:") ||
			len(r.Routes) != 1 || !strings.HasSuffix(r.Routes[0], "/a") {
			t.Errorf("got %+v", r)
		}
	})
}

func TestADryRunDeniesNobodyWhereverItIsDeclared(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("GET", "/",
			sash.Rule{Name: "tried", KeyExpr: "ip", Limits: hourly(1), DryRun: true},
			sash.Rule{Name: "kept", KeyExpr: "ip", Limits: hourly(2)})
		app.get(t, "/").wants(t, 200, `"kept";r=1`)
		app.get(t, "/").wants(t, 200, `"kept";r=0`)
		app.get(t, "/").wants(t, 429, `"kept";r=0`)
	})
}
