package headers_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
)

func Example() {
	limit := ratelimit.Limit{MaxRequests: 3, Window: time.Minute}
	policy, err := headers.NewPolicy("login", limit) // once
	if err != nil {
		panic(err)
	}
	// for every request:
	decision := ratelimit.Decision{Limit: limit, Reason: ratelimit.Exhausted,
		RetryAfter: 56_100 * time.Millisecond, ResetAfter: 56_100 * time.Millisecond}
	h := make(http.Header)
	headers.Draft.Set(h, headers.Quota{Policies: []headers.Policy{policy}, Decision: decision, Known: true})
	headers.RetryAfter(h, decision.RetryAfter)
	fmt.Print(lines(h))
	// Output:
	// Cache-Control: no-store
	// Ratelimit: "login";r=0;t=57
	// Ratelimit-Policy: "login";q=3;w=60
	// Retry-After: 57
}

// Fields are what a header shall hold, exactly.
type fields map[string]string

// The cases of one level: what quotas say is all that there is.
func TestSetOnAResponseOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		quotas             []headers.Quota
		draft, draft6, old fields
	}{
		"one policy": {
			quotas: []headers.Quota{quota("login", 3, time.Minute, allowed(2, 57*time.Second))},
			draft:  fields{"Ratelimit-Policy": `"login";q=3;w=60`, "Ratelimit": `"login";r=2;t=57`},
			draft6: fields{"Ratelimit-Policy": `3;w=60`, "Ratelimit-Limit": "3", "Ratelimit-Remaining": "2", "Ratelimit-Reset": "57"},
			old:    fields{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "2", "X-Ratelimit-Reset": "57"},
		},
		"the window is left out if it is not whole seconds": {
			quotas: []headers.Quota{quota("login", 3, 1500*time.Millisecond, allowed(2, time.Second))},
			draft:  fields{"Ratelimit-Policy": `"login";q=3`, "Ratelimit": `"login";r=2;t=1`},
			draft6: fields{"Ratelimit-Limit": "3", "Ratelimit-Remaining": "2", "Ratelimit-Reset": "1"},
			old:    fields{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "2", "X-Ratelimit-Reset": "1"},
		},
		"a nanosecond to go is a second": {
			quotas: []headers.Quota{quota("login", 3, time.Minute, allowed(2, 1))},
			draft:  fields{"Ratelimit-Policy": `"login";q=3;w=60`, "Ratelimit": `"login";r=2;t=1`},
			draft6: fields{"Ratelimit-Policy": `3;w=60`, "Ratelimit-Limit": "3", "Ratelimit-Remaining": "2", "Ratelimit-Reset": "1"},
			old:    fields{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "2", "X-Ratelimit-Reset": "1"},
		},
		"where nothing is counted nothing comes back": {
			quotas: []headers.Quota{quota("login", 3, time.Minute, allowed(3, 0))},
			draft:  fields{"Ratelimit-Policy": `"login";q=3;w=60`, "Ratelimit": `"login";r=3`},
			draft6: fields{"Ratelimit-Policy": `3;w=60`, "Ratelimit-Limit": "3", "Ratelimit-Remaining": "3", "Ratelimit-Reset": "0"},
			old:    fields{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "3", "X-Ratelimit-Reset": "0"},
		},
		"of several policies of a rule the binding one leads": {
			quotas: []headers.Quota{{
				Policies: []headers.Policy{policy("sec", 1, time.Second), policy("min", 9, time.Minute), policy("day", 50, 24*time.Hour)},
				Binding:  1,
				Decision: allowed(0, time.Second+1),
				Known:    true,
			}},
			draft: fields{
				"Ratelimit-Policy": `"min";q=9;w=60, "sec";q=1;w=1, "day";q=50;w=86400`,
				"Ratelimit":        `"min";r=0;t=2`,
			},
			draft6: fields{"Ratelimit-Policy": `9;w=60, 1;w=1, 50;w=86400`, "Ratelimit-Limit": "9", "Ratelimit-Remaining": "0", "Ratelimit-Reset": "2"},
			old:    fields{"X-Ratelimit-Limit": "9", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "2"},
		},
		"of several rules the one with the least left leads, and of those the one that waits longest": {
			quotas: []headers.Quota{
				quota("a", 9, time.Minute, allowed(5, 9*time.Second)),
				quota("b", 8, time.Minute, allowed(1, 7*time.Second)),
				quota("c", 7, time.Minute, allowed(1, 8*time.Second)),
			},
			draft: fields{
				"Ratelimit-Policy": `"c";q=7;w=60, "a";q=9;w=60, "b";q=8;w=60`,
				"Ratelimit":        `"c";r=1;t=8, "b";r=1;t=7, "a";r=5;t=9`,
			},
			draft6: fields{"Ratelimit-Policy": `7;w=60, 9;w=60, 8;w=60`, "Ratelimit-Limit": "7", "Ratelimit-Remaining": "1", "Ratelimit-Reset": "8"},
			old:    fields{"X-Ratelimit-Limit": "7", "X-Ratelimit-Remaining": "1", "X-Ratelimit-Reset": "8"},
		},
		"a denial leads, even if more is left than elsewhere": {
			quotas: []headers.Quota{
				quota("a", 9, time.Minute, allowed(0, 9*time.Second)),
				quota("b", 8, time.Minute, denied(4, 7*time.Second)),
				{Policies: []headers.Policy{policy("c", 7, time.Minute)}, Decision: ratelimit.Decision{Remaining: 5, ResetAfter: time.Second, Reason: ratelimit.TooCostly}, Known: true},
			},
			draft: fields{
				"Ratelimit-Policy": `"c";q=7;w=60, "a";q=9;w=60, "b";q=8;w=60`,
				"Ratelimit":        `"c";r=5;t=1, "b";r=4;t=7, "a";r=0;t=9`,
			},
			draft6: fields{"Ratelimit-Policy": `7;w=60, 9;w=60, 8;w=60`, "Ratelimit-Limit": "7", "Ratelimit-Remaining": "5", "Ratelimit-Reset": "1"},
			old:    fields{"X-Ratelimit-Limit": "7", "X-Ratelimit-Remaining": "5", "X-Ratelimit-Reset": "1"},
		},
		"a quota of which nothing is known is listed as a policy alone": {
			quotas: []headers.Quota{
				{Policies: []headers.Policy{policy("a", 1, time.Second)}, Decision: ratelimit.Decision{Allowed: true, Reason: ratelimit.FailedOpen}},
				quota("b", 8, time.Minute, allowed(4, 7*time.Second)),
			},
			draft:  fields{"Ratelimit-Policy": `"b";q=8;w=60, "a";q=1;w=1`, "Ratelimit": `"b";r=4;t=7`},
			draft6: fields{"Ratelimit-Policy": `8;w=60, 1;w=1`, "Ratelimit-Limit": "8", "Ratelimit-Remaining": "4", "Ratelimit-Reset": "7"},
			old:    fields{"X-Ratelimit-Limit": "8", "X-Ratelimit-Remaining": "4", "X-Ratelimit-Reset": "7"},
		},
		"nothing is known at all": {
			quotas: []headers.Quota{{Policies: []headers.Policy{policy("a", 1, time.Second), policy("b", 2, time.Minute)}, Binding: 1}},
			draft:  fields{"Ratelimit-Policy": `"a";q=1;w=1, "b";q=2;w=60`},
			draft6: fields{"Ratelimit-Policy": `1;w=1, 2;w=60`},
			old:    fields{},
		},
		"quotes and backslashes are escaped, and nothing else": {
			quotas: []headers.Quota{quota(`a"b\c,d;e=f`, 3, time.Minute, allowed(2, time.Second))},
			draft:  fields{"Ratelimit-Policy": `"a\"b\\c,d;e=f";q=3;w=60`, "Ratelimit": `"a\"b\\c,d;e=f";r=2;t=1`},
			draft6: fields{"Ratelimit-Policy": `3;w=60`, "Ratelimit-Limit": "3", "Ratelimit-Remaining": "2", "Ratelimit-Reset": "1"},
			old:    fields{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "2", "X-Ratelimit-Reset": "1"},
		},
		"numbers that no store gives are not negative in a field": {
			quotas: []headers.Quota{quota("login", 3, time.Minute, allowed(-1, -time.Hour))},
			draft:  fields{"Ratelimit-Policy": `"login";q=3;w=60`, "Ratelimit": `"login";r=0`},
			draft6: fields{"Ratelimit-Policy": `3;w=60`, "Ratelimit-Limit": "3", "Ratelimit-Remaining": "0", "Ratelimit-Reset": "0"},
			old:    fields{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "0"},
		},
		"quotas that say nothing leave no field": {
			quotas: []headers.Quota{{}, {Known: true}, {Known: true, Policies: make([]headers.Policy, 1)}, {Known: true, Binding: -1}},
			draft:  fields{}, draft6: fields{}, old: fields{},
		},
		"a Binding that is out of range leaves the policies": {
			quotas: []headers.Quota{{Known: true, Binding: 1, Policies: []headers.Policy{policy("a", 1, time.Second)}}},
			draft:  fields{"Ratelimit-Policy": `"a";q=1;w=1`}, draft6: fields{"Ratelimit-Policy": `1;w=1`}, old: fields{},
		},
		"no quota at all": {draft: fields{}, draft6: fields{}, old: fields{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for dialect, want := range map[headers.Dialect]fields{
				headers.Draft: test.draft, headers.Draft6: test.draft6, headers.XRateLimit: test.old,
				headers.None: {}, headers.Dialect(-1): {}, headers.Dialect(99): {},
			} {
				h := make(http.Header)
				before := slices.Clone(test.quotas)
				dialect.Set(h, test.quotas...)
				wantFields(t, dialect, h, want)
				if fmt.Sprint(before) != fmt.Sprint(test.quotas) {
					t.Errorf("%v: the quotas were changed", dialect)
				}
			}
		})
	}
}

