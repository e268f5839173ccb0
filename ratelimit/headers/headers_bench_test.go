package headers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
)

// What a response pays for its fields. The map is reused: an empty one of a server's costs the same for anybody.
//
//	go test -run '^$' -bench Set ./ratelimit/headers/
func BenchmarkSet(b *testing.B) {
	minute := ratelimit.Limit{MaxRequests: 300, Window: time.Minute}
	quota := func(name string, left int) headers.Quota {
		return headers.Quota{
			Policies: []headers.Policy{mustPolicy(b, name, minute)},
			Decision: ratelimit.Decision{Allowed: true, Limit: minute, Remaining: left, ResetAfter: 57 * time.Second, Reason: ratelimit.Counted},
			Known:    true,
		}
	}
	one, three := []headers.Quota{quota("login", 299)}, []headers.Quota{quota("login", 299), quota("ip", 12), quota("account", 150)}
	for _, bench := range []struct {
		name    string
		dialect headers.Dialect
		quotas  []headers.Quota
		fields  int
	}{
		{"Draft/one quota", headers.Draft, one, 2},
		{"Draft/three quotas", headers.Draft, three, 2},
		{"Draft6/one quota", headers.Draft6, one, 4},
		{"Draft6/three quotas", headers.Draft6, three, 4},
		{"XRateLimit/one quota", headers.XRateLimit, one, 3},
		{"None/one quota", headers.None, one, 0},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			h := make(http.Header)
			for b.Loop() {
				clear(h)
				bench.dialect.Set(h, bench.quotas...)
			}
			if len(h) != bench.fields {
				b.Fatalf("%d fields, want %d: %v", len(h), bench.fields, h)
			}
		})
	}
}

// The second level pays for reading the first.
func BenchmarkSetWithinAnOuterLevel(b *testing.B) {
	minute := ratelimit.Limit{MaxRequests: 300, Window: time.Minute}
	policies := []headers.Policy{mustPolicy(b, "login", minute)}
	outer := http.Header{"Ratelimit-Policy": {`"ip";q=9;w=60`}, "Ratelimit": {`"ip";r=8;t=57`}}
	b.ReportAllocs()
	h := make(http.Header)
	for b.Loop() {
		h["Ratelimit-Policy"], h["Ratelimit"] = outer["Ratelimit-Policy"], outer["Ratelimit"]
		headers.Draft.Set(h, headers.Quota{Policies: policies, Decision: ratelimit.Decision{Allowed: true, Remaining: 3}, Known: true})
	}
	if got, want := h["Ratelimit"][0], `"login";r=3, "ip";r=8;t=57`; got != want {
		b.Fatalf("%s, want %s", got, want)
	}
}

func mustPolicy(tb testing.TB, name string, limit ratelimit.Limit) headers.Policy {
	tb.Helper()
	p, err := headers.NewPolicy(name, limit)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}
