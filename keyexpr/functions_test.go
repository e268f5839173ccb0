package keyexpr_test

import (
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sashlimit/sash/keyexpr"
)

func TestSpellingsOfOneMailbox(t *testing.T) {
	t.Parallel()
	for name, spelling := range map[string]string{
		"as it is":             "bob.o+tag@example.com",
		"upper case":           "BOB.O+TAG@EXAMPLE.COM",
		"space around":         " \t bob.o+tag@example.com\r\n",
		"no-break space":       "\u00a0bob.o+tag@example.com",
		"full-width letters":   "ｂｏｂ.o+tag@ｅｘａｍｐｌｅ.com",
		"full-width at":        "bob.o+tag＠example.com",
		"full-width dots":      "bob．o+tag@example．com",
		"ideographic stop":     "bob.o+tag@example。com",
		"half-width stop":      "bob.o+tag@example｡com",
		"mathematical letters": "𝐛𝐨𝐛.o+tag@example.com",
		"a ligature of digits": "bob.o+tag@example.ⓒⓞⓜ",
	} {
		t.Run(name, func(t *testing.T) {
			wantKey(t, "email(vars.e)", with(map[string]any{"e": spelling}), "bob.o+tag@example.com")
		})
	}
	wantKey(t, "email(vars.e)", with(map[string]any{"e": "Jose\u0301@example.com"}), "jos\u00e9@example.com")
	wantKey(t, "email(vars.e)", with(map[string]any{"e": "6888@localhost"}), "6888@localhost")
}

// The mapping of domains, UTS #46, folds more than lower case does.
func TestLettersThatDifferButForCaseInADomain(t *testing.T) {
	t.Parallel()
	for spelling, want := range map[string]string{
		"a@п\u1c82ч\u1c84а.рф": "a@почта.рф", // small letters of another shape
		"a@\u1fb3.gr":          "a@αι.gr",
		"a@α\u0345.gr":         "a@αι.gr", // a mark whose capital is a letter
		"a@ΑΙ.gr":              "a@αι.gr",
		"a@Ὀδυσσεύς.gr":        "a@ὀδυσσεύσ.gr",
		"a@ὈΔΥΣΣΕΎΣ.gr":        "a@ὀδυσσεύσ.gr",
		"a@straße.de":          "a@straße.de",
		"a@\u13a0.us":          "a@\uab70.us", // Cherokee
	} {
		wantKey(t, "email(vars.e)", with(map[string]any{"e": spelling}), want)
	}
}

func TestWhatIsNoEmail(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"@", "bob", "bob@", "@example.com", "a@b@c", "bob@example.com@", "bob smith@example.com", "bob@exam ple.com",
		"bob@example.com\x00", "bob\n@example.com", "bo\u200bb@example.com", "bob@example\u00ad.com", "\ufeffbob@example.com", "bob@example.com\u202e",
		"Bob <bob@example.com>", "<bob@example.com>", "bob@example.com(hi)", `"bob"@example.com`, "a@b.c,d@e.f", "a@b.c;d@e.f",
		"bob@[192.0.2.1]", "bob@.com", "bob@example..com", "bob@example.com.", "bob\xff@example.com", "bob\ufffd@example.com",
		"bob@exam\ufe0fple.com", "bob@exam\u034fple.com", "bob@exam\u180bple.com", "bob@exam\U000e0100ple.com", "bob\u3164@example.com",
		strings.Repeat("a", 250) + "@b.cd", strings.Repeat("a", 5000) + "@b.c",
	} {
		wantFault(t, "email(vars.e)", with(map[string]any{"e": text}), keyexpr.Malformed, "vars.e",
			`The value "e" of the request is not an e-mail address.`)
	}
	wantFault(t, "email(vars.e)", with(map[string]any{"e": ""}), keyexpr.Malformed, "vars.e",
		`The value "e" of the request is not an e-mail address.`)
	wantFault(t, "email(vars.e)", with(map[string]any{"e": 1}), keyexpr.WrongType, "vars.e", `The value "e" of the request must be text.`)
}

