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

// onRedis has many callers ask at the same time.
func (r *run) onRedis() {
	r.page.title(2, "On Redis")
	r.page.say("One server, without persistence, on the same machine and the same cores as the callers; emptied before every turn, and each " +
		"contender connects anew. Clients of go-redis have its defaults (a pool of 10 connections for each core), rueidis has its own (4 " +
		"connections, shared). A caller asks again as soon as it has its answer. *Redis CPU* is what the server's threads have spent on a " +
		"decision, *commands* how many it has executed, those inside scripts among them.")
	asking := slices.DeleteFunc(rivals.OnRedis(), func(c rivals.Contender) bool { return c.Name == rivals.SashAlways })
	byCallers := make(map[int][]measure.Result)
	for _, n := range r.Callers {
		title := fmt.Sprintf("Distinct keys, allowed, %d callers", n)
		if n == 1 {
			title = "Distinct keys, allowed, one caller"
		}
		all := r.redisRounds(asking, n, false, false)
		byCallers[n] = r.results(fmt.Sprintf("redis-%d", n), title, rivals.Sash, r.inRedis, all, redisColumns()...)
	}
	r.callersFigure(byCallers)
	r.distinctBars(byCallers)
	r.hotKey()
}

func redisColumns() []column {
	return []column{thousands("1,000 decisions/s", measure.Rate), microseconds("p50 µs", measure.P50), microseconds("p99 µs", measure.P99),
		microseconds("Redis CPU µs", measure.ServerCPU), count("commands", measure.Commands)}
}

// redisRounds asks for a new key each time, or always for one; allowed, or denied.
func (r *run) redisRounds(list []rivals.Contender, callers int, hot, denied bool) []measure.Result {
	return r.plan(r.Rounds).Run(1, entries(list, func(c rivals.Contender) ([]measure.Sample, error) {
		return r.redisTurn(c, callers, hot, denied)
	}))[0]
}

func (r *run) redisTurn(c rivals.Contender, callers int, hot, denied bool) (samples []measure.Sample, err error) {
	keys, setting, want := r.keys[:redisKeys], rivals.Setting{Limit: 1000, Window: time.Minute}, measure.Want{Distinct: true, Allowed: measure.AllOf}
	if hot {
		keys, setting, want = keys[:1], rivals.Setting{Limit: 1_000_000, Window: time.Second}, measure.Want{Keys: 1, Allowed: measure.AllOf}
	}
	if denied {
		setting, want = rivals.Setting{Limit: 100, Window: time.Hour}, measure.Want{Keys: 1, Slack: 1} // a bucket may gain one
	}
	if c.Role == rivals.Floor {
		want.Allowed = measure.AllOf
	}
	l, err := r.connect(c, setting, callers)
	if err != nil {
		return nil, err
	}
	defer rivals.Close(l)
	if denied {
		warm(l, slices.Repeat(keys, 2*setting.Limit))
	}
	s, err := measure.Watched(r.admin, func() measure.Sample { return measure.Call(l, keys, callers, r.Turn) })
	if err != nil {
		return nil, err
	}
	if c.Role != rivals.Floor {
		if stored, err := r.admin.DBSize(context.Background()).Result(); err != nil || stored < int64(s.Keys) {
			return nil, fmt.Errorf("%d keys on the server after requests of %d (%v)", stored, s.Keys, err)
		}
	}
	return checked(want, s)
}

// redisKeys is how many keys a turn on Redis has: so many that none of those that want a new key each time uses them up.
const redisKeys = 1 << 19

// connect starts a contender on an empty server, and has every caller ask a few times, so that all connections are there.
func (r *run) connect(c rivals.Contender, s rivals.Setting, callers int) (rivals.Limiter, error) {
	if err := r.admin.FlushAll(context.Background()).Err(); err != nil {
		return nil, err
	}
	l, err := c.Redis(s, r.redis)
	if err != nil {
		return nil, err
	}
	others := make([]string, 4*callers)
	for i := range others {
		others[i] = fmt.Sprintf("warm:%07d", i)
	}
	measure.Call(l, others, callers, r.Turn/4)
	return l, nil
}

