package keyexpr

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A function of the expression language. Its types are what the arguments are
// checked against when the expression is compiled; a value of the request is
// known only when the function runs.
type function struct {
	name, usage string
	min, max    int
	run         func(args ...any) (any, error)
	types       []any
}

func (f function) arity() string {
	switch {
	case f.min == 1 && f.max == 1:
		return "1 argument"
	case f.min == f.max:
		return fmt.Sprintf("%d arguments", f.min)
	}
	return fmt.Sprintf("%d or %d arguments", f.min, f.max)
}

func functions() map[string]function {
	onText := new(func(string) string)
	table := []function{
		{"lower", "lower(s)", 1, 1, text1(strings.ToLower), []any{onText}},
		{"upper", "upper(s)", 1, 1, text1(strings.ToUpper), []any{onText}},
		{"trim", "trim(s) or trim(s, cutset)", 1, 2, trim, []any{onText, new(func(string, string) string)}},
		{"split", "split(s, separator)", 2, 2, split, []any{new(func(string, string) []string)}},
		{"len", "len(x)", 1, 1, length, []any{new(func(any) int)}},
		{"int", "int(x)", 1, 1, integer, []any{new(func(any) int)}},
		{"string", "string(x)", 1, 1, toString, []any{new(func(any) string)}},
		{"email", "email(s)", 1, 1, email, []any{onText}},
		{"prefix", "prefix(ip, bits)", 2, 2, prefix, []any{new(func(string, int) string)}},
	}
	functions := make(map[string]function, len(table))
	for _, f := range table {
		functions[f.name] = f
	}
	return functions
}

func text1(f func(string) string) func(args ...any) (any, error) {
	return func(args ...any) (any, error) {
		s, failed := textArgument(args[0])
		if failed != nil {
			return nil, failed
		}
		return f(s), nil
	}
}

func trim(args ...any) (any, error) {
	texts, failed := textArguments(args)
	if failed != nil {
		return nil, failed
	}
	if len(texts) == 1 {
		return strings.TrimSpace(texts[0]), nil
	}
	return strings.Trim(texts[0], texts[1]), nil
}

func split(args ...any) (any, error) {
	texts, failed := textArguments(args)
	if failed != nil {
		return nil, failed
	}
	return strings.Split(texts[0], texts[1]), nil
}

// length counts the characters of a text, the elements of a list, the members of a map.
func length(args ...any) (any, error) {
	if args[0] == nil {
		return nil, &fault{problem: Missing}
	}
	switch v := reflect.ValueOf(args[0]); v.Kind() {
	case reflect.String:
		return utf8.RuneCountInString(v.String()), nil
	case reflect.Slice, reflect.Array, reflect.Map:
		return v.Len(), nil
	}
	return nil, &fault{problem: WrongType, complaint: "has no length"}
}

// integer takes whole numbers, and text that is one in decimal.
func integer(args ...any) (any, error) {
	s, failed := scalar(args[0])
	if failed != nil {
		return nil, failed
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n > math.MaxInt || n < math.MinInt {
		return nil, &fault{problem: WrongType, err: err, complaint: "is not a whole number"}
	}
	return int(n), nil
}

// toString is the text that the value would have as a key, so whole numbers are
// exact. Nil, a list and a map have none.
func toString(args ...any) (any, error) {
	s, failed := scalar(args[0])
	if failed != nil {
		return nil, failed
	}
	return s, nil
}

func textArguments(args []any) ([]string, *fault) {
	texts := make([]string, len(args))
	for i, arg := range args {
		s, failed := textArgument(arg)
		if failed != nil {
			return nil, failed
		}
		texts[i] = s
	}
	return texts, nil
}

func textArgument(arg any) (string, *fault) {
	if s, ok := arg.(string); ok {
		return s, nil
	}
	if arg == nil {
		return "", &fault{problem: Missing}
	}
	if v := reflect.ValueOf(arg); v.Kind() == reflect.String {
		return v.String(), nil
	}
	return "", &fault{problem: WrongType, complaint: "must be text"}
}
