package sash_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
	"github.com/sashlimit/sash/stdmw"
)

// This page is what Sash is for: a limit is declared beside a handler, and it holds, through both adapters and
// over both stores.

// patience is how long a store may take: the machine may be busy, and these tests do not want it to fail open.
const patience = time.Minute

func TestTheFourthRequestForAnEmailWithinTheWindowIsDenied(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("POST", "/send/code", sash.SlidingWindowLimit("body.email", time.Hour, 3))
		for i := range 3 {
			app.post(t, "/send/code", `{"email":"6888@example.com"}`).wants(t, 200, fmt.Sprint(`"body.email";r=`, 2-i))
		}
		denied := app.post(t, "/send/code", `{"email":"6888@example.com"}`)
		denied.wants(t, 429, `"body.email";r=0;t=3600`)
		if app.handled != 3 {
			t.Errorf("the handler ran %d times, want 3", app.handled)
		}
		for field, want := range map[string]string{
			"Retry-After":      "3600",
			"Cache-Control":    "no-store",
			"Content-Type":     "application/problem+json",
			"RateLimit-Policy": `"body.email";q=3;w=3600`,
		} {
			if got := denied.header.Get(field); got != want {
				t.Errorf("%s: %s, want %s", field, got, want)
			}
		}
		want := map[string]any{
			"type":              "https://iana.org/assignments/http-problem-types#quota-exceeded",
			"title":             "Request cannot be satisfied as assigned quota has been exceeded",
			"status":            429.0,
			"detail":            "Try again in 3600 seconds.",
			"violated-policies": []any{"body.email"},
		}
		if got := denied.problem(t); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
		app.post(t, "/send/code", `{"email":"6889@example.com"}`).wants(t, 200, `;r=2`)
	})
}

func TestTheWindowSlides(t *testing.T) {
	eachAdapter(t, func(t *testing.T, app *app) {
		clock := time.Unix(1_763_671_412, 0)
		app.on(t, ratelimit.NewMemoryStore(ratelimit.MemoryConfig{Now: func() time.Time { return clock }}))
		app.handle("GET", "/", sash.SlidingWindowLimit(`"everybody"`, time.Minute, 2))

		app.get(t, "/").wants(t, 200, `;r=1;t=60`)
		clock = clock.Add(50 * time.Second)
		app.get(t, "/").wants(t, 200, `;r=0;t=10`)
		clock = clock.Add(10*time.Second - 1500*time.Millisecond)
		denied := app.get(t, "/")
		denied.wants(t, 429, `;r=0;t=2`)
		if got := denied.header.Get("Retry-After"); got != "2" {
			t.Errorf("after 1.5 s more it may retry, and is told %s", got)
		}
		clock = clock.Add(1500 * time.Millisecond)
		app.get(t, "/").wants(t, 200, `;r=0;t=50`)
		app.get(t, "/").wants(t, 429, ``) // two in the last minute, though none in this "calendar" one but one
	})
}

func TestTheHandlerReadsTheSameBytesThatTheKeyCameFrom(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("POST", "/echo", sash.SlidingWindowLimit("body.user.id", time.Hour, 3))
		body := `{ "user": {"id": 12345678901234567, "name":"é"} , "rest":[1,2,3]}`
		got := app.post(t, "/echo", body)
		got.wants(t, 200, `;r=2`)
		if got.body != body {
			t.Errorf("the handler read %q", got.body)
		}
	})
}

func TestARequestWithoutAKeyIsRefusedAndNeverPassesUnlimited(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("POST", "/send/code", sash.SlidingWindowLimit("body.email", time.Hour, 3))
		for _, test := range []struct {
			name, body string
			status     int
			detail     string
		}{
			{"no body", ``, 400, `The request has no body.`},
			{"no member", `{"mail":"s3cret@example.com"}`, 400, `The request body has no member "email".`},
			{"null", `{"email":null}`, 400, `The request body has no member "email".`},
			{"empty", `{"email":""}`, 400, `The member "email" of the request body is empty.`},
			{"twice", `{"email":"s3cret@example.com","email":"b"}`, 400, ``},
			{"twice but for case", `{"email":"s3cret@example.com","EMAIL":"b"}`, 400, ``},
			{"an object", `{"email":{"s3cret":1}}`, 400, ``},
			{"no JSON", `email=s3cret@example.com`, 400, ``},
			{"a second document", `{"email":"s3cret@example.com"}{"email":"b"}`, 400, ``},
			{"over the cap", `{"email":"` + strings.Repeat("s3cret", 20_000) + `"}`, 413, ``},
		} {
			got := app.post(t, "/send/code", test.body)
			got.wants(t, test.status, "")
			if strings.Contains(got.body, "s3cret") {
				t.Errorf("%s: the answer repeats what the client sent: %s", test.name, got.body)
			}
			if detail := got.problem(t)["detail"]; test.detail != "" && detail != test.detail {
				t.Errorf("%s: %q, want %q", test.name, detail, test.detail)
			}
		}
		if app.handled != 0 {
			t.Errorf("the handler ran %d times for requests without a key", app.handled)
		}
	})
}

