package sash_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/stdmw"
)

// TestAllocations pins what a request through an adapter allocates on top of the bare handler, over a store in memory.
//
// For a key that is one plain read it is the key, RateLimit and the slice around it; of a denial the key alone.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector drops what is put into a pool")
	}
	gin.SetMode(gin.ReleaseMode)
	for _, row := range []struct {
		keyExpr         string
		allowed, denied float64
	}{
		{`ip`, 3, 1},
		{`header("X-Api-Key")`, 3, 1},
		{`query.page`, 6, 4},
		{`body.email`, 7, 5},
	} {
		for _, often := range []int{1_000_000, 1} {
			for name, serve := range map[string]func([]sash.Rule) http.Handler{"ginmw": ginServer, "stdmw": stdServer} {
				bare := allocations(t, serve(nil), http.StatusOK)
				status, most := http.StatusOK, row.allowed
				if often == 1 {
					status, most = http.StatusTooManyRequests, row.denied
				}
				added := allocations(t, serve([]sash.Rule{sash.SlidingWindowLimit(row.keyExpr, time.Hour, often)}), status) - bare
				if added > most {
					t.Errorf("%s, %s, answered with %d: %v allocations on top of %v, want at most %v", name, row.keyExpr, status, added, bare, most)
				}
			}
		}
	}
}

func ginServer(rules []sash.Rule) http.Handler {
	r := gin.New()
	handlers := []gin.HandlerFunc{func(*gin.Context) {}}
	if rules != nil {
		lim, err := ratelimit.New(ratelimit.Config{})
		if err != nil {
			panic(err)
		}
		handlers = append([]gin.HandlerFunc{ginmw.Decorator{Limiter: lim}.Limit(rules...)}, handlers...)
	}
	r.POST("/send/code", handlers...)
	return r
}

func stdServer(rules []sash.Rule) http.Handler {
	var h http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	if rules != nil {
		lim, err := ratelimit.New(ratelimit.Config{})
		if err != nil {
			panic(err)
		}
		h = stdmw.Decorator{Limiter: lim}.Limit(rules...)(h)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /send/code", h)
	return mux
}

// allocations are those of one request that is answered with status, when others have gone before.
func allocations(t *testing.T, h http.Handler, status int) float64 {
	t.Helper()
	const body = `{"email":"6888@example.com","name":"somebody","purpose":"login","language":"en","device":"0123456"}`
	reader := strings.NewReader(body)
	r := httptest.NewRequest("POST", "/send/code?page=2", nil)
	r.ContentLength = int64(len(body))
	r.Header = http.Header{"X-Api-Key": {"k1"}, "Content-Type": {"application/json"}}
	w := &discarding{header: make(http.Header)}
	n := testing.AllocsPerRun(200, func() {
		reader.Reset(body)
		r.Body = io.NopCloser(reader)
		clear(w.header)
		w.status = http.StatusOK
		h.ServeHTTP(w, r)
	})
	if w.status != status {
		t.Errorf("the last request is answered with %d, want %d", w.status, status)
	}
	return n
}

// discarding is a ResponseWriter that costs nothing.
type discarding struct {
	header http.Header
	status int
}

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) WriteHeader(status int)      { d.status = status }
func (d *discarding) Write(p []byte) (int, error) { return len(p), nil }
