package keyexpr

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/expr-lang/expr/vm/runtime"
)

// A type of the application is opaque to the language: a Plan that is "pro" does
// not equal the text "pro", and the comparison is false without a word. So what
// vars yields is plain: text for what marshals itself or is a kind of text, an
// integer for a kind of integer. Lists, maps, structs and times stay as they are.
func plainValue(value any, failed *fault) (any, *fault) {
	if failed != nil || value == nil {
		return nil, failed
	}
	switch v := value.(type) {
	case string, bool, int, int64, float64, time.Time:
		return v, nil
	case json.Number:
		return parseNumber(string(v))
	case encoding.TextMarshaler:
		return marshalText(v)
	}
	switch v := reflect.ValueOf(value); {
	case v.Kind() == reflect.String:
		return v.String(), nil
	case v.Kind() == reflect.Bool:
		return v.Bool(), nil
	case v.CanInt():
		return v.Int(), nil
	case v.CanUint():
		return v.Uint(), nil
	case v.CanFloat():
		return v.Float(), nil
	}
	return value, nil
}

// member follows path into a value of the application: maps by key, structs by
// the name of the field or its expr tag, lists by index. What is absent or nil
// on the way is nil, also a key that a map lacks: the zero value that Go yields
// for it would be one bucket for everybody.
func member(value any, path []step) (_ any, failed *fault) {
	defer func() {
		// A struct without the field, and reflection's own refusals.
		if cause := recover(); cause != nil {
			failed = &fault{problem: WrongType, err: fmt.Errorf("%v", cause), complaint: "cannot be found in what the server knows"}
		}
	}()
	v := reflect.ValueOf(value)
	for _, s := range path {
		if v = deref(v); !v.IsValid() {
			return nil, nil
		}
		v = memberOf(v, s)
	}
	if marshaler, ok := asMarshaler(v); ok {
		return marshaler, nil
	}
	if v = deref(v); !v.IsValid() {
		return nil, nil
	}
	return v.Interface(), nil
}

func memberOf(v reflect.Value, s step) reflect.Value {
	switch {
	case v.Kind() == reflect.Map && s.isIndex:
		return v.MapIndex(reflect.ValueOf(s.index).Convert(indexable(v.Type().Key())))
	case v.Kind() == reflect.Map:
		return v.MapIndex(reflect.ValueOf(s.name).Convert(v.Type().Key()))
	case s.isIndex && s.index >= v.Len():
		return reflect.Value{}
	case s.isIndex:
		return v.Index(s.index)
	}
	field := reflect.ValueOf(runtime.Fetch(v.Interface(), s.name))
	if field.Kind() == reflect.Func {
		panic("a function, perhaps a method")
	}
	return field
}

// indexable refuses text as the type of a key that is a number: Go would convert
// 65 to "A".
func indexable(key reflect.Type) reflect.Type {
	if key.Kind() == reflect.String {
		panic("the keys of the map are text, not numbers")
	}
	return key
}

// asMarshaler keeps a pointer whose methods are what makes its value text.
func asMarshaler(v reflect.Value) (encoding.TextMarshaler, bool) {
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, false
	}
	marshaler, ok := v.Interface().(encoding.TextMarshaler)
	return marshaler, ok
}

// deref looks through interfaces, and through pointers but to structs, which would
// be copied. Nil of any kind is the invalid value.
func deref(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer && (v.IsNil() || v.Elem().Kind() != reflect.Struct) {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.Func, reflect.Chan:
		if v.IsNil() {
			return reflect.Value{}
		}
	}
	return v
}
