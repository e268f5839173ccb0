package benchmarks

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	timing "github.com/sashlimit/sash/benchmarks/measure" // outage_test.go has a measure
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// What an exact log, counters in buckets, and three algorithms that are common elsewhere let through, and what they cost.
// The three are written down here as plainly as they can be.

var windows = flag.Bool("windows", false, "compare kinds of windows, a minute")

// window is one kind of limit.
type window struct {
	name      string
	buckets   int                         // of ours; none is an exact log
	reference func(max float64) reference // not ours
	script    string                      // the same for Redis
}

// reference is a limit of max requests a minute on one key. Times are seconds.
type reference interface{ allow(now float64) bool }

const perMinute = 60.0

var kinds = []window{
	{name: "exact log"},
	{name: "k = 60", buckets: 60},
	{name: "k = 10", buckets: 10},
	{name: "two counters", reference: func(max float64) reference { return &twoCounters{max: max} }, script: twoCountersScript},
	{name: "fixed window", reference: func(max float64) reference { return &fixedWindow{max: max} }, script: fixedWindowScript},
	{name: "GCRA", reference: func(max float64) reference { return &gcra{max: max} }, script: gcraScript},
}

// twoCounters weighs the number of the window before by how much of it the last minute overlaps.
type twoCounters struct{ max, at, before, here float64 }

func (w *twoCounters) allow(now float64) bool {
	switch at := math.Floor(now / perMinute); {
	case at == w.at+1:
		w.at, w.before, w.here = at, w.here, 0
	case at > w.at:
		w.at, w.before, w.here = at, 0, 0
	}
	if w.before*(1-math.Mod(now, perMinute)/perMinute)+w.here+1 > w.max {
		return false
	}
	w.here++
	return true
}

const twoCountersScript = `
local time, most, window = redis.call('TIME'), tonumber(ARGV[1]), tonumber(ARGV[2])
local now = time[1] * 1000000 + time[2]
local at, values = math.floor(now / window), redis.call('HMGET', KEYS[1], 'at', 'before', 'here')
local was, before, here = tonumber(values[1] or at), tonumber(values[2] or 0), tonumber(values[3] or 0)
if was < at then before, here = was == at - 1 and here or 0, 0 end
if before * (1 - now % window / window) + here + 1 > most then return 0 end
redis.call('HSET', KEYS[1], 'at', at, 'before', before, 'here', here + 1)
redis.call('PEXPIRE', KEYS[1], 2 * window / 1000)
return 1`

// fixedWindow begins with the first request, and anew with the first behind it.
type fixedWindow struct{ max, ends, n float64 }

func (w *fixedWindow) allow(now float64) bool {
	if now >= w.ends {
		w.ends, w.n = now+perMinute, 0
	}
	w.n++
	return w.n <= w.max
}

const fixedWindowScript = `
local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2] / 1000) end
return n <= tonumber(ARGV[1]) and 1 or 0`

// gcra refills steadily, with a burst of max: else it would deny what a client may do.
type gcra struct{ max, full float64 } // full is when all is there again

func (w *gcra) allow(now float64) bool {
	each := perMinute / w.max
	full := max(w.full, now) + each
	if full-now > perMinute+1e-6 {
		return false
	}
	w.full = full
	return true
}

const gcraScript = `
local time, window = redis.call('TIME'), tonumber(ARGV[2])
local now, each = time[1] * 1000000 + time[2], window / ARGV[1]
local full = math.max(redis.call('GET', KEYS[1]) or now, now) + each
if full - now > window then return 0 end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
return 1`

// ours is a limit of a MemoryStore on a clock of its own, as a reference.
type ours struct {
	store *ratelimit.MemoryStore
	now   time.Time
	claim []ratelimit.Claim
}

func (k window) ours(max int) *ours {
	o := &ours{now: time.Unix(0, 0)}
	o.store = ratelimit.NewMemoryStore(ratelimit.MemoryConfig{Now: func() time.Time { return o.now }})
	o.claim = []ratelimit.Claim{{Key: "key", Limits: []ratelimit.Limit{k.limit(max, time.Minute)}, Cost: 1}}
	return o
}

func (k window) limit(max int, window time.Duration) ratelimit.Limit {
	return ratelimit.Limit{MaxRequests: max, Window: window, Buckets: k.buckets}
}

func (o *ours) allow(now float64) bool {
	o.now = time.Unix(0, 0).Add(time.Duration(now*1e6) * time.Microsecond)
	var d [1]ratelimit.Decision
	_ = o.store.Take(context.Background(), uuid.UUID{}, o.claim, d[:]) // never fails
	return d[0].Allowed
}

func (k window) of(max int) reference {
	if k.reference != nil {
		return k.reference(float64(max))
	}
	return k.ours(max)
}

// traffic is the times of requests in two days, in whole microseconds, from a seed. The limit is 100 a minute.
type traffic struct {
	name  string
	times []float64
}

