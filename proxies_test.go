package sash_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/stdmw"
)

// In these tests the proxies in 10.0.0.0/8 are trusted, 203.0.113.9 is a client, and $ is an address that nobody
// has claimed before.

func TestAClientHasOneQuotaWhateverItSends(t *testing.T) {
	const client, proxy = "203.0.113.9:1", "10.0.0.1:1"
	for _, row := range []struct {
		name string
		read sash.ProxyHeader
		peer string
		sent string // header fields
	}{
		{"nothing", sash.XForwardedFor, client, ""},
		{"X-Forwarded-For, from no proxy", sash.XForwardedFor, client, "X-Forwarded-For: $"},
		{"X-Real-IP, from no proxy", sash.XForwardedFor, client, "X-Real-IP: $"},
		{"True-Client-IP, from no proxy", sash.XForwardedFor, client, "True-Client-IP: $"},
		{"CF-Connecting-IP, from no proxy", sash.XForwardedFor, client, "CF-Connecting-IP: $"},
		{"Forwarded, from no proxy", sash.XForwardedFor, client, "Forwarded: for=$"},
		{"Forwarded, from no proxy, where it is read", sash.Forwarded, client, "Forwarded: for=$"},
		{"X-Forwarded-For, from no proxy, where Forwarded is read", sash.Forwarded, client, "X-Forwarded-For: $"},

		{"what no proxy of ours writes", sash.XForwardedFor, proxy, "X-Real-IP: $\nTrue-Client-IP: $\nCF-Connecting-IP: $\nForwarded: for=$"},
		{"what no proxy of ours writes, the other way", sash.Forwarded, proxy, "X-Real-IP: $\nTrue-Client-IP: $\nCF-Connecting-IP: $\nX-Forwarded-For: $"},
		{"the other header beside the proxy's", sash.XForwardedFor, proxy, "Forwarded: for=$\nX-Forwarded-For: 203.0.113.9"},
		{"the other header beside the proxy's, the other way", sash.Forwarded, proxy, "X-Forwarded-For: $\nForwarded: for=203.0.113.9"},
		{"a header that is nearly the proxy's", sash.XForwardedFor, proxy, "X_Forwarded_For: $\nX-Forwarded: $\nX-Forwarded-For: 203.0.113.9"},

		{"a claim that the proxy appends to", sash.XForwardedFor, proxy, "X-Forwarded-For: $, 203.0.113.9"},
		{"a claim, and the proxy adds a line", sash.XForwardedFor, proxy, "X-Forwarded-For: $\nX-Forwarded-For: 203.0.113.9"},
		{"a claim, and two proxies append", sash.XForwardedFor, proxy, "X-Forwarded-For: $, 203.0.113.9, 10.0.0.2:80"},
		{"the addresses of proxies", sash.XForwardedFor, proxy, "X-Forwarded-For: $, 10.0.0.3, 10.0.0.2, 203.0.113.9, 10.0.0.2"},
		{"junk", sash.XForwardedFor, proxy, `X-Forwarded-For: $",;\,$,, 203.0.113.9`},
		{"10 KB", sash.XForwardedFor, proxy, "X-Forwarded-For: " + strings.Repeat("$,", 700) + "203.0.113.9"},
		{"a claim, and the proxy knows no address", sash.XForwardedFor, proxy, "X-Forwarded-For: $, unknown"},
		{"a claim, and the proxy says nothing", sash.XForwardedFor, proxy, "X-Forwarded-For: $,"},

		{"an element that the proxy appends to", sash.Forwarded, proxy, "Forwarded: for=$, for=203.0.113.9"},
		{"an element, and the proxy adds a line", sash.Forwarded, proxy, "Forwarded: for=$\nForwarded: for=203.0.113.9"},
		{"an element, and two proxies append", sash.Forwarded, proxy, `Forwarded: for=$, for="203.0.113.9:80";proto=https, for=10.0.0.2`},
		{"a quote left open", sash.Forwarded, proxy, `Forwarded: for="$, for=203.0.113.9`},
		{"a quote left open before one of the proxy's", sash.Forwarded, proxy, `Forwarded: for=$;host=", for=203.0.113.9;host="a"`},
		{"a host that looks like an element", sash.Forwarded, proxy, `Forwarded: for=203.0.113.9;host="a, for=$;b"`},
		{"a host that looks like a quote", sash.Forwarded, proxy, `Forwarded: host="\";for=$;a=\"";for=203.0.113.9`},
		{"10 KB of elements", sash.Forwarded, proxy, "Forwarded: " + strings.Repeat("for=$,", 550) + "for=203.0.113.9"},
		{"an element, and the proxy hides the address", sash.Forwarded, proxy, "Forwarded: for=$, for=_hidden"},
		{"an element, and the proxy says for twice", sash.Forwarded, proxy, "Forwarded: for=203.0.113.9;for=$"},
	} {
		t.Run(row.name, func(t *testing.T) {
			eachAdapter(t, func(t *testing.T, app *app) {
				app.behindProxies(t, row.read)
				for i := range 100 {
					app.get(t, "/", from(row.peer), sending(strings.ReplaceAll(row.sent, "$", address(i))))
				}
				if app.handled != 10 {
					t.Errorf("%d of 100 were allowed, want 10", app.handled)
				}
			})
		})
	}
}

