package ginmw_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/ratelimit"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	m.Run()
}

func Example() {
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		panic(err)
	}
	defer lim.Close()
	limit := ginmw.Decorator{Limiter: lim}

	r := gin.New()
	r.POST("/send/code", limit.SlidingWindowLimit("body.email", time.Minute, 3), func(c *gin.Context) {
		var in struct{ Email string }
		if err := c.ShouldBindJSON(&in); err != nil {
			c.Status(400)
			return
		}
		c.String(200, "sent to %s", in.Email)
	})
	for range 4 {
		w := post(r, "/send/code", `{"email":"6888@example.com"}`)
		fmt.Println(w.Code, strings.Split(w.Header().Get("RateLimit"), ";t")[0])
	}
	// Output:
	// 200 "body.email";r=2
	// 200 "body.email";r=1
	// 200 "body.email";r=0
	// 429 "body.email";r=0
}

// Several rules are counted together or not at all: what the address is denied costs the e-mail nothing.
func ExampleDecorator_Limit() {
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		panic(err)
	}
	defer lim.Close()
	limit := ginmw.Decorator{Limiter: lim}
	r := gin.New()
	r.POST("/send/code", limit.Limit(
		sash.Rule{Name: "mailbox", KeyExpr: "email(body.email)", Limits: []ratelimit.Limit{{MaxRequests: 3, Window: time.Minute}}},
		sash.Rule{Name: "address", KeyExpr: "ip", Limits: []ratelimit.Limit{{MaxRequests: 1, Window: time.Hour}}},
	), func(*gin.Context) {})
	for range 2 {
		w := post(r, "/send/code", `{"email":"6888@example.com"}`)
		fmt.Println(w.Code, regexp.MustCompile(`;t=\d+`).ReplaceAllString(w.Header().Get("RateLimit"), ""))
	}
	// Output:
	// 200 "address";r=0, "mailbox";r=2
	// 429 "address";r=0
}

// One limit around a group, but not around its health check; and a list of what was declared.
func ExampleDecorator_Rules() {
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		panic(err)
	}
	defer lim.Close()
	limit := ginmw.Decorator{Limiter: lim, Skip: `request.path == "/api/health"`}
	r := gin.New()
	api := r.Group("/api", limit.Limit(sash.Rule{Name: "api", KeyExpr: "ip", Limits: []ratelimit.Limit{{MaxRequests: 2, Window: time.Minute}}}))
	api.POST("/orders", func(*gin.Context) {})
	api.POST("/users", func(*gin.Context) {})
	api.POST("/health", func(*gin.Context) {})
	for _, path := range []string{"/api/orders", "/api/users", "/api/orders", "/api/health"} {
		fmt.Println(path, post(r, path, "").Code)
	}
	for _, rule := range limit.Rules() {
		fmt.Println(rule.Name, rule.KeyExpr, rule.Reads, rule.Limits, rule.Routes)
	}
	// Output:
	// /api/orders 200
	// /api/users 200
	// /api/orders 429
	// /api/health 200
	// api ip [ip] [2/1m0s] [/api/orders /api/users]
}