func TestARouteIsLimitedForEachAddressOnItsOwn(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("GET", "/user/test", sash.SlidingWindowLimit("[ip, route]", time.Hour, 1))
		app.handle("GET", "/user/other", sash.SlidingWindowLimit("[ip, route]", time.Hour, 1))
		app.get(t, "/user/test", from("192.0.2.1:1000")).wants(t, 200, ``)
		app.get(t, "/user/test", from("192.0.2.1:2000")).wants(t, 429, ``)
		app.get(t, "/user/other", from("192.0.2.1:1000")).wants(t, 200, ``)
		app.get(t, "/user/test", from("192.0.2.2:1000")).wants(t, 200, ``)
		app.get(t, "/user/test", from("[2001:db8::1]:1000")).wants(t, 200, ``)
		app.get(t, "/user/test", from("[2001:db8::ffff]:1000")).wants(t, 429, ``) // of the same /64
	})
}

func TestNoHeaderChoosesTheAddressOfAClientThatIsNoProxy(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		app.handle("GET", "/", sash.SlidingWindowLimit("ip", time.Hour, 1))
		app.get(t, "/", from("192.0.2.1:1"), with("X-Forwarded-For", "198.51.100.1")).wants(t, 200, ``)
		for _, field := range []string{"X-Forwarded-For", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Forwarded"} {
			app.get(t, "/", from("192.0.2.1:1"), with(field, "198.51.100.2")).wants(t, 429, ``)
		}
		app.get(t, "/", from("10.0.0.1:1"), with("X-Forwarded-For", "6.6.6.6, 198.51.100.1")).wants(t, 200, ``)
		app.get(t, "/", from("10.0.0.1:1"), with("X-Forwarded-For", "7.7.7.7, 198.51.100.1")).wants(t, 429, ``)
	})
}

func TestSeveralRulesAreTakenTogetherOrNotAtAll(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("POST", "/login",
			sash.Rule{Name: "login-user", KeyExpr: "body.user", Limits: []ratelimit.Limit{{MaxRequests: 3, Window: time.Hour}}},
			sash.Rule{Name: "login-ip", KeyExpr: "ip", Limits: []ratelimit.Limit{{MaxRequests: 1, Window: time.Hour}, {MaxRequests: 9, Window: 24 * time.Hour}}})

		got := app.post(t, "/login", `{"user":"bob"}`, from("192.0.2.1:1"))
		got.wants(t, 200, `"login-ip-3600s";r=0;t=3600, "login-user";r=2;t=3600`)
		if policy, want := got.header.Get("RateLimit-Policy"), `"login-ip-3600s";q=1;w=3600, "login-user";q=3;w=3600, "login-ip-86400s";q=9;w=86400`; policy != want {
			t.Errorf("RateLimit-Policy: %s, want %s", policy, want)
		}
		denied := app.post(t, "/login", `{"user":"bob"}`, from("192.0.2.1:1"))
		denied.wants(t, 429, `"login-ip-3600s";r=0;t=3600`) // and the body's, where the body was needed to know
		if violated := fmt.Sprint(denied.problem(t)["violated-policies"]); violated != "[login-ip-3600s]" {
			t.Errorf("violated: %s, want the address's policy alone", violated)
		}
		app.post(t, "/login", `{"user":"bob"}`, from("192.0.2.2:1")).wants(t, 200, `"login-user";r=1;`) // the denied one cost bob nothing
	})
}

