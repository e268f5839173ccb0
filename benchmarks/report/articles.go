package report

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sashlimit/sash/benchmarks/attack"
	"github.com/sashlimit/sash/benchmarks/measure"
	"github.com/sashlimit/sash/benchmarks/rivals"
)

// articles repeats what the articles measured, so that their readers find the same table with Sash in it.
func (r *run) articles() {
	r.page.title(2, "The articles' own measurements")
	r.page.say("A limit of 100 in a second. *Correctness*: one call every 8 ms, %s calls, then the most that was granted in any second; the "+
		"articles had 114 for bucket4j, 107 for guava and 100 for a queue. *Throughput*: calls a second from one thread that asks for one key as fast as it "+
		"can, at a limit of 100 and at one of 10,000,000 in a second, whatever the answer is. A limiter that waits instead of denying "+
		"grants every call, later. Sash's limits end at 1,000,000: for ten times as many it is told 1,000,000 in 100 ms, which is stricter.", grouped(r.Paced))
	inProcess := slices.DeleteFunc(rivals.All(), func(c rivals.Contender) bool { return c.Memory == nil || isFloorOrSame(c) })
	onRedis := slices.DeleteFunc(rivals.OnRedis(), isFloorOrSame)
	for _, part := range []struct {
		title string
		list  []rivals.Contender
		start func(rivals.Contender, rivals.Setting) (rivals.Limiter, error)
	}{
		{"In process", inProcess, func(c rivals.Contender, s rivals.Setting) (rivals.Limiter, error) {
			s.Keys = 1
			return c.Memory(s)
		}},
		{"On Redis", onRedis, func(c rivals.Contender, s rivals.Setting) (rivals.Limiter, error) { return r.connect(c, s, 1) }},
	} {
		r.page.title(3, "%s", part.title)
		r.articleTable(part.list, part.start)
	}
}

func (r *run) articleTable(list []rivals.Contender, start func(rivals.Contender, rivals.Setting) (rivals.Limiter, error)) {
	few, many := rivals.Setting{Limit: 100, Window: time.Second}, rivals.Setting{Limit: 10_000_000, Window: time.Second}
	paced := together(r, list, func(c rivals.Contender) (rivals.Limiter, error) { return start(c, few) },
		func(name string, l rivals.Limiter) attack.Found { return pacedRun(name, l, r.Paced) })
	all := r.plan(r.Rounds).Run(2, entries(list, func(c rivals.Contender) (samples []measure.Sample, err error) {
		for _, s := range []rivals.Setting{few, many} {
			sample, err := r.oneThread(c, s, start)
			if err != nil {
				return nil, err
			}
			samples = append(samples, sample)
		}
		return samples, nil
	}))
	good, failures := r.found(all[1])
	var rows [][]string
	for _, result := range ranked(good) {
		found := paced[result.Name]
		mark := strconv.Itoa(found.Most) + " ✓"
		if found.Most > few.Limit {
			mark = fmt.Sprintf("**%d ✗**", found.Most)
		}
		rows = append(rows, []string{called(result.Name), mark,
			span(measure.Find(all[0], result.Name).Of(measure.Rate), 1000), span(result.Of(measure.Rate), 1000)})
	}
	r.page.table(1, []string{"contender", "most in a second, of 100", "1,000 calls/s at 100/s", "1,000 calls/s at 10,000,000/s"}, rows)
	r.page.list(failures)
}

// oneThread asks from one goroutine until the time is up. Each call is timed by itself, as one that waits may take
// longer than many others.
func (r *run) oneThread(c rivals.Contender, s rivals.Setting, start func(rivals.Contender, rivals.Setting) (rivals.Limiter, error)) (sample measure.Sample, err error) {
	l, err := start(c, s)
	if err != nil {
		return sample, err
	}
	defer rivals.Close(l)
	measure.OnCores(1, func() { sample = measure.Call(l, r.keys[:1], 1, r.Turn) })
	if sample.Failed > 0 {
		return sample, fmt.Errorf("%d of %d calls failed", sample.Failed, sample.Calls())
	}
	return sample, nil
}
