package keyexpr

import "net/http"

// Source is one request as its framework knows it. An adapter implements it. A
// Source never enters the expression's environment, so no expression can call it.
type Source interface {
	// Request is the request itself. Its Body is replaced by one that yields the
	// same bytes if the expression reads the body; nothing else is changed.
	Request() *http.Request

	// Route is the pattern that matched, "" if none did.
	Route() string

	// Param is a path parameter; false if the route has none of that name.
	Param(name string) (string, bool)

	// Var is a value that the application's own middleware left; false if it
	// left none of that name.
	Var(name string) (any, bool)

	// Body is a body that earlier middleware has read whole and kept; false if
	// none has. It is not modified.
	Body() ([]byte, bool)
}

// ResponseSource is what a Source is as well if Config.Response was set: the
// handler's response to the request.
type ResponseSource interface {
	Source

	// Status is the status code that was sent, 200 if the handler named none.
	Status() int

	// ResponseHeader is the header fields that were sent. It is not modified.
	ResponseHeader() http.Header
}

// ArgumentSource is what a Source is as well if Config.Argument was set.
type ArgumentSource interface {
	// Argument is a value of that type, or a pointer to one, which spares a copy.
	Argument() any
}