func TestClientsBehindAProxyHaveEachAQuota(t *testing.T) {
	for _, row := range []struct {
		name string
		read sash.ProxyHeader
		sent string
	}{
		{"X-Forwarded-For", sash.XForwardedFor, "X-Forwarded-For: $"},
		{"X-Forwarded-For of two proxies", sash.XForwardedFor, "X-Forwarded-For: 6.6.6.6, $\nX-Forwarded-For: 10.0.0.2"},
		{"Forwarded", sash.Forwarded, "Forwarded: for=$"},
		{"Forwarded of two proxies", sash.Forwarded, `Forwarded: for=6.6.6.6, for="$:80"` + "\nForwarded: for=10.0.0.2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			eachAdapter(t, func(t *testing.T, app *app) {
				app.behindProxies(t, row.read)
				for i := range 100 {
					app.get(t, "/", from("10.0.0.1:1"), sending(strings.ReplaceAll(row.sent, "$", address(i))))
				}
				if app.handled != 100 {
					t.Errorf("%d of 100 clients were allowed", app.handled)
				}
			})
		})
	}
}

// behindProxies allows 10 requests an hour to each address.
func (a *app) behindProxies(t *testing.T, read sash.ProxyHeader) {
	t.Helper()
	a.trusted, a.field = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, read
	a.on(t, ratelimit.NewMemoryStore(ratelimit.MemoryConfig{Now: func() time.Time { return noon }}))
	a.handle("GET", "/", sash.SlidingWindowLimit("ip", time.Hour, 10))
}

func address(i int) string { return fmt.Sprint("198.51.100.", i) }

// sending adds header fields, a line each.
func sending(fields string) func(*http.Request) {
	return func(r *http.Request) {
		for line := range strings.Lines(fields) {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Add(name, strings.TrimSuffix(value, "\n"))
		}
	}
}

func TestAnAddressIsCountedByWhoHasIt(t *testing.T) {
	const limit = 10
	for _, row := range []struct {
		name     string
		prefix   int
		requests int
		ith      func(i int) string
		want     int
	}{
		{"1,000 addresses of one /64", 0, 1000, func(i int) string { return fmt.Sprintf("[2001:db8:1:2::%x]:1", i) }, limit},
		{"1,000 of it in other spellings", 0, 1000, func(i int) string { return fmt.Sprintf("[2001:0DB8:1:2:0:%x:0:0]", i) }, limit},
		{"100 of the next /64 each", 0, 100, func(i int) string { return fmt.Sprintf("[2001:db8:1:%x::1]:1", i) }, 100},
		{"all 256 /64 of one /56", 56, 256, func(i int) string { return fmt.Sprintf("[2001:db8:1:20%02x::1]:1", i) }, limit},
		{"as many /56", 56, 100, func(i int) string { return fmt.Sprintf("[2001:db8:1:%02x00::1]:1", i) }, 100},
		{"all 256 /56 of one /48", 48, 256, func(i int) string { return fmt.Sprintf("[2001:db8:1:%02x00::1]:1", i) }, limit},
		{"each address for itself", 128, 100, func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i) }, 100},
		{"one address for itself", 128, 100, func(i int) string { return fmt.Sprintf("[2001:db8::1]:%d", i) }, limit},
		{"IPv4, mapped and not", 0, 100, func(i int) string { return [2]string{"203.0.113.9:1", "[::ffff:203.0.113.9]:1"}[i%2] }, limit},
		{"mapped IPv4 clients are not one", 0, 100, func(i int) string { return fmt.Sprintf("[::ffff:203.0.113.%d]:1", i) }, 100},
		{"nor are those behind NAT64", 32, 100, func(i int) string { return fmt.Sprintf("[64:ff9b::203.0.113.%d]:1", i) }, 100},
		{"the /64s of a 6to4 host", 0, 100, func(i int) string { return fmt.Sprintf("[2002:cb00:7109:%x::1]:1", i) }, limit},
		{"a zone of its own each time", 0, 100, func(i int) string { return fmt.Sprintf("[fe80::1%%eth%d]:1", i) }, limit},
	} {
		t.Run(row.name, func(t *testing.T) {
			eachAdapter(t, func(t *testing.T, app *app) {
				app.ipv6 = row.prefix
				app.on(t, ratelimit.NewMemoryStore(ratelimit.MemoryConfig{Now: func() time.Time { return noon }}))
				app.handle("GET", "/", sash.SlidingWindowLimit("ip", time.Hour, limit))
				for i := range row.requests {
					app.get(t, "/", from(row.ith(i)))
				}
				if app.handled != row.want {
					t.Errorf("%d of %d were allowed, want %d", app.handled, row.requests, row.want)
				}
			})
		})
	}
}

