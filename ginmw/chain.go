package ginmw

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/keyexpr"
)

// watch runs what is left to do for a request, and lets the rules see its response.
func watch(c *gin.Context, aspect *sash.Aspect, verdict sash.Verdict, src keyexpr.Source, run func()) {
	finished := false
	defer func() {
		status := c.Writer.Status()
		if !finished && !c.Writer.Written() {
			status = http.StatusInternalServerError // what a panic will become
		}
		aspect.After(verdict, sash.WithResponse(src, status, c.Writer.Header()))
	}()
	run()
	finished = true
}

// decidedBefore reports whether the aspect has already decided this request, and marks it. HandleContext forgets the
// context's keys; the request's own context is all that stays.
func decidedBefore(c *gin.Context, aspect *sash.Aspect) bool {
	ctx := c.Request.Context()
	if ctx.Value(aspect) == c { // and not of a request that was made out of this one's context
		return true
	}
	c.Request = c.Request.WithContext(context.WithValue(ctx, aspect, c))
	return false
}
