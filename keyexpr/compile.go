package keyexpr

import (
	"reflect"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/optimizer"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// compile fills c with what r says: all that a kind has in common with the others.
func (c *compiled) compile(r *resolver) (fault *CompileError) {
	defer func() {
		if cause := recover(); cause != nil {
			fault = &CompileError{Expression: r.expression, Message: "the " + r.kind.words().noun + " cannot be compiled"}
		}
	}()
	if r.config.MaxBodyBytes < 0 {
		return &CompileError{Expression: r.expression, Message: "keyexpr.Config.MaxBodyBytes is negative"}
	}
	if fault := checkSource(r.expression, r.kind, r.config.NoRequest); fault != nil {
		return fault
	}
	c.kind, c.expression, c.noRequest = r.kind, r.expression, r.config.NoRequest
	c.maxBodyBytes = r.config.maxBodyBytes()
	return c.build(r)
}

// build does what expr.Compile does, in its order. We stand between the steps
// because a resolver must see the tree from the top, and once: a patcher of that
// package sees every name before it can know whether a member follows.
//
// The types are checked twice. First every read has the type that it has unless
// it is nil, so that a fault shows here. What is then compiled knows no type of
// a read, for it must bear nil.
func (c *compiled) build(r *resolver) *CompileError {
	r.language = newLanguage()
	tree, err := parser.ParseWithConfig(nameArgument(r.expression), r.language)
	if err != nil {
		return r.translate(err)
	}
	if r.resolve(&tree.Node); r.err != nil {
		return r.err
	}
	c.reads = r.reads
	ast.Walk(&tree.Node, typer{r.reads, true})
	if _, err := checker.Check(tree, r.language); err != nil {
		return r.translate(err)
	}
	if r.checkResult(tree.Node); r.err != nil {
		return r.err
	}
	ast.Walk(&tree.Node, typer{r.reads, false})
	if _, err := checker.Check(tree, r.language); err != nil {
		return r.translate(err)
	}
	if i, ok := readIndex(tree.Node); ok {
		c.plain, c.at = &c.reads[i], tree.Node.Location()
	}
	c.sole, c.elements = soleRead(tree.Node, c.reads), soleReads(tree.Node, c.reads)
	if err := optimizer.Optimize(&tree.Node, r.language); err != nil {
		return r.translate(err)
	}
	if c.code, err = compiler.Compile(tree, r.language); err != nil {
		return r.translate(err)
	}
	c.machines.New = func() any { return newMachine(c) }
	return nil
}

// newLanguage is the expression language without its builtins, with ours.
func newLanguage() *conf.Config {
	language := conf.CreateNew()
	options := []expr.Option{expr.Env(environment{}), expr.DisableAllBuiltins(), expr.MaxNodes(maxNodes)}
	for _, f := range functions() {
		options = append(options, expr.Function(f.name, f.run, f.types...))
	}
	for _, option := range options {
		option(language)
	}
	for name := range language.Disabled {
		delete(language.Builtins, name)
	}
	return language
}

// typer gives every read its type, and forgets all others: the checker takes the
// type of a call for granted if there is one.
type typer struct {
	reads []read
	typed bool
}

func (t typer) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.CallNode)
	if !ok {
		return
	}
	n.SetType(reflect.TypeFor[any]())
	if i, ok := readIndex(n); ok && t.typed && t.reads[i].static != nil {
		n.SetType(t.reads[i].static)
	}
}

// readIndex is which read a resolved node is; false if it is none.
func readIndex(node ast.Node) (int, bool) {
	if !calls(node, readText) && !calls(node, readValue) {
		return 0, false
	}
	return node.(*ast.CallNode).Arguments[0].(*ast.IntegerNode).Value, true
}

// evaluateConstant is the value of a checked node that depends on nothing; false
// if it does depend, or fails.
func (r *resolver) evaluateConstant(node ast.Node) (any, bool) {
	var found variables
	if ast.Walk(&node, &found); found {
		return nil, false
	}
	code, err := compiler.Compile(&parser.Tree{Node: node}, r.language)
	if err != nil {
		return nil, false
	}
	value, err := vm.Run(code, &environment{})
	return value, err == nil
}

// variables tells whether a resolved node has any name in it but of functions.
type variables bool

func (v *variables) Visit(node *ast.Node) {
	if name, ok := (*node).(*ast.IdentifierNode); ok && functions()[name.Value].name == "" {
		*v = true
	}
}

// soleReads are the sole reads of the elements of a list, nil if node is no list.
func soleReads(node ast.Node, reads []read) []*read {
	list, ok := afterLets(node).(*ast.ArrayNode)
	if !ok {
		return nil
	}
	sole := make([]*read, len(list.Nodes))
	for i, element := range list.Nodes {
		sole[i] = soleRead(element, reads)
	}
	return sole
}

func afterLets(node ast.Node) ast.Node {
	for {
		let, ok := node.(*ast.VariableDeclaratorNode)
		if !ok {
			return node
		}
		node = let.Expr
	}
}

// soleRead is the one read below a resolved node, nil if there are none or several.
func soleRead(node ast.Node, reads []read) *read {
	var found finder
	ast.Walk(&node, &found)
	if len(found) != 1 {
		return nil
	}
	return &reads[found[0]]
}

// finder collects the indices of the reads below a resolved node.
type finder []int

func (f *finder) Visit(node *ast.Node) {
	if index, ok := readIndex(*node); ok && !slices.Contains(*f, index) {
		*f = append(*f, index)
	}
}
