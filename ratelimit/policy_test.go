package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

func TestEachPolicyAnswersAnOutageInItsWay(t *testing.T) {
	for policy, want := range map[ratelimit.Policy][]string{
		ratelimit.Inherit:    {"true failed open 0s", "true failed open 0s", "true failed open 0s", "true failed open 0s"},
		ratelimit.FailOpen:   {"true failed open 0s", "true failed open 0s", "true failed open 0s", "true failed open 0s"},
		ratelimit.FailClosed: {"false failed closed 1s", "false failed closed 1s", "false failed closed 1s", "false failed closed 1s"},
		ratelimit.FailLocal:  {"true failed local 0s", "true failed local 0s", "true failed local 0s", "false failed local 1m0s"},
	} {
		inWorld(t, func(w *world) {
			lim := w.process(ratelimit.Config{OnFailure: policy})
			w.set("LOADING Redis is loading the dataset in memory")
			var got []string
			for range want { // the breaker opens on the way, which changes nothing
				d := w.allow(lim, "k", threePerMinute)
				got = append(got, fmt.Sprint(d.Allowed, " ", d.Reason, " ", d.RetryAfter))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v: got %q, want %q", policy, got, want)
			}
		})
	}
}

func TestAClaimMayHaveAPolicyOfItsOwn(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{OnFailure: ratelimit.FailClosed})
		w.set(silent)
		on := func(key string, p ratelimit.Policy) ratelimit.Claim {
			return ratelimit.Claim{Key: key, Limits: []ratelimit.Limit{onePerMinute}, Cost: 1, OnFailure: p}
		}
		reasons := func(claims ...ratelimit.Claim) string {
			decisions, err := lim.AllowAll(context.Background(), claims...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range decisions {
				got = append(got, fmt.Sprint(d.Allowed, " ", d.Reason))
			}
			return strings.Join(got, ", ")
		}
		for _, test := range []struct{ name, got, want string }{
			{"open alone", reasons(on("a", ratelimit.FailOpen)), "true failed open"},
			{"the Limiter's own", reasons(on("a", ratelimit.Inherit)), "false failed closed"},
			{"open and closed", reasons(on("a", ratelimit.FailOpen), on("b", ratelimit.FailClosed)), "true failed open, false failed closed"},
			{"local and closed: nothing is taken", reasons(on("a", ratelimit.FailLocal), on("b", ratelimit.FailClosed)), "true unasked, false failed closed"},
			{"local, two together", reasons(on("a", ratelimit.FailLocal), on("b", ratelimit.FailLocal)), "true failed local, true failed local"},
			{"local, one is full", reasons(on("a", ratelimit.FailLocal), on("c", ratelimit.FailLocal)), "false failed local, true withheld"},
			{"local and open", reasons(on("c", ratelimit.FailLocal), on("d", ratelimit.FailOpen)), "true failed local, true failed open"},
		} {
			if test.got != test.want {
				t.Errorf("%s: got %s, want %s", test.name, test.got, test.want)
			}
		}
	})
}

func TestALocalShareIsRoundedDownAndLeavesOneRequest(t *testing.T) {
	hundred := ratelimit.Limit{MaxRequests: 100, Window: time.Minute}
	for _, test := range []struct {
		share float64
		limit ratelimit.Limit
		want  int
	}{{0, hundred, 100}, {1, hundred, 100}, {0.25, hundred, 25}, {0.999, hundred, 99}, {0.001, hundred, 1}, {0.5, onePerMinute, 1}} {
		inWorld(t, func(w *world) {
			lim := w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal, LocalShare: test.share})
			w.set(silent)
			if got := w.flood(lim, 120, "k", test.limit); got != test.want {
				t.Errorf("a share of %v of %v: %d are allowed, want %d", test.share, test.limit, got, test.want)
			}
			if d := w.allow(lim, "k", test.limit); d.Limit != test.limit {
				t.Errorf("the decision tells the limit %v, want the declared one, %v", d.Limit, test.limit)
			}
		})
	}
}

func TestAWrongConfigIsToldAllItsFaults(t *testing.T) {
	t.Parallel()
	_, err := ratelimit.New(ratelimit.Config{
		Timeout: -1, OnFailure: 9, LocalShare: 1.5, LocalKeys: -1, KeySecret: []byte("short"),
	})
	if !errors.Is(err, ratelimit.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	for _, want := range []string{"Timeout is -1ns", "no Policy 9", "LocalShare is 1.5", "LocalKeys is -1", "KeySecret has 5 bytes"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	lim := newLimiter(t, ratelimit.Config{})
	claim := ratelimit.Claim{Key: "k", Limits: []ratelimit.Limit{onePerMinute}, OnFailure: 9}
	if _, err := lim.AllowAll(t.Context(), claim); !errors.Is(err, ratelimit.ErrInvalid) {
		t.Errorf("a claim with a policy that does not exist: got %v", err)
	}
}

func TestStatsTellWhoHasDecided(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal})
		w.flood(lim, 5, "k", threePerMinute) // the last denial is remembered
		w.set(silent)
		w.flood(lim, 4, "other", threePerMinute)
		got := lim.Stats()
		want := "map[counted:3 failed local:3] map[exhausted:1 cached exhausted:1 failed local:1]"
		if text := fmt.Sprint(got.Allowed, " ", got.Denied); text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	})
}

var onePerMinute = ratelimit.Limit{MaxRequests: 1, Window: time.Minute}
