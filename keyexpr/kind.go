package keyexpr

// A kind is what an expression is for. All kinds are one language; they differ in
// the results that they take, and in the words of their faults.
type kind int

const (
	keyKind kind = iota
	conditionKind
	costKind
	choiceKind
)

// wording is how sentences speak of a kind.
type wording struct {
	noun    string // what the expression is
	result  string // what it yields no … of
	aResult string // what it never yields
	by      string // completes "what this request is …"
	empty   string // what to write where nothing is written
}

var wordings = [...]wording{
	keyKind: {"key expression", "key", "a key", "counted by",
		`write what to count by, for example ip or body.email; "global" counts all requests together`},
	conditionKind: {"condition", "answer", "an answer", "judged by",
		`write what must hold, for example request.method == "POST"`},
	costKind: {"cost", "cost", "a number", "weighed by",
		`write how many requests this one counts for, for example len(body.recipients)`},
	choiceKind: {"choice", "choice", "a text", "limited by",
		`write which one applies, for example vars.plan == "pro" ? "pro" : "free"`},
}

func (k kind) words() wording { return wordings[k] }
