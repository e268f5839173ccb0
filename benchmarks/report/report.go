// Package report measures Sash beside its rivals, and writes what it found as a page with tables and figures.
//
// Each section is a file: what it asks of whom, what each contender must have done for its time to count, and how the
// answer is told. A contender of others that does not do what it must is named below the table, with what it did; one of
// ours fails the run.
package report

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/benchmarks/attack"
	"github.com/sashlimit/sash/benchmarks/measure"
	"github.com/sashlimit/sash/benchmarks/rivals"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
)

// Size is how much is measured, and how long.
type Size struct {
	Name   string
	Shared bool // other benchmarks may run at the same time

	Rounds     int           // of all that does not take long
	ManyRounds int           // of what needs ManyKeys
	Turn       time.Duration // of one contender in one round

	ManyKeys   int   // in process
	Weighed    int   // keys whose bytes are counted, in process
	Stored     int   // and on Redis
	Callers    []int // on Redis, and HotCallers on one key
	HotCallers int
	Goroutines []int // in process
	Addresses  int   // of HTTP clients

	Limits    []int // the cost is plotted against
	KeyCounts []int
	RedisKeys []int
	Batches   []int
	HalfFull  int   // calls on logs that are half full
	Logs      []int // requests in the window of a key that is weighed

	Attack ratelimit.Limit
	Paced  int // calls, one every 8 ms
}

// Full takes some twelve minutes on two slow cores.
func Full() Size {
	return Size{
		Name: "full", Rounds: 5, ManyRounds: 4, Turn: 150 * time.Millisecond,
		ManyKeys: 1_000_000, Weighed: 20_000, Stored: 500, Addresses: 10_000,
		Callers: []int{1, 8, 64, 256}, HotCallers: 256, Goroutines: []int{1, 2, 4, 16, 64, 256},
		Limits:    []int{10, 100, 1000, 10_000, 100_000, 1_000_000},
		KeyCounts: []int{1, 10, 100, 1000, 10_000, 100_000, 1_000_000},
		RedisKeys: []int{1, 10, 100, 1000, 10_000, 100_000, 1_000_000},
		Batches:   []int{1, 2, 4, 8, 16, 32, 64, 128}, HalfFull: 2000, Logs: []int{1, 3, 10, 100},
		Attack: ratelimit.Limit{MaxRequests: 100, Window: time.Second}, Paced: 1000,
	}
}

// Quick shows the same in less than three minutes, and less surely.
func Quick() Size {
	s := Full()
	s.Name, s.Rounds, s.ManyRounds, s.Turn = "quick", 3, 1, 60*time.Millisecond
	s.RedisKeys, s.HalfFull, s.Paced = []int{1, 100, 10_000}, 500, 250
	s.KeyCounts = []int{1, 1000, 1_000_000}
	return s
}

// Smoke only shows that all of it works.
func Smoke() Size {
	return Size{
		Name: "smoke", Shared: true, Rounds: 1, ManyRounds: 1, Turn: time.Millisecond,
		ManyKeys: 2000, Weighed: 100, Stored: 20, Callers: []int{1, 64}, HotCallers: 64, Goroutines: []int{1, 4}, Addresses: 100,
		Limits: []int{10, 10_000}, KeyCounts: []int{1, 1000}, RedisKeys: []int{1, 10}, Batches: []int{1, 4}, HalfFull: 20, Logs: []int{1, 3},
		Attack: ratelimit.Limit{MaxRequests: 20, Window: time.Second}, Paced: 40,
	}
}

// Run measures everything, and writes REPORT.md and its figures into dir. What it finds amiss with Sash or with a floor
// is an error of t; that a bar is missed is not: the page says so.
func Run(t testing.TB, size Size, dir string) {
	if err := os.RemoveAll(filepath.Join(dir, plots)); err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	r := &run{
		Size: size, t: t, page: newPage(dir),
		redis: rivals.Server{Addr: server.Addr()}, admin: server.Client(),
		keys: names(max(size.ManyKeys, redisKeys)),
	}
	for _, section := range []struct {
		name string
		run  func()
	}{
		{"exactness", r.exactness},
		{"in process, many keys", r.manyKeys},
		{"in process, one key", r.oneKey},
		{"Redis", r.onRedis},
		{"middleware", r.middleware},
		{"growth", r.growth},
		{"articles", r.articles},
	} {
		began := time.Now()
		r.waited = 0
		section.run()
		t.Logf("%-22s %6.1f s, and %.1f s of waiting for other benchmarks", section.name, (time.Since(began) - r.waited).Seconds(), r.waited.Seconds())
	}
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
}

// run is one report in the making.
type run struct {
	Size
	t     testing.TB
	page  *page
	redis rivals.Server
	admin *redis.Client // of the same server
	keys  []string      // more than any turn uses

	inProcess, inRedis map[string]attack.Report // by the name of who answers
	bars               []bar
	leaders            []string // the rivals that are fastest with many keys
	waited             time.Duration
}

// names are keys that need no escaping, of one length.
func names(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("bench:%07d", i)
	}
	return keys
}

// found reports what went wrong with contenders of whom it must not, and returns the results of those with whom nothing
// did, and the failures.
func (r *run) found(results []measure.Result) (good []measure.Result, failures []string) {
	role := make(map[string]rivals.Role)
	for _, c := range rivals.All() {
		role[c.Name] = c.Role
	}
	for _, result := range results {
		switch {
		case result.Err == nil:
			good = append(good, result)
		case role[result.Name] != rivals.Rival:
			r.t.Errorf("%s: %v", result.Name, result.Err)
			fallthrough
		default:
			failures = append(failures, fmt.Sprintf("%s is not measured here: %v.", result.Name, result.Err))
		}
	}
	return good, failures
}

func (r *run) plan(rounds int) measure.Plan { return measure.Plan{Rounds: rounds, Lock: r.lock} }

// lock waits until no other benchmark runs on this machine.
func (r *run) lock() (release func(), err error) {
	if r.Shared {
		return func() {}, nil
	}
	began := time.Now()
	release, err = measure.Exclusive()
	r.waited += time.Since(began)
	return release, err
}

// write puts the page together: what comes first is known last.
func (r *run) write() error {
	head := newPage(r.page.dir)
	r.head(head)
	if err := os.MkdirAll(r.page.dir, 0o777); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.page.dir, "REPORT.md"), []byte(head.String()+r.page.String()), 0o666)
}