func (r *run) callersFigure(byCallers map[int][]measure.Result) {
	figure := plot.Lines{Title: "Decisions on Redis, distinct keys, allowed", X: "callers", Y: "decisions/s"}
	var batch [][]string
	last := byCallers[r.Callers[len(r.Callers)-1]]
	for _, c := range ranked(last) {
		line := plot.Line{Name: c.Name, Wrong: r.wrong(c.Name, r.inRedis)}
		for _, n := range r.Callers {
			if found := measure.Find(byCallers[n], c.Name); len(found.Samples) > 0 {
				line.Points = append(line.Points, at(n, found.Of(measure.Rate)))
			}
		}
		figure.Series = append(figure.Series, line)
	}
	r.page.title(3, "Decisions against callers")
	r.figure("callers", figure.Title, figure.SVG())
	for _, n := range r.Callers {
		row := []string{grouped(n)}
		for _, name := range []string{rivals.Sash, rivals.SashOneByOne} {
			s := measure.Find(byCallers[n], name).Of(measure.Scripts)
			for i := range s {
				s[i] = 1 / s[i]
			}
			row = append(row, span(s, 1))
		}
		batch = append(batch, row)
	}
	r.page.say("How many decisions one call of the script has made:")
	r.page.table(1, []string{"callers", rivals.Sash, rivals.SashOneByOne}, batch)
}

// distinctBars are the claims about distinct keys.
func (r *run) distinctBars(byCallers map[int][]measure.Result) {
	bounds := map[int]map[string]float64{
		1:   {rivals.SashOneByOne: 0.95},
		64:  {rivals.SashOneByOne: 2.3, "redis_rate": 2.2, "rueidis, fixed window": 1.2},
		256: {rivals.SashOneByOne: 2.8, "redis_rate": 2.8, "rueidis, fixed window": 1.1},
	}
	for _, n := range r.Callers {
		results := byCallers[n]
		ours := measure.Find(results, rivals.Sash)
		where := fmt.Sprintf("Redis, distinct keys, callers: %d", n)
		for _, name := range []string{rivals.SashOneByOne, "redis_rate", "rueidis, fixed window"} {
			other := measure.Find(results, name)
			if bound := bounds[n][name]; bound > 0 {
				r.faster(where, bound, ours, other)
			}
			if n == 64 {
				r.atMost("… p99, times that of "+name, 1, ours.Over(other, measure.P99))
			}
		}
		if n == 64 {
			r.atMost("… Redis CPU for a decision, times that of redis_rate", 0.45, ours.Over(measure.Find(results, "redis_rate"), measure.ServerCPU))
		}
	}
}

// hotKey has all callers ask for one key.
func (r *run) hotKey() {
	r.page.say("One key for all callers. *Allowed*: a limit of 1,000,000 in a second. *Denied*: 100 in an hour, spent before " +
		"the clock starts. By default Sash remembers a denial in the process that was denied, and asks nobody as long as it holds; *asking always* " +
		"switches that off. A contender whose calls fail under this contention is named below the table.")
	allowed := r.results("redis-hot", fmt.Sprintf("One key, allowed, %d callers", r.HotCallers), rivals.Sash, r.inRedis,
		r.redisRounds(slices.DeleteFunc(rivals.OnRedis(), func(c rivals.Contender) bool { return c.Name == rivals.SashAlways }), r.HotCallers, true, false),
		redisColumns()...)
	r.faster(fmt.Sprintf("Redis, one key, allowed, callers: %d", r.HotCallers), 5, measure.Find(allowed, rivals.Sash), measure.Find(allowed, "redis_rate"))

	denied := r.results("redis-denied", fmt.Sprintf("One key, denied, %d callers", r.HotCallers), rivals.Sash, r.inRedis,
		r.redisRounds(rivals.OnRedis(), r.HotCallers, true, true), redisColumns()...)
	where := fmt.Sprintf("Redis, one key, denied, callers: %d", r.HotCallers)
	r.faster(where, 10, measure.Find(denied, rivals.SashAlways), measure.Find(denied, "redis_rate"))
	ours := measure.Find(denied, rivals.Sash)
	r.faster(where, 20, ours, fastest(denied, isRival))
	r.atMost("… commands that reach Redis for a denial of Sash", 0, ours.Of(measure.Commands))
}
