package headers

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dunglas/httpsfv"
)

// listed is an item of a list field, read and as it was written, with the parameters that we do not know.
type listed[T any] struct {
	value T
	text  string
}

// readList reads a list field (RFC 9651, section 4.2.1): all of its items, or none if one is malformed.
func readList[T any](h http.Header, field string, parse func(httpsfv.Item) (T, error)) ([]listed[T], error) {
	if size(h[field]) > MaxField {
		return nil, fmt.Errorf("it is longer than %d bytes", MaxField)
	}
	members, err := httpsfv.UnmarshalList(h[field])
	if err != nil {
		return nil, err
	}
	list := make([]listed[T], len(members))
	for i, m := range members {
		item, ok := m.(httpsfv.Item)
		if !ok {
			return nil, fmt.Errorf("item %d is an inner list", i+1)
		}
		if list[i].value, err = parse(item); err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		if list[i].text, err = httpsfv.Marshal(item); err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
	}
	return list, nil
}

// size is how long a field is when its lines are joined.
func size(lines []string) int {
	n := 0
	for _, l := range lines {
		n += len(l) + len(", ")
	}
	return n
}

// draftPolicy reads "login";q=3;w=60;qu="requests";pk=:Ym9i: (draft 11, section 3.1).
func draftPolicy(item httpsfv.Item) (PolicyItem, error) {
	name, err := nameOf(item)
	if err != nil {
		return PolicyItem{}, err
	}
	quota, err := param[int64](item, "q", "a whole number, 0 or more")
	if err == nil && quota == nil {
		err = errors.New("q is missing")
	}
	window, windowErr := windowOf(item)
	unit, unitErr := param[string](item, "qu", "a String")
	key, keyErr := param[[]byte](item, "pk", "a Byte Sequence")
	if err := errors.Join(err, windowErr, unitErr, keyErr); err != nil {
		return PolicyItem{}, err
	}
	return PolicyItem{name, *quota, window, value(unit), value(key)}, nil
}

// draftLimit reads "login";r=2;t=57;pk=:Ym9i: (draft 11, section 4.1).
func draftLimit(item httpsfv.Item) (LimitItem, error) {
	name, err := nameOf(item)
	if err != nil {
		return LimitItem{}, err
	}
	left, err := param[int64](item, "r", "a whole number, 0 or more")
	if err == nil && left == nil {
		err = errors.New("r is missing")
	}
	reset, resetErr := param[int64](item, "t", "whole seconds, 0 or more")
	key, keyErr := param[[]byte](item, "pk", "a Byte Sequence")
	if err := errors.Join(err, resetErr, keyErr); err != nil {
		return LimitItem{}, err
	}
	return LimitItem{name, *left, duration(value(reset)), value(key)}, nil
}

// draft6Policy reads 3;w=60 (draft 06, section 2.1).
func draft6Policy(item httpsfv.Item) (PolicyItem, error) {
	quota, ok := item.Value.(int64)
	if !ok || quota < 0 {
		return PolicyItem{}, errors.New("want a whole number, 0 or more")
	}
	window, err := windowOf(item)
	if err == nil && window == 0 {
		err = errors.New("w is missing")
	}
	return PolicyItem{Quota: quota, Window: window}, err
}

func nameOf(item httpsfv.Item) (string, error) {
	name, ok := item.Value.(string)
	if !ok {
		return "", errors.New("its name is not a String")
	}
	return name, nil
}

func windowOf(item httpsfv.Item) (time.Duration, error) {
	const want = "whole seconds, 1 or more"
	window, err := param[int64](item, "w", want)
	if err == nil && window != nil && *window == 0 {
		err = fmt.Errorf("w is 0: want %s", want)
	}
	return duration(value(window)), err
}

// param reads a parameter, nil if it is absent. No integer of ours is negative.
func param[T int64 | string | []byte](item httpsfv.Item, key, want string) (*T, error) {
	found, ok := item.Params.Get(key)
	if !ok {
		return nil, nil
	}
	v, ok := found.(T)
	if n, isInt := found.(int64); !ok || isInt && n < 0 {
		return nil, fmt.Errorf("%s is not %s", key, want)
	}
	return &v, nil
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