func TestRequestsWithoutAPeerAreRefusedAndShareNoQuota(t *testing.T) {
	for _, peer := range []string{"@", "", "/run/app.sock", "localhost:80", "unix"} {
		eachAdapter(t, func(t *testing.T, app *app) {
			app.trusted = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
			app.on(t, nil)
			app.handle("GET", "/", sash.SlidingWindowLimit("ip", time.Hour, 1))
			for range 3 {
				app.get(t, "/", from(peer), with("X-Forwarded-For", "203.0.113.9")).wants(t, 400, ``)
			}
			if app.handled != 0 {
				t.Errorf("the handler ran for RemoteAddr %q", peer)
			}
		})
	}
}

func TestWrongAddressSettingsFailWhileTheServerIsBeingWired(t *testing.T) {
	const noHeader = "there is no ProxyHeader %d: choose sash.XForwardedFor or sash.Forwarded, whichever the proxies write"
	const noPrefix = "the IPv6Prefix is %d: want 32 to 128 bits, or 0 for 64"
	for _, row := range []struct {
		name    string
		trusted []netip.Prefix
		field   sash.ProxyHeader
		prefix  int
		want    string
	}{
		{"what is nothing by default", nil, 0, 0, ""},
		{"the shortest prefix", nil, sash.Forwarded, 32, ""},
		{"the longest prefix", nil, sash.XForwardedFor, 128, ""},
		{"a header that does not exist", nil, 2, 0, "sash: " + fmt.Sprintf(noHeader, 2)},
		{"a negative header", nil, -1, 0, "sash: " + fmt.Sprintf(noHeader, -1)},
		{"a prefix of several providers", nil, 0, 31, "sash: " + fmt.Sprintf(noPrefix, 31)},
		{"a prefix that no address has", nil, 0, 129, "sash: " + fmt.Sprintf(noPrefix, 129)},
		{"a negative prefix", nil, 0, -64, "sash: " + fmt.Sprintf(noPrefix, -64)},
		{"everything at once", make([]netip.Prefix, 2), 7, 8, "sash: a prefix in TrustedProxies is invalid, and nobody would be trusted by it: use netip.MustParsePrefix\n" +
			fmt.Sprintf(noHeader, 7) + "\n" + fmt.Sprintf(noPrefix, 8)},
	} {
		lim, err := ratelimit.New(ratelimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		rule := sash.SlidingWindowLimit("ip", time.Hour, 1)
		_, ginErr := ginmw.Decorator{Limiter: lim, TrustedProxies: row.trusted, ProxyHeader: row.field, IPv6Prefix: row.prefix}.Compile(rule)
		_, stdErr := stdmw.Decorator{Limiter: lim, TrustedProxies: row.trusted, ProxyHeader: row.field, IPv6Prefix: row.prefix}.Compile(rule)
		for _, err := range []error{ginErr, stdErr} {
			if got := fmt.Sprint(err); got != row.want && (err != nil || row.want != "") {
				t.Errorf("%s: got\n%s\nwant\n%s", row.name, got, row.want)
			}
		}
	}
}
