package keyexpr

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
)

// What a request declares of its body. A handler may go by it, and must not find
// another value in the body than we do: Gin's ShouldBind, and everybody who takes
// JSON if it is declared and else asks r.FormValue.

const (
	jsonType      = "application/json"
	formType      = "application/x-www-form-urlencoded"
	multipartType = "multipart/form-data"
)

// checkCoding refuses a body with a content coding (RFC 9110, section 8.4), of
// which a handler reads what it decodes to. Middleware that has decoded the body
// removes the field.
func checkCoding(header http.Header) *fault {
	for _, coding := range header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return &fault{problem: Malformed, sentence: "The request body has a content coding, such as gzip, and is not decoded."}
		}
	}
	return nil
}

// checkJSON refuses a JSON document that might be read as something else. Of the
// media type a charset is no part: JSON is UTF-8 (RFC 8259, sections 8.1 and 11).
func checkJSON(r *http.Request, document []byte) *fault {
	declared := r.Header.Get("Content-Type")
	if r.Method != http.MethodGet && isSurelyJSON(declared) {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(declared)
	switch {
	case declared != "" && !mayBeJSON(kind):
		return &fault{problem: Malformed, sentence: "The request body is not declared as JSON."}
	case r.URL.RawQuery != "" || kind == formType && bytes.ContainsAny(document, "=&"):
		return &fault{problem: Ambiguous, sentence: "The request can also be read as a form: send JSON as application/json, and not with GET."}
	}
	return nil
}

// isSurelyJSON is true of what every reader takes for JSON. Gin compares what is
// before the first space or semicolon, letter by letter, others parse.
func isSurelyJSON(declared string) bool {
	if declared == jsonType {
		return true
	}
	if end := strings.IndexAny(declared, " ;"); end < 0 || declared[:end] != jsonType {
		return false
	}
	_, _, err := mime.ParseMediaType(declared)
	return err == nil
}

// mayBeJSON is true of the types of JSON, and of those that clients declare by
// themselves if nobody tells them: a form is curl's -d, text is a browser's fetch.
func mayBeJSON(kind string) bool {
	switch kind {
	case jsonType, "text/json", formType, "text/plain", "application/octet-stream":
		return true
	}
	return strings.HasSuffix(kind, "+json")
}
