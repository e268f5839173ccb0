package ratelimit

// Policy says what becomes of a request that the store cannot decide in time.
type Policy uint8

const (
	// Inherit is, for a Claim or a Rule, what the Config says, and for a Config FailOpen.
	Inherit Policy = iota

	// FailOpen allows the request (Reason FailedOpen): nobody suffers from an outage, and nothing is limited in it.
	FailOpen

	// FailClosed denies it (Reason FailedClosed); an HTTP adapter answers with 503. For limits that guard a secret. It
	// costs no quota, but for requests whose time was up while the store had them, which it may count all the same.
	FailClosed

	// FailLocal lets this process decide alone (Reason FailedLocal), by what it has itself allowed in the last
	// window. In an outage P processes allow at most P times the limit, or what Config.LocalShare makes of it.
	FailLocal
)

var policyNames = [...]string{"inherit", "fail open", "fail closed", "fail local"}

// String gives the policy in lower-case words.
func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return "unknown"
}

// or returns p, or inherited if p does not say.
func (p Policy) or(inherited Policy) Policy {
	if p == Inherit {
		return inherited
	}
	return p
}
