package report

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/sashlimit/sash/benchmarks/measure"
	"github.com/sashlimit/sash/benchmarks/plot"
	"github.com/sashlimit/sash/benchmarks/rivals"
)

// cores are on how many cores everything in process is measured: on one, and on two if there are as many.
func cores() []int {
	if runtime.NumCPU() < 2 {
		return []int{1}
	}
	return []int{1, 2}
}

func onCores(n int) string {
	if n == 1 {
		return "one core"
	}
	return "two cores"
}

// entries makes an entry of each contender.
func entries(list []rivals.Contender, turn func(rivals.Contender) ([]measure.Sample, error)) []measure.Entry {
	all := make([]measure.Entry, len(list))
	for i, c := range list {
		all[i] = measure.Entry{Name: c.Name, Turn: func() ([]measure.Sample, error) { return turn(c) }}
	}
	return all
}

// checked are samples that were what was wanted of each.
func checked(want measure.Want, samples ...measure.Sample) ([]measure.Sample, error) {
	for _, s := range samples {
		if err := want.Check(s); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// requests of each key that manyKeys measures: the first, on one core; the second and the fourth, of half of the keys on
// one core, and of an equal part on each other number of cores.
type request struct{ number, cores int }

func requests() []request {
	list := []request{{1, 1}}
	for _, number := range []int{2, 4} {
		for _, n := range cores() {
			list = append(list, request{number, n})
		}
	}
	return list
}

func (q request) String() string {
	which := map[int]string{1: "first", 2: "second", 4: "fourth"}[q.number]
	return fmt.Sprintf("the %s request of each, %s", which, onCores(q.cores))
}

// manyKeys asks for each of many keys a few times. A limiter is made anew for each turn, so that no more than one of them
// is in memory.
func (r *run) manyKeys() {
	r.page.title(2, "In process")
	r.page.say("Nanoseconds are of the wall clock, for one decision of all goroutines together. CPU is that of the whole process, its garbage " +
		"collector included. On two cores two goroutines ask. With many keys the limit is 10 in 10 minutes; each turn begins with a new limiter, and " +
		"every request must be allowed. The first request of a key is new to the limiter; after that half of the keys are asked for on one core and " +
		"the others on two, in an order that is not that of the first. A log of Sash has places for three requests, and makes more at the fourth.")
	list := requests()
	all := r.plan(r.ManyRounds).Run(len(list), entries(rivals.InProcess(), r.manyKeysTurn))
	for i, q := range list {
		title := fmt.Sprintf("%s keys, allowed, %v", grouped(r.ManyKeys), q)
		good := r.results(fmt.Sprintf("keys-%d-%d", q.number, q.cores), title, rivals.Sash, r.inProcess, all[i],
			nanoseconds("ns", measure.Time), nanoseconds("CPU ns", measure.CPU), count("allocations", measure.Mallocs))
		ours := measure.Find(good, rivals.Sash)
		switch q.number {
		case 2:
			r.faster("In process, "+title, map[int]float64{1: 1.3, 2: 1.6}[q.cores], ours, fastest(good, isKeyed))
			r.atMost("… allocations for a decision of Sash", 0.005, ours.Of(measure.Mallocs))
			r.leaders = leaders(good, 3)
		case 4:
			r.compare("In process, "+title, ours, fastest(good, isKeyed))
		}
	}
	r.weigh(all[0], all[len(all)-1])
}

// leaders names the first n rivals.
func leaders(results []measure.Result, n int) (names []string) {
	for _, result := range ranked(results) {
		if isRival(result.Name) && len(names) < n {
			names = append(names, result.Name)
		}
	}
	return names
}

func (r *run) manyKeysTurn(c rivals.Contender) (samples []measure.Sample, err error) {
	keys, empty := r.keys[:r.ManyKeys], measure.Heap()
	l, err := c.Memory(rivals.Setting{Limit: 10, Window: 10 * time.Minute, Keys: len(keys)})
	if err != nil {
		return nil, err
	}
	defer rivals.Close(l)
	each := func(keys []string, cores, order int) (s measure.Sample) {
		measure.OnCores(cores, func() { s = measure.Pass(l, keys, cores, order) })
		if err == nil {
			err = measure.Want{Keys: len(keys), Allowed: len(keys)}.Check(s)
		}
		return s
	}
	held := func() int64 { return int64(measure.Heap()) - int64(empty) }
	parts := func(held int64) {
		part := len(keys) / len(cores())
		for i, cores := range cores() {
			s := each(keys[i*part:][:part], cores, 1)
			s.Held = held
			samples = append(samples, s)
		}
	}
	first := each(keys, 1, 0)
	first.Held = held()
	samples = append(samples, first)
	parts(0)
	each(keys, runtime.NumCPU(), 0)
	parts(held())
	return samples, err
}

// weigh tells what a key takes: with one request in its window, and with three.
func (r *run) weigh(first, third []measure.Result) {
	first, _ = r.found(first)
	perKey := func(s measure.Sample) float64 { return float64(s.Held) / float64(r.ManyKeys) }
	var rows [][]string
	for _, result := range ranked(first) {
		if isFloor(result.Name) {
			continue
		}
		three := measure.Find(third, result.Name).Of(perKey)
		rows = append(rows, []string{called(result.Name), span(result.Of(perKey), 1), span(three, 1), r.verdict(result.Name, r.inProcess)})
		if result.Name == rivals.Sash {
			r.atMost("In process, bytes for a key with 3 requests, beyond the key string", 179, three)
		}
	}
	r.page.title(3, "Bytes for a key, in process")
	r.page.say("What stays in use after a garbage collection, for each of %s keys. The key strings are the caller's and not "+
		"counted; a limiter that copies them is counted with its copies.", grouped(r.ManyKeys))
	r.page.table(1, []string{"contender", "after 1 request", "after 3", r.mostAdmitted()}, rows)
}

// at is a point of a figure.
func at(x int, s measure.Series) plot.Point {
	return plot.Point{X: float64(x), Y: s.Median(), Low: s.Min(), High: s.Max()}
}

// stale is how many denials are forgiven where none is due: to those that read the clock before they take their lock, and
// lost the processor in between.
const stale = 100

// oneKey asks for one key as fast as it goes: with a limit that is far away, and with one that was reached long ago.
func (r *run) oneKey() {
	r.page.say("One key. *Allowed*: a limit of 1,000,000 in 10 ms, which nobody reaches. *Mostly denied*: 100 in an hour, which " +
		"are spent before the clock starts. A limiter without keys is bare here: it is spared the look-up.")
	for _, denied := range []bool{false, true} {
		for _, n := range cores() {
			what := map[bool]string{false: "allowed", true: "mostly denied"}[denied]
			title := fmt.Sprintf("One key, %s, %s", what, onCores(n))
			all := r.plan(r.Rounds).Run(1, entries(rivals.InProcess(), func(c rivals.Contender) ([]measure.Sample, error) {
				return r.oneKeyTurn(c, denied, n)
			}))
			good := r.results(fmt.Sprintf("one-%s-%d", map[bool]string{false: "allowed", true: "denied"}[denied], n), title, rivals.Sash, r.inProcess, all[0],
				nanoseconds("ns", measure.Time), nanoseconds("CPU ns", measure.CPU), count("allocations", measure.Mallocs))
			if denied {
				ours := measure.Find(good, rivals.Sash)
				r.faster("In process, "+title, map[int]float64{1: 1.6, 2: 3}[n], ours, fastest(good, isKeyed))
				r.compare("… and without a look-up of a key", ours, fastest(good, isRival))
			}
		}
	}
}

func (r *run) oneKeyTurn(c rivals.Contender, denied bool, cores int) (samples []measure.Sample, err error) {
	setting, want := rivals.Setting{Limit: 1_000_000, Window: 10 * time.Millisecond, Keys: 1}, measure.Want{Allowed: measure.AllOf, Slack: stale}
	if denied {
		setting, want = rivals.Setting{Limit: 100, Window: time.Hour, Keys: 1}, measure.Want{Slack: 1} // a bucket may gain one
	}
	if c.Role == rivals.Floor {
		want = measure.Want{Allowed: measure.AllOf}
	}
	l, err := c.Memory(setting)
	if err != nil {
		return nil, err
	}
	defer rivals.Close(l)
	measure.Count(l, r.keys[:1], 1000)
	var s measure.Sample
	measure.OnCores(cores, func() { s = measure.Spin(l, r.keys[:1], cores, r.Turn) })
	return checked(want, s)
}

// warm asks for each of keys, one after the other. Nothing is measured of it.
func warm(l rivals.Limiter, keys []string) {
	for _, key := range keys {
		_, _ = l.Allow(context.Background(), key)
	}
}
