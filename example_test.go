package sash_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/stdmw"
)

// tryOut declares rules on a handler, sends requests, and prints status and what the RateLimit field says is left.
func tryOut(handler http.HandlerFunc, requests []*http.Request, rules ...sash.Rule) {
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		panic(err)
	}
	defer lim.Close()
	h := stdmw.Decorator{Limiter: lim}.Limit(rules...)(handler)
	for _, r := range requests {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		left, _, _ := strings.Cut(w.Header().Get("RateLimit"), ";t")
		fmt.Println(strings.TrimSpace(fmt.Sprint(w.Code, " ", left)))
	}
}

func request(method, target, body string) *http.Request {
	return httptest.NewRequest(method, target, strings.NewReader(body))
}

func ok(http.ResponseWriter, *http.Request) {}

// Several windows over one log: the tightest is told first.
func ExampleRule() {
	tryOut(ok, []*http.Request{
		request("POST", "/", `{"email":"Bob@example.com"}`),
		request("POST", "/", `{"email":"bob@example.com"}`),
		request("POST", "/", `{"email":"bob@example.com"}`),
	}, sash.Rule{
		Name:    "send-code",
		KeyExpr: "email(body.email)",
		Limits:  []ratelimit.Limit{{MaxRequests: 2, Window: time.Minute}, {MaxRequests: 10, Window: 24 * time.Hour}},
	})
	// Output:
	// 200 "send-code-60s";r=1
	// 200 "send-code-60s";r=0
	// 429 "send-code-60s";r=0
}

func ExampleRule_limitsBy() {
	tryOut(ok, []*http.Request{request("GET", "/?plan=pro", ""), request("GET", "/?plan=other", "")}, sash.Rule{
		Name:     "api",
		KeyExpr:  "ip",
		LimitsBy: `query.plan == "pro" ? "pro" : "free"`,
		Plans: map[string][]ratelimit.Limit{
			"free": {{MaxRequests: 10, Window: time.Hour}},
			"pro":  {{MaxRequests: 1000, Window: time.Hour}},
		},
	})
	// Output:
	// 200 "api";r=999
	// 200 "api";r=8
}

func ExampleRule_when() {
	tryOut(ok, []*http.Request{request("GET", "/", ""), request("POST", "/", "")}, sash.Rule{
		Name:    "writes",
		KeyExpr: "ip",
		Limits:  []ratelimit.Limit{{MaxRequests: 10, Window: time.Minute}},
		When:    `request.method != "GET"`,
	})
	// Output:
	// 200
	// 200 "writes";r=9
}

func ExampleRule_cost() {
	tryOut(ok, []*http.Request{request("POST", "/", `{"to":["a","b","c"]}`), request("POST", "/", `{"to":["a","b","c"]}`)}, sash.Rule{
		Name:    "mails",
		KeyExpr: "ip",
		Limits:  []ratelimit.Limit{{MaxRequests: 5, Window: time.Hour}},
		Cost:    "len(body.to)",
	})
	// Output:
	// 200 "mails";r=2
	// 429 "mails";r=2
}

// Count only failed logins; a success forgets them.
func ExampleRule_countIf() {
	login := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	tryOut(login, []*http.Request{
		request("POST", "/?user=bob&password=wrong", ""),
		request("POST", "/?user=bob&password=right", ""),
		request("POST", "/?user=bob&password=wrong", ""),
		request("POST", "/?user=bob&password=wrong", ""),
		request("POST", "/?user=bob&password=right", ""),
	}, sash.Rule{
		Name:    "failed-logins",
		KeyExpr: "query.user",
		Limits:  []ratelimit.Limit{{MaxRequests: 2, Window: time.Hour}},
		CountIf: "response.status == 401",
		ResetIf: "response.status == 200",
	})
	// Output:
	// 401 "failed-logins";r=1
	// 200 "failed-logins";r=0
	// 401 "failed-logins";r=1
	// 401 "failed-logins";r=0
	// 429 "failed-logins";r=0
}

func ExampleRule_dryRun() {
	tryOut(ok, []*http.Request{request("GET", "/", ""), request("GET", "/", "")},
		sash.Rule{Name: "live", KeyExpr: "ip", Limits: []ratelimit.Limit{{MaxRequests: 9, Window: time.Minute}}},
		sash.Rule{Name: "tighter", KeyExpr: "ip", Limits: []ratelimit.Limit{{MaxRequests: 1, Window: time.Minute}}, DryRun: true})
	// Output:
	// 200 "live";r=8
	// 200 "live";r=7
}

func ExampleSlidingWindowLimit() {
	tryOut(ok, []*http.Request{request("GET", "/", ""), request("GET", "/", "")}, sash.SlidingWindowLimit("ip", time.Minute, 1))
	// Output:
	// 200 "ip";r=0
	// 429 "ip";r=0
}
