package keyexpr

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"
)

// argumentName stands for in before the parser, to which in is an operator. It is
// as long, so that every place in the expression stays where it is.
const argumentName = "𝚒𝚗"

// nameArgument replaces every in that stands where a value must.
func nameArgument(expression string) string {
	tokens, err := lexer.Lex(file.NewSource(expression))
	if err != nil || !slices.ContainsFunc(tokens, isIn) {
		return expression
	}
	runes := []rune(expression)
	for i, t := range tokens {
		if isIn(t) && isOperand(tokens, i) {
			copy(runes[t.From:t.To], []rune(argumentName))
		}
	}
	return string(runes)
}

func isIn(t lexer.Token) bool { return t.Is(lexer.Operator, "in") }

// isOperand is false of the operator (a in b, a not in b), of a member (a.in) and
// of a name in a map ({in: 1}).
func isOperand(tokens []lexer.Token, i int) bool {
	if i > 0 && tokens[i-1].Is(lexer.Operator, "not") {
		i--
	}
	if i == 0 {
		return true
	}
	switch before := tokens[i-1]; {
	case before.Is(lexer.Operator, ".", "?."):
		return false
	case before.Is(lexer.Bracket, "{") || before.Is(lexer.Operator, ","):
		return i+1 >= len(tokens) || !tokens[i+1].Is(lexer.Operator, ":")
	default:
		return before.Kind == lexer.Operator || before.Is(lexer.Bracket, "(", "[")
	}
}

// argumentMember reads the member of the argument to which path leads.
func argumentMember(path argumentPath, owner string) read {
	spelled := pathString(path.steps)
	noun := "member " + strconv.Quote(strings.TrimPrefix(spelled, "."))
	if spelled == "" {
		noun = "argument"
	}
	return read{
		part: "in" + spelled, owner: owner, noun: noun, static: plainType(path.typ), always: !path.nilable,
		value: func(m *machine) (any, *fault) { return path.value(m.src) },
	}
}

// An argumentPath leads from the argument to a member of it. All that its type
// tells has been looked up when the expression was compiled.
type argumentPath struct {
	root    reflect.Type // without its pointers
	steps   []step       // as they are named
	hops    []hop        // as they are taken
	typ     reflect.Type // of what is there
	nilable bool
}

// A hop leads from a value, which is neither nil nor a pointer, to a member of it;
// the invalid value if there is none.
type hop func(reflect.Value) (reflect.Value, *fault)

func (p *argumentPath) value(src Source) (any, *fault) {
	source, ok := src.(ArgumentSource)
	if !ok {
		return nil, &fault{problem: Unreadable, sentence: "There is no argument here."}
	}
	v := pointee(reflect.ValueOf(source.Argument()))
	if v.IsValid() && p.root.Kind() != reflect.Interface && v.Type() != p.root {
		return nil, &fault{problem: Unreadable, sentence: "The argument is not of the type that was declared."}
	}
	for _, hop := range p.hops {
		if v = pointee(v); !v.IsValid() {
			return nil, nil
		}
		var failed *fault
		if v, failed = hop(v); failed != nil {
			return nil, failed
		}
	}
	return plainArgument(v)
}

// pointee looks through interfaces and pointers; what is nil is the invalid value.
func pointee(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

func pointeeType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// plainArgument is plainValue for what reflection has found, without the detour for
// what has no methods.
func plainArgument(v reflect.Value) (any, *fault) {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil, nil
		}
		if isMarshaler(v.Type()) {
			return plainValue(v.Interface(), nil)
		}
		if v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
			return v.Interface(), nil // the struct would be copied
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Invalid:
		return nil, nil
	case reflect.String:
		if v.NumMethod() == 0 {
			return v.String(), nil
		}
	case reflect.Map, reflect.Slice, reflect.Func, reflect.Chan:
		if v.IsNil() {
			return nil, nil
		}
	}
	return plainValue(v.Interface(), nil)
}

// plainType is the type of what plainValue makes of a value of type t, nil if that
// is known only at run time.
func plainType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer && !isMarshaler(t) {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Interface || t == reflect.TypeFor[json.Number]():
		return nil
	case isMarshaler(t) || t.Kind() == reflect.String:
		return reflect.TypeFor[string]()
	case t.Kind() == reflect.Bool:
		return reflect.TypeFor[bool]()
	case isWhole(t):
		return reflect.TypeFor[int]()
	case t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
		return reflect.TypeFor[float64]()
	}
	return t
}

