package keyexpr

import (
	"math"
	"net/http"
)

// DefaultMaxBodyBytes is how much of a body a key may cost: 64 KiB.
const DefaultMaxBodyBytes = 64 << 10

// What an expression may cost. The language's parser recurses, and a stack that
// overflows cannot be recovered from, so the length is checked before it starts.
const (
	maxSourceBytes = 4 << 10
	maxNodes       = 500
	maxParts       = 64
)

// Config says what the surroundings of an expression offer. The zero value is usable.
type Config struct {
	// ClientIP resolves the name ip. It returns the canonical address: IPv4, or
	// IPv6 as its network ("2001:db8:1:2::/64"). An error becomes a [KeyError].
	// If nil, an expression that reads ip does not compile.
	ClientIP func(*http.Request) (string, error)

	// MaxBodyBytes caps what body and form read. 0 means DefaultMaxBodyBytes;
	// a negative number does not compile.
	MaxBodyBytes int64

	// Vars tells that the adapter hands over values of the application. If
	// false, an expression that reads vars does not compile.
	Vars bool
}

func (c Config) maxBodyBytes() int64 {
	if c.MaxBodyBytes == 0 {
		return DefaultMaxBodyBytes
	}
	return min(c.MaxBodyBytes, math.MaxInt64-1) // one byte more is read, to tell whether there is one
}
