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
	gin.SetMode(gin.ReleaseMode)
	const often, window = 1_000_000, 10 * time.Millisecond
	for _, keyExpr := range []string{"", "ip", "body.email"} {
		name := keyExpr
		if name == "" {
			name = "bare"
		}
		lim, err := ratelimit.New(ratelimit.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run("gin/"+name, func(b *testing.B) {
			r := gin.New()
			handlers := []gin.HandlerFunc{func(*gin.Context) {}}
			if keyExpr != "" {
				handlers = append([]gin.HandlerFunc{ginmw.Decorator{Limiter: lim}.SlidingWindowLimit(keyExpr, window, often)}, handlers...)
			}
			r.POST("/send/code", handlers...)
			serve(b, r)
		})
		b.Run("std/"+name, func(b *testing.B) {
			var h http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			if keyExpr != "" {
				h = stdmw.Decorator{Limiter: lim}.SlidingWindowLimit(keyExpr, window, often)(h)
			}
			mux := http.NewServeMux()
			mux.Handle("POST /send/code", h)
			serve(b, mux)
		})
	}
}

// serve sends one request again and again. The writer keeps nothing, so that the adapter is what is measured.
func serve(b *testing.B, h http.Handler) {
	r := newRequest()
	reader := strings.NewReader(body)
	w := &discard{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		r.Body = io.NopCloser(reader)
		clear(w.header)
		h.ServeHTTP(w, r)
		if w.status != 0 && w.status != http.StatusOK {
			b.Fatalf("status %d", w.status)
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
