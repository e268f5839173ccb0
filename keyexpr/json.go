package keyexpr

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDepth bounds how deep a document may nest, and with it the work of following
// a path into it: every level is scanned once per step that leads there.
const maxDepth = 64

// document is the body, known to be one JSON document in UTF-8; nil if there is
// no body.
func (m *machine) document() ([]byte, *fault) {
	return m.json.once(func() ([]byte, *fault) {
		data, failed := m.bodyBytes()
		switch {
		case failed != nil || len(data) == 0:
			return nil, failed
		case !utf8.Valid(data):
			return nil, &fault{problem: Malformed, sentence: "The request body is not UTF-8 text."}
		case depth(data) > maxDepth:
			return nil, &fault{problem: Malformed, sentence: "The request body is nested too deeply."}
		case !json.Valid(data):
			return nil, &fault{problem: Malformed, sentence: "The request body is not one valid JSON document."}
		}
		if failed := checkJSON(m.src.Request(), data); failed != nil {
			return nil, failed
		}
		return skip(data), nil
	})
}

// depth is how deep the brackets outside of strings nest. data need not be valid.
func depth(data []byte) int {
	deepest, now := 0, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i += len(scanString(data[i:])) - 1
		case '{', '[':
			now++
			deepest = max(deepest, now)
		case '}', ']':
			now--
		}
	}
	return deepest
}

// lookUp follows path into a valid document. What is missing, or null, on the
// way is nil. The value is a string, an int64, a float64, a bool, a []any or a
// map[string]any.
func lookUp(document []byte, path []step) (any, *fault) {
	value := document
	for _, s := range path {
		if isNull(value) {
			return nil, nil
		}
		var failed *fault
		if value, failed = memberOfJSON(value, s); value == nil || failed != nil {
			return nil, failed
		}
	}
	decoded, _, failed := decode(value)
	return decoded, failed
}

func isNull(value []byte) bool { return value[0] == 'n' }

func memberOfJSON(value []byte, s step) ([]byte, *fault) {
	switch {
	case s.isIndex && value[0] == '[':
		return element(value, s.index), nil
	case !s.isIndex && value[0] == '{':
		return objectMember(value, s.name)
	}
	return nil, &fault{problem: WrongType, complaint: "cannot be reached: what holds it has another type"}
}

func element(array []byte, index int) []byte {
	i := 0
	for value := range elements(array) {
		if i == index {
			return value
		}
		i++
	}
	return nil
}

// objectMember is the member of that name. encoding/json matches a struct's field
// without regard to case and takes the last, a map the last of exactly that name,
// other readers the first: the value is sure only if one member comes near.
func objectMember(object []byte, name string) ([]byte, *fault) {
	var found []byte
	for quoted, value := range members(object) {
		exact, near := compareName(quoted, name)
		switch {
		case !near:
		case !exact || found != nil:
			return nil, &fault{problem: Ambiguous}
		default:
			found = value
		}
	}
	return found, nil
}

// compareName does not copy a name that is short and has no escapes.
func compareName(quoted []byte, name string) (exact, near bool) {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		text := unquote(quoted)
		return text == name, strings.EqualFold(text, name)
	}
	text := quoted[1 : len(quoted)-1]
	exact = string(text) == name
	return exact, exact || strings.EqualFold(string(text), name)
}

// decode makes a value of Go of the valid JSON value at the beginning of data, and
// returns what is behind it: a value within others is scanned once.
func decode(data []byte) (value any, rest []byte, failed *fault) {
	switch data[0] {
	case '{':
		return decodeObject(data)
	case '[':
		return decodeArray(data)
	}
	scalar := scanValue(data)
	value, failed = decodeScalar(scalar)
	return value, data[len(scalar):], failed
}

func decodeScalar(value []byte) (any, *fault) {
	switch value[0] {
	case '"':
		return decodeString(value)
	case 't':
		return true, nil
	case 'f':
		return false, nil
	case 'n':
		return nil, nil
	}
	return parseNumber(string(value))
}

// decodeString refuses the replacement character: it is what half a surrogate
// pair becomes, and readers differ in that.
func decodeString(quoted []byte) (any, *fault) {
	text := unquote(quoted)
	if strings.ContainsRune(text, utf8.RuneError) {
		return nil, &fault{problem: Malformed, complaint: "is not valid Unicode"}
	}
	return text, nil
}

func decodeArray(array []byte) (_ any, rest []byte, failed *fault) {
	list := []any{}
	rest = skip(array[1:])
	for rest[0] != ']' {
		var item any
		if item, rest, failed = decode(rest); failed != nil {
			return nil, nil, failed
		}
		list = append(list, item)
		rest = skip(rest)
	}
	return list, rest[1:], nil
}

func decodeObject(object []byte) (_ any, rest []byte, failed *fault) {
	values := map[string]any{}
	folded := map[string]bool{}
	rest = skip(object[1:])
	for rest[0] != '}' {
		quoted := scanString(rest)
		name := unquote(quoted)
		fold := foldCase(name)
		if folded[fold] {
			return nil, nil, &fault{problem: Ambiguous}
		}
		folded[fold] = true
		if values[name], rest, failed = decode(skip(rest[len(quoted):])); failed != nil {
			return nil, nil, failed
		}
		rest = skip(rest)
	}
	return values, rest[1:], nil
}

// foldCase is equal for two texts exactly if strings.EqualFold holds of them.
func foldCase(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, s)
}

// unquote is the text of a valid JSON string.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // cannot fail: the document is valid
	return text
}

// members are the quoted names and the values of a valid object, in order.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		rest := skip(object[1:])
		for rest[0] == '"' {
			name := scanString(rest)
			rest = skip(rest[len(name):])
			value := scanValue(rest)
			if !yield(name, value) {
				return
			}
			rest = skip(rest[len(value):])
		}
	}
}

// elements are the values of a valid array, in order.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		rest := skip(array[1:])
		for rest[0] != ']' {
			value := scanValue(rest)
			if !yield(value) {
				return
			}
			rest = skip(rest[len(value):])
		}
	}
}

// skip cuts off what stands before a name, a value or a bracket of a valid document: white space (RFC 8259, section 2)
// and a separator.
func skip(data []byte) []byte {
	for i, c := range data {
		if !isBetween(c) {
			return data[i:]
		}
	}
	return nil
}

func isBetween(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ':', ',':
		return true
	}
	return false
}

// scanValue is the value at the beginning of data, which is valid from there on.
func scanValue(data []byte) []byte {
	switch data[0] {
	case '"':
		return scanString(data)
	case '{', '[':
		return scanNested(data)
	}
	for i, c := range data { // a number, or a word
		if isBetween(c) || c == ']' || c == '}' {
			return data[:i]
		}
	}
	return data
}

func scanNested(data []byte) []byte {
	open := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i += len(scanString(data[i:])) - 1
		case '{', '[':
			open++
		case '}', ']':
			if open--; open == 0 {
				return data[:i+1]
			}
		}
	}
	return data
}

// scanString is the string at the beginning of data with its quotes, or all of
// data if the string does not end.
func scanString(data []byte) []byte {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return data[:i+1]
		}
	}
	return data
}