// checkEmail holds for every text: canonical is canonical, in whatever case, and
// says nothing that does not show.
func checkEmail(t rapid.TB, p *keyexpr.Program, text string) {
	key, err := p.Key(with(map[string]any{"e": text}), nil)
	if err != nil {
		return
	}
	for _, spelling := range []string{key[0], strings.ToUpper(key[0]), " " + strings.ToLower(key[0]) + "\r\n"} {
		if again, err := p.Key(with(map[string]any{"e": spelling}), nil); err != nil || again[0] != key[0] {
			t.Fatalf("%q is %q, but %q is %q, %v", text, key[0], spelling, again, err)
		}
	}
	hidden := func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }
	if strings.Count(key[0], "@") != 1 || strings.ContainsAny(key[0], "<>,") || strings.ContainsFunc(key[0], hidden) || !utf8.ValidString(key[0]) {
		t.Fatalf("%q is %q", text, key[0])
	}
}

func TestEmailIsIdempotent(t *testing.T) {
	t.Parallel()
	p := compile(t, "email(vars.e)")
	rapid.Check(t, func(t *rapid.T) {
		checkEmail(t, p, rapid.String().Draw(t, "local")+"@"+rapid.StringMatching(`\PC{1,5}(\.\PC{1,5})?`).Draw(t, "domain"))
	})
}

// FuzzEmailNorm: whatever a client calls an address, it has one canonical
// spelling or none.
func FuzzEmailNorm(f *testing.F) {
	for _, seed := range []string{
		"Bob@Example.com", " ｂ＠ｃ。d ", "J\u030c@x", "\u0130@x", "\u1e9e@ß", "ﬃ@Ⅷ", "a\u0345@x", "\u03d2\u0301@x", "a@b\u0308.c",
		"a@\u1c82\u1fb3\u0345\u0301.gr", "ς@Σ", "a\ufe0f@b", "a\u0085@b", "a@b.c\x00", "\u13a0@\uab70", "ǅ@ı",
	} {
		f.Add(seed)
	}
	p := compile(f, "email(vars.e)")
	f.Fuzz(func(t *testing.T, text string) { checkEmail(t, p, text) })
}

func TestPrefixes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ expression, address, want string }{
		{"prefix(ip, 24)", "192.0.2.7", "192.0.2.0/24"},
		{"prefix(ip, 32)", "192.0.2.7", "192.0.2.7/32"},
		{"prefix(ip, 8)", "192.0.2.7", "192.0.0.0/8"},
		{"prefix(ip, 33)", "192.0.2.7", "192.0.2.7"},
		{"prefix(ip, 56)", "2001:db8:1:2ff::/64", "2001:db8:1:200::/56"},
		{"prefix(ip, 96)", "2001:db8:1:2ff::/64", "2001:db8:1:2ff::/64"},
		{"prefix(ip, 128)", "2001:db8::1", "2001:db8::1/128"},
		{"prefix(ip, 24)", "2001:db8:1:2ff::/64", "2001:db8:1:2ff::/64"},
		{"prefix(ip, 24)", "2001:DB8:0::1", "2001:db8::1"},
		{"prefix(ip, 24)", "fe80::1%eth0", "fe80::1"},
		{"prefix(ip, 64)", "fe80::1%eth0", "fe80::/64"},
		{"prefix(ip, 24)", "::ffff:192.0.2.7", "192.0.2.0/24"},
		{"prefix(prefix(ip, 24), 56)", "192.0.2.7", "192.0.2.0/24"},
		{"prefix(prefix(ip, 24), 56)", "2001:db8:1:2ff::/64", "2001:db8:1:200::/56"},
		{"prefix(prefix(ip, 16), 24)", "192.0.2.7", "192.0.0.0/16"},
		{"prefix(ip, route == \"\" ? 16 : 24)", "192.0.2.7", "192.0.0.0/16"},
	} {
		p := compileWith(t, row.expression, keyexpr.Config{ClientIP: func(*http.Request) (string, error) { return row.address, nil }})
		if key, err := p.Key(get("/"), nil); err != nil || key[0] != row.want {
			t.Errorf("%s of %s is %q, %v, want %s", row.expression, row.address, key, err, row.want)
		}
	}
	for _, text := range []string{"", "x", "192.0.2", "192.0.2.7/33", "192.0.2.7/", "192.0.2.7/24/8", "::ffff:192.0.2.7/120", "[::1]", "192.0.2.7:80"} {
		wantFault(t, `prefix(vars.a, 24)`, with(map[string]any{"a": text}), keyexpr.Malformed, "vars.a",
			`The value "a" of the request is not an IP address.`)
	}
}
