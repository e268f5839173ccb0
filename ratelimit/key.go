package ratelimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxEncoded = 128              // a longer rule, or a longer key, is replaced by its hash
	maxKey     = 2*maxEncoded + 1 // what Key can give at most
	hashMark   = '#'              // begins a hash; encode never writes it
)

// Key names the log of one partition of a rule: "rule:part:part". It is what a Limiter's verbs take as a key,
// and what sash makes of a Rule's name and the value of its key expression, so that
//
//	lim.Reset(ctx, ratelimit.Key("login", "bob@example.com"))
//
// forgets what the Rule named "login" has counted for bob.
//
// Two different calls never give the same key: everything outside [A-Za-z0-9._@/-] is percent-escaped, the
// delimiter included, so that no client can forge one, or a cluster's {hash tag}. A rule, and the parts
// together, are replaced by "#" and their SHA-256 in hex where they would be longer than 128 bytes.
func Key(rule string, parts ...string) string {
	var space [maxKey]byte
	return appendParts(shorten(encode(space[:0], rule), 0), parts)
}

// A KeyPrefix is the rule part of keys, escaped once for all of them.
type KeyPrefix struct{ escaped string }

// NewKeyPrefix is for the keys of a rule.
func NewKeyPrefix(rule string) KeyPrefix { return KeyPrefix{Key(rule)} }

// Key is Key(rule, parts...).
func (p KeyPrefix) Key(parts ...string) string {
	var space [maxKey]byte
	return appendParts(append(space[:0], p.escaped...), parts)
}

// appendParts completes a key that begins with the rule.
func appendParts(key []byte, parts []string) string {
	if len(parts) == 0 {
		return string(key)
	}
	key = append(key, ':')
	start := len(key)
	for i, part := range parts {
		if i > 0 {
			key = append(key, ':')
		}
		key = encode(key, part)
	}
	return string(shorten(key, start))
}

// canonical returns the key under which a log is kept: key itself if Key could have made it, else
// Key("", key). That form begins with the delimiter, which no key kept as it is does.
func canonical(key string) string {
	if !isCanonical(key) {
		return Key("", key)
	}
	return key
}

// isCanonical reports whether Key could have made key.
func isCanonical(key string) bool {
	if len(key) > maxKey || key == "" || key[0] == ':' {
		return false
	}
	for i := range len(key) {
		if !kept(key[i]) {
			return false
		}
	}
	return true
}

// kept reports whether c can be part of a key as Key makes it: it is plain, or : % #. Every key is read so with each
// request, and sets of bits take half the time of comparisons.
func kept(c byte) bool {
	const (
		low  = 1<<'.' | 1<<'/' | 1<<'-' | 1<<':' | 1<<'%' | 1<<hashMark | (1<<10-1)<<'0'
		high = 1<<('_'-64) | 1<<('@'-64) | (1<<26-1)<<('A'-64) | (1<<26-1)<<('a'-64)
	)
	return c < 64 && uint64(low)>>c&1 != 0 || 64 <= c && c < 128 && uint64(high)>>(c-64)&1 != 0
}

// key returns the key under which a log is kept: the canonical one, with a KeySecret only up to the rule's name.
func (l *Limiter) key(key string) string {
	key = canonical(key)
	if l.config.KeySecret == nil {
		return key
	}
	rule, parts, named := strings.Cut(key, ":")
	if !named || rule == "" { // the two kinds differ by the delimiter
		rule, parts = "", key
	}
	mac := hmac.New(sha256.New, l.config.KeySecret)
	mac.Write([]byte(parts))
	return rule + ":" + string(hashMark) + hex.EncodeToString(mac.Sum(nil))
}

// encode appends s to dst, percent-escaped. What needs no escape, most of it, is appended at once.
func encode(dst []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	done := 0
	for i := range len(s) {
		if c := s[i]; !isPlain[c] {
			dst = append(append(dst, s[done:i]...), '%', digits[c>>4], digits[c&15])
			done = i + 1
		}
	}
	return append(dst, s[done:]...)
}

// shorten replaces what follows start in key by its hash if it is too long.
func shorten(key []byte, start int) []byte {
	if len(key)-start <= maxEncoded {
		return key
	}
	sum := sha256.Sum256(key[start:])
	return hex.AppendEncode(append(key[:start], hashMark), sum[:])
}

// plain reports whether c stands for itself in a key.
func plain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '.' || c == '_' || c == '@' || c == '/' || c == '-'
}

// isPlain is plain of every byte.
var isPlain = func() (table [256]bool) {
	for c := range table {
		table[c] = plain(byte(c))
	}
	return table
}()