func TestARuleWithANameHasOneQuotaWhereverItIsMounted(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		shared := sash.Rule{Name: "codes", KeyExpr: "ip", Limits: []ratelimit.Limit{{MaxRequests: 2, Window: time.Hour}}}
		app.handle("GET", "/sms", shared)
		app.handle("GET", "/mail", shared)
		app.get(t, "/sms").wants(t, 200, `"codes";r=1`)
		app.get(t, "/mail").wants(t, 200, `"codes";r=0`)
		app.get(t, "/sms").wants(t, 429, ``)
	})
}

func TestTheSameUnnamedDeclarationOnTwoRoutesIsTwoLimits(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handle("GET", "/sms", sash.SlidingWindowLimit("ip", time.Hour, 1))
		app.handle("GET", "/mail", sash.SlidingWindowLimit("ip", time.Hour, 1))
		app.get(t, "/sms").wants(t, 200, ``)
		app.get(t, "/mail").wants(t, 200, ``)
		app.get(t, "/sms").wants(t, 429, ``)
	})
}

func TestPathParametersAndApplicationValuesAreKeys(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.vars = map[string]any{"user": struct{ ID int64 }{1 << 60}}
		app.handle("GET", "/orders/{id}", sash.SlidingWindowLimit("[vars.user.ID, params.id]", time.Hour, 1))
		app.get(t, "/orders/7").wants(t, 200, ``)
		app.get(t, "/orders/7").wants(t, 429, ``)
		app.get(t, "/orders/8").wants(t, 200, ``)
	})
}

func TestAnApplicationMayAnswerInItsOwnWords(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.denied = func(w http.ResponseWriter, d ratelimit.Decision) {
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprintf(w, "%v, %d left", d.Reason, d.Remaining)
		}
		app.failed = func(w http.ResponseWriter, err error) {
			w.WriteHeader(sash.Status(err))
			io.WriteString(w, "no key")
		}
		app.handle("GET", "/", sash.SlidingWindowLimit("query.q", time.Hour, 1))
		app.get(t, "/?q=1").wants(t, 200, ``)
		if got := app.get(t, "/?q=1"); got.status != 429 || got.body != "exhausted, 0 left" || got.header.Get("Retry-After") != "3600" {
			t.Errorf("got %d %q, Retry-After %q", got.status, got.body, got.header.Get("Retry-After"))
		}
		if got := app.get(t, "/"); got.status != 400 || got.body != "no key" {
			t.Errorf("got %d %q", got.status, got.body)
		}
		if app.handled != 1 {
			t.Errorf("the handler ran %d times, want once", app.handled)
		}
	})
}

func TestARedisThatIsDownAllowsAndPromisesNothing(t *testing.T) {
	eachAdapter(t, func(t *testing.T, app *app) {
		server := redistest.Start(t)
		server.Stop()
		app.on(t, redisstore.New(server.Client()))
		app.handle("GET", "/", sash.SlidingWindowLimit("ip", time.Hour, 1))
		for range 3 {
			got := app.get(t, "/")
			if got.status != 200 || got.header.Get("RateLimit") != "" || got.header.Get("RateLimit-Policy") == "" {
				t.Errorf("got %d and %v; want 200, the policy, and no word on what is left", got.status, got.header)
			}
		}
	})
}

func TestAClosedLimiterLetsNobodyThrough(t *testing.T) {
	eachAdapter(t, func(t *testing.T, app *app) {
		app.on(t, nil)
		app.handle("GET", "/", sash.SlidingWindowLimit("ip", time.Hour, 1))
		app.limiter.Close()
		app.get(t, "/").wants(t, 503, ``)
	})
}

