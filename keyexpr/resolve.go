package keyexpr

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
)

// Names of the environment's two functions. No expression can say them: the
// resolver knows every name that may be said, and these are not among them.
const (
	readText  = "__text"
	readValue = "__value"
)

// A resolver walks a parsed expression from the top. It refuses what a key
// expression must not contain, and puts a read in the place of every name that
// stands for something in the request, so that the request is asked only for
// what the evaluation reaches.
type resolver struct {
	kind       kind
	expression string
	config     Config
	choices    []string

	language *conf.Config
	reads    []read
	lets     []let
	verbatim []string      // the reads that are parts of a key as they are
	err      *CompileError // the first fault
}

// A let is a name that the expression itself gives.
type let struct {
	name       string
	isArgument bool       // its value is the argument,
	argument   []ast.Node // or this member of it
}

func (r *resolver) refuse(at file.Location, hint, format string, args ...any) {
	if r.err == nil {
		message := strings.ReplaceAll(fmt.Sprintf(format, args...), argumentName, "in")
		r.err = faultAt(r.expression, at.From, message, strings.ReplaceAll(hint, argumentName, "in"))
	}
}

// refuseListing is refuse for what there is none of, with what there is.
func (r *resolver) refuseListing(at file.Location, listed string, names []string, hint, format string, args ...any) {
	if r.err == nil {
		r.refuse(at, hint, format, args...)
		r.err.listed, r.err.Names = listed, names
	}
}

func (r *resolver) translate(err error) *CompileError {
	fault := translate(r.expression, r.kind, err)
	if at, ok := errors.AsType[*file.Error](err); ok && fault.Message == `unexpected "#"` && r.config.Argument != nil {
		fault.Hint = r.hintForHash(string([]rune(r.expression)[at.From+1:]))
	}
	return fault
}

// let is what the expression has named so, nil if it has not.
func (r *resolver) let(name string) *let {
	for i := range r.lets {
		if r.lets[i].name == name {
			return &r.lets[i]
		}
	}
	return nil
}

func (r *resolver) resolve(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		r.chain(node)
	case *ast.MemberNode:
		r.chain(node)
	case *ast.ChainNode:
		r.chain(node)
	case *ast.CallNode:
		r.call(node, n)
	case *ast.BinaryNode:
		r.binary(n)
	case *ast.VariableDeclaratorNode:
		r.declare(n)
	case *ast.UnaryNode:
		r.resolve(&n.Node)
	case *ast.ConditionalNode:
		r.each(&n.Cond, &n.Exp1, &n.Exp2)
	case *ast.SliceNode:
		r.each(&n.Node, &n.From, &n.To)
	case *ast.ArrayNode:
		r.all(n.Nodes)
	case *ast.MapNode:
		r.all(n.Pairs)
	case *ast.PairNode:
		r.each(&n.Key, &n.Value)
	case *ast.SequenceNode:
		hint := ""
		if r.kind == keyKind {
			hint = "to count by several values together, write a list: [a, b]"
		}
		r.refuse(n.Location(), hint, "a %s is one expression, not several", r.kind.words().noun)
	case *ast.BytesNode:
		r.refuse(n.Location(), `write it without the b`, "bytes are not %s", r.kind.words().aResult)
	case *ast.BuiltinNode:
		r.refuse(n.Location(), "", "%s(…) is not available: a %s has no loops", n.Name, r.kind.words().noun)
	}
}

func (r *resolver) each(nodes ...*ast.Node) {
	for _, node := range nodes {
		r.resolve(node)
	}
}

func (r *resolver) all(nodes []ast.Node) {
	for i := range nodes {
		r.resolve(&nodes[i])
	}
}

// chain resolves root.a["b"][0] as a whole: where root is a name of the request,
// the whole chain is one read.
func (r *resolver) chain(node *ast.Node) {
	root, members := unchain(*node)
	name, ok := root.(*ast.IdentifierNode)
	isLet := ok && r.let(name.Value) != nil
	if path, ok := r.argumentChain(*node); ok && !(isLet && len(members) == 0) {
		r.argument(node, path)
		return
	}
	if !ok || isLet {
		r.members(node)
		return
	}
	if !r.isRequestName(name.Value) {
		r.unknown(name, members)
		return
	}
	switch name.Value {
	case "response":
		r.response(node, name, members)
	case "body", "vars":
		r.path(node, name, members)
	case "form", "query", "params":
		r.field(node, name, members)
	case "request":
		r.request(node, name, members)
	case "ip", "route":
		r.text(node, name, members)
	default:
		r.unknown(name, members)
	}
}

