package sash

import (
	"net/http"
	"slices"
	"strings"

	"github.com/sashlimit/sash/keyexpr"
)

// CheckUnread decides a request before its body is read, as far as that can be: it reports whether the rules that do
// not need the body deny it. Then it sets the header fields of the response, and the Verdict tells of those
// rules alone. It counts nothing, and Check does it by itself but for the rules of a typed handler.
//
// A client that is denied anyway so neither uploads its body (it gets no 100 Continue, RFC 9110 section 10.1.1) nor
// holds a connection by sending it slowly. It costs no round trip: it asks a store in memory, or what the Limiter
// remembers of another store's denials; only for a client that waits for 100 Continue is that store asked.
func (a *Aspect) CheckUnread(header http.Header, src keyexpr.Source) (v Verdict, denied bool) {
	if !a.mixed {
		return v, false
	}
	w := a.begin()
	if denied = a.deniesUnread(src, w); denied {
		w.bind(&v)
		a.setFields(header, w, &v)
	} else {
		w.forget()
	}
	a.end(w, &v)
	return v, denied
}

func (a *Aspect) deniesUnread(src keyexpr.Source, w *work) bool {
	if a.skip != nil {
		if readsBody(a.skip.Reads()) {
			return false
		}
		if skip, err := a.skip.Holds(src); skip || err != nil {
			return false // Check says what that means
		}
	}
	r := src.Request()
	names := a.logNames(src.Route())
	for i := range a.rules {
		if rule := &a.rules[i]; !rule.DryRun && !rule.readsBody {
			if err := rule.claim(r.Context(), src, names[i], w); err != nil {
				return false // Check tells of it
			}
		}
	}
	return a.denies(r, w)
}

// denies completes the decisions if one of them denies for certain.
func (a *Aspect) denies(r *http.Request, w *work) bool {
	waits := strings.EqualFold(r.Header.Get("Expect"), "100-continue")
	decisions, denied := a.limiter.Denied(r.Context(), waits, w.claims...)
	copy(w.decisions, decisions)
	return denied
}

// readsBody reports whether something that an expression reads comes with the body.
func readsBody(reads []string) bool {
	return slices.ContainsFunc(reads, func(read string) bool {
		return read == "in" || strings.HasPrefix(read, "in.") || strings.HasPrefix(read, "in[") ||
			strings.HasPrefix(read, "body") || strings.HasPrefix(read, "form")
	})
}
