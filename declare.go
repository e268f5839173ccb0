package sash

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/sashlimit/sash/ratelimit"
)

// declare takes the rules into the Limiter's listing, and warns of what is allowed but probably not meant.
func (a *Aspect) declare() error {
	at := caller()
	declarations := make([]ratelimit.Declaration, len(a.rules))
	for i := range a.rules {
		r := &a.rules[i]
		declarations[i] = ratelimit.Declaration{
			Name:     r.Name,
			Label:    r.label(),
			KeyExpr:  r.KeyExpr,
			Reads:    r.key.Reads(),
			Limits:   r.Limits,
			Plans:    r.Plans,
			DryRun:   r.DryRun,
			Declared: at,
		}
	}
	before := a.limiter.Rules()
	if err := a.limiter.Declare(a.routes.list, declarations...); err != nil {
		return err
	}
	for i := range a.rules {
		warnings := a.rules[i].warnings(before)
		if secret.MatchString(a.rules[i].label()) && a.failsOpen(&a.rules[i]) {
			warnings = append(warnings, guardsSecret)
		}
		for _, warning := range warnings {
			a.limiter.Logger().Warn("rate limit declaration: "+warning, "rule", a.rules[i].label(), "declared", at)
		}
	}
	return nil
}

// warnOf warns when a route is seen for the first time: what a rule guards may only show there.
func (a *Aspect) warnOf(route string) {
	for _, r := range a.rules {
		if secret.MatchString(route) && !secret.MatchString(r.label()) && a.failsOpen(&r) {
			a.limiter.Logger().Warn("rate limit declaration: "+guardsSecret, "rule", r.label(), "route", route)
		}
	}
}

const guardsSecret = "the limit seems to guard a secret, and allows everything while its store is down: set OnFailure to FailLocal or FailClosed"

// failsOpen reports whether a rule allows everything while its store is down.
func (a *Aspect) failsOpen(r *rule) bool { return !r.DryRun && a.limiter.FailsOpen(r.OnFailure) }

// module is where the frames of a declaration that are ours come from: this package and its adapters.
const module = "github.com/sashlimit/sash"

// caller is the file and line that called this library.
func caller() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		frame, more := frames.Next()
		if !isOurs(frame.Function) {
			return fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return "unknown"
		}
	}
}

func isOurs(function string) bool {
	for _, pkg := range []string{module, module + "/ginmw", module + "/stdmw"} {
		if strings.HasPrefix(function, pkg+".") {
			return true
		}
	}
	return false
}

var (
	// secret is a name of something that is guessed at: failing open, a limit on it fails the one it guards.
	secret = regexp.MustCompile(`(?i)login|signin|password|passwd|otp|token|verif|code|auth`)

	// mailbox is a part of a request, or of an argument, that holds an e-mail address, by its name.
	mailbox = regexp.MustCompile(`(?i)^(body|form|query|in)\.(.*\.)?e?-?mail(_?address)?$`)
)

// warnings tells what is allowed, but probably not meant, in view of what was declared before.
func (r *rule) warnings(before []ratelimit.Declaration) []string {
	var warnings []string
	for _, other := range before {
		if r.Name != "" && other.Name == r.Name && other.KeyExpr != r.KeyExpr {
			warnings = append(warnings, "a rule of this name counts by "+other.KeyExpr+" at "+other.Declared+": the same text from either is one key")
			break
		}
	}
	reads := r.key.Reads()
	switch {
	case r.key.Constant():
		warnings = append(warnings, "the key is a constant: everybody shares one quota, and any client can use it up")
	case !slices.ContainsFunc(reads, func(read string) bool {
		return !strings.HasPrefix(read, "header(") && !strings.HasPrefix(read, "cookie(")
	}):
		warnings = append(warnings, "the key is only what a client puts into its headers: it has a new quota for each value it makes up; add ip or a rule by ip")
	}
	if slices.ContainsFunc(r.key.Verbatim(), mailbox.MatchString) {
		warnings = append(warnings, "the key is an e-mail address as it is spelled, and every spelling has a quota of its own: write email(…) around it")
	}
	if l := r.heaviest(); l.MaxRequests > heavy {
		warnings = append(warnings, fmt.Sprintf("a key takes up to %s in this process, or %s in Redis, as the exact log of %v lists every request: with Buckets, 60 for example, it takes about 2 kB",
			megabytes(l.MaxRequests*bytesInProcess), megabytes(l.MaxRequests*bytesInRedis), l))
	}
	return warnings
}

// What one request takes in an exact log: 24 bytes in a ring that grows by doubling, and a member of a ZSET.
const (
	heavy          = 10_000 // requests from which on it is too much for one key
	bytesInProcess = 32
	bytesInRedis   = 120
)

func megabytes(bytes int) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

// heaviest is the limit whose log is the longest.
func (r *rule) heaviest() (heaviest ratelimit.Limit) {
	for _, limits := range append(slices.Collect(maps.Values(r.Plans)), r.Limits) {
		for _, l := range limits {
			if l.Buckets == 0 && l.MaxRequests > heaviest.MaxRequests {
				heaviest = l
			}
		}
	}
	return heaviest
}
