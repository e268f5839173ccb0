package keyexpr

import (
	"math"
	"strconv"
	"strings"
)

// parseNumber reads a JSON number (RFC 8259, section 6). A whole one is an int64
// however it is written (1, 1.0, 1e0, 10e-1), a fraction a float64. A whole number
// beyond int64, and a fraction that a float64 rounds to a whole one, are
// malformed: no key of ours would tell them from their neighbours.
func parseNumber(s string) (any, *fault) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	if n, ok := parseWhole(s); ok {
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f == math.Trunc(f) {
		return nil, &fault{problem: Malformed, complaint: "is a number too large or too precise to count by"}
	}
	return f, nil
}

// parseWhole moves the point of mantissa and exponent by text, since a float64
// would round what has more than 53 bits. It is false for what is not whole or
// not an int64.
func parseWhole(s string) (int64, bool) {
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(s), "e")
	shift := 0
	if hasExponent {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil || shift > 1<<20 || shift < -1<<20 {
			return 0, false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	shift -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	for shift < 0 && strings.HasSuffix(digits, "0") {
		digits, shift = digits[:len(digits)-1], shift+1
	}
	const longest = len("9223372036854775808")
	switch {
	case digits == "":
		return 0, true
	case shift < 0 || len(digits)+shift > longest:
		return 0, false
	}
	n, err := strconv.ParseInt(sign+digits+strings.Repeat("0", shift), 10, 64)
	return n, err == nil
}
