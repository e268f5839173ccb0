package keyexpr

import (
	"math"
	"net/http"
	"reflect"
)

// DefaultMaxBodyBytes is how much of a body an expression may read: 64 KiB.
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

	// Response tells that the expression is evaluated after the handler, and may
	// read response. The Source is then a [ResponseSource].
	Response bool

	// Argument is the type of what a function or a typed handler is called with:
	// in, of which every exported member is a name of its own as well. The Source
	// is then an [ArgumentSource]. If nil, there is none.
	Argument reflect.Type

	// NoRequest tells that there is no HTTP request, only the argument. The other
	// names do not compile then, and Source.Request is never called.
	NoRequest bool
}

func (c Config) maxBodyBytes() int64 {
	if c.MaxBodyBytes == 0 {
		return DefaultMaxBodyBytes
	}
	return min(c.MaxBodyBytes, math.MaxInt64-1) // one byte more is read, to tell whether there is one
}
