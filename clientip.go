package sash

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// errNoClientIP is for a request without a usable peer: one that came over a
// Unix socket ("" or "@"), or one whose RemoteAddr somebody has rewritten. All
// of them in one bucket would let any of them lock the others out, so the
// address is an error. Trusted proxies do not help: a prefix cannot say that
// whoever may open the socket is a proxy, and X-Forwarded-For from somebody
// unknown is worth nothing.
var errNoClientIP = errors.New("sash: ip: the request's RemoteAddr is not an IP address; does it come over a Unix socket?")

// newClientIPResolver returns the function behind the name ip of a key
// expression: the address of the client, in the one spelling that is used in
// keys (see ipKey).
//
// That is the peer, the address in RemoteAddr, unless the peer is a trusted
// proxy. Then it is the rightmost address in X-Forwarded-For that is not a
// trusted proxy: each proxy appends the address that it was called from, so
// what stands further left is hearsay from the client, and cannot choose the
// result. No other header is read. All X-Forwarded-For lines make one list. An
// entry may carry a port. An entry that is no address, an empty one too, ends
// the walk: the result is then the proxy that vouched for it, for it is the
// last one known. If every entry is trusted, the client is the leftmost.
//
// Addresses and prefixes that map IPv4 into IPv6 (::ffff:a.b.c.d) count as
// IPv4, and zones are ignored. The function is safe for concurrent use, and
// allocates only its result.
func newClientIPResolver(trusted []netip.Prefix) func(*http.Request) (string, error) {
	proxies := newProxies(trusted)
	return func(r *http.Request) (string, error) {
		peer, ok := parseHop(r.RemoteAddr)
		if !ok {
			return "", errNoClientIP
		}
		if !proxies.contain(peer) {
			return ipKey(peer), nil
		}
		return ipKey(proxies.client(peer, r.Header["X-Forwarded-For"])), nil
	}
}

// proxies are the trusted ones, by their addresses.
type proxies []netip.Prefix

func newProxies(trusted []netip.Prefix) proxies {
	ps := slices.Clone(proxies(trusted))
	for i, p := range ps {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			ps[i] = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
	}
	return ps
}

// contain takes an address as parseHop returns it. An IPv4 address inside an
// IPv6 one, as ipKey finds it, is not asked about: whoever can call from 6to4
// addresses could otherwise pass for a proxy in 10.0.0.0/8.
func (ps proxies) contain(a netip.Addr) bool {
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
}

// client walks the lines of X-Forwarded-For from right to left, from a trusted
// peer to the first hop that is not trusted.
func (ps proxies) client(peer netip.Addr, lines []string) netip.Addr {
	last := peer
	for _, line := range slices.Backward(lines) {
		for more := true; more; {
			var entry string
			line, entry, more = cutLast(line)
			hop, ok := parseHop(strings.Trim(entry, " \t"))
			if !ok {
				return last
			}
			last = hop
			if !ps.contain(hop) {
				return last
			}
		}
	}
	return last
}

// cutLast splits a list before its last entry.
func cutLast(list string) (rest, last string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return "", list, false
	}
	return list[:i], list[i+1:], true
}

// parseHop reads an address with or without a port: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1], [2001:db8::1]:80. It looks first which of them it
// has, because every failed attempt would allocate an error.
func parseHop(s string) (netip.Addr, bool) {
	var addr netip.Addr
	var err error
	switch inner, bracketed := strings.CutPrefix(s, "["); {
	case bracketed && strings.HasSuffix(inner, "]"):
		addr, err = netip.ParseAddr(inner[:len(inner)-1])
		if !addr.Is6() {
			return netip.Addr{}, false
		}
	case bracketed || strings.Count(s, ":") == 1:
		var ap netip.AddrPort
		ap, err = netip.ParseAddrPort(s)
		addr = ap.Addr()
	default:
		addr, err = netip.ParseAddr(s)
	}
	return addr.Unmap().WithZone(""), err == nil
}

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052, section 2.1
	sixTo4 = netip.MustParsePrefix("2002::/16")    // RFC 3056, section 2
)

// ipKey is how an address is spelled in keys: an IPv4 address as it is, an
// IPv6 address as its /64 ("2001:db8:1:2::/64"), which is the least that a
// client is given and can rotate in.
//
// Two kinds of IPv6 address stand for an IPv4 host, and are spelled as that.
// Behind a NAT64 all IPv4 clients share one /64, and one could lock out all
// others. With 6to4 one IPv4 host has 65,536 of them, a quota for each. Other
// translation prefixes cannot be told from the address.
func ipKey(a netip.Addr) string {
	if a.Is4() {
		return a.String()
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16])).String()
	case sixTo4.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])).String()
	}
	var buf [len("ffff:ffff:ffff:ffff::/64")]byte
	return string(netip.PrefixFrom(a, 64).Masked().AppendTo(buf[:0]))
}
