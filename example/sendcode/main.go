// Command sendcode mails verification codes, and limits how often: the example of package sash.
//
//	go run ./example/sendcode
//	curl -i -d '{"email":"6888@example.com"}' http://127.0.0.1:8080/send/code
//
// The fourth request of one e-mail within 60 s is denied. It needs nothing beside it: limits are kept in this
// process, and codes go to the log. -redis shares the limits, -smtp mails the codes, and -framework picks Gin or
// net/http, which answer alike to the byte: gin.go and std.go are the pages to copy from. typed.go is the same with
// typed handlers.
//
// What is given up: codes are kept in this process even if limits are in Redis, so that a code can be verified
// only by the process that sent it, and is gone when that ends.
package main

import (
	"cmp"
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	var c config
	flag.StringVar(&c.addr, "addr", "127.0.0.1:8080", "`host:port` to serve on")
	flag.StringVar(&c.framework, "framework", "gin", "gin, std for net/http, or typed for net/http with typed handlers")
	flag.StringVar(&c.redisURL, "redis", "", "keep the limits in the Redis at this `url`, redis://…; default $REDIS_URL, else in this process")
	flag.StringVar(&c.smtpAddr, "smtp", "", "mail the codes through this relay, `host:port`; default: write them to the log")
	flag.StringVar(&c.from, "from", "sendcode@localhost", "`address` that mails come from")
	flag.Parse()
	// Not as the flag's default, which -help prints: the URL may hold a password.
	c.redisURL = cmp.Or(c.redisURL, os.Getenv("REDIS_URL"))
	c.logger = slog.Default()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, c); err != nil {
		c.logger.Error("sendcode ends", "err", err)
		os.Exit(1)
	}
}
