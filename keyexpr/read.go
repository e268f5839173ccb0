package keyexpr

import (
	"net/http"
	"net/textproto"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A read is one thing that a program asks of a request. Each is known when the
// expression is compiled; the program refers to it by its index.
type read struct {
	part  string // as the expression writes it: body.email
	owner string // whose it is, in a sentence for the client: request body
	noun  string // what it is: member "email"

	static reflect.Type // of the value unless it is nil; nil if it is known only at run time
	always bool         // it is never nil

	// One of the three is set. What the request does not have is not found, or nil.
	// direct needs no machine, and reads the same again if it is asked again.
	direct func(Source) (text string, found bool, _ *fault)
	text   func(*machine) (text string, found bool, _ *fault)
	value  func(*machine) (any, *fault)
}

// quickly is the text of a direct read; false if there is none, or anything is
// wrong with it. What that is, a machine finds out.
func (rd *read) quickly(src Source) (text string, ok bool) {
	defer func() {
		if recover() != nil { // a method of the application's Source has panicked
			ok = false
		}
	}()
	text, found, failed := rd.direct(src)
	return text, found && failed == nil && text != ""
}

// isText tells that the value is text unless it is nil.
func (rd *read) isText() bool { return rd.value == nil }

func textType() reflect.Type { return reflect.TypeFor[string]() }

// A step is one member of a path: a name, or the index of an element.
type step struct {
	name    string
	index   int
	isIndex bool
}

func (s step) String() string {
	switch {
	case s.isIndex:
		return "[" + strconv.Itoa(s.index) + "]"
	case isIdentifier(s.name):
		return "." + s.name
	}
	return "[" + strconv.Quote(s.name) + "]"
}

func isIdentifier(s string) bool {
	for i, r := range s {
		letter := r == '_' || r == '$' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r >= 0x80
		if !letter && (i == 0 || r < '0' || '9' < r) {
			return false
		}
	}
	return s != ""
}

func pathString(path []step) string {
	var b strings.Builder
	for _, s := range path {
		b.WriteString(s.String())
	}
	return b.String()
}

func clientIP(resolve func(*http.Request) (string, error)) read {
	return read{part: "ip", owner: "request", noun: "client address", static: textType(), always: true, direct: func(src Source) (string, bool, *fault) {
		ip, err := resolve(src.Request())
		if err != nil {
			return "", false, &fault{problem: Unreadable, err: err, complaint: "could not be told"}
		}
		return ip, true, nil
	}}
}

func route() read {
	return read{part: "route", owner: "request", noun: "route", static: textType(), always: true, direct: func(src Source) (string, bool, *fault) {
		return src.Route(), true, nil
	}}
}

// requestMembers are the members of request, by name.
func requestMembers() map[string]func(*http.Request) string {
	return map[string]func(*http.Request) string{
		"method":     func(r *http.Request) string { return r.Method },
		"path":       func(r *http.Request) string { return r.URL.Path },
		"host":       func(r *http.Request) string { return r.Host },
		"proto":      func(r *http.Request) string { return r.Proto },
		"remoteAddr": func(r *http.Request) string { return r.RemoteAddr },
	}
}

func requestMember(name string, get func(*http.Request) string) read {
	return read{part: "request." + name, owner: "request", noun: name, static: textType(), always: true, direct: func(src Source) (string, bool, *fault) {
		return get(src.Request()), true, nil
	}}
}

// header reads the first value. net/http keeps Host apart from the other fields
// (RFC 9110, section 7.2), the expression need not know.
func header(name string) read {
	name = textproto.CanonicalMIMEHeaderKey(name)
	value := func(src Source) (string, bool, *fault) { return first(src.Request().Header[name]) }
	if name == "Host" {
		value = func(src Source) (string, bool, *fault) { return src.Request().Host, true, nil }
	}
	return read{part: call("header", name), owner: "request", noun: "header " + strconv.Quote(name), static: textType(), direct: value}
}

func first(values []string) (text string, found bool, _ *fault) {
	if len(values) == 0 {
		return "", false, nil
	}
	return values[0], true, nil
}

// cookie decodes percent-escapes, as Gin's Cookie does for its handlers: a byte
// and its escape would else be two keys of one value.
func cookie(name string) read {
	return read{part: call("cookie", name), owner: "request", noun: "cookie " + strconv.Quote(name), static: textType(), direct: func(src Source) (string, bool, *fault) {
		c, err := src.Request().Cookie(name)
		if err != nil {
			return "", false, nil
		}
		if value, err := url.QueryUnescape(c.Value); err == nil {
			return value, true, nil
		}
		return c.Value, true, nil
	}}
}

func call(function, argument string) string { return function + "(" + strconv.Quote(argument) + ")" }

func queryParameter(name step) read {
	return read{part: "query" + name.String(), owner: "request", noun: "query parameter " + strconv.Quote(name.name), static: textType(), text: func(m *machine) (string, bool, *fault) {
		return sole(m.queryValues()[name.name])
	}}
}

func pathParameter(name step) read {
	return read{part: "params" + name.String(), owner: "request", noun: "path parameter " + strconv.Quote(name.name), static: textType(), direct: func(src Source) (string, bool, *fault) {
		value, ok := src.Param(name.name)
		return value, ok, nil
	}}
}

func formField(name step) read {
	return read{part: "form" + name.String(), owner: "request", noun: "form field " + strconv.Quote(name.name), static: textType(), text: func(m *machine) (string, bool, *fault) {
		fields, fault := m.formFields()
		if fault != nil || len(fields[name.name]) == 0 {
			return "", false, fault
		}
		// r.FormValue prefers the query to the fields of a multipart form.
		return sole(slices.Concat(fields[name.name], m.queryValues()[name.name]))
	}}
}

// sole is the value that all of values are. Where they differ, net/http takes the
// first, other readers the last, or all of them.
func sole(values []string) (text string, found bool, _ *fault) {
	for _, value := range values {
		if value != values[0] {
			return "", false, &fault{problem: Ambiguous, complaint: "is given more than once, with different values"}
		}
	}
	return first(values)
}

func bodyMember(path []step) read {
	spelled := pathString(path)
	noun := "member " + strconv.Quote(strings.TrimPrefix(spelled, "."))
	return read{part: "body" + spelled, owner: "request body", noun: noun, value: func(m *machine) (any, *fault) {
		document, fault := m.document()
		if fault != nil || document == nil {
			return nil, fault
		}
		return lookUp(document, path)
	}}
}

func variable(path []step) read {
	spelled := pathString(path)
	noun := "value " + strconv.Quote(strings.TrimPrefix(spelled, "."))
	return read{part: "vars" + spelled, owner: "request", noun: noun, value: func(m *machine) (any, *fault) {
		value, ok := m.src.Var(path[0].name)
		if !ok {
			return nil, nil
		}
		return plainValue(member(value, path[1:]))
	}}
}
