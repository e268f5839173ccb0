package sash

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sashlimit/sash/keyexpr"
)

// maxRoutes bounds what an Aspect remembers. Routes are patterns that the application has registered, and a program
// has some hundreds; if an adapter were to tell paths instead, this is where they stop to take memory.
const maxRoutes = 1000

// routes are those on which an Aspect has seen requests, with the rule parts of keys on each, which are built once.
// Reading takes no lock: the map is replaced, not changed.
type routes struct {
	names atomic.Pointer[map[string][]string]
	mu    sync.Mutex // of writers
}

// logName is the rule part of the keys of rules[i] on the request's route.
func (rs *routes) logName(rules []rule, i int, src keyexpr.Source) string {
	route := src.Route()
	if known := rs.names.Load(); known != nil {
		if names, ok := (*known)[route]; ok {
			return names[i]
		}
	}
	return rs.add(rules, route)[i]
}

func (rs *routes) add(rules []rule, route string) []string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.nameOn(route)
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	known := map[string][]string{}
	if before := rs.names.Load(); before != nil {
		known = maps.Clone(*before)
	}
	if len(known) < maxRoutes {
		known[route] = names
		rs.names.Store(&known)
	}
	return names
}

// list returns the routes, sorted.
func (rs *routes) list() []string {
	known := rs.names.Load()
	if known == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(*known))
}

// nameOn is the rule part of a key on a route.
func (r *rule) nameOn(route string) string {
	if r.Name != "" || route == "" {
		return r.name
	}
	return route + "-" + r.name
}
