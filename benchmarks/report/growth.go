package report

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sashlimit/sash/benchmarks/measure"
	"github.com/sashlimit/sash/benchmarks/plot"
	"github.com/sashlimit/sash/benchmarks/rivals"
)

// growth is what a decision costs when there is more of something.
func (r *run) growth() {
	r.page.title(2, "Growth")
	r.memoryByLimit()
	r.redisByLimit()
	r.memoryByKeys()
	r.redisByKeys()
	r.memoryByCallers()
	r.byBatch()
	r.bytes()
}

// sweep measures entries at each of several sizes, and writes the quantity of each in a table and a figure.
type sweep struct {
	id, title string
	x, y      string
	unit      float64
	quantity  measure.Quantity
	wrong     func(name string) bool

	sizes    []int
	failures []string
	results  map[string]map[int]measure.Result // by name and size
	names    []string
}

// add takes in what was found at one size.
func (s *sweep) add(size int, results []measure.Result, failures []string) {
	for _, failure := range failures {
		s.failures = append(s.failures, s.x+" = "+grouped(size)+": "+failure)
	}
	if s.results == nil {
		s.results = make(map[string]map[int]measure.Result)
	}
	s.sizes = append(s.sizes, size)
	for _, result := range results {
		if s.results[result.Name] == nil {
			s.results[result.Name] = make(map[int]measure.Result)
			s.names = append(s.names, result.Name)
		}
		s.results[result.Name][size] = result
	}
}

func (s *sweep) of(name string, size int) measure.Series { return s.results[name][size].Of(s.quantity) }

// growth is the quantity at one size divided by that at another in the same round.
func (s *sweep) growth(name string, from, to int) measure.Series {
	return s.results[name][to].Over(s.results[name][from], s.quantity)
}

// tell writes the table and the figure.
func (r *run) tell(s sweep) {
	figure := plot.Lines{Title: s.title, X: s.x, Y: s.y}
	columns := []string{s.y}
	for _, size := range s.sizes {
		columns = append(columns, grouped(size))
	}
	var rows [][]string
	for _, name := range s.names {
		row := []string{called(name)}
		line := plot.Line{Name: name, Wrong: s.wrong != nil && s.wrong(name)}
		for _, size := range s.sizes {
			values := slices.Clone(s.of(name, size))
			for i := range values {
				values[i] /= s.unit
			}
			row = append(row, span(values, 1))
			if len(values) > 0 {
				line.Points = append(line.Points, at(size, values))
			}
		}
		rows, figure.Series = append(rows, row), append(figure.Series, line)
	}
	r.page.table(1, columns, rows)
	r.page.list(s.failures)
	r.figure(s.id, s.title, figure.SVG())
}

// compared are Sash and the rivals that were fastest with many keys.
func (r *run) compared() []rivals.Contender {
	return slices.DeleteFunc(rivals.InProcess(), func(c rivals.Contender) bool {
		return c.Name != rivals.Sash && !slices.Contains(r.leaders, c.Name)
	})
}

func (r *run) wrongInProcess(name string) bool { return r.wrong(name, r.inProcess) }
func (r *run) wrongOnRedis(name string) bool   { return r.wrong(name, r.inRedis) }

const allowedSliding = "Sash, allowed"

// memoryByLimit asks logs that are full: of everybody what is denied, and of Sash also what is allowed, where one entry leaves
// for each that comes. That needs a clock that goes by a fixed step each time it is read, so it is Sash's alone.
func (r *run) memoryByLimit() {
	r.page.title(3, "Cost against the limit, in process")
	r.page.say("One key, whose window is full, on one core; all are denied. *%s*: the window is full and slides, so that for each request that "+
		"is allowed one leaves; on a clock that advances by window ÷ limit whenever it is read, which costs less to read than the "+
		"real one and so makes growth show more.", allowedSliding)
	s := sweep{id: "limit-memory", title: "Cost of a decision against the limit, in process", x: "limit", y: "ns", unit: 1,
		quantity: measure.Time, wrong: r.wrongInProcess}
	for _, limit := range r.Limits {
		list := entries(r.compared(), func(c rivals.Contender) ([]measure.Sample, error) { return r.fullTurn(c, limit) })
		list = append(list, measure.Entry{Name: allowedSliding, Turn: func() ([]measure.Sample, error) { return r.slidingTurn(limit) }})
		good, failures := r.found(r.plan(r.Rounds).Run(1, list)[0])
		s.add(limit, good, failures)
	}
	r.tell(s)
	for _, name := range []string{allowedSliding, rivals.Sash} {
		r.atMost(fmt.Sprintf("In process, %s: cost at a limit of 10,000, times that at 10", name), 1.5, s.growth(name, 10, 10_000))
	}
}

