package sash

import (
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestForwarded(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string // from the proxy 10.0.0.1
		want  string
	}{
		// The hop
		{"the hop that the proxy names", []string{`for=203.0.113.50`}, "203.0.113.50"},
		{"names have no case", []string{`FoR=203.0.113.50`}, "203.0.113.50"},
		{"in quotes", []string{`for="203.0.113.50"`}, "203.0.113.50"},
		{"with a port", []string{`for="203.0.113.50:4711"`}, "203.0.113.50"},
		{"with a port that should be in quotes", []string{`for=203.0.113.50:4711`}, "203.0.113.50"},
		{"with a hidden port", []string{`for="203.0.113.50:_p-1.x"`}, "203.0.113.50"},
		{"IPv6", []string{`for="[2001:db8:1:2::6]"`}, "2001:db8:1:2::/64"},
		{"IPv6 with a port", []string{`for="[2001:db8:1:2::6]:4711"`}, "2001:db8:1:2::/64"},
		{"IPv6 with a hidden port", []string{`for="[2001:db8:1:2::6]:_x"`}, "2001:db8:1:2::/64"},
		{"IPv6 that should be in quotes", []string{`for=[2001:db8:1:2::6]:4711`}, "2001:db8:1:2::/64"},
		{"IPv6 that should be in brackets", []string{`for="2001:db8:1:2::6"`}, "2001:db8:1:2::/64"},
		{"or in both", []string{`for=2001:db8:1:2::6`}, "2001:db8:1:2::/64"},
		{"IPv4 mapped into IPv6", []string{`for="[::ffff:203.0.113.50]"`}, "203.0.113.50"},
		{"with a zone", []string{`for="[fe80::1%eth0]:80"`}, "fe80::/64"},
		{"a backslash quotes any character", []string{`for="\203.0.\11\3.50"`}, "203.0.113.50"},
		{"beside other parameters", []string{`by=10.0.0.1;for=203.0.113.50;host=example.com:80;proto=https;secret="_!"`}, "203.0.113.50"},
		{"a name that ends in for", []string{`wherefor=6.6.6.6;for=203.0.113.50;fore=7.7.7.7`}, "203.0.113.50"},
		{"every character of a token", []string{"for=203.0.113.50;!#$%&'*+-.^_`|~09azAZ=!#$%&'*+-.^_`|~09azAZ"}, "203.0.113.50"},
		{"a string that ends in =", []string{`for=203.0.113.50;sig="a,YQ==";a="="`}, "203.0.113.50"},
		{"pairs may be missing", []string{`;;for=203.0.113.50;`}, "203.0.113.50"},
		{"spaces and tabs around pairs do not matter", []string{"\tproto=https ; for=203.0.113.50\t;host=a "}, "203.0.113.50"},

		// The walk
		{"not what the hop claims", []string{`for=6.6.6.6, for=203.0.113.50`}, "203.0.113.50"},
		{"trusted hops are stepped over", []string{`for=6.6.6.6, for=203.0.113.50;proto=https, for="10.0.0.3:80",for=10.0.0.2`}, "203.0.113.50"},
		{"if all hops are trusted, the leftmost", []string{`for=10.0.0.3, for=10.0.0.2`}, "10.0.0.3"},
		{"several lines are one list", []string{`for=6.6.6.6, for=203.0.113.50`, `for=10.0.0.3, for=10.0.0.2`}, "203.0.113.50"},
		{"the last line is the rightmost", []string{`for=6.6.6.6`, `for=203.0.113.50`}, "203.0.113.50"},
		{"a trusted IPv6 hop", []string{`for=203.0.113.50, for="[2001:db8:ffff::1]:80"`}, "203.0.113.50"},

		// Separators in quoted strings
		{"a comma in a string", []string{`for=203.0.113.50;host="a, for=6.6.6.6"`}, "203.0.113.50"},
		{"a semicolon in a string", []string{`for=203.0.113.50;host="a;for=6.6.6.6;b"`}, "203.0.113.50"},
		{"a string that the client has chosen", []string{`host="a\", for=6.6.6.6;b=\"";for=203.0.113.50`}, "203.0.113.50"},
		{"a string of nothing", []string{`host="";for=203.0.113.50;by=""`}, "203.0.113.50"},
		{"a string that ends in a backslash", []string{`for=6.6.6.6, for=203.0.113.50;host="a\\"`}, "203.0.113.50"},
		{"a string of a quote", []string{`for=6.6.6.6, for=203.0.113.50;host="\"";by="\\\"\\"`}, "203.0.113.50"},
		{"a string on the way", []string{`for=203.0.113.50, for=10.0.0.2;host=", for=6.6.6.6, \""`}, "203.0.113.50"},

		// A client that would swallow what the proxies add
		{"a quote left open", []string{`for="1.2.3.4, for=203.0.113.50`}, "203.0.113.50"},
		{"a quote left open in a line of its own", []string{`for="1.2.3.4`, `for=203.0.113.50`}, "203.0.113.50"},
		{"a quote left open before one of the proxy's", []string{`for=6.6.6.6;by=", for=203.0.113.50;host="a"`}, "203.0.113.50"},
		{"a quote left open before two hops", []string{`for=6.6.6.6;by=", for="203.0.113.50", for="10.0.0.2"`}, "203.0.113.50"},
		{"nothing but a quote", []string{`", for=203.0.113.50`}, "203.0.113.50"},
		{"a quote and a backslash", []string{`"\, for="203.0.113.50"`}, "203.0.113.50"},
		{"a backslash", []string{`\, for="203.0.113.50"`}, "203.0.113.50"},
		{"a parameter that goes on", []string{`for=, for=203.0.113.50`}, "203.0.113.50"},

		// No address
		{"no line", nil, "10.0.0.1"},
		{"an empty line", []string{``}, "10.0.0.1"},
		{"nothing but a comma", []string{`,`}, "10.0.0.1"},
		{"nothing but a semicolon", []string{`for=6.6.6.6,;`}, "10.0.0.1"},
		{"nothing at the deciding hop", []string{`for=6.6.6.6,`}, "10.0.0.1"},
		{"nothing between the hops", []string{`for=6.6.6.6, , for=10.0.0.2`}, "10.0.0.2"},
		{"an empty line between the hops", []string{`for=6.6.6.6`, ``, `for=10.0.0.2`}, "10.0.0.2"},
		{"unknown", []string{`for=6.6.6.6, for=unknown`}, "10.0.0.1"},
		{"unknown, behind a trusted hop", []string{`for=6.6.6.6, for=unknown, for=10.0.0.2`}, "10.0.0.2"},
		{"a hidden name", []string{`for=6.6.6.6, for=_SEVKISEK`}, "10.0.0.1"},
		{"a hidden name with a port", []string{`for=6.6.6.6, for="_gazonk:80"`}, "10.0.0.1"},
		{"no for", []string{`for=6.6.6.6, proto=https;by=10.0.0.1`}, "10.0.0.1"},
		{"an empty for", []string{`for=6.6.6.6, for=""`}, "10.0.0.1"},
		{"a for without a value", []string{`for=6.6.6.6, for=`}, "10.0.0.1"},
		{"a host name", []string{`for=6.6.6.6, for=localhost`}, "10.0.0.1"},
		{"a port out of range", []string{`for=6.6.6.6, for="203.0.113.50:65536"`}, "10.0.0.1"},
		{"a hidden port without a name", []string{`for=6.6.6.6, for="203.0.113.50:_"`}, "10.0.0.1"},
		{"a hidden port with a space", []string{`for=6.6.6.6, for="203.0.113.50:_a b"`}, "10.0.0.1"},
		{"a space in the string", []string{`for=6.6.6.6, for=" 203.0.113.50"`}, "10.0.0.1"},
		{"an address as X-Forwarded-For has it", []string{`6.6.6.6, 203.0.113.50`}, "10.0.0.1"},

		// Malformed
		{"for twice", []string{`for=6.6.6.6, for=203.0.113.50;for=203.0.113.51`}, "10.0.0.1"},
		{"for twice, alike", []string{`for=203.0.113.50;for=203.0.113.50`}, "10.0.0.1"},
		{"for twice but for case", []string{`for=203.0.113.50;proto=http;For="203.0.113.51"`}, "10.0.0.1"},
		{"for twice, first empty", []string{`for="";for=203.0.113.50`}, "10.0.0.1"},
		{"for twice, then empty", []string{`for=203.0.113.50;for=""`}, "10.0.0.1"},
		{"a string that does not end", []string{`for=6.6.6.6, for="203.0.113.50`}, "10.0.0.1"},
		{"a string that does not begin", []string{`for=6.6.6.6, for=203.0.113.50"`}, "10.0.0.1"},
		{"a string of which the last quote is escaped", []string{`for=6.6.6.6, for="203.0.113.50\"`}, "10.0.0.1"},
		{"a string that is one quote", []string{`for=6.6.6.6, for=203.0.113.50;host="`}, "10.0.0.1"},
		{"something behind a string", []string{`for="203.0.113.50"x`}, "10.0.0.1"},
		{"something before a string", []string{`for=x"203.0.113.50"`}, "10.0.0.1"},
		{"a string behind a string", []string{`for="203.0.113.50""x"`}, "10.0.0.1"},
		{"a quote in a string", []string{`for=203.0.113.50;host="a"b"`}, "10.0.0.1"},
		{"two strings in one", []string{`for=203.0.113.50;host="a""b"`}, "10.0.0.1"},
		{"an escaped string", []string{`for=\"203.0.113.50\"`}, "10.0.0.1"},
		{"two addresses", []string{`for=203.0.113.50 203.0.113.51`}, "10.0.0.1"},
		{"a space before =", []string{`for =203.0.113.50`}, "10.0.0.1"},
		{"a space behind =", []string{`for= 203.0.113.50`}, "10.0.0.1"},
		{"a name in quotes", []string{`"for"=203.0.113.50`}, "10.0.0.1"},
		{"no name", []string{`for=203.0.113.50;=x`}, "10.0.0.1"},
		{"no value", []string{`for=203.0.113.50;proto`}, "10.0.0.1"},
		{"a value of two words", []string{`for=203.0.113.50;proto=ht tp`}, "10.0.0.1"},
		{"a name of two words", []string{`for=203.0.113.50;pro to=http`}, "10.0.0.1"},
		{"a name with a colon", []string{`for=203.0.113.50;a:b=http`}, "10.0.0.1"},
		{"a value with =", []string{`for=203.0.113.50;a=b=c`}, "10.0.0.1"},
		{"a character that no token has", []string{`for=203.0.113.50;a=é`}, "10.0.0.1"},

		// Size
		{"10 KB of junk", []string{strings.Repeat("x", 10_000)}, "10.0.0.1"},
		{"10 KB of commas", []string{strings.Repeat(",", 10_000)}, "10.0.0.1"},
		{"10 KB of semicolons", []string{strings.Repeat(";", 10_000) + "for=203.0.113.50"}, "203.0.113.50"},
		{"10 KB of quotes", []string{strings.Repeat(`"`, 10_000) + ",for=203.0.113.50"}, "203.0.113.50"},
		{"10 KB of quotes at the deciding hop", []string{"for=203.0.113.50," + strings.Repeat(`"`, 10_000)}, "10.0.0.1"},
		{"10 KB of backslashes", []string{`for=203.0.113.50;host="` + strings.Repeat(`\`, 10_000) + `"`}, "203.0.113.50"},
		{"10 KB of backslashes and one", []string{`for=203.0.113.50;host="` + strings.Repeat(`\`, 10_001) + `"`}, "10.0.0.1"},
		{"10 KB of proxies", []string{"for=203.0.113.50" + strings.Repeat(",for=10.0.0.2", 1_000)}, "203.0.113.50"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := newClientIPResolver(Options{TrustedProxies: testProxies, ProxyHeader: Forwarded})(elements("10.0.0.1:80", c.lines...))
			if got != c.want || err != nil {
				t.Errorf("Forwarded %q: got %q, %v; want %q", c.lines, got, err, c.want)
			}
		})
	}
}

// What a client sends is here every sequence of up to five pieces that could do harm: 200,000 headers.
func TestNoHeaderThatAClientCanComposeChoosesTheClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		field         ProxyHeader
		pieces        []string
		first, second string // what the proxies append
		request       func(remote string, lines ...string) *http.Request
	}{
		{"X-Forwarded-For", XForwardedFor, []string{`6.6.6.6`, `10.0.0.3`, `,`, ` `, `[`, `:1`, `"`},
			`203.0.113.50`, `[::ffff:10.0.0.2]:80`, forwarded},
		{"Forwarded", Forwarded, []string{`for=`, `6.6.6.6`, `,`, `;`, `a="`, `"`, `\`},
			`for="203.0.113.50:80";host=", for=6.6.6.6;a=\""`, `by="";for=10.0.0.2`, elements},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			resolve := newClientIPResolver(Options{TrustedProxies: testProxies, ProxyHeader: c.field})
			compose(c.pieces, 5, func(sent string) {
				for _, lines := range behind(sent, c.first, c.second) {
					if got, err := resolve(c.request("10.0.0.1:80", lines...)); got != "203.0.113.50" || err != nil {
						t.Fatalf("%q: got %q, %v", lines, got, err)
					}
				}
			})
		})
	}
}

// compose makes every sequence of up to n pieces.
func compose(pieces []string, n int, do func(string)) {
	var add func(string, int)
	add = func(text string, n int) {
		do(text)
		if n == 0 {
			return
		}
		for _, piece := range pieces {
			add(text+piece, n-1)
		}
	}
	add("", n)
}

// FuzzForwarded: whatever a client sends in Forwarded, and whatever of its
// choice a proxy puts in quotes beside for, the client is the hop that the
// proxies tell.
func FuzzForwarded(f *testing.F) {
	for _, seed := range [][2]string{
		{`for=6.6.6.6`, `example.com`},
		{`for="1.2.3.4`, `a,for=6.6.6.6`},
		{`for=6.6.6.6;host="`, `";for=6.6.6.6;x="`},
		{`for=6.6.6.6;host="\`, `\", for=6.6.6.6, for=10.0.0.3;x=\"`},
		{`",for=10.0.0.3`, `\`},
		{``, ``},
	} {
		f.Add(seed[0], seed[1])
	}
	resolve := newClientIPResolver(Options{TrustedProxies: testProxies, ProxyHeader: Forwarded})

	f.Fuzz(func(t *testing.T, sent, host string) {
		mustBe := func(remote string, lines []string, want string) {
			t.Helper()
			if got, err := resolve(elements(remote, lines...)); got != want || err != nil {
				t.Errorf("%s sends %q: got %q, %v; want %q", remote, lines, got, err, want)
			}
		}
		host = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(host) + `"`
		inner := `By="_x";FOR="10.0.0.2:4711";host=` + host
		for _, c := range []struct{ outer, client string }{
			{"for=203.0.113.50", "203.0.113.50"},
			{"host=" + host + ";for=203.0.113.50", "203.0.113.50"},
			{`for="[2001:db8:1:2::6]:_x";host=` + host, "2001:db8:1:2::/64"},
			{"for=unknown;host=" + host, "10.0.0.2"},
			{"host=" + host, "10.0.0.2"},
		} {
			for _, lines := range behind(sent, c.outer, inner) {
				mustBe("10.0.0.1:80", lines, c.client)
				mustBe("203.0.113.9:80", lines, "203.0.113.9")
			}
		}
		mustBe("203.0.113.9:80", []string{sent}, "203.0.113.9")
	})
}

// The grammar, to be read from the left. It is that of RFC 7239, section 4,
// with spaces around pairs, and with the characters of addresses in a value.
var (
	grammarToken   = "[-!#$%&'*+.^_`|~0-9A-Za-z]+"
	grammarValue   = "(?:[-!#$%&'*+.^_`|~0-9A-Za-z:\\[\\]]+" + `|"(?:[^"\\]|\\.)*")`
	grammarPair    = "(?:" + grammarToken + "=" + grammarValue + ")?"
	grammarElement = `[ \t]*` + grammarPair + `[ \t]*(?:;[ \t]*` + grammarPair + `[ \t]*)*`

	wholeList    = regexp.MustCompile(`(?s)^` + grammarElement + `(?:,` + grammarElement + `)*$`)
	wholeElement = regexp.MustCompile(`(?s)^` + grammarElement + `$`)
	firstElement = regexp.MustCompile(`(?s)^` + grammarElement)
	eachPair     = regexp.MustCompile(`(?s)(` + grammarToken + `)=(` + grammarValue + `)`)
	wholeToken   = regexp.MustCompile(`^` + grammarToken + `$`)
	escape       = regexp.MustCompile(`(?s)\\(.)`)
)

func TestForwardedIsTheSameFromEitherSide(t *testing.T) {
	t.Parallel()
	compose([]string{`for=`, `192.0.2.1`, `,`, ` ;`, `a="`, `"`, `\`}, 5, func(list string) { isTheSameFromEitherSide(t, list) })
}

func FuzzForwardedGrammar(f *testing.F) {
	for _, seed := range []string{
		`for=192.0.2.60;proto=http;by=203.0.113.43`,
		`for=192.0.2.43, For="[2001:db8:cafe::17]:4711";host="a,;\"b\\"`,
		`for="_gazonk", for=unknown;;, ;for="192.0.2.1:_x" `,
		`for="192.0.2.43, for="1.2.3.4";for=""`,
		`for=\"1.2.3.4\", "for"="\1.2.3.4"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(isTheSameFromEitherSide)
}

// isTheSameFromEitherSide: read from the right, a list has the elements that it
// has from the left, and an element that is malformed names nobody.
func isTheSameFromEitherSide(t *testing.T, list string) {
	t.Helper()
	var fromRight []string
	for rest, more := list, true; more; {
		var element string
		rest, element, more = cutLastElement(rest)
		fromRight = append(fromRight, element)
	}
	slices.Reverse(fromRight)
	if strings.Join(fromRight, ",") != list {
		t.Fatalf("%q came apart as %q", list, fromRight)
	}

	if wholeList.MatchString(list) {
		var fromLeft []string
		for rest, more := list, true; more; {
			element := firstElement.FindString(rest)
			fromLeft = append(fromLeft, element)
			rest, more = strings.CutPrefix(rest[len(element):], ",")
		}
		if !slices.Equal(fromRight, fromLeft) {
			t.Fatalf("%q: %q from the right, %q from the left", list, fromRight, fromLeft)
		}
	}

	for _, element := range fromRight {
		got, ok := forwardedFor(strings.Trim(element, " \t"))
		if want, wantOK := grammarFor(element); got != want || ok != wantOK {
			t.Errorf("%q: got %v, %v; want %v, %v", element, got, ok, want, wantOK)
		}
	}
}

// grammarFor is forwardedFor by the grammar.
func grammarFor(element string) (netip.Addr, bool) {
	if !wholeElement.MatchString(element) {
		return netip.Addr{}, false
	}
	var nodes []string
	for _, pair := range eachPair.FindAllStringSubmatch(element, -1) {
		if strings.EqualFold(pair[1], "for") {
			nodes = append(nodes, pair[2])
		}
	}
	if len(nodes) != 1 {
		return netip.Addr{}, false
	}
	node := nodes[0]
	if node[0] == '"' {
		node = escape.ReplaceAllString(node[1:len(node)-1], "$1")
	}
	address, port, hidden := strings.Cut(node, ":_")
	if hidden && !wholeToken.MatchString(port) {
		return netip.Addr{}, false
	}
	return parseHop(address)
}

// elements is a request from a peer with some lines of Forwarded.
func elements(remote string, lines ...string) *http.Request {
	return &http.Request{RemoteAddr: remote, Header: http.Header{"Forwarded": lines}}
}
