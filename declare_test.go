package sash_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/stdmw"
)

func TestADeclarationThatIsProbablyNotMeantIsWarnedOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		rule sash.Rule
		want string // "": no warning
	}{
		{"an address", sash.Rule{Name: "r", KeyExpr: "ip"}, ""},
		{"a constant", sash.Rule{Name: "r", KeyExpr: `"all"`}, "the key is a constant"},
		{"headers alone", sash.Rule{Name: "r", KeyExpr: `[header("X-Api-Key"), cookie("sid")]`}, "only what a client puts into its headers"},
		{"a header beside the address", sash.Rule{Name: "r", KeyExpr: `header("X-Api-Key") ?? ip`}, ""},
		{"an e-mail as it is spelled", sash.Rule{Name: "r", KeyExpr: "[ip, body.user.email]"}, "write email(…) around it"},
		{"an e-mail in its canonical form", sash.Rule{Name: "r", KeyExpr: "email(body.email)"}, ""},
		{"one e-mail of two", sash.Rule{Name: "r", KeyExpr: "[email(body.email), query.mail]"}, "write email(…) around it"},
		{"a login", sash.Rule{Name: "login-ip", KeyExpr: "ip"}, "allows everything while its store is down"},
		{"a login's dry run", sash.Rule{Name: "login-ip", KeyExpr: "ip", DryRun: true}, ""},
		{"a million, each of which is listed", sash.Rule{Name: "r", KeyExpr: "ip", Limits: []ratelimit.Limit{{MaxRequests: 1_000_000, Window: time.Hour}}},
			"a key takes up to 32.0 MB in this process, or 120.0 MB in Redis"},
		{"a plan of a million", sash.Rule{Name: "r", KeyExpr: "ip", LimitsBy: "'pro'", Plans: map[string][]ratelimit.Limit{"pro": {{MaxRequests: 1_000_000, Window: time.Hour}}}},
			"the exact log of 1000000/1h0m0s lists every request: with Buckets"},
		{"a million in Buckets", sash.Rule{Name: "r", KeyExpr: "ip", Limits: []ratelimit.Limit{{MaxRequests: 1_000_000, Window: time.Hour, Buckets: 60}}}, ""},
		{"ten thousand", sash.Rule{Name: "r", KeyExpr: "ip", Limits: hourly(10_000)}, ""},
		{"a login that fails closed", sash.Rule{Name: "login-ip", KeyExpr: "ip", OnFailure: ratelimit.FailClosed}, ""},
	} {
		var log bytes.Buffer
		elsewhere := struct{ ratelimit.Store }{} // it may fail, and is never asked
		lim, err := ratelimit.New(ratelimit.Config{Store: elsewhere, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if test.rule.Limits == nil && test.rule.Plans == nil {
			test.rule.Limits = hourly(1)
		}
		stdmw.Decorator{Limiter: lim}.Limit(test.rule)
		switch text := log.String(); {
		case test.want == "" && text != "":
			t.Errorf("%s: a false alarm: %s", test.name, text)
		case !strings.Contains(text, test.want), test.want != "" && !strings.Contains(text, "declare_test.go:"):
			t.Errorf("%s: got %q, want %q in it, and the place", test.name, text, test.want)
		}
	}
}

func TestAStoreInMemoryNeverFailsAndALoginOnItIsNotWarnedOf(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	lim, err := ratelimit.New(ratelimit.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	stdmw.Decorator{Limiter: lim}.Limit(sash.Rule{Name: "login-ip", KeyExpr: "ip", Limits: hourly(1)})
	if log.Len() > 0 {
		t.Errorf("a false alarm: %s", log.String())
	}
}

func TestOneNameForTwoKindsOfKeysIsWarnedOf(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	lim, err := ratelimit.New(ratelimit.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	limit := stdmw.Decorator{Limiter: lim}
	limit.Limit(sash.Rule{Name: "r", KeyExpr: "ip", Limits: hourly(1)})
	limit.Limit(sash.Rule{Name: "r", KeyExpr: "ip", Limits: hourly(1)})
	if log.Len() > 0 {
		t.Errorf("the same rule in two places: %s", log.String())
	}
	limit.Limit(sash.Rule{Name: "r", KeyExpr: "request.host", Limits: hourly(1)})
	if !strings.Contains(log.String(), "the same text from either is one key") {
		t.Errorf("got %q", log.String())
	}
}

func TestNamesThatCouldMeetAreRefused(t *testing.T) {
	t.Parallel()
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	limit := stdmw.Decorator{Limiter: lim}
	_, err = limit.Compile(
		sash.Rule{Name: "a", KeyExpr: "ip", Limits: []ratelimit.Limit{{MaxRequests: 1, Window: time.Minute}, {MaxRequests: 2, Window: time.Hour}}},
		sash.Rule{Name: "a-60s", KeyExpr: "ip", Limits: hourly(1)})
	if err == nil || !strings.Contains(err.Error(), `a policy named "a-60s"`) {
		t.Errorf("got %v", err)
	}
	if rules := limit.Rules(); len(rules) != 0 {
		t.Errorf("of a declaration that failed %d rules are listed", len(rules))
	}
	_, err = limit.Compile(
		sash.Rule{Name: "a", KeyExpr: "ip", Limits: hourly(1)},
		sash.Rule{Name: "a", KeyExpr: "ip", Limits: hourly(1), DryRun: true})
	if err != nil {
		t.Errorf("a dry run beside the live rule: %v", err)
	}
}
