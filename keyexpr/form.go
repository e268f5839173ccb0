package keyexpr

import (
	"bytes"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
)

// queryValues are those that the handler sees in r.URL.Query: pairs that do not
// parse are dropped by both.
func (m *machine) queryValues() url.Values {
	if m.query == nil {
		m.query = m.src.Request().URL.Query()
	}
	return m.query
}

func (m *machine) formFields() (url.Values, *fault) {
	return m.form.once(func() (url.Values, *fault) {
		r := m.src.Request()
		kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case kind == formType && !hasPostForm(r.Method):
			return nil, nil // as net/http, which parses no such body
		case kind == formType && r.PostForm != nil:
			return r.PostForm, nil
		case kind == formType:
			return m.parseForm(parseURLEncoded)
		case kind == multipartType && r.MultipartForm != nil:
			return r.MultipartForm.Value, nil
		case kind == multipartType:
			return m.parseForm(func(data []byte) (url.Values, error) { return parseMultipart(data, params["boundary"]) })
		}
		return m.parseForm(func([]byte) (url.Values, error) { return nil, http.ErrNotMultipart })
	})
}

// hasPostForm follows the documentation of [http.Request.ParseForm].
func hasPostForm(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

func (m *machine) parseForm(parse func([]byte) (url.Values, error)) (url.Values, *fault) {
	data, failed := m.bodyBytes()
	if failed != nil || len(data) == 0 {
		return nil, failed
	}
	fields, err := parse(data)
	if err != nil {
		return nil, &fault{problem: Malformed, err: err, sentence: "The request body is not a form."}
	}
	return fields, nil
}

// parseURLEncoded refuses what does not parse, where a handler that ignores the
// error of ParseForm would go on with the pairs that do.
func parseURLEncoded(data []byte) (url.Values, error) { return url.ParseQuery(string(data)) }

// parseMultipart parses in memory: data is all there is, so nothing can exceed it.
// Files are not fields.
func parseMultipart(data []byte, boundary string) (url.Values, error) {
	form, err := multipart.NewReader(bytes.NewReader(data), boundary).ReadForm(int64(len(data)))
	if err != nil {
		return nil, err
	}
	return form.Value, nil
}