// isMarshaler is true of what becomes text. A time is none.
func isMarshaler(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && pointeeType(t) != timeType()
}

func timeType() reflect.Type { return reflect.TypeFor[time.Time]() }

// isArgument tells of a name that no let has given, whether it is the argument or
// a member of it.
func (r *resolver) isArgument(name string) bool {
	t := r.config.Argument
	if t == nil || name == argumentName {
		return t != nil
	}
	if t = pointeeType(t); r.isRequestName(name) {
		return false
	}
	switch t.Kind() {
	case reflect.Struct:
		_, known := fieldsOf(t).byName[name]
		return known
	case reflect.Map:
		return t.Key().Kind() == reflect.String
	}
	return t.Kind() == reflect.Interface
}

// argumentChain is the members of a chain that leads from the argument, that of its
// first name included if it is a shorthand; false if it leads from elsewhere.
func (r *resolver) argumentChain(node ast.Node) ([]ast.Node, bool) {
	root, members := unchain(node)
	name, ok := root.(*ast.IdentifierNode)
	if !ok {
		return nil, false
	}
	if let := r.let(name.Value); let != nil {
		return append(slices.Clip(let.argument), members...), let.isArgument
	}
	if !r.isArgument(name.Value) {
		return nil, false
	}
	if name.Value == argumentName {
		return members, true
	}
	first := &ast.StringNode{Value: name.Value}
	first.SetLocation(name.Location())
	return append([]ast.Node{first}, members...), true
}

func (r *resolver) argument(node *ast.Node, members []ast.Node) {
	path, ok := r.constants("the argument", members)
	if !ok {
		return
	}
	t := r.config.Argument
	found := argumentPath{root: pointeeType(t), typ: t}
	for i, s := range path {
		found.nilable = found.nilable || canBeNil(found.typ)
		h, next, sometimes, problem := into(pointeeType(found.typ), s)
		if problem != nil {
			problem.complain(r, members[i].Location(), path[:i])
			return
		}
		found.nilable = found.nilable || sometimes
		found.steps, found.hops, found.typ = append(found.steps, h.step), append(found.hops, h.hop), next
	}
	found.nilable = found.nilable || canBeNil(found.typ)
	owner := "request"
	if r.config.NoRequest {
		owner = "argument"
	}
	r.read(node, argumentMember(found, owner))
}

func canBeNil(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan:
		return true
	}
	return false
}

// namedHop is a hop and the member's name proper, which is that of its json tag.
type namedHop struct {
	step step
	hop  hop
}

// into prepares the hop from a value of type t, which is no pointer, to the member
// s. sometimes tells that the value may lack it.
func into(t reflect.Type, s step) (h namedHop, next reflect.Type, sometimes bool, problem *noMember) {
	switch {
	case t.Kind() == reflect.Interface:
		return namedHop{s, dynamicHop(s)}, t, true, nil
	case t.Kind() == reflect.Struct && !s.isIndex:
		all := fieldsOf(t)
		f, known := all.byName[s.name]
		clash, ambiguous := all.clashes[s.name]
		switch {
		case ambiguous:
			return h, nil, false, &noMember{t, s, &clash}
		case !known:
			return h, nil, false, &noMember{t, s, nil}
		}
		return namedHop{step{name: f.name}, fieldHop(f.index)}, f.typ, throughPointer(t, f.index), nil
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && !s.isIndex:
		return namedHop{s, keyHop(reflect.ValueOf(s.name).Convert(t.Key()))}, t.Elem(), true, nil
	case t.Kind() == reflect.Map && isWhole(t.Key()) && s.isIndex:
		if key := reflect.ValueOf(s.index).Convert(t.Key()); fmt.Sprint(key) == strconv.Itoa(s.index) {
			return namedHop{s, keyHop(key)}, t.Elem(), true, nil
		}
	case t.Kind() == reflect.Slice && s.isIndex:
		return namedHop{s, elementHop(s.index)}, t.Elem(), true, nil
	case t.Kind() == reflect.Array && s.isIndex && s.index < t.Len():
		return namedHop{s, elementHop(s.index)}, t.Elem(), false, nil
	}
	return h, nil, false, &noMember{t, s, nil}
}

// throughPointer tells whether a field is promoted from an embedded pointer.
func throughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