// fullTurn asks for a key that has spent its quota.
func (r *run) fullTurn(c rivals.Contender, limit int) ([]measure.Sample, error) {
	l, err := c.Memory(rivals.Setting{Limit: limit, Window: time.Hour, Keys: 1})
	if err != nil {
		return nil, err
	}
	defer rivals.Close(l)
	measure.Count(l, r.keys[:1], limit+limit/100+10) // what buckets gain meanwhile included
	var s measure.Sample
	measure.OnCores(1, func() { s = measure.Spin(l, r.keys[:1], 1, r.Turn) })
	return checked(measure.Want{Slack: 2 + limit/100}, s)
}

// slidingTurn asks for a key whose oldest entry leaves as it asks.
func (r *run) slidingTurn(limit int) ([]measure.Sample, error) {
	l, err := rivals.NewSliding(limit)
	if err != nil {
		return nil, err
	}
	defer rivals.Close(l)
	measure.Count(l, r.keys[:1], 2*limit)
	var s measure.Sample
	measure.OnCores(1, func() { s = measure.Spin(l, r.keys[:1], 1, r.Turn) })
	return checked(measure.Want{Allowed: measure.AllOf}, s)
}

// redisByLimit asks logs that are half full.
func (r *run) redisByLimit() {
	r.page.title(3, "Cost against the limit, on Redis")
	r.page.say("One caller, %s calls on logs that are half full before the clock starts: one log, or as many as it takes to allow all calls.", grouped(r.HalfFull))
	s := sweep{id: "limit-redis", title: "Cost of a decision against the limit, on Redis", x: "limit", y: "µs", unit: 1000, quantity: measure.Time}
	for _, limit := range r.Limits {
		good, failures := r.found(r.plan(r.Rounds).Run(1, entries([]rivals.Contender{contender(rivals.Sash)},
			func(c rivals.Contender) ([]measure.Sample, error) { return r.halfFullTurn(c, limit) }))[0])
		s.add(limit, good, failures)
	}
	r.tell(s)
	r.atMost("On Redis, Sash: cost at a limit of 10,000, times that at 10", 1.5, s.growth(rivals.Sash, 10, 10_000))
	s.quantity = measure.ServerCPU
	r.atMost("… Redis CPU at a limit of 10,000, times that at 10", 1.5, s.growth(rivals.Sash, 10, 10_000))
}

func (r *run) halfFullTurn(c rivals.Contender, limit int) ([]measure.Sample, error) {
	l, err := r.connect(c, rivals.Setting{Limit: limit, Window: time.Hour}, 1)
	if err != nil {
		return nil, err
	}
	defer rivals.Close(l)
	logs := r.keys[:(r.HalfFull+limit/2-1)/(limit/2)]
	for _, key := range logs {
		if err := l.(rivals.Filler).Fill(context.Background(), key, limit/2); err != nil {
			return nil, err
		}
	}
	s, err := measure.Watched(r.admin, func() measure.Sample { return measure.Count(l, logs, r.HalfFull) })
	if err != nil {
		return nil, err
	}
	return checked(measure.Want{Allowed: measure.AllOf, Keys: min(len(logs), r.HalfFull)}, s)
}

// memoryByKeys asks for one key after the other, all allowed, in windows so long that each key has been asked for a few times.
func (r *run) memoryByKeys() {
	r.page.title(3, "Cost against the number of keys, in process")
	r.page.say("All allowed, on one core; the window is 2 µs for each key, 10 ms at least, so that the log of a key holds a few requests, " +
		"and one leaves about as often as one comes. The rivals are the fastest of the first tables.")
	s := sweep{id: "keys-memory", title: "Cost of a decision against the number of keys, in process", x: "keys", y: "ns", unit: 1,
		quantity: measure.Time, wrong: r.wrongInProcess}
	for _, n := range r.KeyCounts {
		rounds := r.Rounds
		if n > 100_000 {
			rounds = r.longRounds()
		}
		good, failures := r.found(r.plan(rounds).Run(1, entries(r.compared(), func(c rivals.Contender) ([]measure.Sample, error) {
			return r.keysTurn(c, n)
		}))[0])
		s.add(n, good, failures)
	}
	r.tell(s)
	r.atMost("In process, Sash: cost at 1,000,000 keys, times that at 1,000", 2.5, s.growth(rivals.Sash, 1000, 1_000_000))
}

func (r *run) keysTurn(c rivals.Contender, n int) ([]measure.Sample, error) {
	s := passing(n)
	l, err := c.Memory(s)
	if err != nil {
		return nil, err
	}
	defer rivals.Close(l)
	keys := r.keys[:n]
	measure.Spin(l, keys, 1, s.Window+s.Window/4+r.Turn/4)
	var sample measure.Sample
	measure.OnCores(1, func() { sample = measure.Spin(l, keys, 1, r.Turn) })
	return checked(measure.Want{Allowed: measure.AllOf, Slack: stale}, sample)
}