func TestAWrongDeclarationFailsWhileTheServerIsBeingWired(t *testing.T) {
	hour := []ratelimit.Limit{{MaxRequests: 1, Window: time.Hour}}
	for _, test := range []struct {
		name  string
		rules []sash.Rule
		want  []string
	}{
		{"no rule", nil, []string{"the handler would be unlimited"}},
		{"an unknown name", []sash.Rule{sash.SlidingWindowLimit("emial(body.email)", time.Hour, 1)}, []string{`"emial(body.email)"`, "emial", `did you mean "email"?`}},
		{"an unknown member", []sash.Rule{sash.SlidingWindowLimit("request.metod", time.Hour, 1)}, []string{`did you mean "request.method"?`}},
		{"a limit of 0", []sash.Rule{sash.SlidingWindowLimit("ip", time.Hour, 0)}, []string{"MaxRequests is 0"}},
		{"a window of 60 without a unit", []sash.Rule{sash.SlidingWindowLimit("ip", 60, 3)}, []string{"write 60*time.Second"}},
		{"no limits", []sash.Rule{{KeyExpr: "ip"}}, []string{"the key would be unlimited"}},
		{"everything at once", []sash.Rule{{Name: "é", KeyExpr: "nosuch"}}, []string{"printable ASCII", "nosuch", "unlimited"}},
		{"both of two rules", []sash.Rule{{Name: "a", KeyExpr: "nosuch", Limits: hour}, {Name: "b", KeyExpr: "ip"}}, []string{`rule 1, "a"`, `rule 2, "b"`}},
		{"two rules of one name", []sash.Rule{{Name: "a", KeyExpr: "ip", Limits: hour}, {Name: "a", KeyExpr: "route", Limits: hour}}, []string{`another rule of this handler has a policy named "a"`}},
		{"a name that no header carries", []sash.Rule{{Name: "a\nb", KeyExpr: "ip", Limits: hour}}, []string{"printable ASCII"}},
		{"an expression that no header carries", []sash.Rule{{KeyExpr: `"é"`, Limits: hour}}, []string{"give it a Name"}},
		{"two limits of one window", []sash.Rule{{KeyExpr: "ip", Limits: append(hour, hour...)}}, []string{"only the smaller could ever bind"}},
		{"a name that is taken", []sash.Rule{{Name: "taken", KeyExpr: "ip", Limits: hour}}, []string{`"taken"`, "give one of them another name"}},
	} {
		lim, err := ratelimit.New(ratelimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		lim.Declare(nil, ratelimit.Declaration{Name: "taken", Limits: []ratelimit.Limit{{MaxRequests: 2, Window: time.Hour}}})
		_, ginErr := ginmw.Decorator{Limiter: lim}.Compile(test.rules...)
		_, stdErr := stdmw.Decorator{Limiter: lim}.Compile(test.rules...)
		for _, want := range test.want {
			if !strings.Contains(fmt.Sprint(ginErr), want) {
				t.Errorf("%s: got\n%v\nwant %q in it", test.name, ginErr, want)
			}
		}
		if fmt.Sprint(ginErr) != fmt.Sprint(stdErr) {
			t.Errorf("%s: the adapters differ:\n%v\n%v", test.name, ginErr, stdErr)
		}
	}
	if _, err := (ginmw.Decorator{}).Compile(sash.SlidingWindowLimit("ip", time.Hour, 1)); err == nil {
		t.Error("a Decorator without a Limiter compiled")
	}
	lim, _ := ratelimit.New(ratelimit.Config{})
	if _, err := (stdmw.Decorator{Limiter: lim, TrustedProxies: make([]netip.Prefix, 1)}).Compile(sash.SlidingWindowLimit("ip", time.Hour, 1)); err == nil {
		t.Error("an invalid prefix compiled")
	}
	if _, err := (stdmw.Decorator{Limiter: lim}).Compile(sash.SlidingWindowLimit("vars.user", time.Hour, 1)); err == nil {
		t.Error("vars compiled although nobody tells them")
	}
}

func TestTheShortFormPanicsWithTheWholeMessage(t *testing.T) {
	lim, _ := ratelimit.New(ratelimit.Config{})
	for name, declare := range map[string]func(){
		"ginmw": func() { ginmw.Decorator{Limiter: lim}.SlidingWindowLimit("body.", time.Minute, 0) },
		"stdmw": func() { stdmw.Decorator{Limiter: lim}.SlidingWindowLimit("body.", time.Minute, 0) },
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if err == nil || !strings.Contains(err.Error(), "MaxRequests is 0") || !strings.Contains(err.Error(), "^") {
					t.Errorf("%s panicked with %v", name, err)
				}
			}()
			declare()
		}()
	}
}

func TestStatusTellsOnlyKeyErrorsToTheClient(t *testing.T) {
	if got := sash.Status(errors.New("anything else")); got != http.StatusServiceUnavailable {
		t.Errorf("got %d", got)
	}
}
