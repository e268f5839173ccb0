package sash

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sashlimit/sash/ratelimit"
)

// maxRoutes bounds what an Aspect remembers. Routes are patterns that the application has registered, and a program
// has some hundreds; if an adapter were to tell paths instead, this is where they stop to take memory.
const maxRoutes = 1000

// routes are those on which an Aspect has seen requests, with the rule parts of keys on each, which are built once.
// Reading takes no lock: the map is replaced, not changed.
type routes struct {
	known atomic.Pointer[map[string][]ratelimit.KeyPrefix]
	mu    sync.Mutex // of writers
}

// names are the rule parts of the keys of an Aspect's rules on a route.
func (rs *routes) names(route string) ([]ratelimit.KeyPrefix, bool) {
	known := rs.known.Load()
	if known == nil {
		return nil, false
	}
	names, ok := (*known)[route]
	return names, ok
}

func (rs *routes) add(rules []rule, route string) []ratelimit.KeyPrefix {
	names := make([]ratelimit.KeyPrefix, len(rules))
	for i := range rules {
		names[i] = ratelimit.NewKeyPrefix(rules[i].nameOn(route))
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	known := map[string][]ratelimit.KeyPrefix{}
	if before := rs.known.Load(); before != nil {
		known = maps.Clone(*before)
	}
	if len(known) < maxRoutes {
		known[route] = names
		rs.known.Store(&known)
	}
	return names
}

// list returns the routes, sorted.
func (rs *routes) list() []string {
	known := rs.known.Load()
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
