package rivals_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sashlimit/sash/benchmarks/rivals"
	"github.com/sashlimit/sash/internal/redistest"
)

// Who would not keep these rules is not set up as it should be. None of them asks for a window longer than the test.
var setting = rivals.Setting{Limit: 5, Window: time.Hour}

func TestEveryContenderKeepsItsLimitAndKeepsKeysApart(t *testing.T) {
	t.Parallel()
	for _, c := range rivals.InProcess() {
		t.Run(c.Name, func(t *testing.T) {
			l, err := c.Memory(setting)
			if err != nil {
				t.Fatal(err)
			}
			keeps(t, c, l)
		})
	}
	server := rivals.Server{Addr: redistest.Start(t).Addr()}
	for _, c := range rivals.OnRedis() {
		t.Run("Redis/"+c.Name, func(t *testing.T) {
			l, err := c.Redis(setting, server)
			if err != nil {
				t.Fatal(err)
			}
			keeps(t, c, l)
		})
	}
}

func keeps(t *testing.T, c rivals.Contender, l rivals.Limiter) {
	for _, key := range []string{"of " + c.Name, "another of " + c.Name} {
		allowed := 0
		for range 10 {
			ok, err := l.Allow(context.Background(), key)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				allowed++
			}
		}
		want := setting.Limit
		if c.Role == rivals.Floor {
			want = 10
		}
		if allowed != want {
			t.Errorf("%d of 10 requests on %q were allowed, want %d", allowed, key, want)
		}
	}
	if err := rivals.Close(l); err != nil {
		t.Error(err)
	}
}

func TestAContenderWithoutKeysIsBareOnOne(t *testing.T) {
	t.Parallel()
	bare := setting
	bare.Keys = 1
	for _, c := range rivals.InProcess() {
		l, err := c.Memory(bare)
		if err != nil {
			t.Fatal(err)
		}
		allowed := 0
		for range 10 {
			if ok, err := l.Allow(context.Background(), "a"); ok && err == nil {
				allowed++
			}
		}
		if allowed != setting.Limit && c.Role != rivals.Floor {
			t.Errorf("%s: %d of 10 requests were allowed, want %d", c.Name, allowed, setting.Limit)
		}
		if err := rivals.Close(l); err != nil {
			t.Error(err)
		}
	}
}

func TestMiddlewareCountsByAddressAndAnswers429(t *testing.T) {
	t.Parallel()
	for _, c := range rivals.AroundHandlers() {
		served := 0
		h, err := c.HTTP(setting, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
		if err != nil {
			t.Fatal(err)
		}
		for _, peer := range []string{"192.0.2.1:4711", "192.0.2.2:4711"} {
			served = 0
			for i := range 10 {
				r := httptest.NewRequestWithContext(t.Context(), "POST", rivals.Path, nil)
				r.RemoteAddr = peer
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if want := map[bool]int{true: 200, false: 429}[i < setting.Limit || c.Role == rivals.Floor]; w.Code != want {
					t.Errorf("%s: request %d of %s: status %d, want %d", c.Name, i+1, peer, w.Code, want)
				}
			}
			if served != setting.Limit && c.Role != rivals.Floor {
				t.Errorf("%s: %d of 10 requests of %s were served, want %d", c.Name, served, peer, setting.Limit)
			}
		}
		if err := rivals.Close(h); err != nil {
			t.Error(err)
		}
	}
}

func TestNamesTellContendersApart(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, c := range rivals.All() {
		if seen[c.Name] {
			t.Errorf("there are two contenders named %q", c.Name)
		}
		seen[c.Name] = true
	}
	for _, c := range rivals.All() {
		if !seen[c.Answers()] {
			t.Errorf("%s answers as %q, which is none", c.Name, c.Exact)
		}
	}
}