const (
	limited = 100
	twoDays = 2 * 24 * 3600.0
)

func traffics() []traffic {
	return []traffic{
		{"Poisson, 80 %", arrivals(1, func(r *rand.Rand) (float64, int) { return r.ExpFloat64() * perMinute / (0.8 * limited), 1 })},
		{"Poisson, 120 %", arrivals(2, func(r *rand.Rand) (float64, int) { return r.ExpFloat64() * perMinute / (1.2 * limited), 1 })},
		{"bursts", arrivals(3, func(r *rand.Rand) (float64, int) { n := 1 + r.IntN(80); return r.ExpFloat64() * perMinute / 2.5, n })},
		{"greedy", greedy()},
	}
}

// arrivals come one by one, or in bursts at 1 ms from each other.
func arrivals(seed uint64, next func(*rand.Rand) (gap float64, burst int)) (times []float64) {
	r := rand.New(rand.NewPCG(seed, 0))
	for now := 0.0; now < twoDays; {
		gap, burst := next(r)
		now += gap
		for range burst {
			times = append(times, math.Round(now*1e6)/1e6)
			now += 0.001
		}
	}
	return times
}

// greedy is silent for two windows, and then asks every 20 ms for three, from half a second before a whole minute.
func greedy() (times []float64) {
	for begins := 0.0; begins < twoDays/8; begins += 6 * perMinute {
		for i := range int(3 * perMinute / 0.02) {
			now := begins + 2*perMinute - 0.5
			if i < limited {
				now += float64(i) * 0.004 // as fast as it can at first
			} else {
				now += float64(i) * 0.02
			}
			times = append(times, math.Round(now*1e6)/1e6)
		}
	}
	return slices.Sorted(slices.Values(times))
}

func TestWindows(t *testing.T) {
	if !*windows {
		t.Skip("it takes a minute: -windows asks for it")
	}
	release, err := timing.Exclusive()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	t.Log("\n" + admitted(t) + "\n" + costs(t))
}

// admitted plays all traffic through every kind.
func admitted(t *testing.T) string {
	all := traffics()
	head, line := "| | most in a true window, of 100 |", "|---|---|"
	for _, tr := range all {
		head, line = head+" "+tr.name+" |", line+"---|"
	}
	rows := []string{head, line}
	for _, k := range kinds {
		most, row := 0, ""
		for _, tr := range all {
			exact, other := kinds[0].of(limited), k.of(limited)
			var allowed []float64
			differ, exactly := 0, 0
			for _, now := range tr.times {
				want, got := exact.allow(now), other.allow(now)
				if got {
					allowed = append(allowed, now)
				}
				if want {
					exactly++
				}
				if got != want {
					differ++
				}
			}
			most = max(most, mostIn(allowed))
			row += fmt.Sprintf(" %.1f %% (%.1f %%) |", 100*float64(differ)/float64(len(tr.times)), 100*float64(len(allowed))/float64(exactly))
		}
		if k.reference == nil && most != limited {
			t.Errorf("%s allows %d, want all of %d and no more", k.name, most, limited)
		}
		rows = append(rows, fmt.Sprintf("| %s | %d |%s", k.name, most, row))
	}
	return strings.Join(rows, "\n") + "\n"
}

