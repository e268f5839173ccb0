package sash

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// In these tests the proxies in 10.0.0.0/8 and 2001:db8:ffff::/48 are trusted.
var testProxies = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("2001:db8:ffff::/48"),
}

func TestClientIP(t *testing.T) {
	const none = "" // no usable address: an error
	for _, c := range []struct {
		name   string
		remote string
		lines  []string // of X-Forwarded-For
		want   string
	}{
		// The peer
		{"the peer, if there is no proxy", "203.0.113.9:1234", nil, "203.0.113.9"},
		{"the port of the peer is not part of its address", "203.0.113.9:1", nil, "203.0.113.9"},
		{"a peer without a port", "203.0.113.9", nil, "203.0.113.9"},
		{"IPv6 counts by its /64", "[2001:db8:1:2:3:4:5:6]:80", nil, "2001:db8:1:2::/64"},
		{"another address of the same /64 is the same client", "[2001:db8:1:2:ffff::1]:81", nil, "2001:db8:1:2::/64"},
		{"the next /64 is another", "[2001:db8:1:3::6]:80", nil, "2001:db8:1:3::/64"},
		{"IPv6 without a port", "2001:db8:1:2::6", nil, "2001:db8:1:2::/64"},
		{"IPv6 in brackets, without a port", "[2001:db8:1:2::6]", nil, "2001:db8:1:2::/64"},
		{"the longest spelling of a /64", "[ffff:ffff:ffff:ffff:1::]:80", nil, "ffff:ffff:ffff:ffff::/64"},
		{"a zone is dropped", "[fe80::1%eth0]:5", nil, "fe80::/64"},
		{"IPv4 mapped into IPv6 is IPv4", "[::ffff:203.0.113.9]:80", nil, "203.0.113.9"},
		{"however it is spelled", "[0:0:0:0:0:ffff:cb00:7109]:80", nil, "203.0.113.9"},
		{"mapped, without a port", "::ffff:203.0.113.9", nil, "203.0.113.9"},
		{"mapped, spelled out", "0:0:0:0:0:ffff:203.0.113.9", nil, "203.0.113.9"},
		{"mapped, with a zone", "[::ffff:203.0.113.9%1]:80", nil, "203.0.113.9"},
		{"loopback has no /64 of its own", "[::1]:80", nil, "::/64"},
		{"behind NAT64 each IPv4 client is itself", "[64:ff9b::203.0.113.9]:80", nil, "203.0.113.9"},
		{"the local-use NAT64 prefix does not say where the IPv4 address is", "[64:ff9b:1::203.0.113.9]:80", nil, "64:ff9b:1::/64"},
		{"6to4 is the IPv4 host that it runs on", "[2002:cb00:7109:1::5]:80", nil, "203.0.113.9"},
		{"whichever /64 it picks", "[2002:cb00:7109:ffff::5]:80", nil, "203.0.113.9"},

		// No peer
		{"a Unix socket has no address", "@", nil, none},
		{"nor has the empty string", "", nil, none},
		{"nor a path", "/run/app.sock", nil, none},
		{"a Unix socket is not a trusted proxy", "@", []string{"203.0.113.50"}, none},
		{"a host name is not an address", "localhost:80", nil, none},
		{"nor is an empty port", "203.0.113.9:", nil, none},
		{"nor a port out of range", "203.0.113.9:65536", nil, none},
		{"nor IPv4 in brackets", "[203.0.113.9]", nil, none},
		{"nor IPv4 in brackets, with a port", "[203.0.113.9]:80", nil, none},
		{"nor half a bracket", "[2001:db8::1", nil, none},
		{"nor an octet with a leading zero", "203.0.113.09:80", nil, none},

		// X-Forwarded-For from nobody we know
		{"anyone can claim an address", "203.0.113.9:80", []string{"1.1.1.1"}, "203.0.113.9"},
		{"or several", "203.0.113.9:80", []string{"6.6.6.6, 203.0.113.50, 10.0.0.1"}, "203.0.113.9"},
		{"or that of a proxy", "203.0.113.9:80", []string{"10.0.0.1"}, "203.0.113.9"},
		{"6to4 on a private address is not a proxy there", "[2002:0a00:0001::1]:80", []string{"6.6.6.6"}, "10.0.0.1"},
		{"nor is NAT64", "[64:ff9b::10.0.0.1]:80", []string{"6.6.6.6"}, "10.0.0.1"},

		// X-Forwarded-For from a trusted proxy
		{"the proxy itself, if it names nobody", "10.0.0.1:80", nil, "10.0.0.1"},
		{"the hop that the proxy names", "10.0.0.1:80", []string{"203.0.113.50"}, "203.0.113.50"},
		{"not what that hop claims", "10.0.0.1:80", []string{"6.6.6.6, 203.0.113.50"}, "203.0.113.50"},
		{"trusted hops are stepped over", "10.0.0.1:80", []string{"6.6.6.6, 203.0.113.50, 10.0.0.3, 10.0.0.2"}, "203.0.113.50"},
		{"a trusted hop left of the client is a claim too", "10.0.0.1:80", []string{"10.0.0.9, 203.0.113.50"}, "203.0.113.50"},
		{"if all hops are trusted, the leftmost", "10.0.0.1:80", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"several lines are one list", "10.0.0.1:80", []string{"6.6.6.6, 203.0.113.50", "10.0.0.3, 10.0.0.2"}, "203.0.113.50"},
		{"the last line is the rightmost", "10.0.0.1:80", []string{"6.6.6.6", "203.0.113.50"}, "203.0.113.50"},
		{"spaces and tabs do not matter", "10.0.0.1:80", []string{"6.6.6.6 ,\t203.0.113.50 \t,10.0.0.2"}, "203.0.113.50"},
		{"a hop with a port", "10.0.0.1:80", []string{"203.0.113.50:4711"}, "203.0.113.50"},
		{"an IPv6 hop", "10.0.0.1:80", []string{"2001:db8:1:2::6"}, "2001:db8:1:2::/64"},
		{"an IPv6 hop with a port", "10.0.0.1:80", []string{"[2001:db8:1:2::6]:4711"}, "2001:db8:1:2::/64"},
		{"an IPv6 hop in brackets", "10.0.0.1:80", []string{"[2001:db8:1:2::6]"}, "2001:db8:1:2::/64"},
		{"a mapped hop", "10.0.0.1:80", []string{"::ffff:203.0.113.50"}, "203.0.113.50"},
		{"a hop with a zone", "10.0.0.1:80", []string{"fe80::1%eth0"}, "fe80::/64"},
		{"another spelling of an IPv6 hop", "10.0.0.1:80", []string{"2001:0DB8:1:2:0:0:0:6"}, "2001:db8:1:2::/64"},
		{"a trusted hop, mapped, with a port", "10.0.0.1:80", []string{"203.0.113.50, [::ffff:10.0.0.2]:80"}, "203.0.113.50"},
		{"a proxy with an IPv6 address", "[2001:db8:ffff::1]:80", []string{"203.0.113.50"}, "203.0.113.50"},
		{"a proxy with a mapped address", "[::ffff:10.0.0.1]:80", []string{"203.0.113.50"}, "203.0.113.50"},
		{"a hop in 6to4 on a private address is not a proxy", "10.0.0.1:80", []string{"6.6.6.6, 2002:0a00:0002::1"}, "10.0.0.2"},

		// Junk
		{"an empty line", "10.0.0.1:80", []string{""}, "10.0.0.1"},
		{"nothing but a comma", "10.0.0.1:80", []string{","}, "10.0.0.1"},
		{"junk at the deciding hop", "10.0.0.1:80", []string{"203.0.113.50, junk"}, "10.0.0.1"},
		{"nothing at the deciding hop", "10.0.0.1:80", []string{"203.0.113.50,"}, "10.0.0.1"},
		{"nothing between the hops", "10.0.0.1:80", []string{"6.6.6.6, , 10.0.0.2"}, "10.0.0.2"},
		{"an empty line between the hops", "10.0.0.1:80", []string{"6.6.6.6", "", "10.0.0.2"}, "10.0.0.2"},
		{"junk behind a trusted hop", "10.0.0.1:80", []string{"6.6.6.6, junk, 10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"junk left of the client is not read", "10.0.0.1:80", []string{"junk, 203.0.113.50"}, "203.0.113.50"},
		{"unknown, as some proxies say", "10.0.0.1:80", []string{"unknown"}, "10.0.0.1"},
		{"a port that is none", "10.0.0.1:80", []string{"203.0.113.50:http"}, "10.0.0.1"},
		{"a quoted address", "10.0.0.1:80", []string{`"203.0.113.50"`}, "10.0.0.1"},
		{"a list in one entry", "10.0.0.1:80", []string{"203.0.113.50 203.0.113.51"}, "10.0.0.1"},
		{"10 KB of it", "10.0.0.1:80", []string{strings.Repeat("x", 10_000)}, "10.0.0.1"},
		{"10 KB of commas", "10.0.0.1:80", []string{strings.Repeat(",", 10_000)}, "10.0.0.1"},
		{"10 KB of proxies", "10.0.0.1:80", []string{"203.0.113.50" + strings.Repeat(",10.0.0.2", 1_000)}, "203.0.113.50"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := newClientIPResolver(Options{TrustedProxies: testProxies})(forwarded(c.remote, c.lines...))
			if got != c.want || (err != nil) != (c.want == none) {
				t.Errorf("RemoteAddr %q, X-Forwarded-For %q: got %q, %v; want %q", c.remote, c.lines, got, err, c.want)
			}
		})
	}
}

func TestNoHeaderNamesTheClientButTheOneThatTrustedProxiesWrite(t *testing.T) {
	claims := http.Header{"X-Forwarded-For": {"6.6.6.6"}, "Forwarded": {"for=7.7.7.7"}}
	for _, name := range []string{
		"X-Real-IP", "True-Client-IP", "CF-Connecting-IP", "X-Client-IP", "X-Cluster-Client-IP", "Fastly-Client-IP",
		"X-Forwarded", "Forwarded-For", "Client-IP", "X_Forwarded_For",
	} {
		claims.Set(name, "8.8.8.8")
	}
	only := func(fields ...string) http.Header {
		h := make(http.Header)
		for _, field := range fields {
			h[field] = claims[field]
		}
		return h
	}
	but := func(field string) http.Header {
		h := claims.Clone()
		h.Del(field)
		return h
	}
	for _, c := range []struct {
		name    string
		trusted []netip.Prefix
		field   ProxyHeader
		remote  string
		header  http.Header
		want    string
	}{
		{"nobody is trusted", nil, XForwardedFor, "203.0.113.9:80", claims, "203.0.113.9"},
		{"nobody is trusted, whatever would be read", nil, Forwarded, "203.0.113.9:80", claims, "203.0.113.9"},
		{"nobody is trusted, and a proxy calls", nil, XForwardedFor, "10.0.0.1:80", claims, "10.0.0.1"},
		{"the peer is not trusted", testProxies, XForwardedFor, "203.0.113.9:80", claims, "203.0.113.9"},
		{"the peer is not trusted, whatever would be read", testProxies, Forwarded, "203.0.113.9:80", claims, "203.0.113.9"},
		{"X-Forwarded-For is read by default", testProxies, 0, "10.0.0.1:80", claims, "6.6.6.6"},
		{"Forwarded is read if it is chosen", testProxies, Forwarded, "10.0.0.1:80", claims, "7.7.7.7"},
		{"the other is no substitute", testProxies, XForwardedFor, "10.0.0.1:80", but("X-Forwarded-For"), "10.0.0.1"},
		{"either way round", testProxies, Forwarded, "10.0.0.1:80", but("Forwarded"), "10.0.0.1"},
		{"the other is not needed", testProxies, XForwardedFor, "10.0.0.1:80", only("X-Forwarded-For"), "6.6.6.6"},
		{"nor is it here", testProxies, Forwarded, "10.0.0.1:80", only("Forwarded"), "7.7.7.7"},
	} {
		resolve := newClientIPResolver(Options{TrustedProxies: c.trusted, ProxyHeader: c.field})
		if got, err := resolve(&http.Request{RemoteAddr: c.remote, Header: c.header}); got != c.want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestIPv6Prefix(t *testing.T) {
	for _, c := range []struct {
		name string
		bits int
		addr string
		want string
	}{
		{"0 is a /64", 0, "2001:db8:1:2fff:3:4:5:6", "2001:db8:1:2fff::/64"},
		{"a whole provider", 32, "2001:db8:1:2fff:3:4:5:6", "2001:db8::/32"},
		{"a site", 48, "2001:db8:1:2fff:3:4:5:6", "2001:db8:1::/48"},
		{"a home", 56, "2001:db8:1:2fff:3:4:5:6", "2001:db8:1:2f00::/56"},
		{"between the colons", 63, "2001:db8:1:2fff:3:4:5:6", "2001:db8:1:2ffe::/63"},
		{"a /64, said aloud", 64, "2001:db8:1:2fff:3:4:5:6", "2001:db8:1:2fff::/64"},
		{"one address", 128, "2001:db8:1:2fff:3:4:5:6", "2001:db8:1:2fff:3:4:5:6/128"},
		{"the longest spelling", 128, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"},
		{"IPv4 has no such prefix", 32, "203.0.113.9", "203.0.113.9"},
		{"nor has IPv4 that comes mapped", 48, "::ffff:203.0.113.9", "203.0.113.9"},
		{"nor what is behind NAT64", 32, "64:ff9b::203.0.113.9", "203.0.113.9"},
		{"nor 6to4", 128, "2002:cb00:7109:1::5", "203.0.113.9"},
	} {
		got, err := newClientIPResolver(Options{IPv6Prefix: c.bits})(forwarded(c.addr))
		if got != c.want || err != nil {
			t.Errorf("%s: %s by %d bits: got %q, %v; want %q", c.name, c.addr, c.bits, got, err, c.want)
		}
	}
}

func TestTrustedPrefixes(t *testing.T) {
	for _, c := range []struct {
		name    string
		trusted string
		remote  string
		want    bool
	}{
		{"a mapped prefix is an IPv4 prefix", "::ffff:10.0.0.0/104", "10.9.9.9:80", true},
		{"and no more than that", "::ffff:10.0.0.0/104", "11.0.0.1:80", false},
		{"a mapped address", "::ffff:10.0.0.1/128", "10.0.0.1:80", true},
		{"all of IPv4, mapped", "::ffff:0.0.0.0/96", "203.0.113.9:80", true},
		{"all of IPv6 is not IPv4", "::/0", "203.0.113.9:80", false},
		{"nor IPv4 that comes mapped", "::/0", "[::ffff:203.0.113.9]:80", false},
		{"all of IPv4 is not IPv6", "0.0.0.0/0", "[2001:db8::1]:80", false},
		{"bits beyond the prefix do not matter", "10.1.2.3/8", "10.9.9.9:80", true},
		{"a zone at the peer does not matter", "fe80::/10", "[fe80::1%eth0]:80", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			resolve := newClientIPResolver(Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix(c.trusted)}})
			got, err := resolve(forwarded(c.remote, "198.51.100.7"))
			if (got == "198.51.100.7") != c.want || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	t.Run("a prefix that is none trusts nobody", func(t *testing.T) {
		got, err := newClientIPResolver(Options{TrustedProxies: []netip.Prefix{{}}})(forwarded("203.0.113.9:80", "6.6.6.6"))
		if got != "203.0.113.9" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("the list is the caller's to change", func(t *testing.T) {
		mine := slices.Clone(testProxies)
		resolve := newClientIPResolver(Options{TrustedProxies: mine})
		mine[0] = netip.MustParsePrefix("0.0.0.0/0")
		got, err := resolve(forwarded("203.0.113.9:80", "6.6.6.6"))
		if got != "203.0.113.9" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestClientIPAllocatesOnlyItsResult(t *testing.T) {
	for _, c := range []struct {
		options Options
		request *http.Request
	}{
		{Options{}, forwarded("[2001:db8:1:2::6]:80")},
		{Options{IPv6Prefix: 128}, forwarded("[2001:db8:1:2:3:4:5:6]:80")},
		{Options{}, forwarded("10.0.0.1:80", "6.6.6.6, 203.0.113.50:4711, 10.0.0.2")},
		{Options{ProxyHeader: Forwarded}, elements("10.0.0.1:80", `for="6.6.6.6, for="203.0.113.50:4711";host="a,b";proto=https`, "By=10.0.0.1; For=10.0.0.2")},
		{Options{ProxyHeader: Forwarded}, elements("10.0.0.1:80", `for="[2001:db8:1:2::6]:_x"`)},
	} {
		c.options.TrustedProxies = testProxies
		resolve := newClientIPResolver(c.options)
		if n := testing.AllocsPerRun(100, func() { resolve(c.request) }); n > 1 {
			t.Errorf("%v for %q, %q", n, c.request.RemoteAddr, c.request.Header)
		}
	}
	peer, resolve := forwarded("203.0.113.9:80"), newClientIPResolver(Options{TrustedProxies: testProxies})
	if n := testing.AllocsPerRun(100, func() { resolve(peer) }); n > 0 {
		t.Errorf("%v for a peer", n)
	}
}

// FuzzClientIP: whatever stands in X-Forwarded-For, the client is the peer or
// one of the hops up to and including the rightmost that is not trusted, and
// what stands left of that has no influence.
func FuzzClientIP(f *testing.F) {
	for _, seed := range [][3]string{
		{"203.0.113.9:80", "", "1.1.1.1"},
		{"10.0.0.1:80", "6.6.6.6", "203.0.113.50, 10.0.0.2"},
		{"10.0.0.1:80", "6.6.6.6, ", "[::ffff:10.0.0.2]:80,[2001:db8::1]:4711"},
		{"[2001:db8:ffff::1%eth0]:80", "::ffff:1.2.3.4%1", "64:ff9b::1.2.3.4, junk, 10.0.0.3"},
		{"[2002:0a00:0001::1]:80", "2002:0a00:0001::", "fe80::1%eth0,"},
		{"@", ",", "[]"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	for _, remote := range []string{
		"0.0.0.0:0", "255.255.255.255:65535", "203.0.113.9:65536", "203.0.113.9:000080", "203.0.113.256:80", "203.0.113.4294967297:80", "203.0.113.00:80",
		"203.0.113:80", "203.0.113.9.9:80", "203..113.9:80", "203.0.113.9:", "203.0.113.9:+80", "203.0.113.9:8o", "203.0.113.9:80:80", "203.0.113.9%1:80", "203.0.113.9",
	} {
		f.Add(remote, "", "")
	}
	resolve := newClientIPResolver(Options{TrustedProxies: testProxies})

	f.Fuzz(func(t *testing.T, remote, first, second string) {
		got, err := resolve(forwarded(remote, first, second))
		peer, ok := parseHop(remote)
		if !ok {
			if got != "" || err == nil {
				t.Fatalf("got %q, %v for an unusable peer", got, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}

		may := []string{ipKey(peer, 64)}
		entries := strings.Split(first+","+second, ",")
		for i := len(entries) - 1; i >= 0 && isTestProxy(peer); i-- {
			hop, ok := parseHop(strings.Trim(entries[i], " \t"))
			if !ok {
				break
			}
			may = append(may, ipKey(hop, 64))
			if !isTestProxy(hop) {
				break
			}
		}
		if got != may[len(may)-1] {
			t.Errorf("got %q; the hops that may be believed are %q", got, may)
		}

		want := ipKey(peer, 64)
		if isTestProxy(peer) {
			want = "203.0.113.50"
		}
		for _, lines := range behind(first, "203.0.113.50", "10.0.0.2") {
			if got, err := resolve(forwarded(remote, lines...)); got != want || err != nil {
				t.Errorf("%q: got %q, %v; want %q", lines, got, err, want)
			}
		}
	})
}

// FuzzParseHop: an entry is read as net/netip reads it, or not at all, and its
// key is a fixed point: spelled as its key, a client is still the same.
func FuzzParseHop(f *testing.F) {
	for _, seed := range []string{"192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80", "::ffff:192.0.2.1", "fe80::1%eth0", "[]", "["} {
		f.Add(seed, 64)
	}
	f.Fuzz(func(t *testing.T, s string, bits int) {
		bits = minIPv6Prefix + (bits&0x7f)%(maxIPv6Prefix-minIPv6Prefix+1)
		got, ok := parseHop(s)
		want, err := netip.ParseAddr(s)
		if err != nil {
			var ap netip.AddrPort
			if ap, err = netip.ParseAddrPort(s); err == nil {
				want = ap.Addr()
			} else if want, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
				if s[0] != '[' || s[len(s)-1] != ']' || want.Is4() {
					return // half a bracket: not to be read
				}
			}
		}
		if ok != (err == nil) || ok && got != want.Unmap().WithZone("") {
			t.Errorf("%q: got %v, %v; want %v, %v", s, got, ok, want, err)
		}
		if !ok {
			return
		}
		key := ipKey(got, bits)
		prefix, isPrefix := strings.CutSuffix(key, "/"+strconv.Itoa(bits))
		if again := ipKey(netip.MustParseAddr(prefix), bits); again != key {
			t.Errorf("%q: key %q, and that has the key %q", s, key, again)
		}
		if isPrefix == got.Is4() {
			t.Errorf("%q: key %q", s, key)
		}
	})
}

func BenchmarkClientIP(b *testing.B) {
	for _, c := range []struct {
		name    string
		field   ProxyHeader
		request *http.Request
	}{
		{"peer", XForwardedFor, forwarded("203.0.113.9:80")},
		{"peer IPv6", XForwardedFor, forwarded("[2001:db8:1:2::6]:80")},
		{"behind 2 hops", XForwardedFor, forwarded("10.0.0.1:80", "203.0.113.50, 10.0.0.2")},
		{"behind 2 hops, Forwarded", Forwarded, elements("10.0.0.1:80", "for=203.0.113.50;proto=https, for=10.0.0.2")},
		{"10 KB of claims, Forwarded", Forwarded, elements("10.0.0.1:80", strings.Repeat(`for="6.6.6.6",`, 700)+"for=203.0.113.50")},
	} {
		resolve := newClientIPResolver(Options{TrustedProxies: testProxies, ProxyHeader: c.field})
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if ip, err := resolve(c.request); ip == "" || ip == "10.0.0.1" || err != nil {
					b.Fatal(ip, err)
				}
			}
		})
	}
}

// forwarded is a request from a peer with some lines of X-Forwarded-For.
func forwarded(remote string, lines ...string) *http.Request {
	return &http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": lines}}
}

// behind is what reaches the server when a client has sent a line, and two
// proxies have each appended an entry: to the line, or in one of their own.
func behind(client, first, second string) [][]string {
	return [][]string{
		{client + ", " + first + ", " + second},
		{client + "," + first + "," + second},
		{client, first, second},
		{client, first + ", " + second},
		{client + ", " + first, second},
	}
}

func isTestProxy(a netip.Addr) bool { return testProxies[0].Contains(a) || testProxies[1].Contains(a) }

func TestATrustedUnixSocketIsAProxy(t *testing.T) {
	t.Parallel()
	resolve := newClientIPResolver(Options{TrustUnixSocket: true, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	for _, test := range []struct{ name, peer, forwarded, want string }{
		{"it tells the client", "@", "6.6.6.6, 203.0.113.50", "203.0.113.50"},
		{"a socket without a name", "", "203.0.113.50", "203.0.113.50"},
		{"a socket with a path", "/run/app.sock", "203.0.113.50, 10.0.0.7", "203.0.113.50"},
		{"it tells nothing", "@", "", ""},
		{"it tells junk", "@", "203.0.113.50, junk", ""},
		{"a peer that is no socket", "192.0.2.1:80", "203.0.113.50", "192.0.2.1"},
		{"a peer that is nothing", "localhost", "203.0.113.50", ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = test.peer
		r.Header.Set("X-Forwarded-For", test.forwarded)
		if got, err := resolve(r); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: got %q, %v; want %q", test.name, got, err, test.want)
		}
	}
}