// passing is a setting that whoever asks for n keys in turn never reaches, though each key has a few requests in its
// window.
func passing(n int) rivals.Setting {
	const nobody = 12 * time.Nanosecond // decides faster
	window := max(10*time.Millisecond, time.Duration(n)*2*time.Microsecond)
	return rivals.Setting{Limit: int(window / nobody / time.Duration(n)), Window: window, Keys: n}
}

// longRounds is how many rounds there are of what takes long.
func (r *run) longRounds() int { return (r.ManyRounds + 1) / 2 }

// redisByKeys asks for more and more keys, one server filling up meanwhile.
func (r *run) redisByKeys() {
	r.page.title(3, "Cost against the number of keys, on Redis")
	const callers = 64
	r.page.say("%d callers, all allowed; a server on which so many keys have been asked for before.", callers)
	s := sweep{id: "keys-redis", title: "Cost of a decision against the number of keys, on Redis", x: "keys", y: "µs", unit: 1000,
		quantity: measure.Time, wrong: r.wrongOnRedis}
	all := r.plan(1).Run(len(r.RedisKeys), entries([]rivals.Contender{contender(rivals.Sash), contender("redis_rate")},
		func(c rivals.Contender) ([]measure.Sample, error) { return r.fillingTurn(c, callers) }))
	for i, n := range r.RedisKeys {
		good, failures := r.found(all[i])
		s.add(n, good, failures)
	}
	r.tell(s)
}

