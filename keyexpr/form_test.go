package keyexpr_test

import (
	"bytes"
	"mime/multipart"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyexpr"
)

// multipartBody has the field a, and a file named f.
func multipartBody(t testing.TB) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	file, err := w.CreateFormFile("f", "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = file.Write(bytes.Repeat([]byte("x"), 1000))
	_ = w.WriteField("a", "1")
	_ = w.Close()
	return w.FormDataContentType(), b.String()
}

func TestFieldsOfAForm(t *testing.T) {
	t.Parallel()
	wantKey(t, "form.a", postForm("b=0&a=1&a=1"), "1")
	wantKey(t, `[form["a b"], form.c]`, postForm("a+b=%20x&c=%ff"), " x", "\xff")
	wantKey(t, "form.a", post("application/x-www-form-urlencoded; charset=utf-8", "a=1"), "1")
	contentType, body := multipartBody(t)
	r := post(contentType, body)
	wantKey(t, "form.a", r, "1")
	wantFault(t, "form.f", r, keyexpr.Missing, "form.f", `The request has no form field "f".`)
	if err := r.http.ParseMultipartForm(1 << 20); err != nil || r.http.FormValue("a") != "1" || len(r.http.MultipartForm.File["f"]) != 1 {
		t.Errorf("the handler parses %v, %v", r.http.MultipartForm, err)
	}
}

func TestTheHandlerParsesTheSameForm(t *testing.T) {
	t.Parallel()
	r := postForm("a=1&b=2")
	wantKey(t, "form.a", r, "1")
	if got := r.http.PostFormValue("b"); got != "2" {
		t.Errorf("the handler reads %q", got)
	}
}

func TestAFormThatEarlierMiddlewareParsedIsUsed(t *testing.T) {
	t.Parallel()
	r := postForm("a=1")
	if err := r.http.ParseForm(); err != nil {
		t.Fatal(err)
	}
	wantKey(t, "form.a", r, "1")

	r = post(multipartBody(t))
	if err := r.http.ParseMultipartForm(10); err != nil {
		t.Fatal(err)
	}
	wantKey(t, "form.a", r, "1")
}

func TestBodiesThatAreNoForm(t *testing.T) {
	t.Parallel()
	const detail = "The request body is not a form."
	for name, r := range map[string]*request{
		"JSON":                     postJSON(`{"a":"1"}`),
		"an unknown type":          post("", "a=1"),
		"a broken escape":          postForm("a=1&b=%zz"),
		"a semicolon":              postForm("a=1;b=2"),
		"multipart cut short":      post("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1"),
		"multipart without bounds": post("multipart/form-data", "a=1"),
	} {
		t.Run(name, func(t *testing.T) { wantFault(t, "form.a", r, keyexpr.Malformed, "form.a", detail) })
	}
	over := postForm("a=" + strings.Repeat("x", keyexpr.DefaultMaxBodyBytes))
	wantFault(t, "form.a", over, keyexpr.TooLarge, "form.a", "The request body is larger than 65536 bytes.")
}

// r.FormValue takes the first, but of a multipart form and the query that of the
// query; others take the last, or all.
func TestAFieldOfTwoValuesIsNoKey(t *testing.T) {
	t.Parallel()
	const twice = ` of the request is given more than once, with different values.`
	wantFault(t, "form.a", postForm("a=1&b=0&a=2"), keyexpr.Ambiguous, "form.a", `The form field "a"`+twice)
	wantFault(t, "query.a", get("/?a=&a=2"), keyexpr.Ambiguous, "query.a", `The query parameter "a"`+twice)
	contentType, body := multipartBody(t)
	for query, same := range map[string]bool{"a=1": true, "a=2": false, "a=1&a=2": false, "A=2": true} {
		for _, r := range []*request{postForm("a=1"), post(contentType, body)} {
			r.http.URL.RawQuery = query
			if same {
				wantKey(t, "form.a", r, "1")
			} else {
				wantFault(t, "form.a", r, keyexpr.Ambiguous, "form.a", `The form field "a"`+twice)
			}
		}
	}
	only := postForm("b=1")
	only.http.URL.RawQuery = "a=2"
	wantFault(t, "form.a", only, keyexpr.Missing, "form.a", `The request has no form field "a".`)
	wantKey(t, "form.a ?? query.a", only, "2") // as r.FormValue reads it
}

// net/http parses no urlencoded body of a DELETE, so its handler would not see
// the field that we count by.
func TestAFormOfAMethodThatHasNone(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("DELETE", "/", strings.NewReader("a=1"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	wantFault(t, "form.a", &request{http: r}, keyexpr.Missing, "form.a", `The request has no form field "a".`)
}

func TestBothBodyAndFormOfOneBody(t *testing.T) {
	t.Parallel()
	wantFault(t, "[form.a, body.a]", postForm("a=1"), keyexpr.Malformed, "body.a", "The request body is not one valid JSON document.")
}
