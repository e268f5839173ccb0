package benchmarks

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/stdmw"
)

const body = `{"email":"6888@example.com","name":"somebody","purpose":"login","language":"en","device":"0123456"}`

// BenchmarkRequest is a whole request through an adapter over the memory store, beside the same handler bare.
func BenchmarkRequest(b *testing.B) {
	requests(b, 1_000_000, 10*time.Millisecond, http.StatusOK)
}

// BenchmarkRequestDenied is the same where all but the first are denied.
func BenchmarkRequestDenied(b *testing.B) {
	requests(b, 1, time.Hour, http.StatusTooManyRequests)
}

func requests(b *testing.B, often int, window time.Duration, status int) {
	gin.SetMode(gin.ReleaseMode)
	for _, keyExpr := range []string{"", "ip", "body.email"} {
		name := keyExpr
		if name == "" {
			name = "bare"
		}
		lim, err := ratelimit.New(ratelimit.Config{})
		if err != nil {
			b.Fatal(err)
		}
		answered := status
		if keyExpr == "" {
			answered = http.StatusOK
		}
		b.Run("gin/"+name, func(b *testing.B) {
			r := gin.New()
			handlers := []gin.HandlerFunc{func(*gin.Context) {}}
			if keyExpr != "" {
				handlers = append([]gin.HandlerFunc{ginmw.Decorator{Limiter: lim}.SlidingWindowLimit(keyExpr, window, often)}, handlers...)
			}
			r.POST("/send/code", handlers...)
			serveAll(b, r, answered)
		})
		b.Run("std/"+name, func(b *testing.B) {
			var h http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			if keyExpr != "" {
				h = stdmw.Decorator{Limiter: lim}.SlidingWindowLimit(keyExpr, window, often)(h)
			}
			mux := http.NewServeMux()
			mux.Handle("POST /send/code", h)
			serveAll(b, mux, answered)
		})
	}
}

func serve(b *testing.B, h http.Handler) { serveAll(b, h, http.StatusOK) }

// serveAll sends one request again and again, and wants that status from the second on. The writer keeps nothing, so
// that the adapter is what is measured.
func serveAll(b *testing.B, h http.Handler, status int) {
	r := newRequest()
	reader := strings.NewReader(body)
	w := &discard{header: http.Header{}}
	send := func() {
		reader.Reset(body)
		r.Body = io.NopCloser(reader)
		clear(w.header)
		w.status = http.StatusOK
		h.ServeHTTP(w, r)
	}
	send()
	b.ReportAllocs()
	for b.Loop() {
		if send(); w.status != status {
			b.Fatalf("status %d, want %d", w.status, status)
		}
	}
}

// newRequest is the request that is sent, without its body.
func newRequest() *http.Request {
	r := httptest.NewRequest("POST", "/send/code", nil)
	r.ContentLength = int64(len(body))
	return r
}

type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
