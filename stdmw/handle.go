package stdmw

import (
	"context"
	"errors"
	"net/http"

	"github.com/sashlimit/sash"
)

// Handle is a typed handler with its limits: the counterpart of an annotated method that takes a request body.
//
//	mux.Handle("POST /send/code", stdmw.Handle(limit, sendCode, sash.SlidingWindowLimit("email", time.Minute, 3)))
//
//	func sendCode(ctx context.Context, in SendRequest) (Reply, error)
//
// The JSON body, of at most MaxBodyBytes, is bound to In once. The rules' expressions see In beside the request: its
// members by their names, and the value itself as in. So the limiter counts by the very value that the handler
// receives. A request that cannot be bound is Failed's, as one without a key is. Out is written as JSON with 200. An
// error is Errored's.
//
// Handle panics on a wrong declaration.
func Handle[In, Out any](d Decorator, handler func(context.Context, In) (Out, error), rules ...sash.Rule) http.Handler {
	aspect, err := sash.CompileFor[In](d.Limiter, d.options(), rules...)
	if handler == nil {
		err = errors.Join(err, errors.New("stdmw: Handle: there is no handler"))
	}
	if err != nil {
		panic(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if verdict, denied := aspect.CheckUnread(w.Header(), d.source(r)); denied {
			d.told(w, r, &verdict)
			return
		}
		var in In
		if err := sash.BindJSON(w, r, d.MaxBodyBytes, &in); err != nil {
			d.refuse(w, r, &sash.Verdict{Err: err})
			return
		}
		src := sash.WithArgument(d.source(r), in)
		verdict, goesOn := d.check(w, r, aspect, src)
		if !goesOn {
			return
		}
		reply := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			out, err := handler(r.Context(), in)
			if err != nil && d.Errored != nil {
				d.Errored(w, r, err)
				return
			}
			sash.WriteReply(w, out, err)
		})
		if aspect.Watches() {
			watch(w, r, reply, aspect, verdict, src)
			return
		}
		reply(w, r)
	})
}
