package keyexpr

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// A field is a member of a struct, embedded ones included.
type field struct {
	name  string // that of its json tag if it has one, else that of Go
	index []int
	typ   reflect.Type
}

// fields are the exported members of a struct.
type fields struct {
	byName  map[string]field // by JSON name and by Go name
	clashes map[string]field // which field has in JSON the name that another has in Go
	order   []field          // as they are declared, once each, without embedded structs
}

// fieldsOf names a field as encoding/json does and as Go does.
func fieldsOf(t reflect.Type) fields {
	all := fields{byName: jsonFields(t), clashes: map[string]field{}}
	inJSON := map[string]field{}
	for _, f := range all.byName {
		inJSON[fmt.Sprint(f.index)] = f
	}
	all.order = slices.Collect(maps.Values(all.byName))
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() {
			continue
		}
		known, ok := inJSON[fmt.Sprint(f.Index)]
		if !ok {
			known = field{f.Name, f.Index, f.Type}
		}
		if !ok && !f.Anonymous {
			all.order = append(all.order, known)
		}
		if other, taken := all.byName[f.Name]; taken && !slices.Equal(other.index, f.Index) {
			all.clashes[f.Name] = other
			continue
		}
		all.byName[f.Name] = known
	}
	slices.SortFunc(all.order, func(a, b field) int {
		return cmp.Or(slices.Compare(a.index, b.index), strings.Compare(a.name, b.name))
	})
	return all
}

// jsonFields follows the documentation of [json.Marshal]: the fields of an embedded
// struct count as those of the outer one; of several with one name the least nested
// wins, of those the tagged one, and of several such none.
func jsonFields(t reflect.Type) map[string]field {
	type level struct {
		typ   reflect.Type
		index []int
	}
	settled, visited := map[string]field{}, map[reflect.Type]bool{}
	hidden := map[string]bool{}
	for now := []level{{typ: t}}; len(now) > 0; {
		var next []level
		tagged, untagged := map[string][]field{}, map[string][]field{}
		for _, l := range now {
			if visited[l.typ] {
				continue
			}
			for i := range l.typ.NumField() {
				f := l.typ.Field(i)
				inner := f.Type
				if inner.Kind() == reflect.Pointer {
					inner = inner.Elem()
				}
				embedded := f.Anonymous && inner.Kind() == reflect.Struct
				tag := f.Tag.Get("json")
				if tag == "-" || !f.IsExported() && !embedded {
					continue
				}
				index := append(slices.Clip(l.index), i)
				name, _, _ := strings.Cut(tag, ",")
				switch {
				case isJSONName(name):
					tagged[name] = append(tagged[name], field{name, index, f.Type})
				case embedded:
					next = append(next, level{inner, index})
				case f.IsExported():
					untagged[f.Name] = append(untagged[f.Name], field{f.Name, index, f.Type})
				}
			}
		}
		for _, l := range now {
			visited[l.typ] = true
		}
		for name, all := range tagged {
			settle(settled, hidden, name, all)
		}
		for name, all := range untagged {
			settle(settled, hidden, name, all)
		}
		now = next
	}
	return settled
}

func settle(settled map[string]field, hidden map[string]bool, name string, all []field) {
	if _, taken := settled[name]; taken || hidden[name] {
		return
	}
	if len(all) == 1 {
		settled[name] = all[0]
	} else {
		hidden[name] = true
	}
}

// isJSONName is which names of a tag encoding/json uses.
func isJSONName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}