// The cases of two levels: an outer one has set fields, or somebody else has.
func TestSetWithinAnOuterLevel(t *testing.T) {
	t.Parallel()
	login := quota("login", 3, time.Minute, allowed(2, 57*time.Second))
	for name, test := range map[string]struct {
		dialect headers.Dialect
		outer   http.Header
		quotas  []headers.Quota
		want    fields
	}{
		"the inner level is tighter": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"ip";q=100;w=3600, "day";q=900;w=86400`}, "Ratelimit": {`"ip";r=90;t=9`}},
			want:    fields{"Ratelimit-Policy": `"login";q=3;w=60, "ip";q=100;w=3600, "day";q=900;w=86400`, "Ratelimit": `"login";r=2;t=57, "ip";r=90;t=9`},
		},
		"the outer level is tighter": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"ip";q=100;w=3600`}, "Ratelimit": {`"ip";r=1;t=9`}},
			want:    fields{"Ratelimit-Policy": `"ip";q=100;w=3600, "login";q=3;w=60`, "Ratelimit": `"ip";r=1;t=9, "login";r=2;t=57`},
		},
		"both levels are sorted into one another": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"a";q=9`, `"b";q=9`}, "Ratelimit": {`"a";r=1`, `"b";r=5`}},
			quotas:  []headers.Quota{quota("c", 9, time.Minute, allowed(6, 0)), quota("d", 9, time.Minute, allowed(3, 0))},
			want: fields{
				"Ratelimit-Policy": `"a";q=9, "b";q=9, "d";q=9;w=60, "c";q=9;w=60`,
				"Ratelimit":        `"a";r=1, "d";r=3, "b";r=5, "c";r=6`,
			},
		},
		"as much is left, and the outer level gives back later": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"ip";q=100`}, "Ratelimit": {`"ip";r=2;t=58`}},
			want:    fields{"Ratelimit-Policy": `"ip";q=100, "login";q=3;w=60`, "Ratelimit": `"ip";r=2;t=58, "login";r=2;t=57`},
		},
		"as much is left, and the inner level gives back later": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"ip";q=100`}, "Ratelimit": {`"ip";r=2;t=56`}},
			want:    fields{"Ratelimit-Policy": `"login";q=3;w=60, "ip";q=100`, "Ratelimit": `"login";r=2;t=57, "ip";r=2;t=56`},
		},
		"a denial leads, whatever the outer level has left": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"ip";q=100`}, "Ratelimit": {`"ip";r=0;t=99`}},
			quotas:  []headers.Quota{quota("login", 3, time.Minute, denied(1, time.Second)), quota("b", 3, time.Minute, denied(0, 9*time.Second))},
			want: fields{
				"Ratelimit-Policy": `"b";q=3;w=60, "login";q=3;w=60, "ip";q=100`,
				"Ratelimit":        `"b";r=0;t=9, "login";r=1;t=1, "ip";r=0;t=99`,
			},
		},
		"the outer level knows nothing": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"ip";q=100`}},
			want:    fields{"Ratelimit-Policy": `"login";q=3;w=60, "ip";q=100`, "Ratelimit": `"login";r=2;t=57`},
		},
		"the inner level knows nothing": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"ip";q=100`}, "Ratelimit": {`"ip";r=90;t=9`}},
			quotas:  []headers.Quota{{Policies: []headers.Policy{policy("login", 3, time.Minute)}}},
			want:    fields{"Ratelimit-Policy": `"ip";q=100, "login";q=3;w=60`, "Ratelimit": `"ip";r=90;t=9`},
		},
		"neither level knows anything": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"ip";q=100`}},
			quotas:  []headers.Quota{{Policies: []headers.Policy{policy("login", 3, time.Minute)}}},
			want:    fields{"Ratelimit-Policy": `"ip";q=100, "login";q=3;w=60`},
		},
		"a policy that both levels list is one, and its tighter item stays": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"login";q=3;w=60`}, "Ratelimit": {`"login";r=3`}},
			want:    fields{"Ratelimit-Policy": `"login";q=3;w=60`, "Ratelimit": `"login";r=2;t=57`},
		},
		"one name for two different policies is two": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"login";q=4;w=60`}, "Ratelimit": {`"login";r=3`}},
			want:    fields{"Ratelimit-Policy": `"login";q=3;w=60, "login";q=4;w=60`, "Ratelimit": `"login";r=2;t=57, "login";r=3`},
		},
		"parameters of others are kept": {
			dialect: headers.Draft,
			outer: http.Header{
				"Ratelimit-Policy": {`"ip";q=100;w=60;qu="requests";pk=:Ym9i:;acme-burst=1.5;acme;x=tok`},
				"Ratelimit":        {`"ip";r=90;pk=:Ym9i:;acme=?0`},
			},
			want: fields{
				"Ratelimit-Policy": `"login";q=3;w=60, "ip";q=100;w=60;qu="requests";pk=:Ym9i:;acme-burst=1.5;acme;x=tok`,
				"Ratelimit":        `"login";r=2;t=57, "ip";r=90;pk=:Ym9i:;acme=?0`,
			},
		},
		"names that look like syntax stay whole": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"a\", \"b;q=1\\";q=100`}, "Ratelimit": {`"a\", \"b;q=1\\";r=90`}},
			want:    fields{"Ratelimit-Policy": `"login";q=3;w=60, "a\", \"b;q=1\\";q=100`, "Ratelimit": `"login";r=2;t=57, "a\", \"b;q=1\\";r=90`},
		},
		"draft 7 and the form of draft 6 are not the draft's: replaced": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`100;w=60`}, "Ratelimit": {`limit=100, remaining=1, reset=5`}},
			want:    fields{"Ratelimit-Policy": `"login";q=3;w=60`, "Ratelimit": `"login";r=2;t=57`},
		},
		"garbage in one field does not cost the other": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"ip";q=100`}, "Ratelimit": {`"ip`, ``}},
			want:    fields{"Ratelimit-Policy": `"login";q=3;w=60, "ip";q=100`, "Ratelimit": `"login";r=2;t=57`},
		},
		"a negative number, an inner list, a field without end: replaced": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`("ip";q=100)`}, "Ratelimit": {`"ip";r=-1`}},
			want:    fields{"Ratelimit-Policy": `"login";q=3;w=60`, "Ratelimit": `"login";r=2;t=57`},
		},
		"a field above the cap is replaced": {
			dialect: headers.Draft,
			outer:   http.Header{"Ratelimit-Policy": {`"` + strings.Repeat("a", headers.MaxField) + `";q=1`}},
			want:    fields{"Ratelimit-Policy": `"login";q=3;w=60`, "Ratelimit": `"login";r=2;t=57`},
		},
		"fields of other dialects are let be": {
			dialect: headers.Draft,
			outer:   http.Header{"X-Ratelimit-Limit": {"1"}, "Ratelimit-Reset": {"x"}},
			want:    fields{"X-Ratelimit-Limit": "1", "Ratelimit-Reset": "x", "Ratelimit-Policy": `"login";q=3;w=60`, "Ratelimit": `"login";r=2;t=57`},
		},

		"draft 6: the inner level is tighter": {
			dialect: headers.Draft6,
			outer:   http.Header{"Ratelimit-Policy": {`100;w=3600;comment="x"`}, "Ratelimit-Limit": {"100"}, "Ratelimit-Remaining": {"90"}, "Ratelimit-Reset": {"9"}},
			want:    fields{"Ratelimit-Policy": `3;w=60, 100;w=3600;comment="x"`, "Ratelimit-Limit": "3", "Ratelimit-Remaining": "2", "Ratelimit-Reset": "57"},
		},
		"draft 6: the outer level is tighter": {
			dialect: headers.Draft6,
			outer:   http.Header{"Ratelimit-Policy": {`100;w=3600`}, "Ratelimit-Limit": {"100"}, "Ratelimit-Remaining": {"1"}, "Ratelimit-Reset": {"9"}},
			want:    fields{"Ratelimit-Policy": `100;w=3600, 3;w=60`, "Ratelimit-Limit": "100", "Ratelimit-Remaining": "1", "Ratelimit-Reset": "9"},
		},
		"draft 6: a denial wins over an outer level with less left": {
			dialect: headers.Draft6,
			outer:   http.Header{"Ratelimit-Policy": {`100;w=3600`}, "Ratelimit-Limit": {"100"}, "Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"99"}},
			quotas:  []headers.Quota{quota("login", 3, time.Minute, denied(1, time.Second))},
			want:    fields{"Ratelimit-Policy": `3;w=60, 100;w=3600`, "Ratelimit-Limit": "3", "Ratelimit-Remaining": "1", "Ratelimit-Reset": "1"},
		},
		"draft 6: the inner level knows nothing": {
			dialect: headers.Draft6,
			outer:   http.Header{"Ratelimit-Policy": {`100;w=3600`}, "Ratelimit-Limit": {"100"}, "Ratelimit-Remaining": {"1"}, "Ratelimit-Reset": {"9"}},
			quotas:  []headers.Quota{{Policies: []headers.Policy{policy("login", 3, time.Minute)}}},
			want:    fields{"Ratelimit-Policy": `100;w=3600, 3;w=60`, "Ratelimit-Limit": "100", "Ratelimit-Remaining": "1", "Ratelimit-Reset": "9"},
		},
		"draft 6: a policy that both levels list is one": {
			dialect: headers.Draft6,
			outer:   http.Header{"Ratelimit-Policy": {`3;w=60`}, "Ratelimit-Limit": {"3"}, "Ratelimit-Remaining": {"2"}, "Ratelimit-Reset": {"57"}},
			want:    fields{"Ratelimit-Policy": `3;w=60`, "Ratelimit-Limit": "3", "Ratelimit-Remaining": "2", "Ratelimit-Reset": "57"},
		},
		"draft 6: numbers that cannot be compared are replaced, all three": {
			dialect: headers.Draft6,
			outer:   http.Header{"Ratelimit-Policy": {`"ip";q=1`}, "Ratelimit-Limit": {"100, 100;w=60"}, "Ratelimit-Remaining": {"1"}, "Ratelimit-Reset": {"9"}},
			want:    fields{"Ratelimit-Policy": `3;w=60`, "Ratelimit-Limit": "3", "Ratelimit-Remaining": "2", "Ratelimit-Reset": "57"},
		},

		"X-RateLimit: the inner level is tighter": {
			dialect: headers.XRateLimit,
			outer:   http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Reset": {"9"}},
			want:    fields{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "2", "X-Ratelimit-Reset": "57"},
		},
		"X-RateLimit: the outer level is tighter": {
			dialect: headers.XRateLimit,
			outer:   http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"9"}},
			want:    fields{"X-Ratelimit-Limit": "100", "X-Ratelimit-Remaining": "1", "X-Ratelimit-Reset": "9"},
		},
		"X-RateLimit: as much is left, and the inner level gives back later": {
			dialect: headers.XRateLimit,
			outer:   http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"2"}, "X-Ratelimit-Reset": {"56"}},
			want:    fields{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "2", "X-Ratelimit-Reset": "57"},
		},
		"X-RateLimit: of two that are as tight the outer one stays": {
			dialect: headers.XRateLimit,
			outer:   http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"2"}, "X-Ratelimit-Reset": {"57"}},
			want:    fields{"X-Ratelimit-Limit": "100", "X-Ratelimit-Remaining": "2", "X-Ratelimit-Reset": "57"},
		},
		"X-RateLimit: a point in time is not ours": {
			dialect: headers.XRateLimit,
			outer:   http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"1700000000"}},
			want:    fields{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "2", "X-Ratelimit-Reset": "57"},
		},
		"X-RateLimit: a field said twice is not ours": {
			dialect: headers.XRateLimit,
			outer:   http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"1", "1"}, "X-Ratelimit-Reset": {"9"}},
			want:    fields{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "2", "X-Ratelimit-Reset": "57"},
		},
		"X-RateLimit: a missing field is not ours": {
			dialect: headers.XRateLimit,
			outer:   http.Header{"X-Ratelimit-Limit": {"100"}, "X-Ratelimit-Remaining": {"1"}},
			want:    fields{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "2", "X-Ratelimit-Reset": "57"},
		},

		"none touches nothing": {
			dialect: headers.None,
			outer:   http.Header{"Ratelimit": {`x`}, "X-Ratelimit-Limit": {"100"}},
			want:    fields{"Ratelimit": `x`, "X-Ratelimit-Limit": "100"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.quotas == nil {
				test.quotas = []headers.Quota{login}
			}
			h := test.outer.Clone()
			test.dialect.Set(h, test.quotas...)
			wantFields(t, test.dialect, h, test.want)
			if name == "one name for two different policies is two" {
				return // and a client could not tell a third item from either
			}
			test.dialect.Set(h, test.quotas...) // has nothing to add
			wantFields(t, test.dialect, h, test.want)
		})
	}
}

