package rivals

import (
	"io"
	"net/http"
)

// Path is what requests to middleware are sent to, by POST.
const Path = "/send/code"

// closingHandler is a handler together with what is to be closed after it.
type closingHandler struct {
	http.Handler
	io.Closer
}
