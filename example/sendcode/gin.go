package main

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/ratelimit"
)

// newGinHandler is the application on Gin: each limit stands beside its handler.
func newGinHandler(s *service, limiter *ratelimit.Limiter) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	app := ginApp{s}
	limit := ginmw.Decorator{Limiter: limiter, Denied: app.denied, Failed: app.failed}

	r.POST("/send/code", limit.SlidingWindowLimit("body.email", 60*time.Second, 3), app.sendCode)
	r.POST("/verify/code", limit.SlidingWindowLimit("body.email", 10*time.Minute, 5), app.verifyCode)
	// ServeMux lets a GET route answer HEAD; Gin must be told.
	r.Match([]string{http.MethodGet, http.MethodHead}, "/user/test",
		limit.SlidingWindowLimit("[ip, route]", time.Minute, 3), app.userTest)

	r.HandleMethodNotAllowed = true // and Gin sets Allow
	r.NoMethod(func(c *gin.Context) { app.answer(c, methodNotAllowed) })
	r.NoRoute(func(c *gin.Context) { app.answer(c, notFound) })
	return r
}

type ginApp struct{ service *service }

func (a ginApp) sendCode(c *gin.Context) {
	var in sendRequest
	if c.ShouldBindJSON(&in) != nil {
		a.answer(c, badRequest)
		return
	}
	a.answer(c, a.service.send(c.Request.Context(), in))
}

func (a ginApp) verifyCode(c *gin.Context) {
	var in verifyRequest
	if c.ShouldBindJSON(&in) != nil {
		a.answer(c, badRequest)
		return
	}
	a.answer(c, a.service.verify(in))
}

func (a ginApp) userTest(c *gin.Context) { a.answer(c, success) }

func (a ginApp) denied(c *gin.Context, _ ratelimit.Decision) { a.answer(c, tooManyRequests) }

func (a ginApp) failed(c *gin.Context, err error) { a.answer(c, undecided(err)) }

func (a ginApp) answer(c *gin.Context, what answer) {
	c.JSON(what.status, what.envelope(c.Writer.Header(), c.Request))
}