// A handler, and the middleware before and behind the limit, may read the body in any of Gin's ways.
func TestEveryWayToBindABodySeesAllOfIt(t *testing.T) {
	t.Parallel()
	type dto struct {
		Email string `json:"email" form:"email"`
	}
	bind := map[string]func(*gin.Context, *dto) error{
		"ShouldBindJSON":             func(c *gin.Context, in *dto) error { return c.ShouldBindJSON(in) },
		"ShouldBind":                 func(c *gin.Context, in *dto) error { return c.ShouldBind(in) },
		"ShouldBindBodyWith":         func(c *gin.Context, in *dto) error { return c.ShouldBindBodyWith(in, binding.JSON) },
		"ShouldBindBodyWith, before": func(c *gin.Context, in *dto) error { return c.ShouldBindBodyWith(in, binding.JSON) },
		"GetRawData": func(c *gin.Context, in *dto) error {
			raw, err := c.GetRawData()
			if err != nil {
				return err
			}
			return binding.JSON.BindBody(raw, in)
		},
	}
	for name, bind := range bind {
		lim := newLimiter(t)
		r := gin.New()
		if strings.HasSuffix(name, "before") {
			r.Use(func(c *gin.Context) {
				if err := bind(c, &dto{}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		limit := ginmw.Decorator{Limiter: lim}
		r.POST("/", limit.SlidingWindowLimit("body.email", time.Hour, 1), limit.SlidingWindowLimit("body.email", time.Minute, 1), func(c *gin.Context) {
			var in dto
			if err := bind(c, &in); err != nil || in.Email != "a@example.com" {
				t.Errorf("%s: got %+v, %v", name, in, err)
			}
		})
		for i, want := range []int{200, 429} {
			if w := post(r, "/", `{"email":"a@example.com"}`); w.Code != want {
				t.Errorf("%s: request %d: status %d, want %d: %s", name, i+1, w.Code, want, w.Body)
			}
		}
	}
}

func TestAFormFieldIsAKeyAndTheHandlerReadsItAgain(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t)
	r := gin.New()
	r.POST("/", ginmw.Decorator{Limiter: lim}.SlidingWindowLimit("form.email", time.Hour, 1), func(c *gin.Context) {
		c.String(200, c.PostForm("email"))
	})
	for i, want := range []int{200, 429} {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader("email=a%40example.com"))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != want || want == 200 && w.Body.String() != "a@example.com" {
			t.Errorf("request %d: %d %s", i+1, w.Code, w.Body)
		}
	}
}

func TestOneLimitOnAGroupIsALimitForEachOfItsRoutes(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t)
	r := gin.New()
	g := r.Group("/api", ginmw.Decorator{Limiter: lim}.SlidingWindowLimit("ip", time.Hour, 1))
	g.POST("/a", func(*gin.Context) {})
	g.POST("/b", func(*gin.Context) {})
	for i, path := range []string{"/api/a", "/api/b", "/api/a"} {
		if got, want := post(r, path, "").Code, []int{200, 200, 429}[i]; got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
}

func TestARequestThatEntersTheChainAgainIsCountedOnce(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t)
	limit := ginmw.Decorator{Limiter: lim, HandleContext: true}
	r := gin.New()
	r.Use(limit.Limit(sash.Rule{Name: "all", KeyExpr: "ip", Limits: []ratelimit.Limit{{MaxRequests: 9, Window: time.Hour}}}))
	r.POST("/new", func(c *gin.Context) { c.String(200, "new") })
	r.POST("/old", func(c *gin.Context) {
		c.Request.URL.Path = "/new"
		r.HandleContext(c)
	})
	w := post(r, "/old", "")
	if got := w.Header().Get("RateLimit"); got != `"all";r=8;t=3600` || w.Body.String() != "new" {
		t.Errorf("RateLimit: %s, body %s", got, w.Body)
	}
	if got := post(r, "/new", "").Header().Get("RateLimit"); !strings.HasPrefix(got, `"all";r=7;`) {
		t.Errorf("the next request: %s", got)
	}
}

func TestARequestMadeOutOfAnothersContextIsCountedByItself(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t)
	limit := ginmw.Decorator{Limiter: lim, HandleContext: true}
	r := gin.New()
	r.Use(limit.Limit(sash.Rule{Name: "all", KeyExpr: `"all"`, Limits: []ratelimit.Limit{{MaxRequests: 2, Window: time.Hour}}}))
	r.POST("/one", func(*gin.Context) {})
	r.POST("/batch", func(c *gin.Context) {
		for i, want := range []int{200, 429} { // the batch itself is the first
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequestWithContext(c.Request.Context(), "POST", "/one", nil))
			if w.Code != want {
				t.Errorf("request %d of the batch: %d, want %d", i+1, w.Code, want)
			}
		}
	})
	post(r, "/batch", "")
}

type sendRequest struct {
	Email string `json:"email" form:"email" binding:"required"`
}

type sendReply struct {
	Sent string `json:"sent"`
}

func sendTo(_ context.Context, in sendRequest) (sendReply, error) { return sendReply{in.Email}, nil }

func ExampleHandle() {
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		panic(err)
	}
	defer lim.Close()
	limit := ginmw.Decorator{Limiter: lim}
	r := gin.New()
	r.POST("/send/code", ginmw.Handle(limit, sendTo, sash.SlidingWindowLimit("email", time.Minute, 1)))
	for range 2 {
		w := post(r, "/send/code", `{"EMAIL":"a@example.com"}`) // as encoding/json takes it
		fmt.Println(w.Code, w.Body.String()[:8])
	}
	// Output:
	// 200 {"sent":
	// 429 {"type":
}

func newLimiter(t *testing.T) *ratelimit.Limiter {
	t.Helper()
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lim.Close() })
	return lim
}

func post(r *gin.Engine, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	req := httptest.NewRequest("POST", path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	r.ServeHTTP(w, req)
	return w
}
