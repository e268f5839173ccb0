package stdmw

import (
	"io"
	"net/http"

	"github.com/felixge/httpsnoop"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/keyexpr"
)

// watch runs the handler, and lets the rules see its response. The handler's writer keeps every ability of the
// server's: Flusher, Hijacker, ReaderFrom.
func watch(w http.ResponseWriter, r *http.Request, next http.Handler, aspect *sash.Aspect, verdict sash.Verdict, src keyexpr.Source) {
	status, finished := 0, false // 0: nothing has been answered
	defer func() {
		switch {
		case status == 0 && finished:
			status = http.StatusOK
		case status == 0:
			status = http.StatusInternalServerError // what a panic will become
		}
		aspect.After(verdict, sash.WithResponse(src, status, w.Header()))
	}()
	next.ServeHTTP(seen(w, &status), r)
	finished = true
}

// seen is w, which notes the status that is answered: the first that is not informational, or 200 with the first byte.
func seen(w http.ResponseWriter, status *int) http.ResponseWriter {
	answered := func(code int) {
		if *status == 0 && (code >= 200 || code == http.StatusSwitchingProtocols) {
			*status = code
		}
	}
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) { answered(code); next(code) }
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(p []byte) (int, error) { answered(http.StatusOK); return next(p) }
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(from io.Reader) (int64, error) {
				n, err := next(from)
				if n > 0 { // of an empty reader nothing is sent, and another status may follow
					answered(http.StatusOK)
				}
				return n, err
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { answered(http.StatusOK); next() }
		},
	})
}