func fieldHop(index []int) hop {
	if len(index) == 1 {
		return func(v reflect.Value) (reflect.Value, *fault) { return v.Field(index[0]), nil }
	}
	return func(v reflect.Value) (reflect.Value, *fault) {
		for _, i := range index {
			if v = pointee(v); !v.IsValid() {
				return v, nil
			}
			v = v.Field(i)
		}
		return v, nil
	}
}

func keyHop(key reflect.Value) hop {
	return func(v reflect.Value) (reflect.Value, *fault) { return v.MapIndex(key), nil }
}

func elementHop(index int) hop {
	return func(v reflect.Value) (reflect.Value, *fault) {
		if index >= v.Len() {
			return reflect.Value{}, nil
		}
		return v.Index(index), nil
	}
}

// dynamicHop is prepared at run time, once for every type that it meets.
func dynamicHop(s step) hop {
	var prepared sync.Map // from reflect.Type to hop, nil if the type has no such member
	return func(v reflect.Value) (reflect.Value, *fault) {
		known, ok := prepared.Load(v.Type())
		if !ok {
			h, _, _, _ := into(v.Type(), s)
			known, _ = prepared.LoadOrStore(v.Type(), h.hop)
		}
		if hop := known.(hop); hop != nil {
			return hop(v)
		}
		return v, &fault{problem: WrongType, complaint: "cannot be reached: what holds it has another type"}
	}
}

// noMember is why a value of type t has no member s.
type noMember struct {
	t     reflect.Type
	s     step
	clash *field // that has the name in JSON, if another has it in Go
}

func (n *noMember) complain(r *resolver, at file.Location, holder []step) {
	whole := "in" + pathString(holder)
	switch {
	case n.clash != nil:
		r.refuse(at, "", "%q could be two members of %s: field %s has that name in JSON, another has it in Go",
			n.s.name, typeName(n.t), n.t.FieldByIndex(n.clash.index).Name)
	case n.t.Kind() == reflect.Struct && n.t != timeType() && !n.s.isIndex:
		n.unknownField(r, at)
	case n.t.Kind() == reflect.Slice:
		r.refuse(at, "its elements are "+whole+"[0], "+whole+"[1], …", "%s is a list; it has no members with names", whole)
	case n.t.Kind() == reflect.Array && n.s.isIndex:
		r.refuse(at, "", "%s has %d elements, from [0] on", whole, n.t.Len())
	case n.t.Kind() == reflect.Map && isWhole(n.t.Key()) && n.s.isIndex:
		r.refuse(at, "", "the members of %s are numbered by %s, and %d is none", whole, typeName(n.t.Key()), n.s.index)
	case n.t.Kind() == reflect.Map && isWhole(n.t.Key()):
		r.refuse(at, "write "+whole+"[0]", "the members of %s have numbers, not names", whole)
	case n.t.Kind() == reflect.Map && n.t.Key().Kind() == reflect.String:
		r.refuse(at, "", "the members of %s have names, not numbers", whole)
	case n.t.Kind() == reflect.Map:
		r.refuse(at, "", "the members of %s have keys of type %s, which no expression can write", whole, typeName(n.t.Key()))
	case n.t.Kind() == reflect.Struct && n.s.isIndex:
		r.refuse(at, r.fieldHint(whole, n.t), "%s is not a list", whole)
	default:
		r.refuse(at, "", "%s is %s; it has no members", whole, describe(n.t))
	}
}

func (n *noMember) unknownField(r *resolver, at file.Location) {
	all := fieldsOf(n.t)
	names, typed := make([]string, len(all.order)), make([]string, len(all.order))
	for i, f := range all.order {
		names[i], typed[i] = f.name, f.name+" "+typeName(f.typ)
		if !isIdentifier(f.name) {
			typed[i] = strconv.Quote(f.name) + " " + typeName(f.typ)
		}
	}
	hint := ""
	if near := nearest(n.s.name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	holder := typeName(n.t)
	if n.t.Name() == "" {
		holder = "the struct"
	}
	r.refuseListing(at, "members", typed, hint, "no member %q in %s", n.s.name, holder)
}

func (r *resolver) fieldHint(whole string, t reflect.Type) string {
	if all := fieldsOf(t).order; len(all) > 0 {
		return "write " + whole + step{name: all[0].name}.String()
	}
	return ""
}
