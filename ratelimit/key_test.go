package ratelimit_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

func ExampleKey() {
	fmt.Println(ratelimit.Key("login", "bob@example.com"))
	fmt.Println(ratelimit.Key("login", "a:b", "c"))
	fmt.Println(ratelimit.Key("login", "a", "b:c"))
	fmt.Println(ratelimit.Key("login", strings.Repeat("x", 129))[:20])
	// Output:
	// login:bob@example.com
	// login:a%3Ab:c
	// login:a:b%3Ac
	// login:#0ec9eb33e7451
}

func TestNoClientCanForgeAKey(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"{tag}", "a:b", "*", "a\nb", "a\x00b", "\xff", "#", "%", "é", " "} {
		key := ratelimit.Key("r", part)
		if strings.ContainsAny(key, "{}*\n\x00 ") || strings.Count(key, ":") != 1 || strings.Contains(key, "#") {
			t.Errorf("%q became %q", part, key)
		}
	}
}

func TestALongKeyIsStoredAsItsHash(t *testing.T) {
	t.Parallel()
	short, long := strings.Repeat("x", 128), strings.Repeat("x", 129)
	if key := ratelimit.Key("r", short); key != "r:"+short {
		t.Errorf("128 bytes became %q", key)
	}
	for _, key := range []string{
		ratelimit.Key("r", long),
		ratelimit.Key("r", long+"y"),
		ratelimit.Key("r", short, ""),
		ratelimit.Key("r", strings.Repeat("y", 1<<20)),
	} {
		if len(key) != len("r:#")+64 || !strings.HasPrefix(key, "r:#") {
			t.Errorf("a long key became %q", key)
		}
	}
	if a, b := ratelimit.Key("r", long), ratelimit.Key("r", long+"y"); a == b {
		t.Error("two long keys share a log")
	}
}

// Text that a caller hands to Allow as it is must not meet the key of another, whatever is in it.
func TestRawKeysDoNotMeet(t *testing.T) {
	t.Parallel()
	raw := []string{"a b", ":a%20b", "a%20b", "%3Aa%2520b", ":%3Aa%2520b", "a\nb", "a\x00b", "{a}b", "#x", ":#x", "*", "\xff", "\xfe",
		strings.Repeat("z", 300), strings.Repeat("z", 301)}
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range raw {
		d, err := lim.Allow(t.Context(), key, ratelimit.Limit{MaxRequests: 1, Window: time.Hour})
		if err != nil || !d.Allowed {
			t.Errorf("%.40q: %+v, %v: want a quota of its own", key, d, err)
		}
	}
}

// Keys that are short enough to be kept can be read back, so no two are the same; a hash stands for the rest.
func FuzzKey(f *testing.F) {
	f.Add("rule", "a", "b", 2)
	f.Add("", "", "", 0)
	f.Add("POST /a", "a:b", "%3A", 2)
	f.Add("r", "\xff\x00{}", "é#", 1)
	f.Fuzz(func(t *testing.T, rule, a, b string, n int) {
		parts := []string{a, b}[:min(2, max(0, n))]
		key := ratelimit.Key(rule, parts...)
		encodedRule, encodedParts, found := strings.Cut(key, ":")
		if found != (len(parts) > 0) {
			t.Fatalf("%q: %d parts", key, len(parts))
		}
		if !strings.HasPrefix(encodedRule, "#") {
			wantDecoded(t, encodedRule, rule)
		}
		if found && !strings.HasPrefix(encodedParts, "#") {
			got := strings.Split(encodedParts, ":")
			if len(got) != len(parts) {
				t.Fatalf("%q has %d parts, want %d", key, len(got), len(parts))
			}
			for i := range got {
				wantDecoded(t, got[i], parts[i])
			}
		}
		if len(key) > 257 {
			t.Fatalf("%d bytes", len(key))
		}
		if other := slices.Concat(parts, []string{"x"}); ratelimit.Key(rule, other...) == key {
			t.Fatalf("%q and %q share %q", parts, other, key)
		}
	})
}

// However a client moves text from one part to the next, writes what an escape or a hash looks like, or makes a part so
// long that it is hashed, two different calls never give the same key.
func FuzzKeyInjective(f *testing.F) {
	f.Add("rule", "a", "b", "c", uint16(0))
	f.Add("r:a", ":", "%3A", "", uint16(1))
	f.Add("POST /a", "#0ec9eb33e7451", "\x00", "\xff", uint16(126))
	f.Add("", "", "", "", uint16(129))
	f.Fuzz(func(t *testing.T, rule, a, b, c string, more uint16) {
		long := strings.Repeat("x", int(more))
		calls := [][]string{ // the rule, and the parts
			{rule}, {rule, ""}, {rule, a}, {rule, a, b}, {rule, a, b, c}, {rule, a + b, c}, {rule, a, b + c}, {rule, a + b + c}, {rule + a, b, c},
			{rule + ":" + a, b}, {rule, a + ":" + b}, {rule, a, b, ""}, {rule, "", a, b}, {rule, b, a}, {"", rule, a}, {rule, url.PathEscape(a), b},
			{rule, a + long, b}, {rule, a, long + b}, {rule + long, a, b}, {rule, a + long + b}, {rule, a, long, b}, {rule + long + ":" + a, b},
		}
		for _, call := range calls { // and what Key has made of them
			key := ratelimit.Key(call[0], call[1:]...)
			head, parts, _ := strings.Cut(key, ":")
			calls = append(calls, []string{key}, []string{head, parts}, append([]string{head}, strings.Split(parts, ":")...))
		}
		seen := map[string][]string{}
		for _, call := range calls {
			key := ratelimit.Key(call[0], call[1:]...)
			if other, taken := seen[key]; taken && !slices.Equal(other, call) {
				t.Fatalf("%q and %q share %s", call, other, key)
			}
			if seen[key] = call; len(key) > 257 {
				t.Fatalf("%.80q is a key of %d bytes", call, len(key))
			}
		}
	})
}

func wantDecoded(t *testing.T, encoded, want string) {
	t.Helper()
	if got, err := url.PathUnescape(encoded); err != nil || got != want {
		t.Fatalf("%q reads %q, %v; want %q", encoded, got, err, want)
	}
}

func TestAKeyPrefixMakesTheSameKeys(t *testing.T) {
	t.Parallel()
	same := func(rule string, parts []string) bool {
		return ratelimit.NewKeyPrefix(rule).Key(parts...) == ratelimit.Key(rule, parts...)
	}
	for _, rule := range []string{"", "login", "a:b", "é{x}", "#", strings.Repeat("r", 128), strings.Repeat("r", 129), strings.Repeat("{", 50)} {
		for _, parts := range [][]string{nil, {}, {""}, {"", ""}, {"bob@example.com"}, {"a:b", "c"}, {strings.Repeat("p", 128)}, {strings.Repeat("p", 129)}, {strings.Repeat(":", 99), "x"}} {
			if !same(rule, parts) {
				t.Errorf("%q, %q: %q", rule, parts, ratelimit.NewKeyPrefix(rule).Key(parts...))
			}
		}
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
}
