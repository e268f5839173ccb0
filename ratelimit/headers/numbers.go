package headers

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// numberFields are the fields of a dialect that tells three numbers.
type numberFields struct{ limit, remaining, reset string }

var (
	numbers6 = numberFields{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"}
	numbersX = numberFields{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}
)

// setNumbers tells the numbers of the tightest quota, unless those of an outer level are as tight: it then
// reports that the outer level leads.
func (l level) setNumbers(h http.Header, fields *numberFields) (outerLeads bool) {
	left, reset, found := fields.outer(h)
	q := l.tightest()
	if q == nil {
		return found
	}
	if found && q.Decision.Allowed && (left < q.left() || left == q.left() && reset >= q.reset()) {
		return true
	}
	values := []string{q.binding().quota, strconv.FormatInt(q.left(), 10), strconv.FormatInt(q.reset(), 10)}
	h[fields.limit] = values[0:1:1]
	h[fields.remaining] = values[1:2:2]
	h[fields.reset] = values[2:3:3]
	return false
}

// outer reads what an outer level of ours has set. Three numbers it must be, or we cannot compare.
func (fields *numberFields) outer(h http.Header) (left, reset int64, found bool) {
	if len(h[fields.limit]) == 0 {
		return 0, 0, false
	}
	_, noLimit := readNumber(h, fields.limit)
	left, noLeft := readNumber(h, fields.remaining)
	reset, noReset := readNumber(h, fields.reset)
	return left, reset, noLimit == nil && noLeft == nil && noReset == nil && reset < epoch
}

// setPolicies6 lists the policies as draft 06 has them, without names: 3;w=60 (section 3.2).
func (l level) setPolicies6(h http.Header, outerLeads bool) {
	if len(h[fieldPolicy]) > 0 {
		outer, _ := readList(h, fieldPolicy, draft6Policy) // malformed: as if it were absent
		ours := l.policyTexts(draft6Item)
		setValue(h, fieldPolicy, []string{mergePolicies(textsOf(outer), ours, outerLeads)})
		return
	}
	var space [256]byte
	setValue(h, fieldPolicy, []string{string(l.appendPolicies(space[:0], draft6Item))})
}

// epoch is the first X-RateLimit-Reset that is read as a point in time, in seconds since 1970. As a delay it
// would be 31 years.
const epoch = 1_000_000_000

const maxDigits = 15 // as for a Structured-Field Integer (RFC 9651, section 3.3.1)

var errAbsent = errors.New("it is absent")

// readNumber reads a field that is one non-negative number.
func readNumber(h http.Header, field string) (int64, error) {
	values := h[field]
	switch len(values) {
	case 0:
		return 0, errAbsent
	case 1:
		return parseNumber(values[0])
	}
	return 0, fmt.Errorf("it is there %d times: want one", len(values))
}

func parseNumber(s string) (int64, error) {
	digits := strings.Trim(s, " \t")
	if digits == "" || len(digits) > maxDigits || strings.Trim(digits, "0123456789") != "" {
		return 0, fmt.Errorf("%.40q: want a whole number, 0 or more", s)
	}
	return strconv.ParseInt(digits, 10, 64)
}

// duration is that of whole seconds; more than fit, 292 years, are that many.
func duration(seconds int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(seconds, most)) * time.Second
}
