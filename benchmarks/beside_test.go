package benchmarks_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sashlimit/sash/benchmarks/measure"
	"github.com/sashlimit/sash/benchmarks/rivals"
)

// BenchmarkBeside is Sash in process, in turns with the rivals that come next to it: the parts of the report that a change
// of the memory store moves, in a minute. Run it with -benchtime 1x -v.
func BenchmarkBeside(b *testing.B) {
	const many, turn = 1_000_000, 100 * time.Millisecond
	keys := make([]string, many)
	for i := range keys {
		keys[i] = fmt.Sprintf("bench:%07d", i)
	}
	for _, bench := range []struct {
		name   string
		rivals []string
		rounds int
		limits []rivals.Setting
		shows  []string
		take   func(add func(cores int, want measure.Want, ask func() measure.Sample), l []rivals.Limiter)
	}{{
		name: "many keys", rivals: []string{"sethvargo/go-limiter"}, rounds: 5,
		limits: []rivals.Setting{{Limit: 10, Window: 10 * time.Minute, Keys: many}},
		shows:  []string{"first", "second, one core", "second, two cores"},
		take: func(add func(int, measure.Want, func() measure.Sample), l []rivals.Limiter) {
			half := measure.Want{Keys: many / 2, Allowed: many / 2}
			add(1, measure.Want{Keys: many, Allowed: many}, func() measure.Sample { return measure.Pass(l[0], keys, 1, 0) })
			add(1, half, func() measure.Sample { return measure.Pass(l[0], keys[:many/2], 1, 1) })
			add(2, half, func() measure.Sample { return measure.Pass(l[0], keys[many/2:], 2, 1) })
		},
	}, {
		name: "one key denied", rivals: []string{"failsafe-go", "sethvargo/go-limiter"}, rounds: 9,
		limits: []rivals.Setting{{Limit: 100, Window: time.Hour, Keys: 1}},
		shows:  []string{"one core", "two cores"},
		take: func(add func(int, measure.Want, func() measure.Sample), l []rivals.Limiter) {
			measure.Count(l[0], keys[:1], 1000)
			for _, cores := range []int{1, 2} {
				add(cores, measure.Want{Slack: 1}, func() measure.Sample { return measure.Spin(l[0], keys[:1], cores, turn) })
			}
		},
	}, {
		name: "growth", rivals: []string{"sethvargo/go-limiter"}, rounds: 3,
		limits: []rivals.Setting{{Limit: 800, Window: 10 * time.Millisecond, Keys: 1000}, {Limit: 160, Window: 2 * time.Second, Keys: many}},
		shows:  []string{"1,000 keys", "1,000,000 keys"},
		take: func(add func(int, measure.Want, func() measure.Sample), l []rivals.Limiter) {
			for i, n := range []int{1000, many} {
				measure.Spin(l[i], keys[:n], 1, time.Duration(i)*2500*time.Millisecond+turn/4)
				add(1, measure.Want{Allowed: measure.AllOf, Slack: 100}, func() measure.Sample { return measure.Spin(l[i], keys[:n], 1, turn) })
			}
		},
	}} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				var entries []measure.Entry
				for _, name := range append([]string{rivals.Sash}, bench.rivals...) {
					entries = append(entries, measure.Entry{Name: name, Turn: func() (samples []measure.Sample, err error) {
						var l []rivals.Limiter
						for _, s := range bench.limits {
							one, err := contender(name).Memory(s)
							if err != nil {
								return nil, err
							}
							defer rivals.Close(one)
							l = append(l, one)
						}
						bench.take(func(cores int, want measure.Want, ask func() measure.Sample) {
							measure.OnCores(cores, func() {
								s := ask()
								if wrong := want.Check(s); wrong != nil {
									err = wrong
								}
								samples = append(samples, s)
							})
						}, l)
						return samples, err
					}})
				}
				for i, results := range (measure.Plan{Rounds: bench.rounds}).Run(len(bench.shows), entries) {
					for _, r := range results {
						if r.Err != nil {
							b.Fatal(r.Name, r.Err)
						}
						b.Logf("%-18s %-22s %7.1f ns %7.1f CPU %6.3f allocations %6.2f times Sash", bench.shows[i], r.Name, r.Of(measure.Time).Median(),
							r.Of(measure.CPU).Median(), r.Of(measure.Mallocs).Median(), r.Over(results[0], measure.Time).Median())
					}
				}
			}
		})
	}
}

func contender(name string) rivals.Contender {
	all := rivals.All()
	return all[slices.IndexFunc(all, func(c rivals.Contender) bool { return c.Name == name })]
}
