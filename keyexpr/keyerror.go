package keyexpr

import "fmt"

// Problem is the kind of fault that kept an expression from its result.
type Problem int

const (
	Missing    Problem = iota + 1 // the request does not have it
	Empty                         // it is ""
	WrongType                     // it is there, but is nothing that the result can be made of
	Malformed                     // it cannot be parsed
	Ambiguous                     // two readers could read two values
	TooLarge                      // it is over a cap
	Unreadable                    // reading it failed
)

var problems = [...]string{
	Missing: "missing", Empty: "empty", WrongType: "wrong type", Malformed: "malformed",
	Ambiguous: "ambiguous", TooLarge: "too large", Unreadable: "unreadable",
}

// String is the problem in words, "missing" for example.
func (p Problem) String() string {
	if p < Missing || p > Unreadable {
		return fmt.Sprintf("Problem(%d)", int(p))
	}
	return problems[p]
}

// KeyError tells why a request has no key, no cost, or no answer to a condition. Neither Error nor Detail ever holds a
// value of the request; Err may, and is for the debugger, not for logs.
type KeyError struct {
	Expression string
	Part       string // what is at fault, as the expression writes it: body.email; or the whole expression
	Problem    Problem
	Err        error // the cause, or nil

	detail string
}

// Error is for the server's log.
func (e *KeyError) Error() string {
	return fmt.Sprintf("keyexpr: %s: %s is %s: %s", e.Expression, e.Part, e.Problem, e.detail)
}

// Detail is one sentence for the client, such as
//
//	The request body has no member "email".
func (e *KeyError) Detail() string { return e.detail }

func (e *KeyError) Unwrap() error { return e.Err }

// A fault is a KeyError in the making: whoever finds it does not know the
// expression, and often not the part.
type fault struct {
	problem   Problem
	err       error
	part      *read  // nil if unknown
	complaint string // predicate of the sentence, "is not an e-mail address"; "" for the usual one
	sentence  string // the whole sentence, if it has another subject than the part
}

func (f *fault) Error() string { return f.problem.String() }

// about is the subject of a sentence if the part at fault is not known: a request,
// or a call of a function, and what the expression is to it.
type about struct{ whole, by string }

func (a about) unnamed() string { return "What this " + a.whole + " is " + a.by }

// detail is the sentence for the client. Its subject is the part at fault.
func (f *fault) detail(about about) string {
	switch {
	case f.sentence != "":
		return f.sentence
	case f.part == nil && f.problem == Missing && f.complaint == "":
		return "The " + about.whole + " lacks what it is " + about.by + "."
	case f.problem == Missing && f.complaint == "":
		return "The " + f.part.owner + " has no " + f.part.noun + "."
	}
	subject := about.unnamed()
	if f.part != nil {
		subject = "The " + f.part.noun + " of the " + f.part.owner
	}
	return subject + " " + f.predicate() + "."
}

func (f *fault) predicate() string {
	if f.complaint != "" {
		return f.complaint
	}
	switch f.problem {
	case Missing:
		return "is missing"
	case Empty:
		return "is empty"
	case WrongType:
		return "must be text, a whole number, true or false, or a list of those"
	case Ambiguous:
		return "is given more than once, or in another case"
	case TooLarge:
		return "is too large"
	case Unreadable:
		return "could not be read"
	}
	return "is malformed"
}