// unchain takes the members off a chain. How they were joined, by . or by ?.,
// does not matter: a member that is missing is nil in either case.
func unchain(node ast.Node) (root ast.Node, members []ast.Node) {
	for {
		switch n := node.(type) {
		case *ast.ChainNode:
			node = n.Node
		case *ast.MemberNode:
			members = append(members, n.Property)
			node = n.Node
		default:
			slices.Reverse(members)
			return node, members
		}
	}
}

// members resolves a chain whose root is a value of the expression itself.
func (r *resolver) members(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.ChainNode:
		r.resolve(&n.Node)
	case *ast.MemberNode:
		r.each(&n.Node, &n.Property)
	}
}

func (r *resolver) path(node *ast.Node, root *ast.IdentifierNode, members []ast.Node) {
	path, ok := r.steps(root, members)
	switch {
	case !ok:
	case root.Value == "body":
		r.read(node, bodyMember(path))
	case !r.config.Vars:
		r.refuse(root.Location(), "set keyexpr.Config.Vars, or use an adapter that does", "vars is not available: nothing hands over values of the application")
	case path[0].isIndex:
		r.refuse(members[0].Location(), "write vars.name", "vars is not a list")
	default:
		r.read(node, variable(path))
	}
}

func (r *resolver) field(node *ast.Node, root *ast.IdentifierNode, members []ast.Node) {
	path, ok := r.steps(root, members)
	if !ok {
		return
	}
	if path[0].isIndex {
		r.refuse(members[0].Location(), "write "+root.Value+".name", "%s is not a list", root.Value)
		return
	}
	if len(path) > 1 {
		r.noMembers(root.Value+path[0].String(), members[1])
		return
	}
	switch root.Value {
	case "form":
		r.read(node, formField(path[0]))
	case "query":
		r.read(node, queryParameter(path[0]))
	case "params":
		r.read(node, pathParameter(path[0]))
	}
}

// steps are the members as a path. Only constants make one: a key that the
// client names as well as values could be any key.
func (r *resolver) steps(root *ast.IdentifierNode, members []ast.Node) ([]step, bool) {
	if len(members) == 0 {
		r.refuse(root.Location(), "name a member: "+root.Value+".name", "%s is not a value%s", root.Value, r.toCountBy())
		return nil, false
	}
	return r.constants(root.Value, members)
}

func (r *resolver) toCountBy() string {
	if r.kind == keyKind {
		return " to count by"
	}
	return ""
}

func (r *resolver) constants(root string, members []ast.Node) ([]step, bool) {
	path := make([]step, len(members))
	for i, m := range members {
		switch m := m.(type) {
		case *ast.StringNode:
			path[i] = step{name: m.Value}
		case *ast.IntegerNode:
			path[i] = step{index: m.Value, isIndex: true}
		default:
			r.refuse(m.Location(), "", "a member of %s is named by a constant: text, or a number from 0", root)
			return nil, false
		}
	}
	return path, true
}

func (r *resolver) request(node *ast.Node, root *ast.IdentifierNode, members []ast.Node) {
	all := requestMembers()
	known := slices.Sorted(maps.Keys(all))
	if len(members) == 0 {
		r.refuse(root.Location(), "name a member: request."+strings.Join(known, ", request."), "request is not a value%s", r.toCountBy())
		return
	}
	name, ok := members[0].(*ast.StringNode)
	if !ok {
		r.refuse(members[0].Location(), "", "a member of request is named by a constant")
		return
	}
	get, ok := all[name.Value]
	if !ok {
		hint := didYouMean(name.Value, nil) // url is request.path
		if !strings.Contains(hint, "request.") {
			hint = didYouMean("request."+name.Value, prefixed("request.", known))
		}
		r.refuseListing(name.Location(), "", prefixed("request.", known), hint, "request has no member %q", name.Value)
		return
	}
	if len(members) > 1 {
		r.noMembers("request."+name.Value, members[1])
		return
	}
	r.read(node, requestMember(name.Value, get))
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = prefix + name
	}
	return out
}

func (r *resolver) text(node *ast.Node, name *ast.IdentifierNode, members []ast.Node) {
	switch {
	case len(members) > 0:
		r.noMembers(name.Value, members[0])
	case name.Value == "route":
		r.read(node, route())
	case r.config.ClientIP == nil:
		r.refuse(name.Location(), "set keyexpr.Config.ClientIP, or use an adapter that does", "ip is not available: nothing tells the client's address")
	default:
		r.read(node, clientIP(r.config.ClientIP))
	}
}

