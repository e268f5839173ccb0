package headers_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/ratelimit/headers"
)

// A client that is told to wait does, and tries again.
func ExampleParse() {
	answers := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit-Policy", `"login";q=3;w=60`)
		if answers++; answers == 1 {
			w.Header().Set("RateLimit", `"login";r=0;t=57`)
			w.Header().Set("Retry-After", "58")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.Header().Set("RateLimit", `"login";r=2;t=60`)
	}))
	defer server.Close()

	sleep := func(d time.Duration) { fmt.Println("waiting", d) } // time.Sleep, or a timer beside a context
	for {
		response, err := http.Get(server.URL)
		if err != nil {
			panic(err)
		}
		response.Body.Close()
		report, err := headers.Parse(response.Header)
		if err != nil {
			fmt.Println(err) // worth a line in the log: what could be read is in the report
		}
		for _, limit := range report.Limits {
			fmt.Println(response.StatusCode, limit.Name, limit.Remaining)
		}
		if response.StatusCode != http.StatusTooManyRequests {
			return
		}
		sleep(min(report.Wait(), time.Hour)) // Retry-After takes precedence over t
	}
	// Output:
	// 429 login 0
	// waiting 58s
	// 200 login 2
}

const date = "Sat, 21 Nov 2026 01:00:00 GMT" // 1795222800

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		header http.Header
		want   headers.Report
	}{
		{"no field", http.Header{}, headers.Report{Dialect: headers.None}},
		{"a nil header", nil, headers.Report{Dialect: headers.None}},

		// draft 11, sections 3, 3.2 and 4.2
		{"the draft: one policy", http.Header{"Ratelimit-Policy": {`"default";q=100;w=10`}},
			headers.Report{Policies: []headers.PolicyItem{{Name: "default", Quota: 100, Window: 10 * time.Second}}}},
		{"the draft: no space after the comma", http.Header{"Ratelimit-Policy": {`"permin";q=50;w=60,"perhr";q=1000;w=3600`}},
			headers.Report{Policies: []headers.PolicyItem{{Name: "permin", Quota: 50, Window: time.Minute}, {Name: "perhr", Quota: 1000, Window: time.Hour}}}},
		{"the draft: two lines are one list", http.Header{"Ratelimit-Policy": {`"burst";q=100;w=60`, `"daily";q=1000;w=86400`}},
			headers.Report{Policies: []headers.PolicyItem{{Name: "burst", Quota: 100, Window: time.Minute}, {Name: "daily", Quota: 1000, Window: 24 * time.Hour}}}},
		{"the draft: a partition key", http.Header{"Ratelimit-Policy": {`"peruser";q=100;w=60;pk=:cHsdsRa894==:`}},
			headers.Report{Policies: []headers.PolicyItem{{Name: "peruser", Quota: 100, Window: time.Minute, PartitionKey: []byte("p{\x1d\xb1\x16\xbc\xf7")}}}},
		{"the draft: a quota unit", http.Header{"Ratelimit-Policy": {`"peruser";q=65535;qu="content-bytes";w=10`}},
			headers.Report{Policies: []headers.PolicyItem{{Name: "peruser", Quota: 65535, Unit: "content-bytes", Window: 10 * time.Second}}}},
		{"the draft: what is left", http.Header{"Ratelimit": {`"default";r=50;t=30`}},
			headers.Report{Limits: []headers.LimitItem{{Name: "default", Remaining: 50, ResetAfter: 30 * time.Second}}}},
		{"the draft: no t", http.Header{"Ratelimit": {`"default";r=999;pk=:dHJpYWwxMjEzMjM=:`}},
			headers.Report{Limits: []headers.LimitItem{{Name: "default", Remaining: 999, PartitionKey: []byte("trial121323")}}}},
		{"the draft: a large quota", http.Header{"Ratelimit": {`"default";r=300000000;t=60;pk=:QXBwLTk5OQ==:`}},
			headers.Report{Limits: []headers.LimitItem{{Name: "default", Remaining: 300000000, ResetAfter: time.Minute, PartitionKey: []byte("App-999")}}}},
		{"unknown parameters are comments", http.Header{"Ratelimit-Policy": {`"a";acme-policy="x";q=1;w=2;acme=1.5`}, "Ratelimit": {`"a";r=1;c=2;acme`}},
			headers.Report{Policies: []headers.PolicyItem{{Name: "a", Quota: 1, Window: 2 * time.Second}}, Limits: []headers.LimitItem{{Name: "a", Remaining: 1}}}},
		{"a name is unescaped, and may be empty", http.Header{"Ratelimit": {`"a\"b\\c, d;r=9";r=1,"";r=2`}},
			headers.Report{Limits: []headers.LimitItem{{Name: `a"b\c, d;r=9`, Remaining: 1}, {Remaining: 2}}}},
		{"0 of everything", http.Header{"Ratelimit-Policy": {`"a";q=0`}, "Ratelimit": {`"a";r=0;t=0`}},
			headers.Report{Policies: []headers.PolicyItem{{Name: "a"}}, Limits: []headers.LimitItem{{Name: "a"}}}},
		{"more seconds than a Duration holds are as many as it does", http.Header{"Ratelimit": {`"a";r=0;t=999999999999999`}},
			headers.Report{Limits: []headers.LimitItem{{Name: "a", ResetAfter: math.MaxInt64 / time.Second * time.Second}}}},

		// draft 06, section 3
		{"draft 6", http.Header{"Ratelimit-Policy": {`10;w=1, 50;w=60;comment="x"`}, "Ratelimit-Limit": {"50"}, "Ratelimit-Remaining": {"1"}, "Ratelimit-Reset": {"7"}},
			headers.Report{
				Dialect:  headers.Draft6,
				Policies: []headers.PolicyItem{{Quota: 10, Window: time.Second}, {Quota: 50, Window: time.Minute}},
				Limits:   []headers.LimitItem{{Remaining: 1, ResetAfter: 7 * time.Second}},
			}},
		{"draft 6: policies alone", http.Header{"Ratelimit-Policy": {` 100;w=10`}},
			headers.Report{Dialect: headers.Draft6, Policies: []headers.PolicyItem{{Quota: 100, Window: 10 * time.Second}}}},
		{"draft 6: the limit stands for its policy", http.Header{"Ratelimit-Limit": {"50"}, "Ratelimit-Remaining": {" 1\t"}},
			headers.Report{Dialect: headers.Draft6, Policies: []headers.PolicyItem{{Quota: 50}}, Limits: []headers.LimitItem{{Remaining: 1}}}},

		{"X-RateLimit with seconds", http.Header{"X-Ratelimit-Limit": {"50"}, "X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"999999999"}},
			headers.Report{Dialect: headers.XRateLimit, Policies: []headers.PolicyItem{{Quota: 50}}, Limits: []headers.LimitItem{{Remaining: 1, ResetAfter: 999999999 * time.Second}}}},
		{"X-RateLimit with a Unix time", http.Header{"Date": {date}, "X-Ratelimit-Limit": {"50"}, "X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"1795222857"}},
			headers.Report{Dialect: headers.XRateLimit, Policies: []headers.PolicyItem{{Quota: 50}}, Limits: []headers.LimitItem{{Remaining: 1, ResetAfter: 57 * time.Second}}}},
		{"X-RateLimit with a Unix time that has passed", http.Header{"Date": {date}, "X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"1795222799"}},
			headers.Report{Dialect: headers.XRateLimit, Limits: []headers.LimitItem{{Remaining: 1}}}},

		{"of several dialects the newest", http.Header{"Ratelimit": {`"a";r=1`}, "Ratelimit-Limit": {"x"}, "X-Ratelimit-Limit": {"y"}},
			headers.Report{Limits: []headers.LimitItem{{Name: "a", Remaining: 1}}}},
		{"draft 6 before X-RateLimit", http.Header{"Ratelimit-Limit": {"1"}, "X-Ratelimit-Limit": {"2"}},
			headers.Report{Dialect: headers.Draft6, Policies: []headers.PolicyItem{{Quota: 1}}}},

		{"Retry-After alone", http.Header{"Retry-After": {"57"}}, headers.Report{Dialect: headers.None, RetryAfter: 57 * time.Second}},
		{"Retry-After as a date", http.Header{"Date": {date}, "Retry-After": {"Sat, 21 Nov 2026 01:00:57 GMT"}},
			headers.Report{Dialect: headers.None, RetryAfter: 57 * time.Second}},
		{"Retry-After as a date in the past", http.Header{"Date": {date}, "Retry-After": {"Sat, 21 Nov 2026 00:00:57 GMT"}},
			headers.Report{Dialect: headers.None}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := headers.Parse(test.header)
			if err != nil {
				t.Fatal(err)
			}
			wantReport(t, got, test.want)
		})
	}
}

func TestParseNamesTheFieldThatIsMalformed(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("a", headers.MaxField) + `";q=1`
	for _, test := range []struct{ name, field, value, want string }{
		{"not a list", "Ratelimit-Policy", `"a";q=1,`, "RateLimit-Policy: invalid list format: character 8"},
		{"a string without end", "Ratelimit-Policy", `"a`, "RateLimit-Policy: invalid string format: character 2"},
		{"not ASCII", "Ratelimit", `"é";r=1`, "RateLimit: invalid string format: character 2"},
		{"too many digits", "Ratelimit", `"a";r=1000000000000000`, "RateLimit: integer or decimal out of range: character 22"},
		{"an inner list", "Ratelimit", `("a" "b");r=1`, "RateLimit: item 1 is an inner list"},
		{"the form of draft 7", "Ratelimit", `limit=10, remaining=1`, "RateLimit: invalid list format: character 5"},
		{"a token as name", "Ratelimit", `"b";r=1, a;r=1`, "RateLimit: item 2: its name is not a String"},
		{"an integer as name", "Ratelimit-Policy", `"a";q=1, 1;q=1`, "RateLimit-Policy: item 2: its name is not a String"},
		{"no q", "Ratelimit-Policy", `"a";w=1`, "RateLimit-Policy: item 1: q is missing"},
		{"a negative q", "Ratelimit-Policy", `"a";q=-1`, "RateLimit-Policy: item 1: q is not a whole number, 0 or more"},
		{"q as a decimal", "Ratelimit-Policy", `"a";q=1.0`, "RateLimit-Policy: item 1: q is not a whole number, 0 or more"},
		{"q as a string", "Ratelimit-Policy", `"a";q="1"`, "RateLimit-Policy: item 1: q is not a whole number, 0 or more"},
		{"a window of 0", "Ratelimit-Policy", `"a";q=1;w=0`, "RateLimit-Policy: item 1: w is 0: want whole seconds, 1 or more"},
		{"a window that is true", "Ratelimit-Policy", `"a";q=1;w`, "RateLimit-Policy: item 1: w is not whole seconds, 1 or more"},
		{"a token as unit", "Ratelimit-Policy", `"a";q=1;qu=requests`, "RateLimit-Policy: item 1: qu is not a String"},
		{"a string as key", "Ratelimit-Policy", `"a";q=1;pk="a"`, "RateLimit-Policy: item 1: pk is not a Byte Sequence"},
		{"two faults of an item", "Ratelimit-Policy", `"a";pk="a"`, "RateLimit-Policy: item 1: q is missing\npk is not a Byte Sequence"},
		{"no r", "Ratelimit", `"a";t=1`, "RateLimit: item 1: r is missing"},
		{"a negative t", "Ratelimit", `"a";r=1;t=-1`, "RateLimit: item 1: t is not whole seconds, 0 or more"},
		{"a key that is a string", "Ratelimit", `"a";r=1;pk="a"`, "RateLimit: item 1: pk is not a Byte Sequence"},
		{"a field above the cap", "Ratelimit-Policy", long, "RateLimit-Policy: it is longer than 16384 bytes"},
		{"draft 6: no w", "Ratelimit-Policy", `1;w=1, 3`, "RateLimit-Policy: item 2: w is missing"},
		{"draft 6: negative", "Ratelimit-Policy", `-3;w=1`, "RateLimit-Policy: item 1: want a whole number, 0 or more"},
		{"draft 6: negative numbers", "Ratelimit-Limit", `-3`, `RateLimit-Limit: "-3": want a whole number, 0 or more`},
		{"draft 6: an empty field", "Ratelimit-Remaining", ``, `RateLimit-Remaining: "": want a whole number, 0 or more`},
		{"draft 6: parameters", "Ratelimit-Reset", `3;w=1`, `RateLimit-Reset: "3;w=1": want a whole number, 0 or more`},
		{"X-RateLimit: other digits", "X-Ratelimit-Limit", "٣", `X-RateLimit-Limit: "٣": want a whole number, 0 or more`},
		{"X-RateLimit: a decimal", "X-Ratelimit-Remaining", "1.5", `X-RateLimit-Remaining: "1.5": want a whole number, 0 or more`},
		{"Retry-After in words", "Retry-After", "soon", `Retry-After: "soon": want a whole number, 0 or more, or a date`},
		{"Retry-After in the past", "Retry-After", "-1", `Retry-After: "-1": want a whole number, 0 or more, or a date`},
		{"Retry-After as a date without Date", "Retry-After", date, "Retry-After: it is a point in time, and the response has no Date to count from"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := headers.Parse(http.Header{test.field: {test.value}})
			if want := "headers: parse: " + test.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %v", err, want)
			}
		})
	}
}

func TestAMalformedFieldDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	report, err := headers.Parse(http.Header{
		"Ratelimit-Policy": {`"a";q=1, b`},
		"Ratelimit":        {`"a";r=0;t=9`},
		"Retry-After":      {"10"},
	})
	if want := "headers: parse: RateLimit-Policy: item 2: its name is not a String"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %v", err, want)
	}
	wantReport(t, report, headers.Report{Limits: []headers.LimitItem{{Name: "a", ResetAfter: 9 * time.Second}}, RetryAfter: 10 * time.Second})

	report, err = headers.Parse(http.Header{
		"X-Ratelimit-Limit":     {"1", "1"},
		"X-Ratelimit-Remaining": {"0"},
		"X-Ratelimit-Reset":     {"1795222857000"},
	})
	want := "headers: parse: X-RateLimit-Limit: it is there 2 times: want one\n" +
		"headers: parse: X-RateLimit-Reset: 1795222857000 is neither seconds from now nor a Unix time in seconds"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %v", err, want)
	}
	wantReport(t, report, headers.Report{Dialect: headers.XRateLimit, Limits: []headers.LimitItem{{}}})
}

func TestWait(t *testing.T) {
	t.Parallel()
	exhausted := headers.LimitItem{ResetAfter: time.Minute}
	for _, test := range []struct {
		name   string
		report headers.Report
		want   time.Duration
	}{
		{"nothing is told", headers.Report{}, 0},
		{"something is left", headers.Report{Limits: []headers.LimitItem{{Remaining: 1, ResetAfter: time.Minute}}}, 0},
		{"nothing is left", headers.Report{Limits: []headers.LimitItem{exhausted}}, time.Minute},
		{"the longest wait of several", headers.Report{Limits: []headers.LimitItem{exhausted, {ResetAfter: time.Hour}, {Remaining: 1, ResetAfter: 24 * time.Hour}}}, time.Hour},
		{"Retry-After takes precedence over a longer t", headers.Report{Limits: []headers.LimitItem{exhausted}, RetryAfter: time.Second}, time.Second},
		{"Retry-After takes precedence over what is left", headers.Report{Limits: []headers.LimitItem{{Remaining: 1}}, RetryAfter: time.Second}, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := test.report.Wait(); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// What Set wrote, Parse reads: all numbers, and whatever a name is made of.
func FuzzRoundTrip(f *testing.F) {
	for _, name := range []string{"login", `"`, `\`, `\"`, `a, "b";r=9`, `";q=1,"`, `a\\"\`, " ", ",;=:?@%()", strings.Repeat(`"`, 128)} {
		f.Add(name, 3, uint32(60_000), 2, uint32(57_001), name+"x", 4)
	}
	f.Fuzz(func(t *testing.T, name string, maxRequests int, windowMS uint32, remaining int, resetMS uint32, other string, otherRemaining int) {
		window, reset := time.Duration(windowMS)*time.Millisecond, time.Duration(resetMS)*time.Millisecond
		first, err := headers.NewPolicy(name, limit(maxRequests, window))
		if err != nil {
			return
		}
		second, err := headers.NewPolicy(other, limit(7, time.Hour))
		if err != nil || remaining < 0 || remaining > 1e6 || otherRemaining <= remaining || otherRemaining > 1e6 || name == other {
			return
		}
		quotas := []headers.Quota{
			{Policies: []headers.Policy{second}, Decision: allowed(otherRemaining, time.Minute), Known: true},
			{Policies: []headers.Policy{first}, Decision: allowed(remaining, reset), Known: true},
		}
		whole := window
		if window%time.Second != 0 {
			whole = 0
		}
		resetUp := (reset + time.Second - 1).Truncate(time.Second)

		draft := headers.Report{
			Policies: []headers.PolicyItem{{Name: name, Quota: int64(maxRequests), Window: whole}, {Name: other, Quota: 7, Window: time.Hour}},
			Limits: []headers.LimitItem{{Name: name, Remaining: int64(remaining), ResetAfter: resetUp},
				{Name: other, Remaining: int64(otherRemaining), ResetAfter: time.Minute}},
		}
		numbers := []headers.LimitItem{{Remaining: int64(remaining), ResetAfter: resetUp}}
		draft6 := headers.Report{Dialect: headers.Draft6, Limits: numbers, Policies: []headers.PolicyItem{{Quota: 7, Window: time.Hour}}}
		if whole > 0 && !(whole == time.Hour && maxRequests == 7) { // two levels list the same words once
			draft6.Policies = append([]headers.PolicyItem{{Quota: int64(maxRequests), Window: whole}}, draft6.Policies...)
		}
		old := headers.Report{Dialect: headers.XRateLimit, Limits: numbers, Policies: []headers.PolicyItem{{Quota: int64(maxRequests)}}}
		for _, want := range []headers.Report{draft, draft6, old} {
			oneAfterTheOther := make(http.Header) // as two levels of middleware do
			want.Dialect.Set(oneAfterTheOther, quotas[0])
			want.Dialect.Set(oneAfterTheOther, quotas[1])
			for _, h := range []http.Header{oneAfterTheOther, set(want.Dialect, quotas)} {
				got, err := headers.Parse(h)
				if err != nil {
					t.Fatalf("%v:\n%s", err, lines(h))
				}
				if want.Dialect == headers.Draft6 && len(got.Policies) == 2 && reflect.DeepEqual(got.Policies[0], got.Policies[1]) {
					got.Policies = got.Policies[:1]
				}
				wantReport(t, got, want)
			}
		}
	})
}

// Whatever a server or an outer level has put there, nothing panics, and what Set leaves can be read and has ours in it.
func FuzzParse(f *testing.F) {
	f.Add(`"a";q=1;w=2;pk=:YQ==:`, `"a";r=1;t=2`, "3", "2", "1", "4")
	f.Add(`3;w=60, 1;w=1;comment="x"`, `limit=1`, "0", "", "1795222857", date)
	f.Add(`("a" b;c=@1 %"x");d=?0`, `"a";r=1;a=1.5;b=*x;c=:YQ==:;d=@1;e=%"%c3%a9"`, "-", "1;w=1", "999999999999999", "-1")
	f.Fuzz(func(t *testing.T, policies, limits, limit, remaining, reset, retryAfter string) {
		if len(policies)+len(limits) > headers.MaxField/2 {
			return
		}
		fresh := func() http.Header {
			return http.Header{
				"Date": {date}, "Retry-After": {retryAfter},
				"Ratelimit-Policy": {policies}, "Ratelimit": {limits},
				"Ratelimit-Limit": {limit}, "Ratelimit-Remaining": {remaining}, "Ratelimit-Reset": {reset},
				"X-Ratelimit-Limit": {limit}, "X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset},
			}
		}
		if r, _ := headers.Parse(fresh()); r.Wait() < 0 {
			t.Fatalf("%v", r)
		}
		for dialect, others := range map[headers.Dialect][]string{
			headers.Draft:      {"Retry-After"},
			headers.Draft6:     {"Retry-After", "Ratelimit"},
			headers.XRateLimit: {"Retry-After", "Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"},
		} {
			h := fresh()
			for _, field := range others {
				delete(h, field)
			}
			headers.Parse(h)
			dialect.Set(h, quota("login", 3, time.Minute, denied(0, time.Second)))
			r, err := headers.Parse(h)
			if err != nil || r.Dialect != dialect || len(r.Policies) == 0 || len(r.Limits) == 0 {
				t.Fatalf("%v: %+v, %v:\n%s", dialect, r, err, lines(h))
			}
			if p, l := r.Policies[0], r.Limits[0]; p.Quota != 3 || l.Remaining != 0 || l.ResetAfter != time.Second {
				t.Fatalf("%v: a denial does not lead: %+v:\n%s", dialect, r, lines(h))
			}
		}
	})
}

func wantReport(t *testing.T, got, want headers.Report) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func set(dialect headers.Dialect, quotas []headers.Quota) http.Header {
	h := make(http.Header)
	dialect.Set(h, quotas...)
	return h
}
