package headers

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

// MaxName is how many characters the name of a Policy may have.
const MaxName = 128

// Policy is one limit under its name, formatted once. NewPolicy makes it; the zero Policy is left out of
// every field.
type Policy struct {
	name  string
	limit ratelimit.Limit

	item   string   // "login";q=3;w=60
	value  []string // the same as the only value of a field
	item6  string   // 3;w=60, or "" if the window is not whole seconds
	quoted string   // "login"
	quota  string   // 3

	spent *spent // nil in the zero Policy
}

// spent is what RateLimit says of a policy of which nothing is left, each text in the place of its seconds. There is a
// table when there is the first text: the policies of a function's limits are made for one request.
type spent struct {
	table atomic.Pointer[[64]atomic.Pointer[written]]
}

// written is RateLimit for some seconds until reset. It is never changed.
type written struct {
	reset int64
	value []string
}

func (s *spent) place(reset int64) *atomic.Pointer[written] {
	table := s.table.Load()
	if table == nil {
		table = new([64]atomic.Pointer[written])
		s.table.Store(table) // in the place of another's: a text is written again
	}
	return &table[uint64(reset)%uint64(len(table))]
}

// NewPolicy returns the policy called name, or an error that says every reason why no header can carry it: a
// name is 1 to MaxName printable ASCII characters (RFC 9651, section 3.3.3), and limit must be valid.
func NewPolicy(name string, limit ratelimit.Limit) (Policy, error) {
	if err := errors.Join(checkName(name), limit.Validate()); err != nil {
		return Policy{}, fmt.Errorf("headers: policy %.40q: %w", name, err)
	}
	p := Policy{name: name, limit: limit, quoted: quote(name), quota: strconv.Itoa(limit.MaxRequests), spent: new(spent)}
	p.item = p.quoted + ";q=" + p.quota
	if limit.Window%time.Second == 0 { // w has no fractions (draft 11, section 3.1.3)
		w := ";w=" + strconv.FormatInt(int64(limit.Window/time.Second), 10)
		p.item += w
		p.item6 = p.quota + w
	}
	p.value = []string{p.item}
	return p, nil
}

// Name is what clients call the policy.
func (p Policy) Name() string { return p.name }

// Limit is what the policy allows.
func (p Policy) Limit() ratelimit.Limit { return p.limit }

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > MaxName:
		return fmt.Errorf("the name has %d bytes: want at most %d", len(name), MaxName)
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' {
			return fmt.Errorf("the name has the byte %#02x at %d: want printable ASCII characters", c, i)
		}
	}
	return nil
}

var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quote writes a name as a Structured-Field String (RFC 9651, section 4.1.6).
func quote(name string) string { return `"` + quoter.Replace(name) + `"` }

// Quota is what one rule says about one request: all its policies, and what was decided about the one that binds.
type Quota struct {
	Policies []Policy // in the order of their declaration; Set does not keep them
	Binding  int      // the index in Policies of the one that Decision is about

	Decision ratelimit.Decision

	// Known is false if the store could not be asked, and nothing is known of what is left.
	Known bool
}

func (q *Quota) known() bool {
	return q.Known && q.Binding >= 0 && q.Binding < len(q.Policies) && q.binding().item != ""
}

// binding is the policy that binds, if something is known.
func (q *Quota) binding() *Policy { return &q.Policies[q.Binding] }

// left and reset are the numbers that every dialect tells: non-negative, reset in seconds.
func (q *Quota) left() int64  { return max(int64(q.Decision.Remaining), 0) }
func (q *Quota) reset() int64 { return Seconds(q.Decision.ResetAfter) }