func (r *resolver) noMembers(part string, member ast.Node) {
	r.refuse(member.Location(), "", "%s is text; it has no members", part)
}

func (r *resolver) unknown(name *ast.IdentifierNode, members []ast.Node) {
	switch {
	case name.Value == argumentName:
		r.refuse(name.Location(), "", "in is the argument of a function or of a typed handler, and there is none here")
	case isRequestWord(name.Value) && r.config.NoRequest:
		r.refuseRequestName(name)
	case name.Value == "header" || name.Value == "cookie":
		r.refuse(name.Location(), r.hintForCallee(name.Value), "%s is a function", name.Value)
	case functions()[name.Value].name != "":
		r.refuse(name.Location(), "write "+functions()[name.Value].usage, "%s is a function", name.Value)
	case name.Value == "$env" || strings.HasPrefix(name.Value, "__"):
		r.refuse(name.Location(), "", "%s is not available", name.Value)
	default:
		r.refuseListing(name.Location(), "", r.allNames(), r.hintForName(name.Value, memberNames(members)), "unknown name %q", name.Value)
	}
}

func (r *resolver) hintForCallee(name string) string {
	hint := "write " + name + `("Name")`
	if t := r.config.Argument; t != nil && pointeeType(t).Kind() == reflect.Struct {
		if f, ok := fieldsOf(pointeeType(t)).byName[name]; ok {
			hint += ", or in" + step{name: f.name}.String() + " for the member of the argument"
		}
	}
	return hint
}

// refuseRequestName is for plain functions, which have an argument only.
func (r *resolver) refuseRequestName(name *ast.IdentifierNode) {
	r.refuseListing(name.Location(), "", r.allNames(), "", "%s is not available: a plain function is called without a request", name.Value)
}

func memberNames(members []ast.Node) []string {
	var names []string
	for _, m := range members {
		if s, ok := m.(*ast.StringNode); ok {
			names = append(names, s.Value)
		}
	}
	return names
}

// allNames are names and those that the expression has given.
func (r *resolver) allNames() []string {
	names := r.names()
	for _, let := range r.lets {
		names = append(names, let.name)
	}
	return names
}

// declare resolves let name = value; expression.
func (r *resolver) declare(n *ast.VariableDeclaratorNode) {
	path, isArgument := r.argumentChain(n.Value)
	r.resolve(&n.Value)
	switch {
	case r.hasMeaning(n.Name):
		r.refuse(n.Location(), "choose another name", "%s already has a meaning", n.Name)
	case strings.HasPrefix(n.Name, "$") || strings.HasPrefix(n.Name, "__"):
		r.refuse(n.Location(), "choose another name", "%s is not available", n.Name)
	}
	r.lets = append(r.lets, let{n.Name, isArgument, path})
	r.resolve(&n.Expr)
	r.lets = r.lets[:len(r.lets)-1]
}

// hasMeaning is true of what a let would hide. Where every name is a member of the
// argument, a let may hide it: in.name is still there.
func (r *resolver) hasMeaning(name string) bool {
	return name == argumentName || r.isRequestName(name) || isFunctionWord(name) || r.let(name) != nil ||
		slices.Contains(r.memberNames(), name)
}

func (r *resolver) binary(n *ast.BinaryNode) {
	switch {
	case n.Operator == "..":
		r.refuse(n.Location(), "", "ranges are not available")
	case n.Operator == "matches" && !isString(n.Right):
		r.refuse(n.Right.Location(), "", "matches takes a pattern in quotes: it is compiled with the expression")
	}
	r.each(&n.Left, &n.Right)
	if r.err == nil && (n.Operator == "==" || n.Operator == "!=") {
		r.comparison(n)
	}
	if n.Operator == "??" && r.neverNil(n.Left) {
		hint := ""
		if isFunction(n.Left) {
			hint = "?? goes inside the function: lower(a ?? b)"
		}
		if i, ok := readIndex(n.Left); ok && strings.HasPrefix(r.reads[i].part, "in.") && r.reads[i].static == textType() {
			hint = fmt.Sprintf(`what the caller leaves out is "" here: %[1]s != "" ? %[1]s : …`, r.reads[i].part)
		}
		r.refuse(n.Location(), hint, "the left side of ?? is never nil, so the right side is never used")
	}
}

// comparison refuses a question that has one answer only.
func (r *resolver) comparison(n *ast.BinaryNode) {
	other := n.Left
	if _, ok := n.Left.(*ast.NilNode); ok {
		other = n.Right
	} else if _, ok := n.Right.(*ast.NilNode); !ok {
		return
	}
	part := r.spelling(other)
	if part == "" || !r.neverNil(other) {
		return
	}
	hint := ""
	if i, ok := readIndex(other); ok && r.reads[i].static == textType() {
		hint = "compare it with text: " + part + " " + n.Operator + ` ""`
	}
	r.refuse(n.Location(), hint, "%s is never nil", part)
}

