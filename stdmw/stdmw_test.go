package stdmw_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/stdmw"
)

func sendCode(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "sent for %s", body)
}

func Example() {
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		panic(err)
	}
	defer lim.Close()
	limit := stdmw.Decorator{Limiter: lim}

	mux := http.NewServeMux()
	mux.Handle("POST /send/code", limit.SlidingWindowLimit("body.email", time.Minute, 3)(http.HandlerFunc(sendCode)))

	for range 4 {
		w := post(mux, "/send/code", `{"email":"6888@example.com"}`)
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), strings.Split(w.Header().Get("RateLimit"), ";t")[0])
	}
	// Output:
	// 200 "body.email";q=3;w=60 "body.email";r=2
	// 200 "body.email";q=3;w=60 "body.email";r=1
	// 200 "body.email";q=3;w=60 "body.email";r=0
	// 429 "body.email";q=3;w=60 "body.email";r=0
}

// In chi a limit stands beside its handler with With, and around a group of them with Use inside Group or Route.
func ExampleDecorator_SlidingWindowLimit_chi() {
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		panic(err)
	}
	defer lim.Close()
	limit := stdmw.Decorator{Limiter: lim}

	r := chi.NewRouter()
	r.With(limit.SlidingWindowLimit("[params.id, ip]", time.Minute, 1)).Post("/orders/{id}", sendCode)

	for _, path := range []string{"/orders/7", "/orders/7", "/orders/8"} {
		fmt.Println(path, post(r, path, "").Code)
	}
	// Output:
	// /orders/7 200
	// /orders/7 429
	// /orders/8 200
}

func TestAroundAWholeMuxARuleHasOneQuotaForAllOfIt(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /a", sendCode)
	mux.HandleFunc("POST /b", sendCode)
	h := stdmw.Decorator{Limiter: lim}.SlidingWindowLimit("ip", time.Hour, 2)(mux)
	for i, path := range []string{"/a", "/b", "/nowhere"} {
		if got, want := post(h, path, "").Code, []int{200, 200, 429}[i]; got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
}

func TestAnOuterAndAnInnerLimitMakeOneSetOfFields(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t)
	limit := stdmw.Decorator{Limiter: lim}
	inner := limit.SlidingWindowLimit("body.email", time.Hour, 3)(http.HandlerFunc(sendCode))
	w := post(limit.SlidingWindowLimit("ip", time.Hour, 9)(inner), "/", `{"email":"a@example.com"}`)
	for field, want := range map[string]string{
		"RateLimit":        `"body.email";r=2;t=3600, "ip";r=8;t=3600`,
		"RateLimit-Policy": `"body.email";q=3;w=3600, "ip";q=9;w=3600`,
	} {
		if got := w.Header().Values(field); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %s", field, got, want)
		}
	}
}

// A proxy whose upstream says nothing answers with an error of its own, after a copy of nothing.
func TestAStatusThatFollowsAnEmptyCopyIsTheOneThatCounts(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t)
	rule := sash.Rule{Name: "r", KeyExpr: "ip", Limits: []ratelimit.Limit{{MaxRequests: 5, Window: time.Hour}}, CountIf: "response.status < 400"}
	server := httptest.NewServer(stdmw.Decorator{Limiter: lim}.Limit(rule)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.Copy(w, iotest.ErrReader(io.ErrUnexpectedEOF)); err != nil {
			http.Error(w, "upstream", http.StatusBadGateway)
		}
	})))
	defer server.Close()
	for range 3 {
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if left := response.Header.Get("RateLimit"); response.StatusCode != 502 || !strings.HasPrefix(left, `"r";r=4;`) {
			t.Errorf("%d, RateLimit: %s; the one before was not to count", response.StatusCode, left)
		}
	}
}

// The writer that the handler gets is the server's own: nothing stands between it and Flush, Hijack, ReadFrom.
func TestTheHandlerGetsTheServersOwnResponseWriter(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t)
	w := httptest.NewRecorder()
	stdmw.Decorator{Limiter: lim}.SlidingWindowLimit("ip", time.Hour, 9)(http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
		if got != http.ResponseWriter(w) {
			t.Errorf("it got a %T", got)
		}
	})).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
}

type sendRequest struct {
	Email string `json:"email"`
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
	limit := stdmw.Decorator{Limiter: lim}
	mux := http.NewServeMux()
	mux.Handle("POST /send/code", stdmw.Handle(limit, sendTo, sash.SlidingWindowLimit("email", time.Minute, 1)))
	for _, body := range []string{`{"email":"a@example.com"}`, `{"EMAIL":"a@example.com"}`} {
		fmt.Println(post(mux, "/send/code", body).Code)
	}
	// Output:
	// 200
	// 429
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

func post(h http.Handler, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
	return w
}