// All values share their memory. Who adds to one field must not write into the next.
func TestFieldsCanBeAddedTo(t *testing.T) {
	t.Parallel()
	for _, dialect := range []headers.Dialect{headers.Draft, headers.Draft6, headers.XRateLimit} {
		h := make(http.Header)
		dialect.Set(h, quota("login", 3, time.Minute, allowed(2, 57*time.Second)))
		before := h.Clone()
		for field := range before {
			h.Add(field, "x")
		}
		for field, values := range before {
			if got := h[field]; len(got) != 2 || got[0] != values[0] || got[1] != "x" {
				t.Errorf("%v: %s is %q after x was added to %q", dialect, field, got, values)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		after time.Duration
		want  string
	}{
		{"a nanosecond is a second", 1, "1"},
		{"a second is a second", time.Second, "1"},
		{"a nanosecond more is two", time.Second + 1, "2"},
		{"a minute", time.Minute, "60"},
		{"the longest duration there is", 1<<63 - 1, "9223372037"},
		{"no waiting helps", 0, ""},
		{"a time that has passed", -time.Second, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{"Cache-Control": {"max-age=60", "public"}}
			headers.RetryAfter(h, test.after)
			want := fields{"Cache-Control": "no-store"}
			if test.want != "" {
				want["Retry-After"] = test.want
			}
			wantFields(t, headers.None, h, want)
		})
	}
}

func TestNewPolicyRefusesWhatNoHeaderCanCarry(t *testing.T) {
	t.Parallel()
	minute := ratelimit.Limit{MaxRequests: 3, Window: time.Minute}
	for _, test := range []struct {
		name, policy string
		limit        ratelimit.Limit
		want         string // "" if it is accepted
	}{
		{"printable ASCII from end to end", ` !"#$%&'()*+,-./09:;<=>?@AZ[\]^_` + "`az{|}~", minute, ""},
		{"as long as can be", strings.Repeat("x", headers.MaxName), minute, ""},
		{"quotes do not count twice", strings.Repeat(`"`, headers.MaxName), minute, ""},
		{"empty", "", minute, `headers: policy "": the name is empty`},
		{"too long", strings.Repeat("x", headers.MaxName+1), minute,
			`headers: policy "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": the name has 129 bytes: want at most 128`},
		{"a line feed", "a\nb", minute, `headers: policy "a\nb": the name has the byte 0x0a at 1: want printable ASCII characters`},
		{"DEL", "\x7f", minute, `headers: policy "\x7f": the name has the byte 0x7f at 0: want printable ASCII characters`},
		{"not ASCII", "é", minute, `headers: policy "é": the name has the byte 0xc3 at 0: want printable ASCII characters`},
		{"two faults", "", ratelimit.Limit{Window: time.Minute},
			"headers: policy \"\": the name is empty\nMaxRequests is 0: want 1 to 1000000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p, err := headers.NewPolicy(test.policy, test.limit)
			if test.want != "" {
				if err == nil || err.Error() != test.want {
					t.Errorf("got  %v\nwant %v", err, test.want)
				}
				return
			}
			if err != nil || p.Name() != test.policy || p.Limit() != test.limit {
				t.Errorf("%q, %v, %v", p.Name(), p.Limit(), err)
			}
		})
	}
}