// fillingTurn is a sample at each number of keys. What fills the server is not measured.
func (r *run) fillingTurn(c rivals.Contender, callers int) (samples []measure.Sample, err error) {
	l, err := r.connect(c, rivals.Setting{Limit: 1_000_000, Window: time.Hour}, callers)
	if err != nil {
		return nil, err
	}
	defer rivals.Close(l)
	filled := 0
	for _, n := range r.RedisKeys {
		if err := fill(l, r.keys[filled:n], callers); err != nil {
			return nil, err
		}
		filled = n
		s, err := measure.Watched(r.admin, func() measure.Sample { return measure.Call(l, r.keys[:n], callers, r.Turn) })
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
	return checked(measure.Want{Allowed: measure.AllOf}, samples...)
}

// fill asks for each key once, by so many callers.
func fill(l rivals.Limiter, keys []string, callers int) error {
	s := measure.Pass(l, keys, callers, 0)
	return measure.Want{Keys: len(keys), Allowed: len(keys)}.Check(s)
}

// memoryByCallers has more and more goroutines ask, on all cores.
func (r *run) memoryByCallers() {
	r.page.title(3, "Decisions against callers, in process")
	const keys = 1000
	r.page.say("All allowed; %s keys, for which all goroutines ask, on all cores.", grouped(keys))
	s := sweep{id: "callers-memory", title: "Decisions in process against callers", x: "goroutines", y: "1,000,000 decisions/s", unit: 1e6,
		quantity: measure.Rate, wrong: r.wrongInProcess}
	for _, n := range r.Goroutines {
		good, failures := r.found(r.plan(r.Rounds).Run(1, entries(r.compared(), func(c rivals.Contender) ([]measure.Sample, error) {
			l, err := c.Memory(passing(keys))
			if err != nil {
				return nil, err
			}
			defer rivals.Close(l)
			warm(l, r.keys[:keys])
			return checked(measure.Want{Allowed: measure.AllOf, Slack: stale}, measure.Spin(l, r.keys[:keys], n, r.Turn))
		}))[0])
		s.add(n, good, failures)
	}
	r.tell(s)
}

// byBatch asks for several keys in one request, all or none.
func (r *run) byBatch() {
	r.page.title(3, "Cost against the batch")
	r.page.say("`AllowAll`: so many claims in one request, all or none; the time is that of one claim. One caller.")
	s := sweep{id: "batch", title: "Cost of a claim against the claims in a request", x: "claims in a request", y: "ns", unit: 1, quantity: measure.Time}
	const memory, redis = "Sash, in process", "Sash, on Redis"
	for _, n := range r.Batches {
		ours, setting := contender(rivals.Sash), rivals.Setting{Limit: 100_000, Window: time.Second}
		turn := func(start func() (rivals.Limiter, error)) func() ([]measure.Sample, error) {
			return func() ([]measure.Sample, error) { return r.batchTurn(start, n) }
		}
		good, failures := r.found(r.plan(r.Rounds).Run(1, []measure.Entry{
			{Name: memory, Turn: turn(func() (rivals.Limiter, error) { return ours.Memory(setting) })},
			{Name: redis, Turn: turn(func() (rivals.Limiter, error) { return r.connect(ours, setting, 1) })},
		})[0])
		s.add(n, good, failures)
	}
	r.tell(s)
}

func (r *run) batchTurn(start func() (rivals.Limiter, error), n int) ([]measure.Sample, error) {
	l, err := start()
	if err != nil {
		return nil, err
	}
	defer rivals.Close(l)
	batch := &batches{of: l.(rivals.Batcher), keys: r.keys[:min(len(r.keys), 10_000)], size: n}
	samples, err := checked(measure.Want{Allowed: measure.AllOf}, measure.Call(batch, r.keys[:1], 1, r.Turn))
	for i := range samples {
		samples[i].Allowed *= n
	}
	return samples, err
}

// batches asks for a batch of keys where it is asked for one.
type batches struct {
	of   rivals.Batcher
	keys []string
	size int
	next int
}

func (b *batches) Allow(ctx context.Context, _ string) (bool, error) {
	if b.next+b.size > len(b.keys) {
		b.next = 0
	}
	b.next += b.size
	return b.of.AllowAll(ctx, b.keys[b.next-b.size:b.next])
}

// bytes weighs keys with more and more requests in their windows.
func (r *run) bytes() {
	for _, part := range []struct {
		id, where, how string
		keys           int
		list           []rivals.Contender
		wrong          func(string) bool
		turn           func(rivals.Contender) ([]measure.Sample, error)
	}{
		{"bytes-memory", "in process", "What stays in use after a garbage collection, the key strings not counted.", r.Weighed,
			rivals.InProcess(), r.wrongInProcess, r.heapTurn},
		{"bytes-redis", "on Redis", "`MEMORY USAGE` of all that is left on the server: names, values, and what the server needs for both.", r.Stored,
			rivals.OnRedis(), r.wrongOnRedis, r.storedTurn},
	} {
		list := slices.DeleteFunc(part.list, func(c rivals.Contender) bool { return isFloorOrSame(c) || c.Name == rivals.SashOneByOne })
		r.page.title(3, "Bytes for a key against the requests in its window, %s", part.where)
		r.page.say("%s For each of %s keys; the limit is 1,000 in an hour.", part.how, grouped(part.keys))
		s := sweep{id: part.id, title: "Bytes for a key, " + part.where, x: "requests", y: "bytes", unit: 1, wrong: part.wrong,
			quantity: func(s measure.Sample) float64 { return float64(s.Held) / float64(s.Keys) }}
		all := r.plan(1).Run(len(r.Logs), entries(list, part.turn))
		for i, n := range r.Logs {
			good, failures := r.found(all[i])
			s.add(n, good, failures)
		}
		r.tell(s)
	}
}

var weighed = rivals.Setting{Limit: 1000, Window: time.Hour}

func (r *run) heapTurn(c rivals.Contender) ([]measure.Sample, error) {
	empty := measure.Heap()
	l, err := c.Memory(weighed)
	if err != nil {
		return nil, err
	}
	defer rivals.Close(l)
	return r.weighing(l, r.Weighed, func() (int64, error) { return int64(measure.Heap()) - int64(empty), nil })
}

func (r *run) storedTurn(c rivals.Contender) ([]measure.Sample, error) {
	const callers = 32
	l, err := r.connect(c, weighed, callers)
	if err != nil {
		return nil, err
	}
	defer rivals.Close(l)
	before, err := r.stored()
	if err != nil {
		return nil, err
	}
	return r.weighing(l, r.Stored, func() (int64, error) {
		after, err := r.stored()
		return after - before, err
	})
}

// weighing asks for all keys until each has so many requests in its window.
func (r *run) weighing(l rivals.Limiter, n int, held func() (int64, error)) (samples []measure.Sample, err error) {
	keys, requests := r.keys[:n], 0
	for _, n := range r.Logs {
		var s measure.Sample
		for ; requests < n; requests++ {
			s = measure.Pass(l, keys, 32, 0)
			if err := (measure.Want{Keys: len(keys), Allowed: len(keys)}).Check(s); err != nil {
				return nil, err
			}
		}
		if s.Held, err = held(); err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// stored is what the server's keys take.
func (r *run) stored() (bytes int64, err error) {
	ctx := context.Background()
	const all = `local total, cursor = 0, '0'
repeat
  local page = redis.call('SCAN', cursor, 'COUNT', 1000)
  for _, key in ipairs(page[2]) do total = total + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) end
  cursor = page[1]
until cursor == '0'
return total`
	return r.admin.Eval(ctx, all, nil).Int64()
}