// mostIn is the most times in (t-minute, t].
func mostIn(times []float64) (most int) {
	first := 0
	for i, now := range times {
		for times[first] <= now-perMinute+1e-7 {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

var limits = []int{10, 1000, 1_000_000}

// costs measures memory and the time of the server.
func costs(t *testing.T) string {
	client := redistest.Start(t).Client()
	rows := []string{
		"| | bytes per key in process: 10 | 1,000 | 1,000,000 | in Redis: 10 | 1,000 | 1,000,000 | µs of Redis CPU: allowed | denied |",
		"|---|---|---|---|---|---|---|---|---|",
	}
	cpu := serverTimes(t, client)
	for i, k := range kinds {
		row := "| " + k.name + " |"
		for _, n := range limits {
			row += " " + grouped(k.held(n)) + " |"
		}
		for _, n := range limits {
			row += " " + grouped(k.stored(t, client, n)) + " |"
		}
		rows = append(rows, fmt.Sprintf("%s %.1f | %.1f |", row, cpu[i][0], cpu[i][1]))
	}
	floor := cpu[len(kinds)]
	return strings.Join(rows, "\n") + fmt.Sprintf("\n| (a script that returns 0) | | | | | | | %.1f | |\n", floor[0])
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// held is how many bytes a key takes whose limit is spent, spread over the window.
func (k window) held(limit int) int64 {
	keys := 10_000 // so many that what the store takes by itself does not matter
	if k.reference == nil && k.buckets == 0 {
		keys = min(keys, 5_000_000/limit)
	}
	before := heap()
	var keep any
	if k.reference == nil {
		o := k.ours(limit)
		for range 10 {
			for key := range keys {
				o.claim[0].Key, o.claim[0].Cost = fmt.Sprintf("user-%011d", key), limit/10
				var d [1]ratelimit.Decision
				_ = o.store.Take(context.Background(), uuid.UUID{}, o.claim, d[:]) // never fails
				if !d[0].Allowed {
					panic("the limit is spent too early")
				}
			}
			o.now = o.now.Add(5 * time.Second)
		}
		keep = o
	} else {
		m := make(map[string]reference)
		for key := range keys { // they are all alike
			m[fmt.Sprintf("user-%011d", key)] = k.reference(float64(limit))
		}
		keep = m
	}
	after := heap()
	runtime.KeepAlive(keep)
	return (after - before) / int64(keys)
}

// stored is how many bytes a key takes on the server whose limit is spent, spread over all sub-windows.
func (k window) stored(t *testing.T, client *redis.Client, limit int) int64 {
	t.Helper()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	const key = "user-00000000000"
	switch {
	case k.reference != nil:
		spend(t, client, k.script, "rate_limit:"+key)
	case k.buckets == 0:
		askStore(t, client, key, k.limit(limit, time.Hour), limit/10, 10, 0)
	default:
		parts := min(limit, k.buckets+1)
		width := 20 * time.Millisecond
		askStore(t, client, key, k.limit(limit, time.Duration(k.buckets)*width), limit/parts, parts, width)
	}
	var sum int64
	for _, name := range client.Keys(t.Context(), "*").Val() {
		sum += client.MemoryUsage(t.Context(), name, 0).Val()
	}
	return sum
}

// askStore asks n times, one in a sub-window.
func askStore(t *testing.T, client *redis.Client, key string, limit ratelimit.Limit, cost, n int, apart time.Duration) {
	t.Helper()
	store := redisstore.New(client)
	for range n {
		d := make([]ratelimit.Decision, 1)
		claims := []ratelimit.Claim{{Key: key, Limits: []ratelimit.Limit{limit}, Cost: cost, Keep: time.Hour}}
		if err := store.Take(t.Context(), uuid.New(), claims, d); err != nil || !d[0].Allowed {
			t.Fatal(d, err)
		}
		time.Sleep(apart) // the server's clock is real
	}
}

func spend(t *testing.T, client *redis.Client, source, key string) {
	t.Helper()
	script := redis.NewScript(source)
	for range 20 {
		if err := script.Run(t.Context(), client, []string{key}, 10, time.Hour.Microseconds()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// serverTimes are µs of the server's processor time for a decision that allows, and one that denies, on one key and one
// connection: the least of 25 rounds of every kind in turn, since what else the machine does only adds to it. The last is
// that of a script that does nothing.
func serverTimes(t *testing.T, client *redis.Client) [][2]float64 {
	const rounds, calls = 25, 600
	samples := make([][2][]float64, len(kinds)+1)
	for range rounds {
		for i := range samples {
			for j, limit := range []int{1_000_000, 1000} {
				ask := decider(t, client, i, limit)
				for range 1000 { // which spends the smaller limit
					ask()
				}
				before, err := timing.Look(client)
				if err != nil {
					t.Fatal(err)
				}
				allowed := 0
				for range calls {
					allowed += ask()
				}
				after, err := timing.Look(client)
				if err != nil {
					t.Fatal(err)
				}
				if i < len(kinds) && (j == 0 && allowed != calls || j == 1 && allowed > calls/100) {
					t.Errorf("%s allowed %d of %d at %d", kinds[i].name, allowed, calls, limit)
				}
				samples[i][j] = append(samples[i][j], float64((after.CPU-before.CPU).Nanoseconds())/1000/calls)
			}
		}
	}
	least := make([][2]float64, len(samples))
	for i := range samples {
		for j := range samples[i] {
			least[i][j] = slices.Min(samples[i][j])
		}
	}
	return least
}

// decider asks for one new key.
func decider(t *testing.T, client *redis.Client, i, limit int) func() int {
	key := uuid.NewString()
	if i < len(kinds) && kinds[i].reference == nil {
		store := redisstore.New(client).WithoutCoalescing()
		claims, d := []ratelimit.Claim{{Key: key, Limits: []ratelimit.Limit{kinds[i].limit(limit, time.Hour)}, Cost: 1}}, make([]ratelimit.Decision, 1)
		return func() int {
			if err := store.Take(t.Context(), uuid.New(), claims, d); err != nil {
				t.Fatal(err)
			}
			if d[0].Allowed {
				return 1
			}
			return 0
		}
	}
	source := "return 0"
	if i < len(kinds) {
		source = kinds[i].script
	}
	script := redis.NewScript(source)
	return func() int {
		n, err := script.Run(t.Context(), client, []string{"rate_limit:" + key}, limit, time.Hour.Microseconds()).Int()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}