func TestDialectString(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(headers.Draft, headers.Draft6, headers.XRateLimit, headers.None, headers.Dialect(-1), headers.Dialect(4))
	if want := "draft 11 draft 06 X-RateLimit none unknown unknown"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What a client sees on the wire has survived net/http.
func TestFieldsOnTheWire(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers.Draft.Set(w.Header(), quota(`a"b\c, d;e`, 3, time.Minute, denied(0, 57*time.Second)))
		headers.RetryAfter(w.Header(), 57*time.Second)
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	report, err := headers.Parse(response.Header)
	if err != nil {
		t.Fatal(err)
	}
	wantReport(t, report, headers.Report{
		Dialect:    headers.Draft,
		Policies:   []headers.PolicyItem{{Name: `a"b\c, d;e`, Quota: 3, Window: time.Minute}},
		Limits:     []headers.LimitItem{{Name: `a"b\c, d;e`, ResetAfter: 57 * time.Second}},
		RetryAfter: 57 * time.Second,
	})
}

func policy(name string, maxRequests int, window time.Duration) headers.Policy {
	p, err := headers.NewPolicy(name, ratelimit.Limit{MaxRequests: maxRequests, Window: window})
	if err != nil {
		panic(err)
	}
	return p
}

func quota(name string, maxRequests int, window time.Duration, d ratelimit.Decision) headers.Quota {
	return headers.Quota{Policies: []headers.Policy{policy(name, maxRequests, window)}, Decision: d, Known: true}
}

func allowed(remaining int, resetAfter time.Duration) ratelimit.Decision {
	return ratelimit.Decision{Allowed: true, Remaining: remaining, ResetAfter: resetAfter, Reason: ratelimit.Counted}
}

func denied(remaining int, after time.Duration) ratelimit.Decision {
	return ratelimit.Decision{Remaining: remaining, RetryAfter: after, ResetAfter: after, Reason: ratelimit.Exhausted}
}

func wantFields(t *testing.T, dialect headers.Dialect, h http.Header, want fields) {
	t.Helper()
	wanted := make(http.Header)
	for field, value := range want {
		wanted[field] = []string{value}
	}
	if got, want := lines(h), lines(wanted); got != want {
		t.Errorf("%v:\ngot\n%swant\n%s", dialect, got, want)
	}
}

// lines writes one line for each value.
func lines(h http.Header) string {
	var b strings.Builder
	for _, field := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[field] {
			fmt.Fprintf(&b, "%s: %s\n", field, value)
		}
	}
	return b.String()
}

