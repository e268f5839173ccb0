package keyexpr

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"time"
)

// maxWholeFloat bounds the floats that count: from 2^53 on they are no longer
// exact, and two numbers of the client would share a key.
const maxWholeFloat = 1 << 53

// appendParts appends the parts of the key that value is: one for a scalar, one
// per element for a list. element is the index at which the fault lies, -1 if
// value is not a list or is at fault itself.
func appendParts(parts []string, value any) (_ []string, element int, _ *fault) {
	switch list := value.(type) {
	case string: // before reflection: the common case
		part, failed := nonEmpty(list)
		return append(parts, part), -1, failed
	case []any:
		return appendList(parts, len(list), func(i int) any { return list[i] })
	}
	v := deref(reflect.ValueOf(value))
	if _, ok := value.(encoding.TextMarshaler); !ok && v.IsValid() && isList(v.Type()) {
		return appendList(parts, v.Len(), func(i int) any { return v.Index(i).Interface() })
	}
	part, failed := keyText(value)
	return append(parts, part), -1, failed
}

// isList is false for bytes: neither their text nor their numbers are what
// somebody meant who counts by them.
func isList(t reflect.Type) bool {
	return (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem().Kind() != reflect.Uint8
}

func appendList(parts []string, n int, at func(int) any) (_ []string, element int, _ *fault) {
	switch {
	case n == 0:
		return parts, -1, &fault{problem: Empty}
	case n > maxParts:
		return parts, -1, &fault{problem: WrongType, complaint: "has more than " + strconv.Itoa(maxParts) + " elements"}
	}
	for i := range n {
		part, failed := keyText(at(i))
		if failed != nil {
			return parts, i, failed
		}
		parts = append(parts, part)
	}
	return parts, -1, nil
}

// keyText is a scalar that may be a part of a key: "" may not.
func keyText(value any) (string, *fault) {
	text, failed := scalar(value)
	if failed != nil {
		return "", failed
	}
	return nonEmpty(text)
}

func nonEmpty(text string) (string, *fault) {
	if text == "" {
		return "", &fault{problem: Empty}
	}
	return text, nil
}

// scalar is the one text of a value: whole numbers in decimal, exactly.
func scalar(value any) (string, *fault) {
	switch v := value.(type) {
	case nil:
		return "", &fault{problem: Missing}
	case string:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case json.Number:
		return scalarNumber(v)
	case time.Time:
		return "", &fault{problem: WrongType}
	}
	v := reflect.ValueOf(value)
	if marshaler, ok := asMarshaler(v); ok {
		return marshalText(marshaler)
	}
	return scalarKind(deref(v))
}

func scalarKind(v reflect.Value) (string, *fault) {
	switch v.Kind() {
	case reflect.Invalid:
		return "", &fault{problem: Missing}
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10), nil
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); isWholeFloat(f) {
			return strconv.FormatInt(int64(f), 10), nil
		}
	}
	return "", &fault{problem: WrongType}
}

func isWholeFloat(f float64) bool { return f == math.Trunc(f) && math.Abs(f) < maxWholeFloat }

func marshalText(marshaler encoding.TextMarshaler) (string, *fault) {
	if _, ok := marshaler.(*time.Time); ok {
		return "", &fault{problem: WrongType}
	}
	text, err := marshaler.MarshalText()
	if err != nil {
		return "", &fault{problem: WrongType, err: err}
	}
	return string(text), nil
}

func scalarNumber(n json.Number) (string, *fault) {
	value, failed := parseNumber(string(n))
	if failed != nil {
		return "", failed
	}
	return scalar(value)
}
