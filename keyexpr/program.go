package keyexpr

import "slices"

// Program is a compiled key expression. It is safe for concurrent use and keeps
// nothing of a request once Key has returned.
type Program struct {
	compiled

	constant []string // the parts of a key that depends on no request
	verbatim []string
}

// Compile checks an expression as far as it can be without a request, and makes
// a program of it. The error is a *[CompileError].
//
// An expression that reads nothing, "global" for example, is evaluated here.
func Compile(expression string, config Config) (*Program, error) {
	p := new(Program)
	r := &resolver{kind: keyKind, expression: expression, config: config}
	if fault := p.compile(r); fault != nil {
		return nil, fault
	}
	p.verbatim = slices.Sorted(slices.Values(r.verbatim))
	if !p.Constant() {
		return p, nil
	}
	parts, err := p.Key(nil, nil)
	if err != nil {
		return nil, p.never(err)
	}
	p.constant = slices.Clip(parts)
	return p, nil
}

// Key appends the parts of the request's key to parts: one for a scalar, one per
// element for a list, none of them empty. The parts are raw text; they are a key
// only if they are joined such that no part can forge a boundary.
//
// The error is a *KeyError, and parts are then returned as they were. Key reads
// the body only if the evaluation reaches a name that needs it; src.Request().Body
// then yields the same bytes again.
func (p *Program) Key(src Source, parts []string) ([]string, error) {
	if p.constant != nil {
		return append(parts, p.constant...), nil
	}
	if p.plain != nil && p.plain.direct != nil {
		if part, ok := p.plain.quickly(src); ok {
			return append(parts, part), nil
		}
	}
	if p.plain != nil && p.plain.isText() {
		part, failed := p.evaluateText(src)
		if failed != nil {
			return parts, failed
		}
		return append(parts, part), nil
	}
	key := parts
	failed := p.evaluate(src, func(value any) *fault {
		all, element, failed := appendParts(parts, value)
		if failed != nil && element >= 0 && element < len(p.elements) {
			failed.part = p.elements[element]
		}
		key = all
		return failed
	})
	if failed != nil {
		return parts, failed
	}
	return key, nil
}

// Verbatim are, sorted, those of Reads that can become a part of the key as they are, and
// not by way of a function: an audit finds an e-mail address there that no email(…)
// has made canonical.
func (p *Program) Verbatim() []string { return slices.Clone(p.verbatim) }