func limit(maxRequests int, window time.Duration) ratelimit.Limit {
	return ratelimit.Limit{MaxRequests: maxRequests, Window: window}
}

func TestRetryAfterIsItsOwnNumberWhateverRateLimitTells(t *testing.T) {
	t.Parallel()
	for _, reset := range []time.Duration{0, time.Second, time.Minute, time.Hour, 200 * time.Hour} {
		for _, after := range []time.Duration{1, time.Second, time.Minute, time.Hour, time.Hour + 1} {
			h := make(http.Header)
			headers.Draft.Set(h, quota(`x";t=60`, 3, time.Hour, denied(0, reset)))
			headers.RetryAfter(h, after)
			if got, want := h.Get("Retry-After"), fmt.Sprint(headers.Seconds(after)); got != want {
				t.Errorf("RateLimit tells %v: Retry-After is %s, want %s", reset, got, want)
			}
		}
	}
}

func TestWhatIsAppendedToAFieldIsInNoOtherResponse(t *testing.T) {
	t.Parallel()
	q := quota("login", 3, time.Minute, denied(0, time.Second))
	for range 2 {
		h := make(http.Header)
		headers.Draft.Set(h, q)
		headers.RetryAfter(h, time.Second)
		for field, want := range map[string]string{"Ratelimit-Policy": `"login";q=3;w=60`, "Ratelimit": `"login";r=0;t=1`, "Cache-Control": "no-store", "Retry-After": "1"} {
			h.Add(field, "appended to "+field)
			if got := h[field]; len(got) != 2 || got[0] != want || got[1] != "appended to "+field {
				t.Errorf("%s: %q", field, got)
			}
			h.Set(field, "another")
		}
	}
}

// What is kept of one denial is not told to another.
func TestEveryDenialIsToldItsOwnWait(t *testing.T) {
	t.Parallel()
	login, other := quota("login", 3, time.Hour, ratelimit.Decision{}), quota("other", 3, time.Hour, ratelimit.Decision{})
	for _, seconds := range []int{1, 65, 0, 1, 129, 64, 128, 65, 3600, 1} {
		for _, left := range []int{0, 2, -1} {
			for name, q := range map[string]headers.Quota{"login": login, "other": other} {
				q.Decision = denied(left, time.Duration(seconds)*time.Second)
				h := make(http.Header)
				headers.Draft.Set(h, q)
				want := fmt.Sprintf("%q;r=%d;t=%d", name, max(left, 0), seconds)
				if got := h.Get("RateLimit"); got != strings.TrimSuffix(want, ";t=0") {
					t.Errorf("%d left, %d seconds: %s, want %s", left, seconds, got, want)
				}
			}
		}
	}
}
