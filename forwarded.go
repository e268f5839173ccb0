package sash

import (
	"net/netip"
	"strings"
)

// The header field Forwarded (RFC 7239, section 4):
//
//	Forwarded         = 1#forwarded-element
//	forwarded-element = [ forwarded-pair ] *( ";" [ forwarded-pair ] )
//	forwarded-pair    = token "=" ( token / quoted-string )
//
// All of it is read from the right, where the trusted proxies have written, and
// nothing left of what they wrote can change how that is read. A reader that
// starts on the left is in the hands of the client: behind one quote that the
// client leaves open, all that the proxies add looks like text.
//
// From the right there is one way to read what is well-formed. A quote ends a
// quoted string. A quote inside it has a backslash before it, so the nearest
// =" is where it begins.

// cutLastElement splits a list before its last forwarded-element.
func cutLastElement(list string) (rest, last string, more bool) {
	return cutLastUnquoted(list, ',')
}

// cutLastUnquoted splits a list before its last entry. Separators in quoted
// strings do not count. A string that does not begin takes in all of the list.
func cutLastUnquoted(list string, separator byte) (rest, last string, more bool) {
	for i := len(list) - 1; i >= 0; i-- {
		switch list[i] {
		case separator:
			return list[:i], list[i+1:], true
		case '"':
			i = strings.LastIndex(list[:i], `="`) + 1
		}
	}
	return "", list, false
}

// forwardedFor reads the parameter for of a forwarded-element. There is no hop
// in an element that lacks it, has it twice, hides it ("unknown", "_name"), or
// is malformed anywhere.
func forwardedFor(element string) (netip.Addr, bool) {
	var node string
	found := false
	for more := true; more; {
		var pair string
		element, pair, more = cutLastUnquoted(element, ';')
		if pair = strings.Trim(pair, " \t"); pair == "" {
			continue
		}
		name, value, ok := parsePair(pair)
		isFor := strings.EqualFold(name, "for")
		if !ok || isFor && found {
			return netip.Addr{}, false
		}
		if isFor {
			node, found = value, true
		}
	}
	return parseNode(node)
}

// parsePair reads a forwarded-pair. An address with a colon must be quoted
// (section 6), and still is often not: a value may have what addresses have.
func parsePair(pair string) (name, value string, ok bool) {
	name, value, _ = strings.Cut(pair, "=")
	if inner, quoted := strings.CutPrefix(value, `"`); quoted {
		value, ok = unquote(inner)
	} else {
		ok = isToken(value, ":[]")
	}
	return name, value, ok && isToken(name, "")
}

// unquote reads a quoted-string (RFC 9110, section 5.6.4) behind its first
// quote.
func unquote(s string) (text string, ok bool) {
	s, ok = strings.CutSuffix(s, `"`)
	if !strings.ContainsAny(s, `"\`) {
		return s, ok
	}
	plain := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return "", false
		case s[i] == '\\':
			i++
			if i == len(s) {
				return "", false // it was the last quote that is escaped
			}
		}
		plain = append(plain, s[i])
	}
	return string(plain), ok
}

// isToken tells a token (RFC 9110, section 5.6.2), which may have other
// characters as well.
func isToken(s, other string) bool {
	for i := range len(s) {
		if !isTchar(s[i]) && strings.IndexByte(other, s[i]) < 0 {
			return false
		}
	}
	return s != ""
}

func isTchar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// parseNode reads a node (section 6): an address as parseHop reads it, whose
// port may be hidden.
func parseNode(node string) (netip.Addr, bool) {
	address, port, hidden := strings.Cut(node, ":_")
	if hidden && !isToken(port, "") {
		return netip.Addr{}, false
	}
	return parseHop(address)
}
