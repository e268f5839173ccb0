package keyexpr_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sashlimit/sash/keyexpr"
)

func TestValuesOfTheBody(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ expression, body, want string }{
		{"body.a", `{"a":"x"}`, "x"},
		{"body.a", " \t\r\n{ \"b\" : [ 1 , {\"a\":2} ] , \"a\" : \"x\" } \n", "x"},
		{"body.a", `{"b":"\\\"a\":\"y","a":"x"}`, "x"},
		{"body.a", `{"b":{"a":"y","a":"z"},"a":"x"}`, "x"},
		{"body.a", `{"\u0061":"\u0078"}`, "x"},
		{"body.a", `{"a":"\u0000\n\"\\"}`, "\x00\n\"\\"},
		{"body.a", `{"a":"\ud83d\ude00"}`, "😀"},
		{"body.a", `{"a":true}`, "true"},
		{"body.a", `{"a":1}`, "1"},
		{"body.a", `{"a":1.0}`, "1"},
		{"body.a", `{"a":1e0}`, "1"},
		{"body.a", `{"a":10e-1}`, "1"},
		{"body.a", `{"a":0.01E+2}`, "1"},
		{"body.a", `{"a":-0.0e9}`, "0"},
		{"body.a", `{"a":0e999}`, "0"},
		{"body.a", `{"a":9223372036854775807}`, "9223372036854775807"},
		{"body.a", `{"a":-9223372036854775808}`, "-9223372036854775808"},
		{"body.a", `{"a":9007199254740993.0}`, "9007199254740993"},
		{"body.a", `{"a":922337203685477580.7e1}`, "9223372036854775807"},
		{"body.a > 1.4 ? 1 : 2", `{"a":1.5}`, "1"},
		{"body.tags[1]", `{"tags":["a","b",{"c":[]}]}`, "b"},
		{"body[1].a", `[0,{"a":"x"}]`, "x"},
		{"body.a.b", `{"a":{"b":"x"}}`, "x"},
		{`body["a.b"]["c d"]`, `{"a.b":{"c d":"x"}}`, "x"},
		{`body[""]`, `{"":"x"}`, "x"},
		{`body["é"]`, `{"é":"x"}`, "x"},
		{"len(body.to)", `{"to":["a","b",{"c":[1]}]}`, "3"},
		{"len(body.o)", `{"o":{"a":1,"b":{}}}`, "2"},
		{"len(body.o)", `{"o":[]}`, "0"},
		{`"a" in body.o ? "yes" : "no"`, `{"o":{"a":1}}`, "yes"},
		{"body.a == 1 ? 1 : 2", `{"a":1.0}`, "1"},
		{"body.a", `{"deep":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `,"a":"x"}`, "x"},
		{"body.a", `{"s":"` + strings.Repeat("[", 99) + `","a":"x"}`, "x"},
	} {
		t.Run(row.expression+" of "+row.body, func(t *testing.T) { wantKey(t, row.expression, postJSON(row.body), row.want) })
	}
	wantKey(t, "body.to", postJSON(`{"to":["a",2,true]}`), "a", "2", "true")
}

func TestBodiesThatAreNoKey(t *testing.T) {
	t.Parallel()
	const (
		notJSON   = "The request body is not one valid JSON document."
		notUTF8   = "The request body is not UTF-8 text."
		deep      = "The request body is nested too deeply."
		ambiguous = `The member "email" of the request body is given more than once, or in another case.`
		large     = `The member "email" of the request body is a number too large or too precise to count by.`
		unicode   = `The member "email" of the request body is not valid Unicode.`
		countable = `The member "email" of the request body must be text, a whole number, true or false, or a list of those.`
		held      = `The member "email" of the request body cannot be reached: what holds it has another type.`
	)
	for _, row := range []struct {
		name, body string
		problem    keyexpr.Problem
		detail     string
	}{
		{"two of the same name", `{"email":"a","email":"b"}`, keyexpr.Ambiguous, ambiguous},
		{"two of the same value", `{"email":"a","email":"a"}`, keyexpr.Ambiguous, ambiguous},
		{"one in upper case before", `{"EMAIL":"b","email":"a"}`, keyexpr.Ambiguous, ambiguous},
		{"one in upper case after", `{"email":"a","EMAIL":"b"}`, keyexpr.Ambiguous, ambiguous},
		{"only one in another case", `{"Email":"a"}`, keyexpr.Ambiguous, ambiguous},
		{"one escaped", `{"email":"a","\u0065mail":"b"}`, keyexpr.Ambiguous, ambiguous},
		{"one escaped in another case", `{"email":"a","\u0045MAIL":"b"}`, keyexpr.Ambiguous, ambiguous},
		{"null and a value", `{"email":null,"email":"b"}`, keyexpr.Ambiguous, ambiguous},
		{"a second document", `{"email":"a"}{"email":"b"}`, keyexpr.Malformed, notJSON},
		{"trailing garbage", `{"email":"a"} x`, keyexpr.Malformed, notJSON},
		{"a byte order mark", "\ufeff" + `{"email":"a"}`, keyexpr.Malformed, notJSON},
		{"cut short", `{"email":"a`, keyexpr.Malformed, notJSON},
		{"only space", "  ", keyexpr.Malformed, notJSON},
		{"not JSON", `email=a`, keyexpr.Malformed, notJSON},
		{"gzip", "\x1f\x8b\x08\x00", keyexpr.Malformed, notUTF8},
		{"invalid UTF-8 elsewhere", `{"x":"` + "\xff" + `","email":"a"}`, keyexpr.Malformed, notUTF8},
		{"half a surrogate pair", `{"email":"\ud800"}`, keyexpr.Malformed, unicode},
		{"the other half", `{"email":"\udc00\ud800"}`, keyexpr.Malformed, unicode},
		{"an integer beyond int64", `{"email":9223372036854775808}`, keyexpr.Malformed, large},
		{"1e400", `{"email":1e400}`, keyexpr.Malformed, large},
		{"1e19", `{"email":1e19}`, keyexpr.Malformed, large},
		{"-1e19", `{"email":-1e19}`, keyexpr.Malformed, large},
		{"an exponent beyond measure", `{"email":1e99999999999999999999}`, keyexpr.Malformed, large},
		{"a fraction", `{"email":1.5}`, keyexpr.WrongType, countable},
		{"a fraction beyond measure", `{"email":1e-400}`, keyexpr.Malformed, large},
		{"a fraction that rounds to 1", `{"email":1.00000000000000000001}`, keyexpr.Malformed, large},
		{"an object", `{"email":{"a":1}}`, keyexpr.WrongType, countable},
		{"an object with duplicates", `{"email":{"k":1,"\u212a":2}}`, keyexpr.Ambiguous, ambiguous},
		{"a list in a list", `{"email":[["a"]]}`, keyexpr.WrongType, countable},
		{"a list with null", `{"email":[null]}`, keyexpr.Missing, `The request body has no member "email".`},
		{"null", `{"email":null}`, keyexpr.Missing, `The request body has no member "email".`},
		{"the document is null", `null`, keyexpr.Missing, `The request body has no member "email".`},
		{"the document is a list", `[{"email":"a"}]`, keyexpr.WrongType, held},
		{"the document is text", `"email"`, keyexpr.WrongType, held},
		{"65 levels", strings.Repeat("[", 65) + strings.Repeat("]", 65), keyexpr.Malformed, deep},
	} {
		t.Run(row.name, func(t *testing.T) {
			wantFault(t, "body.email", postJSON(row.body), row.problem, "body.email", row.detail)
		})
	}
}

// encoding/json folds names as Unicode does: the long s is an s, the sign of
// Kelvin a k.
func TestNamesFoldAsEncodingJSONFoldsThem(t *testing.T) {
	t.Parallel()
	wantFault(t, "body.sms", postJSON(`{"sms":"1","ſms":"2"}`), keyexpr.Ambiguous, "body.sms",
		`The member "sms" of the request body is given more than once, or in another case.`)
	wantFault(t, "body.token", postJSON(`{"to`+"\u212a"+`en":"1"}`), keyexpr.Ambiguous, "body.token",
		`The member "token" of the request body is given more than once, or in another case.`)
	wantFault(t, "body.a.b", postJSON(`{"A":{"b":1},"a":{"b":2}}`), keyexpr.Ambiguous, "body.a.b",
		`The member "a.b" of the request body is given more than once, or in another case.`)
	wantKey(t, "body.sms", postJSON(`{"sms":"1","s":"2","smsx":"3"}`), "1")
}

// A handler that takes what is declared reads a form where we read JSON.
func TestABodyIsJSONIfItIsDeclaredSoOrCouldBeNothingElse(t *testing.T) {
	t.Parallel()
	const (
		plain = `{"a":"x"}`
		ok    = ""
		form  = "The request can also be read as a form: send JSON as application/json, and not with GET."
		other = "The request body is not declared as JSON."
	)
	for _, row := range []struct{ line, contentType, body, detail string }{
		{"POST /?q=1", "application/json", `{"a":"x","b":"&=;"}`, ok},
		{"POST /?q=1", "application/json;charset=utf-16", plain, ok}, // it says nothing: RFC 8259, section 11
		{"POST /?q=1", "application/json ; charset=utf-8", plain, ok},
		{"DELETE /?q=1", "application/json", plain, ok},
		{"POST /", "", plain, ok},
		{"POST /", "application/x-www-form-urlencoded", plain, ok},
		{"POST /", "text/plain;charset=UTF-8", plain, ok},
		{"POST /", "application/octet-stream", plain, ok},
		{"POST /", "Application/JSON", plain, ok},
		{"POST /", "application/vnd.api+json; x", plain, ok},
		{"GET /", "application/json", plain, ok},
		{"POST /?q=1", "", plain, form},
		{"POST /?q", "text/plain", plain, form},
		{"POST /?q=1", "Application/JSON", plain, form},
		{"POST /?q=1", "application/json\t", plain, form},
		{"POST /?q=1", "application/json; =", plain, form},
		{"POST /?q=1", "application/json; x", plain, form},
		{"POST /?q=1", "application/vnd.api+json", plain, form},
		{"GET /?q=1", "application/json", plain, form},
		{"POST /", "application/x-www-form-urlencoded", `{"a":"x","b":"&c"}`, form},
		{"PUT /", "Application/X-WWW-Form-Urlencoded; x", `{"a":"x","b":"="}`, form},
		{"POST /", "multipart/form-data; boundary=x", plain, other},
		{"POST /", "application/x-yaml", plain, other},
		{"POST /", "application/xml", plain, other},
		{"POST /", "application/jsonp", plain, other},
		{"POST /", ";", plain, other},
	} {
		t.Run(row.line+" "+row.contentType+" "+row.body, func(t *testing.T) {
			r := post(row.contentType, row.body)
			if row.contentType == "" {
				r.http.Header.Del("Content-Type")
			}
			var target string
			r.http.Method, target, _ = strings.Cut(row.line, " ")
			r.http.URL, _ = url.Parse(target)
			switch row.detail {
			case ok:
				wantKey(t, "body.a", r, "x")
			case form:
				wantFault(t, "body.a", r, keyexpr.Ambiguous, "body.a", form)
			default:
				wantFault(t, "body.a", r, keyexpr.Malformed, "body.a", row.detail)
			}
		})
	}
}

func TestABodyThatIsNotWhatItDecodesToIsNotRead(t *testing.T) {
	t.Parallel()
	const detail = "The request body has a content coding, such as gzip, and is not decoded."
	for coding, refused := range map[string]bool{"": false, "identity": false, "Identity": false, "gzip": true, "identity, deflate": true, "br": true} {
		for expression, r := range map[string]*request{"body.a": postJSON(`{"a":"1"}`), "form.a": postForm("a=1")} {
			r.http.Header["Content-Encoding"] = []string{"identity", coding}
			if !refused {
				wantKey(t, expression, r, "1")
				continue
			}
			body := r.http.Body
			wantFault(t, expression, r, keyexpr.Malformed, expression, detail)
			if r.http.Body != body {
				t.Errorf("%s: the body was read", coding)
			}
		}
	}
}

func TestAListOfTheBodyIsABoundedKey(t *testing.T) {
	t.Parallel()
	list := strings.Repeat("1,", 63) + "1"
	wantKey(t, "body.a", postJSON(`{"a":[`+list+`]}`), strings.Split(list, ",")...)
	list += ",1"
	wantFault(t, "body.a", postJSON(`{"a":[`+list+`]}`), keyexpr.WrongType, "body.a",
		`The member "a" of the request body has more than 64 elements.`)
	wantFault(t, "body.a", postJSON(`{"a":[]}`), keyexpr.Empty, "body.a", `The member "a" of the request body is empty.`)
}

// A bomb costs no more than its length. The bound is loose, for the race
// detector and a busy machine: what it keeps out is the quadratic.
func TestBombsAreAnsweredQuickly(t *testing.T) {
	t.Parallel()
	config := everything
	config.MaxBodyBytes = 64 << 20
	p := compileWith(t, "body.a.b", config)
	var members strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&members, `"k%d":0,`, i)
	}
	for name, bomb := range map[string]string{
		"100 000 levels":  strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"100 000 objects": strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"100 000 members": `{` + members.String() + `"a":{"b":"x"}}`,
		"one long string": `{"x":"` + strings.Repeat(`\"`, 1<<20) + `","a":{"b":"x"}}`,
		"an open string":  `{"x":"` + strings.Repeat(`\\`, 1<<20),
		"64 wide levels":  strings.Repeat(`{"x":[`, 31) + strings.Repeat("1,", 1<<20) + "1" + strings.Repeat("]}", 31),
		"open strings":    strings.Repeat(`"[`, 1<<19),
	} {
		began := time.Now()
		_, _ = p.Key(postJSON(bomb), nil)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// FuzzBody holds our reader against encoding/json: where we yield a value, a
// handler's struct and a handler's map hold the same. Nothing else is promised
// of a body that we refuse.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"email":"a@b.c"}`, `{"email":"a","EMAIL":"b"}`, `{"email":"a"}{"email":"b"}`, `{"\u0065mail":"\ud83d\ude00"}`,
		`{"email":"\ud800"}`, `{"x":{"email":"a"},"email":"b"}`, `{"x":"\\","email":"b"}`, `{"email":12.50e1}`, `{"email":[1,"2",true,null]}`,
		`{"email":{"a":1,"A":2}}`, `[{"email":"a"}]`, `{"email":null}`, ` { "email" : "" } `, `{"ema` + "\u0131" + `l":"a"}`, `{"e":[{},[],"]"],"email":"\""}`,
	} {
		f.Add([]byte(seed))
	}
	p := compile(f, `body.email`)
	f.Fuzz(func(t *testing.T, body []byte) {
		r := postJSON("")
		r.kept = body
		key, err := p.Key(r, nil)
		if err != nil {
			return
		}
		if !utf8.Valid(body) {
			t.Fatalf("%q yields %q", body, key)
		}
		var loose map[string]any
		if err := unmarshal(body, &loose); err != nil {
			t.Fatalf("%q yields %q, but a map: %v", body, key, err)
		}
		if got := texts(t, loose["email"]); !slices.Equal(got, key) {
			t.Fatalf("%q yields %q, but a map holds %q", body, key, got)
		}
		var strict struct {
			Email any `json:"email"`
		}
		if err := unmarshal(body, &strict); err != nil {
			t.Fatalf("%q yields %q, but a struct: %v", body, key, err)
		}
		if got := texts(t, strict.Email); !slices.Equal(got, key) {
			t.Fatalf("%q yields %q, but a struct holds %q", body, key, got)
		}
		if _, ok := strict.Email.(string); !ok {
			return
		}
		var typed struct {
			Email string `json:"email"`
		}
		if err := json.Unmarshal(body, &typed); err != nil || typed.Email != key[0] {
			t.Fatalf("%q yields %q, but a struct of text holds %q, %v", body, key, typed.Email, err)
		}
	})
}

// unmarshal is json.Unmarshal, but for numbers: a float64 holds them less exactly
// than we do.
func unmarshal(data []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(v)
}

// texts are what encoding/json decoded, as parts of a key.
func texts(t *testing.T, value any) []string {
	t.Helper()
	switch v := value.(type) {
	case []any:
		var all []string
		for _, item := range v {
			all = append(all, texts(t, item)...)
		}
		return all
	case json.Number:
		exact, ok := new(big.Rat).SetString(string(v))
		if !ok || !exact.IsInt() {
			t.Fatalf("%s is no whole number, but a key", v)
		}
		return []string{exact.Num().String()}
	}
	return []string{fmt.Sprint(value)}
}
