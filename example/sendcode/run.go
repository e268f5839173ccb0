package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// shutdownTimeout is how long requests in flight may still take when the program is told to end: longer than a
// mail may (see mailTimeout).
const shutdownTimeout = 15 * time.Second

type config struct {
	addr      string // to serve on; port 0 picks a free one
	framework string // of frameworks
	redisURL  string // "": limits are kept in this process
	smtpAddr  string // "": codes go to the log
	from      string // the sender of mails
	logger    *slog.Logger
}

// frameworks are the ways to serve the one application.
var frameworks = map[string]func(*service, *ratelimit.Limiter) http.Handler{
	"gin":   newGinHandler,
	"std":   newStdHandler,
	"typed": newTypedHandler,
}

// run serves until ctx ends, and then lets requests in flight finish. It returns nil after that, and an error if
// the program cannot start, cannot go on, or cannot finish within shutdownTimeout.
func run(ctx context.Context, c config) error {
	newHandler, ok := frameworks[c.framework]
	if !ok {
		return fmt.Errorf("-framework %s: want gin, std or typed", c.framework)
	}
	sender, err := newSender(c)
	if err != nil {
		return err
	}
	limits, where := ratelimit.Config{Logger: c.logger}, "memory"
	if c.redisURL != "" {
		client, err := newRedisClient(c.redisURL)
		if err != nil {
			return err
		}
		defer client.Close()
		limits.Store, where = redisstore.New(client), "redis at "+client.Options().Addr
	}
	limiter, err := ratelimit.New(limits)
	if err != nil {
		return err
	}
	defer limiter.Close()

	service := &service{codes: newCodeStore(time.Now, maxCodes), sender: sender, logger: c.logger}
	listener, err := net.Listen("tcp", c.addr)
	if err != nil {
		return err
	}
	c.logger.Info("listening", "addr", listener.Addr().String(), "framework", c.framework, "store", where)
	return serve(ctx, newServer(newHandler(service, limiter), c.logger), listener)
}

// newServer bounds what a client can hold on to. A whole request must arrive in ReadTimeout, and be answered in
// WriteTimeout, which has room for a slow mail relay.
func newServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           onlyPlainPaths(handler),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

func serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	return server.Shutdown(ctx)
}
