package sash_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/ratelimit"
)

// declareRecipes has the code of the README's recipes, word for word.
func declareRecipes(r *gin.Engine, lim *ratelimit.Limiter, limit ginmw.Decorator, handler gin.HandlerFunc, db database, send func(context.Context, order) (string, error)) func(context.Context, order) (string, error) {
	r.GET("/search", limit.SlidingWindowLimit("ip", time.Minute, 60), handler)

	r.POST("/send/code", limit.SlidingWindowLimit("email(body.email)", time.Minute, 3), handler)

	r.GET("/orders", limit.SlidingWindowLimit("vars.user.id ?? ip", time.Minute, 100), handler)

	r.GET("/api", limit.Limit(
		sash.SlidingWindowLimit(`header("X-Api-Key") ?? ip`, time.Minute, 600),
		sash.SlidingWindowLimit("ip", time.Minute, 1000)), handler)

	r.POST("/sms", limit.Limit(sash.Rule{Name: "sms", KeyExpr: "body.phone", Limits: []ratelimit.Limit{
		{MaxRequests: 1, Window: time.Minute}, {MaxRequests: 10, Window: 24 * time.Hour}}}), handler)

	r.POST("/login", limit.Limit(sash.Rule{Name: "failed-logins", KeyExpr: "email(body.email)",
		Limits:  []ratelimit.Limit{{MaxRequests: 5, Window: 15 * time.Minute}},
		CountIf: "response.status == 401", ResetIf: "response.status == 200"}), handler)

	r.POST("/export", limit.Limit(sash.Rule{Name: "export", KeyExpr: "vars.user.id",
		LimitsBy: `vars.user.plan == "pro" ? "pro" : "free"`,
		Plans: map[string][]ratelimit.Limit{
			"free": {{MaxRequests: 10, Window: time.Hour}}, "pro": {{MaxRequests: 1000, Window: time.Hour}}}}), handler)

	r.POST("/import", limit.Limit(sash.Rule{Name: "import", KeyExpr: "vars.user.id",
		LimitsBy: "vars.user.id", LimitsFunc: db.LimitsOf, Keep: 24 * time.Hour}), handler)

	r.POST("/mail", limit.Limit(sash.Rule{Name: "mails", KeyExpr: "vars.user.id", Cost: "len(body.to)",
		Limits: []ratelimit.Limit{{MaxRequests: 500, Window: time.Hour}}}), handler)

	r.GET("/feed", limit.Limit(sash.Rule{Name: "feed", KeyExpr: "ip", DryRun: true,
		Limits: []ratelimit.Limit{{MaxRequests: 30, Window: time.Minute}}}), handler)

	limit.Skip = `request.path == "/v2/health"`
	api := r.Group("/v2", limit.Limit(sash.Rule{Name: "api", KeyExpr: "ip",
		Limits: []ratelimit.Limit{{MaxRequests: 1000, Window: time.Minute}}}))

	place := sash.Func(lim, sash.Rule{Name: "place-order", KeyExpr: "email",
		Limits: []ratelimit.Limit{{MaxRequests: 3, Window: time.Minute}}}, send)

	api.GET("/things", handler)
	api.GET("/health", handler)
	return place
}

type database struct{}

func (database) LimitsOf(context.Context, string) ([]ratelimit.Limit, error) { return hourly(1), nil }

func TestTheRecipesOfTheREADMEAreCodeThatWorks(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.TestMode)
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := gin.New()
	r.Use(func(c *gin.Context) { c.Set("user", map[string]any{"id": 7, "plan": "pro"}) })
	place := declareRecipes(r, lim, ginmw.Decorator{Limiter: lim}, func(c *gin.Context) { c.Status(http.StatusOK) }, database{},
		func(context.Context, order) (string, error) { return "placed", nil })
	for request, want := range map[string]string{
		"GET /search":     `"ip";r=59`,
		"POST /sms":       `"sms-60s";r=0`,
		"GET /orders":     `"vars.user.id ?? ip";r=99`,
		"POST /export":    `"export";r=999`,
		"POST /import":    `"import";r=0`,
		"POST /mail":      `"mails";r=498`,
		"GET /v2/things":  `"api";r=999`,
		"GET /v2/health":  ``,
		"GET /api":        `"header(\"X-Api-Key\") ?? ip";r=599`,
		"GET /feed":       ``,
		"POST /login":     `"failed-logins";r=4`,
		"POST /send/code": `"email(body.email)";r=2`,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(`{"phone":"1","to":["a","b"],"email":"a@example.com"}`)))
		if got := w.Header().Get("RateLimit"); w.Code != 200 || !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %d, RateLimit: %s, want %s", request, w.Code, got, want)
		}
	}

	if got, err := place(t.Context(), order{Email: "a@example.com"}); got != "placed" || err != nil {
		t.Errorf("place: %q, %v", got, err)
	}

	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("recipes_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, recipes, found := strings.Cut(string(readme), "\n## Recipes\n")
	recipes, _, _ = strings.Cut(recipes, "\n## ")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(recipes, -1)
	if !found || len(blocks) < 12 {
		t.Errorf("the README has %d recipes, want 12", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(unspaced(string(source)), unspaced(block[1])) {
			t.Errorf("a recipe of the README is not tested here:\n%s", block[1])
		}
	}
}

func unspaced(text string) string { return strings.Join(strings.Fields(text), " ") }
