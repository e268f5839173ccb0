package sash

import (
	"net/netip"
	"slices"
	"strings"
)

// ProxyHeader is the header field in which trusted proxies write whom they
// forward for. No other is read: what the proxies do not write, they pass on as
// the client sent it. Choose the one that all of them write, each at its end.
type ProxyHeader int

const (
	// XForwardedFor is X-Forwarded-For, the default: no standard describes it, and
	// most proxies write it. Its entries are addresses, with or without a port.
	//
	//	X-Forwarded-For: 203.0.113.50, 10.0.0.2
	XForwardedFor ProxyHeader = iota

	// Forwarded is the field of RFC 7239, of which for is read. A proxy that also
	// adds what the client chose, such as host, must quote and escape it, or the
	// client writes elements of its own.
	//
	//	Forwarded: for="[2001:db8::1]:4711";proto=https, for=10.0.0.2
	Forwarded
)

// hopList is how a header field lists hops, the last one last.
type hopList struct {
	field string // as net/http spells it
	cut   func(list string) (rest, last string, more bool)
	read  func(entry string) (netip.Addr, bool)
}

var hopLists = [...]hopList{
	XForwardedFor: {"X-Forwarded-For", cutLast, parseHop},
	Forwarded:     {"Forwarded", cutLastElement, forwardedFor},
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

// client walks the lines of a hopList from right to left, from a trusted peer
// to the first hop that is not trusted.
func (ps proxies) client(peer netip.Addr, hops hopList, lines []string) netip.Addr {
	last := peer
	for _, line := range slices.Backward(lines) {
		for more := true; more; {
			var entry string
			line, entry, more = hops.cut(line)
			hop, ok := hops.read(strings.Trim(entry, " \t"))
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
