package keyexpr

import (
	"net/textproto"
	"reflect"
	"strconv"

	"github.com/expr-lang/expr/ast"
)

func responseNames() []string { return []string{`response.header("…")`, "response.status"} }

// response resolves a chain whose root is response, but for response.header("X"),
// which is a call.
func (r *resolver) response(node *ast.Node, root *ast.IdentifierNode, members []ast.Node) {
	if !r.hasResponse(root) {
		return
	}
	if len(members) == 0 {
		r.refuse(root.Location(), `name a member: response.status, response.header("Name")`, "response is not a value")
		return
	}
	name, ok := members[0].(*ast.StringNode)
	switch {
	case !ok:
		r.refuse(members[0].Location(), "", "a member of response is named by a constant")
	case name.Value == "header":
		r.refuse(name.Location(), `write response.header("Name")`, "response.header is a function")
	case name.Value != "status":
		hint := ""
		switch near := nearest(name.Value, []string{"status", "header"}); {
		case near == "status" || name.Value == "code" || name.Value == "statusCode":
			hint = `did you mean "response.status"?`
		case near == "header":
			hint = `did you mean response.header("Name")?`
		}
		r.refuseListing(name.Location(), "", responseNames(), hint, "response has no member %q", name.Value)
	case len(members) > 1:
		r.refuse(members[1].Location(), "", "response.status is a whole number; it has no members")
	default:
		r.read(node, responseStatus())
	}
}

func (r *resolver) hasResponse(root *ast.IdentifierNode) bool {
	switch {
	case r.config.NoRequest:
		r.refuseRequestName(root)
	case !r.config.Response:
		r.refuse(root.Location(), "", "response is known only after the handler: use it in CountIf or ResetIf")
	}
	return r.config.Response && !r.config.NoRequest
}

// responseHeader tells whether a call is response.header(…), and resolves it if so.
func (r *resolver) responseHeader(node *ast.Node, n *ast.CallNode) bool {
	root, members := unchain(n.Callee)
	name, ok := root.(*ast.IdentifierNode)
	if !ok || name.Value != "response" || len(members) != 1 || r.let(name.Value) != nil || r.isArgument(name.Value) {
		return false
	}
	member, ok := members[0].(*ast.StringNode)
	if !ok || member.Value != "header" {
		return false
	}
	if r.hasResponse(name) {
		r.named(node, n, "response.header")
	}
	return true
}

func responseStatus() read {
	return read{part: "response.status", owner: "response", noun: "status", static: reflect.TypeFor[int](), always: true, value: func(m *machine) (any, *fault) {
		src, failed := m.response()
		if failed != nil {
			return nil, failed
		}
		return src.Status(), nil
	}}
}

func responseHeader(name string) read {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return read{part: call("response.header", name), owner: "response", noun: "header " + strconv.Quote(name), static: reflect.TypeFor[string](), text: func(m *machine) (string, bool, *fault) {
		src, failed := m.response()
		if failed != nil {
			return "", false, failed
		}
		return first(src.ResponseHeader()[name])
	}}
}

func (m *machine) response() (ResponseSource, *fault) {
	src, ok := m.src.(ResponseSource)
	if !ok {
		return nil, &fault{problem: Unreadable, sentence: "There is no response here."}
	}
	return src, nil
}
