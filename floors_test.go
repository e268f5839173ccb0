package sash_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The floors of the house: imports go down only, and what is heavy stays where it is needed.

const module = "github.com/sashlimit/sash"

// mayImport lists, for each package, the packages of this module that it is built on, directly or not.
var mayImport = map[string][]string{
	"/ratelimit":            {"/rolling"},
	"/keyexpr":              {},
	"/rolling":              {},
	"/ratelimit/redisstore": {"/ratelimit", "/rolling"},
	"/ratelimit/storetest":  {"/ratelimit", "/rolling"},
	"/ratelimit/oracle":     {},
	"/ratelimit/headers":    {"/ratelimit", "/rolling"},
	"":                      {"/ratelimit", "/ratelimit/headers", "/keyexpr", "/rolling"},
	"/ginmw":                {"", "/ratelimit", "/ratelimit/headers", "/keyexpr", "/rolling"},
	"/stdmw":                {"", "/ratelimit", "/ratelimit/headers", "/keyexpr", "/rolling"},
	"/example/sendcode":     {"", "/ratelimit", "/ratelimit/headers", "/ratelimit/redisstore", "/keyexpr", "/ginmw", "/stdmw", "/rolling"},
	"/internal/redistest":   {},
	"/internal/faultproxy":  {},
}

const (
	breaker   = "github.com/sony/gobreaker"
	histogram = "github.com/HdrHistogram/hdrhistogram-go"
)

// mayRequire lists the modules that a package may link, beside the standard library. Others are not guarded.
var mayRequire = map[string][]string{
	"/ratelimit":            {"github.com/google/uuid", breaker, histogram},
	"/ratelimit/oracle":     {},
	"/keyexpr":              {"github.com/expr-lang/expr", "golang.org/x/text"},
	"/rolling":              {histogram},
	"/ratelimit/redisstore": {"github.com/google/uuid", breaker, histogram, "github.com/redis/go-redis", "github.com/cespare/xxhash", "go.uber.org/atomic", "golang.org/x/sys"},
	"/ratelimit/headers":    {"github.com/google/uuid", breaker, histogram, "github.com/dunglas/httpsfv"},
	"":                      {"github.com/google/uuid", breaker, histogram, "github.com/expr-lang/expr", "golang.org/x/text", "github.com/dunglas/httpsfv"},
	"/stdmw":                {"github.com/google/uuid", breaker, histogram, "github.com/expr-lang/expr", "golang.org/x/text", "github.com/dunglas/httpsfv", "github.com/felixge/httpsnoop"},
	"/internal/faultproxy":  {},
}

func TestImportsGoDownOnly(t *testing.T) {
	t.Parallel()
	for _, pkg := range list(t, "./...") {
		name := strings.TrimPrefix(pkg, module)
		floor, known := mayImport[name]
		if !known {
			t.Errorf("%s stands on no floor: give it one in mayImport", pkg)
			continue
		}
		allowed, guarded := mayRequire[name]
		for _, dep := range list(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg) {
			sibling, ours := strings.CutPrefix(dep, module)
			switch {
			case dep == pkg:
			case ours && !slices.Contains(floor, sibling):
				t.Errorf("%s must not import %s", pkg, dep)
			case !ours && guarded && !slices.ContainsFunc(allowed, func(m string) bool { return dep == m || strings.HasPrefix(dep, m+"/") }):
				t.Errorf("%s must not link %s", pkg, dep)
			}
		}
	}
}

// list runs go list.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Fields(string(out))
}
