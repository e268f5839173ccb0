package keyexpr

import (
	"net/netip"
	"reflect"
	"strings"
)

// The bits that prefix keeps. Up to 32 they speak of IPv4, above of IPv6.
const (
	minBits     = 8
	maxIPv4Bits = 32
	maxBits     = 128
)

// prefix widens an address to its network, "192.0.2.7" with 24 bits to
// "192.0.2.0/24". The number of bits tells the family, an address of the other is
// left as it is: prefix(prefix(ip, 24), 56) treats both. A network that is wider
// already stays.
func prefix(args ...any) (any, error) {
	s, failed := textArgument(args[0])
	if failed != nil {
		return nil, failed
	}
	bits := reflect.ValueOf(args[1])
	if !bits.CanInt() || bits.Int() < minBits || bits.Int() > maxBits {
		return nil, &fault{problem: WrongType, sentence: "The length of the address prefix is not between 8 and 128."}
	}
	network, ok := widen(s, int(bits.Int()))
	if !ok {
		return nil, &fault{problem: Malformed, complaint: "is not an IP address"}
	}
	return network, nil
}

func widen(s string, bits int) (string, bool) {
	network, ok := parseNetwork(s)
	if !ok {
		return "", false
	}
	switch addr := network.Addr(); {
	case addr.Is4() == (bits <= maxIPv4Bits):
		return netip.PrefixFrom(addr, min(bits, network.Bits())).Masked().String(), true
	case network.IsSingleIP():
		return addr.String(), true
	}
	return network.Masked().String(), true
}

// parseNetwork takes an address for the network of itself alone.
func parseNetwork(s string) (netip.Prefix, bool) {
	if strings.Contains(s, "/") {
		network, err := netip.ParsePrefix(s)
		return network, err == nil && !network.Addr().Is4In6()
	}
	addr, err := netip.ParseAddr(s)
	addr = addr.Unmap().WithZone("")
	return netip.PrefixFrom(addr, addr.BitLen()), err == nil
}
