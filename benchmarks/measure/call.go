package measure

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Call has so many callers ask until the time is up: together for one key after the other, and again from the first when
// each has come once. Every caller asks at least once. Each call is timed by itself.
func Call(l Limiter, keys []string, callers int, d time.Duration) Sample {
	took := make([][]time.Duration, callers)
	deadline := time.Now().Add(d)
	s := timed(callers, func(g int, c *tally) {
		mine := make([]time.Duration, 0, 1024)
		before := time.Now()
		for i := g; len(mine) == 0 || before.Before(deadline); i += callers {
			c.ask(l, keys[i%len(keys)])
			now := time.Now()
			mine = append(mine, now.Sub(before))
			before = now
		}
		took[g] = mine
	}, 0)
	s.Keys = distinct(took, len(keys))
	all := slices.Concat(took...)
	slices.Sort(all)
	if n := len(all); n > 0 {
		s.P50, s.P99 = all[n/2], all[n*99/100]
	}
	return s
}

// distinct is how many of n keys the calls were for.
func distinct(calls [][]time.Duration, n int) (count int) {
	seen := make([]bool, n)
	for g := range calls {
		for j := range min(len(calls[g]), n) { // from then on they come again
			if i := (g + j*len(calls)) % n; !seen[i] {
				seen[i] = true
				count++
			}
		}
	}
	return count
}

// Server is what a Redis server has done: since it began, or between two looks.
type Server struct {
	CPU      time.Duration // of all its threads, in the kernel too
	Scripts  int           // EVAL and EVALSHA
	Commands int           // all, and those that scripts ran, but for INFO
}

func (s Server) minus(before Server) Server {
	return Server{s.CPU - before.CPU, s.Scripts - before.Scripts, s.Commands - before.Commands}
}

// Look asks a server what it has done so far.
func Look(client *redis.Client) (s Server, err error) {
	for _, section := range []string{"cpu", "commandstats"} { // several at once need Redis 7
		text, err := client.Info(context.Background(), section).Result()
		if err != nil {
			return s, fmt.Errorf("measure: %w", err)
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			s.read(name, value)
		}
	}
	return s, nil
}

// read takes in one line of INFO.
func (s *Server) read(name, value string) {
	if name == "used_cpu_user" || name == "used_cpu_sys" {
		seconds, _ := strconv.ParseFloat(value, 64)
		s.CPU += time.Duration(seconds * float64(time.Second))
	}
	command, ok := strings.CutPrefix(name, "cmdstat_")
	if !ok || command == "info" {
		return
	}
	value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",")
	calls, _ := strconv.Atoi(value)
	s.Commands += calls
	if command == "eval" || command == "evalsha" {
		s.Scripts += calls
	}
}

// Watched runs f, and adds to its sample what the server did meanwhile.
func Watched(client *redis.Client, f func() Sample) (Sample, error) {
	before, err := Look(client)
	if err != nil {
		return Sample{}, err
	}
	s := f()
	after, err := Look(client)
	s.Server = after.minus(before)
	return s, err
}