func isString(node ast.Node) bool { _, ok := node.(*ast.StringNode); return ok }

// neverNil tells of a resolved node that the right side of ?? is dead code. The
// functions are among those: they fail for nil.
func (r *resolver) neverNil(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.CallNode:
		i, isRead := readIndex(n)
		return !isRead || r.reads[i].always
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.ArrayNode, *ast.MapNode:
		return true
	}
	return false
}

func isFunction(node ast.Node) bool {
	return !calls(node, readText) && !calls(node, readValue) && calls(node, "")
}

// calls tells whether node calls the named function, or any if name is "".
func calls(node ast.Node, name string) bool {
	n, ok := node.(*ast.CallNode)
	if !ok {
		return false
	}
	callee, ok := n.Callee.(*ast.IdentifierNode)
	return ok && (name == "" || callee.Value == name)
}

func (r *resolver) call(node *ast.Node, n *ast.CallNode) {
	name, ok := n.Callee.(*ast.IdentifierNode)
	if !ok && r.responseHeader(node, n) {
		return
	}
	if !ok {
		r.refuse(n.Location(), "", "only the functions of %ss can be called, not the methods of a value", r.kind.words().noun)
		return
	}
	f, ok := functions()[name.Value]
	switch {
	case isRequestWord(name.Value) && r.config.NoRequest && !r.isArgument(name.Value):
		r.refuseRequestName(name)
	case r.isRequestName(name.Value) && (name.Value == "header" || name.Value == "cookie"):
		r.named(node, n, name.Value)
	case !ok && (name.Value == argumentName || isRequestWord(name.Value) || slices.Contains(r.memberNames(), name.Value)):
		r.refuse(name.Location(), "", "%s is not a function", name.Value)
	case !ok:
		r.refuseListing(name.Location(), "", r.allNames(), r.didYouMean(name.Value), "unknown function %q", name.Value)
	case len(n.Arguments) < f.min || len(n.Arguments) > f.max:
		r.refuse(name.Location(), "write "+f.usage, "%s takes %s, not %d", f.name, f.arity(), len(n.Arguments))
	default:
		r.all(n.Arguments)
		if name.Value == "prefix" {
			r.bits(n.Arguments[1])
		}
	}
}

// named resolves header("X") and cookie("x"). A constant name can be checked and
// canonicalised now, and an audit of the expression shows it.
func (r *resolver) named(node *ast.Node, n *ast.CallNode, function string) {
	if len(n.Arguments) != 1 || !isString(n.Arguments[0]) {
		at := n.Location()
		if len(n.Arguments) > 0 {
			at = n.Arguments[0].Location()
		}
		r.refuse(at, "", "%s takes one name in quotes", function)
		return
	}
	name := n.Arguments[0].(*ast.StringNode)
	switch {
	case !isToken(name.Value):
		r.refuse(name.Location(), "", "%s cannot be the name of a %s", strconv.Quote(name.Value), strings.TrimPrefix(function, "response."))
	case function == "response.header":
		r.read(node, responseHeader(name.Value))
	case function == "cookie":
		r.read(node, cookie(name.Value))
	default:
		r.read(node, header(name.Value))
	}
}

// isToken follows RFC 9110, section 5.6.2, as names of fields (section 5.1) and
// of cookies (RFC 6265, section 4.1.1) do.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func (r *resolver) bits(node ast.Node) {
	if bits, ok := node.(*ast.IntegerNode); ok && (bits.Value < minBits || bits.Value > maxBits) {
		r.refuse(node.Location(), "8 to 32 bits apply to IPv4, 33 to 128 to IPv6", "prefix cannot keep %d bits of an address", bits.Value)
	}
}

// read puts a read in the place of node.
func (r *resolver) read(node *ast.Node, rd read) {
	i := slices.IndexFunc(r.reads, func(known read) bool { return known.part == rd.part })
	if i < 0 {
		i = len(r.reads)
		r.reads = append(r.reads, rd)
	}
	function := readValue
	if rd.isText() && rd.always {
		function = readText
	}
	callee, index := &ast.IdentifierNode{Value: function}, &ast.IntegerNode{Value: i}
	callee.SetLocation((*node).Location())
	index.SetLocation((*node).Location())
	ast.Patch(node, &ast.CallNode{Callee: callee, Arguments: []ast.Node{index}})
}
