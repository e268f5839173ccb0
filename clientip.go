package sash

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
)

// errNoClientIP is for a request without a usable peer: one that came over a
// Unix socket ("" or "@"), or one whose RemoteAddr somebody has rewritten. All
// of them in one bucket would let any of them lock the others out, so the
// address is an error, unless TrustUnixSocket says that whoever may open the
// socket is a proxy: a ProxyHeader from somebody unknown is worth nothing.
var errNoClientIP = errors.New("sash: ip: the request's RemoteAddr is not an IP address; if it comes over a Unix socket, see TrustUnixSocket")

// newClientIPResolver returns the function behind the name ip of a key
// expression: the address of the client, in the one spelling that is used in
// keys (see ipKey). The options must have passed checkClientIP.
//
// That is the peer, the address in RemoteAddr, unless the peer is a trusted
// proxy. Then it is the rightmost address in the ProxyHeader that is not a
// trusted proxy: each proxy appends the address that it was called from, so
// what stands further left is hearsay from the client, and cannot choose the
// result. No other header is read. All lines of it make one list. An entry may
// carry a port. An entry that is no address, an empty one too, ends the walk:
// the result is then the proxy that vouched for it, for it is the last one
// known. If every entry is trusted, the client is the leftmost.
//
// Addresses and prefixes that map IPv4 into IPv6 (::ffff:a.b.c.d) count as
// IPv4, and zones are ignored. The function is safe for concurrent use, and
// allocates only its result, and nothing for a peer with an IPv4 address, unless
// a quoted string in Forwarded has a backslash in it.
func newClientIPResolver(o Options) func(*http.Request) (string, error) {
	proxies, hops, bits := newProxies(o.TrustedProxies), hopLists[o.ProxyHeader], cmp.Or(o.IPv6Prefix, defaultIPv6Prefix)
	return func(r *http.Request) (string, error) {
		host, client, ok := readIPv4(r.RemoteAddr)
		if !ok {
			client, ok = parseHop(r.RemoteAddr)
		}
		switch {
		case ok && proxies.contain(client) || !ok && o.TrustUnixSocket && fromUnixSocket(r.RemoteAddr):
			client = proxies.client(client, hops, r.Header[hops.field])
		case host != "":
			return host, nil
		}
		if !client.IsValid() {
			return "", errNoClientIP
		}
		return ipKey(client, bits), nil
	}
}

// readIPv4 reads what most peers are called, 192.0.2.1:80, in half the time
// that parseHop takes. Whatever else there is it leaves to that. netip reads no
// other spelling of an IPv4 address than that of keys, so that host is the key.
func readIPv4(s string) (host string, a netip.Addr, ok bool) {
	var octets [4]byte
	n, value, digits := 0, 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9' && (digits == 0 || value > 0):
			if value, digits = 10*value+int(c-'0'), digits+1; value > 255 {
				return "", a, false
			}
		case digits > 0 && c == '.' && n < 3:
			octets[n] = byte(value)
			n, value, digits = n+1, 0, 0
		case digits > 0 && c == ':' && n == 3 && isPort(s[i+1:]):
			octets[n] = byte(value)
			return s[:i], netip.AddrFrom4(octets), true
		default:
			return "", a, false
		}
	}
	return "", a, false
}

// isPort is true of a port as net/http writes it.
func isPort(s string) bool {
	port := 0
	for i := range len(s) {
		if port = 10*port + int(s[i]-'0'); s[i] < '0' || s[i] > '9' || port > 65535 {
			return false
		}
	}
	return s != ""
}

// fromUnixSocket reports whether net/http names the peer of a Unix socket so:
// by its path, or if it has none by "@" or nothing.
func fromUnixSocket(remoteAddr string) bool {
	return remoteAddr == "" || remoteAddr[0] == '@' || remoteAddr[0] == '/'
}

// The bits of an IPv6 address that are the client. A provider's customer is
// given a /64 at the least, often a /56 or /48, and can rotate in it; 32 bits
// are a whole provider.
const (
	minIPv6Prefix     = 32
	defaultIPv6Prefix = 64
	maxIPv6Prefix     = 128
)

// checkClientIP returns all that is wrong with what the options say of
// addresses.
func (o Options) checkClientIP() error {
	var faults []error
	for _, p := range o.TrustedProxies {
		if !p.IsValid() {
			faults = append(faults, errors.New("a prefix in TrustedProxies is invalid, and nobody would be trusted by it: use netip.MustParsePrefix"))
			break
		}
	}
	if o.ProxyHeader < 0 || int(o.ProxyHeader) >= len(hopLists) {
		faults = append(faults, fmt.Errorf("there is no ProxyHeader %d: choose sash.XForwardedFor or sash.Forwarded, whichever the proxies write", o.ProxyHeader))
	}
	if o.IPv6Prefix != 0 && (o.IPv6Prefix < minIPv6Prefix || o.IPv6Prefix > maxIPv6Prefix) {
		faults = append(faults, fmt.Errorf("the IPv6Prefix is %d: want %d to %d bits, or 0 for %d", o.IPv6Prefix, minIPv6Prefix, maxIPv6Prefix, defaultIPv6Prefix))
	}
	return errors.Join(faults...)
}

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052, section 2.1
	sixTo4 = netip.MustParsePrefix("2002::/16")    // RFC 3056, section 2
)

// ipKey is how an address is spelled in keys: an IPv4 address as it is, an
// IPv6 address as its first bits ("2001:db8:1:2::/64").
//
// Two kinds of IPv6 address stand for an IPv4 host, and are spelled as that.
// Behind a NAT64 all IPv4 clients share one /64, and one could lock out all
// others. With 6to4 one IPv4 host has 65,536 of them, a quota for each. Other
// translation prefixes cannot be told from the address.
func ipKey(a netip.Addr, bits int) string {
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
	var buf [len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")]byte
	return string(netip.PrefixFrom(a, bits).Masked().AppendTo(buf[:0]))
}
