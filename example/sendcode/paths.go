package main

import (
	"net/http"
	"path"
)

// onlyPlainPaths answers 404 to a path that is not spelled as the routes are, before a router sees it. Routers
// disagree about those: //send/code is a redirect to ServeMux and nothing to Gin, /send/code/ the other way round, and
// /send%2Fcode is the route to Gin and nothing to ServeMux. No route needs an escape or a slash at its end, so nobody
// is missed.
func onlyPlainPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != path.Clean("/"+r.URL.Path) {
			notFound.write(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
