package ginmw

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/keyexpr"
)

// Handle is a typed handler with its limits: the counterpart of an annotated method that takes a request body.
//
//	r.POST("/send/code", ginmw.Handle(limit, sendCode, sash.SlidingWindowLimit("email", time.Minute, 3)))
//
//	func sendCode(ctx context.Context, in SendRequest) (Reply, error)
//
// The request is bound to In once, by Gin's ShouldBind, of at most MaxBodyBytes of body. The rules' expressions see In
// beside the request: its members by their names, and the value itself as in. So the limiter counts by the very value
// that the handler receives. A request that cannot be bound is Failed's, as one without a key is.
// Out is written as JSON with 200. An error is Errored's.
//
// Handle panics on a wrong declaration.
func Handle[In, Out any](d Decorator, handler func(context.Context, In) (Out, error), rules ...sash.Rule) gin.HandlerFunc {
	aspect, err := sash.CompileFor[In](d.Limiter, d.options(), rules...)
	if handler == nil {
		err = errors.Join(err, errors.New("ginmw: Handle: there is no handler"))
	}
	if err != nil {
		panic(err)
	}
	return func(c *gin.Context) {
		if verdict, denied := aspect.CheckUnread(c.Writer.Header(), source{c}); denied {
			d.told(c, &verdict)
			return
		}
		var in In
		if err := d.bind(c, &in); err != nil {
			d.refuse(c, &sash.Verdict{Err: err})
			return
		}
		src := sash.WithArgument(source{c}, in)
		verdict, goesOn := d.check(c, aspect, src)
		if !goesOn {
			return
		}
		reply := func() {
			out, err := handler(c.Request.Context(), in)
			if err != nil && d.Errored != nil {
				d.Errored(c, err)
				return
			}
			sash.WriteReply(c.Writer, out, err)
		}
		if aspect.Watches() {
			watch(c, aspect, verdict, src, reply)
			return
		}
		reply()
	}
}

func (d Decorator) bind(c *gin.Context, in any) error {
	limit := d.MaxBodyBytes
	if limit == 0 {
		limit = keyexpr.DefaultMaxBodyBytes
	}
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, limit)
	if err := c.ShouldBind(in); err != nil {
		return &sash.BindError{Err: err}
	}
	return nil
}
