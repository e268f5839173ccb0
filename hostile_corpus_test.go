package sash_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/sashlimit/sash/keyexpr"
)

// A trick is a request of a hostile client, or one of an honest client for comparison.
type trick struct {
	name   string
	line   string // method and target
	fields string // header fields, a line each
	body   string

	refused bool // whoever reads the body cannot be sure of it: nothing is sent
}

func (tr trick) request() *http.Request {
	method, target, _ := strings.Cut(tr.line, " ")
	r := httptest.NewRequest(method, target, strings.NewReader(tr.body))
	for field := range strings.Lines(tr.fields) {
		name, value, _ := strings.Cut(strings.TrimSuffix(field, "\n"), ": ")
		r.Header.Add(name, value)
	}
	return r
}

const (
	asJSON      = "Content-Type: application/json"
	asForm      = "Content-Type: application/x-www-form-urlencoded"
	asMultipart = "Content-Type: multipart/form-data; boundary=b"

	refused = true
)

func tricks() []trick {
	return slices.Concat(jsonTricks(), declaredTricks(), formTricks(), multipartTricks(), otherTricks())
}

// jsonTricks are about the text of a JSON document.
func jsonTricks() []trick {
	var all []trick
	for _, row := range []struct {
		name, body string
		refused    bool
	}{
		{"an honest body", `{"email":"me@x.org"}`, false},
		{"an honest body with an object", `{"desk":{"email":"me@x.org"}}`, false},
		{"the member twice", `{"email":"me@x.org","email":"victim@x.org"}`, refused},
		{"the member twice, with the same value", `{"email":"me@x.org","email":"me@x.org"}`, refused},
		{"null and then a value", `{"email":null,"email":"victim@x.org"}`, refused},
		{"a value and then null", `{"email":"victim@x.org","email":null}`, refused},
		{"EMAIL beside email", `{"email":"me@x.org","EMAIL":"victim@x.org"}`, refused},
		{"Email before email", `{"Email":"victim@x.org","email":"me@x.org"}`, refused},
		{"eMail alone", `{"eMail":"victim@x.org"}`, refused},
		{"an escaped name", `{"email":"me@x.org","\u0065mail":"victim@x.org"}`, refused},
		{"an escaped name in another case", `{"email":"me@x.org","\u0045MAIL":"victim@x.org"}`, refused},
		{"an escaped name alone", `{"\u0065\u006d\u0061\u0069\u006c":"me@x.org"}`, false},
		{"a name with a dotless i", `{"email":"me@x.org","ema` + "\u0131" + `l":"victim@x.org"}`, false},
		{"a name with a dotted capital I", `{"email":"me@x.org","EMA` + "\u0130" + `L":"victim@x.org"}`, false},
		{"a name with a zero-width space", `{"email":"me@x.org","email` + "\u200b" + `":"victim@x.org"}`, false},
		{"a name that ends in NUL", `{"email":"me@x.org","email\u0000":"victim@x.org"}`, false},
		{"a name with half a surrogate pair", `{"email":"me@x.org","email\ud800":"victim@x.org"}`, false},
		{"an object twice", `{"desk":{"email":"me@x.org"},"desk":{"email":"victim@x.org"}}`, refused},
		{"an object with a long s", `{"desk":{"email":"me@x.org"},"de` + "\u017f" + `k":{"email":"victim@x.org"}}`, refused},
		{"an object with the sign of Kelvin", `{"desk":{"email":"me@x.org"},"DES` + "\u212a" + `":{"email":"victim@x.org"}}`, refused},
		{"the member twice in an object", `{"desk":{"email":"me@x.org","Email":"victim@x.org"}}`, refused},
		{"the member in another object", `{"x":{"email":"victim@x.org"},"email":"me@x.org"}`, false},
		{"the member in a string", `{"x":"\",\"email\":\"victim@x.org\"","email":"me@x.org"}`, false},
		{"a second document", `{"email":"me@x.org"}{"email":"victim@x.org"}`, refused},
		{"a second document on a line of its own", `{"email":"me@x.org"}` + "\n" + `{"email":"victim@x.org"}`, refused},
		{"garbage behind", `{"email":"me@x.org"} x`, refused},
		{"a bracket too many", `{"email":"me@x.org"}}`, refused},
		{"NUL behind", `{"email":"me@x.org"}` + "\x00", refused},
		{"a byte order mark", "\ufeff" + `{"email":"me@x.org"}`, refused},
		{"space around", " \r\n\t" + `{ "email" : "me@x.org" } ` + "\n", false},
		{"another kind of space", "\u00a0" + `{"email":"me@x.org"}`, refused},
		{"comments", `{/*"email":"me@x.org"*/"email":"victim@x.org"}`, refused},
		{"a comma too many", `{"email":"me@x.org",}`, refused},
		{"single quotes", `{'email':'me@x.org'}`, refused},
		{"a document cut short", `{"email":"me@x.org`, refused},
		{"nothing but space", "  ", refused},
		{"no body", "", refused},
		{"a list around", `[{"email":"me@x.org"}]`, refused},
		{"text alone", `"email"`, refused},
		{"null alone", `null`, refused},
		{"the e-mail is a number", `{"email":12345}`, false},
		{"the e-mail is -0", `{"email":-0}`, false},
		{"the e-mail is 1e400", `{"email":1e400}`, refused},
		{"the e-mail is a fraction", `{"email":0.1}`, refused},
		{"the e-mail is true", `{"email":true}`, false},
		{"the e-mail is null", `{"email":null}`, refused},
		{"the e-mail is empty", `{"email":""}`, refused},
		{"the e-mail is space", `{"email":" \t"}`, false},
		{"the e-mail is a list", `{"email":["victim@x.org"]}`, false},
		{"the e-mail is a list of two", `{"email":["me@x.org","victim@x.org"]}`, false},
		{"the e-mail is an empty list", `{"email":[]}`, refused},
		{"the e-mail is a list of 12 000", `{"email":[` + strings.Repeat("1000,", 12_000) + `0]}`, refused},
		{"the e-mail is a list of 20 000 objects", `{"email":[` + strings.Repeat("{},", 20_000) + `0]}`, refused},
		{"the e-mail is 60 levels deep, and wide", `{"email":` + strings.Repeat(`[{"a":`, 30) + "[" + strings.Repeat("1,", 30_000) + "0]" + strings.Repeat("}]", 30) + `}`, refused},
		{"the e-mail is an object", `{"email":{"email":"victim@x.org"}}`, refused},
		{"the e-mail is escaped", `{"email":"\u006d\u0065@x\u002eorg"}`, false},
		{"control characters in the e-mail", `{"email":"me@x.org\u0000\r\n\u007f"}`, false},
		{"a raw NUL in the e-mail", `{"email":"me@x.org` + "\x00" + `"}`, refused},
		{"a raw line end in the e-mail", `{"email":"me@x.org` + "\n" + `"}`, refused},
		{"half a surrogate pair in the e-mail", `{"email":"me\ud800@x.org"}`, refused},
		{"the halves of a pair in the wrong order", `{"email":"me\udc00\ud800@x.org"}`, refused},
		{"a surrogate pair in the e-mail", `{"email":"me\ud83d\ude00@x.org"}`, false},
		{"the replacement character in the e-mail", `{"email":"me` + "\ufffd" + `@x.org"}`, refused},
		{"invalid UTF-8 in the e-mail", `{"email":"me` + "\xff" + `@x.org"}`, refused},
		{"overlong UTF-8 in the e-mail", `{"email":"me` + "\xc0\xae" + `@x.org"}`, refused},
		{"invalid UTF-8 elsewhere", `{"x":"` + "\xff" + `","email":"me@x.org"}`, refused},
		{"invalid UTF-8 in a name", `{"email` + "\xff" + `":"victim@x.org","email":"me@x.org"}`, refused},
		{"UTF-16", "{\x00\"\x00e\x00m\x00a\x00i\x00l\x00\"\x00:\x00\"\x00m\x00e\x00\"\x00}\x00", refused},
		{"64 levels", `{"email":"me@x.org","x":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`, false},
		{"65 levels", `{"email":"me@x.org","x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, refused},
		{"20 000 levels", `{"email":"me@x.org","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, refused},
		{"100 000 open brackets", strings.Repeat("[", 100_000), refused},
		{"5 000 other members", `{` + strings.Repeat(`"x":0,`, 5_000) + `"email":"me@x.org"}`, false},
		{"1 000 000 other members", `{` + strings.Repeat(`"x":0,`, 1_000_000) + `"email":"me@x.org"}`, refused},
		{"an e-mail of 1 MB", `{"email":"` + strings.Repeat("x", 1<<20) + `"}`, refused},
		{"an e-mail of 60 KB", `{"email":"` + strings.Repeat("x", 60_000) + `"}`, false},
		{"a body as large as may be", padded(keyexpr.DefaultMaxBodyBytes), false},
		{"a body of one byte more", padded(keyexpr.DefaultMaxBodyBytes + 1), refused},
	} {
		all = append(all, trick{row.name, "POST /", asJSON, row.body, row.refused})
	}
	return all
}

// padded is an honest body of so many bytes.
func padded(size int) string {
	const body = `{"email":"me@x.org"}`
	return body + strings.Repeat(" ", size-len(body))
}

// declaredTricks are about what a request says its body is.
func declaredTricks() []trick {
	const (
		me     = `{"email":"me@x.org"}`
		either = `{"email":"me@x.org","x":"&email=victim@x.org&mail=victim@x.org&"}` // a form too
	)
	bomb := zipped(strings.Repeat(" ", 1<<20) + me)
	return []trick{
		{"JSON that says nothing of itself", "POST /", "", me, false},
		{"JSON that is declared as a form, as curl does", "POST /", asForm, me, false},
		{"JSON that is declared as text, as a browser does", "POST /", "Content-Type: text/plain;charset=UTF-8", me, false},
		{"JSON of another charset", "POST /", asJSON + "; charset=utf-16", me, false},
		{"a form that is JSON as well", "POST /", asForm, either, false},
		{"a form that is JSON as well, by PUT", "PUT /", asForm, either, false},
		{"a form that is JSON as well, in capitals", "POST /", "Content-Type: APPLICATION/X-WWW-FORM-URLENCODED; x", either, false},
		{"JSON with a form in it", "POST /", asJSON, either, false},
		{"JSON and a query", "POST /?email=victim@x.org&mail=victim@x.org", asJSON, me, false},
		{"JSON that says nothing of itself, and a query", "POST /?email=victim@x.org&mail=victim@x.org", "", me, refused},
		{"JSON that is declared as text, and a query", "POST /?email=victim@x.org", "Content-Type: text/plain", me, refused},
		{"JSON that is declared as a form, and a query", "POST /?mail=victim@x.org", asForm, me, refused},
		{"JSON in capitals, and a query", "POST /?email=victim@x.org", "Content-Type: Application/JSON", me, refused},
		{"JSON of a kind, and a query", "POST /?email=victim@x.org", "Content-Type: application/vnd.api+json", me, refused},
		{"JSON with a broken parameter, and a query", "POST /?email=victim@x.org", asJSON + "; charset", me, refused},
		{"JSON with a tab behind, and a query", "POST /?email=victim@x.org", asJSON + "\t;", me, refused},
		{"a GET with JSON, and a query", "GET /?email=victim@x.org&mail=victim@x.org", asJSON, me, refused},
		{"a GET with JSON", "GET /", asJSON, me, false},
		{"JSON by DELETE", "DELETE /", asJSON, me, false},
		{"JSON and a method to put in the place of POST", "POST /?email=victim@x.org&_method=GET", asJSON + "\nX-HTTP-Method-Override: GET", me, false},
		{"JSON that is declared as multipart", "POST /?email=victim@x.org", asMultipart, me, refused},
		{"JSON that is declared as YAML", "POST /", "Content-Type: application/x-yaml", `{"email":"me@x.org","mail":"victim@x.org"}`, refused},
		{"JSON that is declared as XML", "POST /", "Content-Type: text/xml", me, refused},
		{"JSON that is declared as protobuf", "POST /", "Content-Type: application/x-protobuf", me, refused},
		{"JSON that is declared as nonsense", "POST /?email=victim@x.org", "Content-Type: ;;;", me, refused},
		{"JSON that is declared twice", "POST /?email=victim@x.org", asForm + "\n" + asJSON, me, refused},
		{"gzip", "POST /", asJSON + "\nContent-Encoding: gzip", zipped(me), refused},
		{"gzip that does not say so", "POST /", asJSON, zipped(me), refused},
		{"a gzip bomb", "POST /", asJSON + "\nContent-Encoding: gzip", bomb, refused},
		{"JSON that calls itself compressed", "POST /", asJSON + "\nContent-Encoding: deflate", me, refused},
		{"JSON that calls itself compressed in a second line", "POST /", asJSON + "\nContent-Encoding: identity\nContent-Encoding: x-gzip", me, refused},
		{"a form that calls itself compressed", "POST /", asForm + "\nContent-Encoding: br", "email=me@x.org", refused},
		{"JSON that calls itself not compressed", "POST /", asJSON + "\nContent-Encoding: identity", me, false},
	}
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// formTricks are about urlencoded forms and queries.
func formTricks() []trick {
	return []trick{
		{"an honest form", "POST /", asForm, "email=me%40x.org", false},
		{"a field twice", "POST /", asForm, "email=me@x.org&email=victim@x.org", refused},
		{"a field twice, with the same value", "POST /", asForm, "email=me@x.org&email=me%40x.org", false},
		{"an empty field and another", "POST /", asForm, "email=&email=victim@x.org", refused},
		{"a field that the query has too", "POST /?email=victim@x.org", asForm, "email=me@x.org", refused},
		{"a field that the query has too, with the same value", "POST /?email=me%40x.org", asForm, "email=me@x.org", false},
		{"a field that only the query has", "POST /?email=me@x.org", asForm, "mail=victim@x.org", false},
		{"a field in capitals", "POST /", asForm, "email=me@x.org&EMAIL=victim@x.org", false},
		{"a field of a list", "POST /", asForm, "email=me@x.org&email[]=victim@x.org&email[0]=victim@x.org&email.0=victim@x.org", false},
		{"an escaped name", "POST /", asForm, "email=me@x.org&%65mail=victim@x.org", refused},
		{"semicolons", "POST /", asForm, "email=me@x.org;email=victim@x.org", refused},
		{"a semicolon in another field", "POST /", asForm, "x=1;2&email=me@x.org", refused},
		{"a broken escape", "POST /", asForm, "email=%zz&email=victim@x.org", refused},
		{"a broken escape elsewhere", "POST /", asForm, "email=me@x.org&x=%", refused},
		{"NUL in a field", "POST /", asForm, "email=me@x.org%00", false},
		{"invalid UTF-8 in a field", "POST /", asForm, "email=me%ff@x.org", false},
		{"a form of another charset", "POST /", asForm + "; charset=utf-16", "email=me@x.org", false},
		{"a charset in a field", "POST /", asForm, "_charset_=utf-7&email=me@x.org", false},
		{"a form with a broken parameter", "POST /?email=victim@x.org", asForm + "; charset", "email=me@x.org", refused},
		{"a form that says nothing of itself", "POST /", "", "email=me@x.org", refused},
		{"a form that is declared as text", "POST /", "Content-Type: text/plain", "email=me@x.org", refused},
		{"a form by DELETE", "DELETE /?email=victim@x.org", asForm, "email=me@x.org", refused},
		{"a form by GET", "GET /?email=victim@x.org", asForm, "email=me@x.org", refused},
		{"a form by PATCH", "PATCH /", asForm, "email=me@x.org", false},
		{"20 000 fields", "POST /", asForm, strings.Repeat("a&", 20_000) + "email=me@x.org", refused},
		{"a form over the cap", "POST /", asForm, "email=me@x.org&x=" + strings.Repeat("x", keyexpr.DefaultMaxBodyBytes), refused},

		{"an honest query", "GET /?email=me@x.org", "", "", false},
		{"a query with a name twice", "GET /?email=me@x.org&email=victim@x.org", "", "", false},
		{"a query with an escaped name", "GET /?email=me@x.org&e%6Dail=victim@x.org", "", "", false},
		{"a query with lists", "GET /?email[]=victim@x.org&email=me@x.org&email[0]=victim@x.org", "", "", false},
		{"a query in capitals", "GET /?Email=victim@x.org&email=me@x.org", "", "", false},
		{"a query with a semicolon", "GET /?email=me@x.org;email=victim@x.org", "", "", false},
		{"a query with a broken escape", "GET /?email=%zz&email=victim@x.org", "", "", false},
		{"a query with NUL and a line end", "GET /?email=me@x.org%00%0a", "", "", false},
		{"a query with an escaped ampersand", "GET /?email=me@x.org%26email=victim@x.org", "", "", false},
		{"a query with plus signs", "GET /?email=me+you@x.org", "", "", false},
		{"a query with an empty value", "GET /?email=", "", "", false},
		{"a query with question marks", "GET /??email=victim@x.org&email=me@x.org", "", "", false},
		{"a query of 20 000 names", "GET /?" + strings.Repeat("a&", 20_000) + "email=me@x.org", "", "", false},
		{"a query by POST", "POST /?email=me@x.org", "", "", false},
		{"a query by HEAD", "HEAD /?email=me@x.org", "", "", false},
	}
}

// multipartTricks are about multipart forms.
func multipartTricks() []trick {
	field := func(disposition, value string) string {
		return "--b\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + value + "\r\n"
	}
	const (
		me  = "--b\r\nContent-Disposition: form-data; name=\"email\"\r\n\r\nme@x.org\r\n"
		end = "--b--\r\n"
	)
	return []trick{
		{"an honest multipart form", "POST /", asMultipart, me + end, false},
		{"two parts of one name", "POST /", asMultipart, me + field(`name="email"`, "victim@x.org") + end, refused},
		{"two parts of one name and value", "POST /", asMultipart, me + me + end, false},
		{"a part that the query has too", "POST /?email=victim@x.org", asMultipart, me + end, refused},
		{"a part that the query has too, by DELETE", "DELETE /?email=victim@x.org", asMultipart, me + end, refused},
		{"a part that the query has too, in capitals", "POST /?email=victim@x.org", "Content-Type: Multipart/Form-Data; boundary=b", me + end, refused},
		{"a file of that name", "POST /?email=victim@x.org", asMultipart, field(`name="email"; filename="x"`, "me@x.org") + end, refused},
		{"a file and a part of one name", "POST /", asMultipart, field(`name="email"; filename="x"`, "victim@x.org") + me + end, false},
		{"a file without a name", "POST /", asMultipart, field(`name="email"; filename=""`, "me@x.org") + end, false},
		{"a part of two names", "POST /", asMultipart, field(`name="email"; name="x"`, "me@x.org") + end, false},
		{"a part of an extended name", "POST /", asMultipart, field(`name="x"; name*=utf-8''email`, "victim@x.org") + me + end, false},
		{"a part of a name without quotes", "POST /", asMultipart, field(`name=email`, "me@x.org") + end, false},
		{"a part in another multipart", "POST /", asMultipart,
			"--b\r\nContent-Disposition: form-data; name=\"x\"\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Disposition: form-data; name=\"email\"\r\n\r\nvictim@x.org\r\n--c--\r\n" + me + end, false},
		{"a part that is quoted-printable", "POST /", asMultipart,
			"--b\r\nContent-Disposition: form-data; name=\"email\"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nm=65@x.org\r\n" + end, false},
		{"a part that is base64", "POST /", asMultipart,
			"--b\r\nContent-Disposition: form-data; name=\"email\"\r\nContent-Transfer-Encoding: base64\r\n\r\nbWVAeC5vcmc=\r\n" + end, false},
		{"parts before and behind", "POST /", asMultipart, "email=victim@x.org\r\n" + me + end + field(`name="email"`, "victim@x.org"), false},
		{"no boundary", "POST /?email=victim@x.org", "Content-Type: multipart/form-data", me + end, refused},
		{"an empty boundary", "POST /?email=victim@x.org", `Content-Type: multipart/form-data; boundary=""`, strings.ReplaceAll(me+end, "--b", "--"), refused},
		{"two boundaries", "POST /?email=victim@x.org", asMultipart + "; boundary=c", me + end, refused},
		{"another boundary", "POST /?email=victim@x.org", "Content-Type: multipart/form-data; boundary=c", me + end, refused},
		{"a boundary in quotes", "POST /", `Content-Type: multipart/form-data; boundary="b"`, me + end, false},
		{"multipart/mixed", "POST /?email=victim@x.org", "Content-Type: multipart/mixed; boundary=b", me + end, refused},
		{"line ends without carriage return", "POST /", asMultipart, strings.ReplaceAll(me+end, "\r", ""), false},
		{"a multipart form cut short", "POST /?email=victim@x.org", asMultipart, me, refused},
		{"a part of 50 KB of header", "POST /", asMultipart,
			"--b\r\nX: " + strings.Repeat("x", 50_000) + "\r\n" + strings.TrimPrefix(me, "--b\r\n") + end, false},
		{"1 200 parts", "POST /", asMultipart, strings.Repeat("--b\r\nA: b\r\n\r\n\r\n", 1_200) + me + end, refused},
		{"JSON in a part", "POST /", asMultipart, field(`name="x"`, `{"email":"victim@x.org"}`) + me + end, false},
	}
}

// otherTricks are about header fields and cookies.
func otherTricks() []trick {
	return []trick{
		{"an honest field", "GET /", "X-Email: me@x.org", "", false},
		{"a field in two lines", "GET /", "X-Email: me@x.org\nX-Email: victim@x.org", "", false},
		{"a field that is empty at first", "GET /", "X-Email: \nX-Email: victim@x.org", "", false},
		{"a list in a field", "GET /", "X-Email: me@x.org, victim@x.org", "", false},
		{"an honest cookie", "GET /", "Cookie: email=me@x.org", "", false},
		{"a cookie twice", "GET /", "Cookie: email=me@x.org; email=victim@x.org", "", false},
		{"a cookie in two lines", "GET /", "Cookie: email=me@x.org\nCookie: email=victim@x.org", "", false},
		{"a cookie in quotes", "GET /", `Cookie: email="me@x.org"`, "", false},
		{"a cookie with one quote", "GET /", `Cookie: email="victim@x.org; email=me@x.org`, "", false},
		{"a cookie with an escape", "GET /", "Cookie: email=m%65@x.org", "", false},
		{"a cookie with a broken escape", "GET /", "Cookie: email=m%6@x.org", "", false},
		{"a cookie with a plus sign", "GET /", "Cookie: email=me+you@x.org", "", false},
		{"a cookie in capitals", "GET /", "Cookie: EMAIL=victim@x.org; email=me@x.org", "", false},
		{"a cookie with space around", "GET /", "Cookie:  email = me@x.org ;", "", false},
		{"a cookie with bytes that none has", "GET /", "Cookie: email=v\\ictim@x.org; email=me@x.org", "", false},
		{"4 000 cookies", "GET /", "Cookie: " + strings.Repeat("a=b; ", 4_000) + "email=me@x.org", "", false},
	}
}
