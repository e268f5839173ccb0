// Package measure times contenders beside each other: in rounds, so that whatever else the machine does meets all of
// them alike, and what each turn must have done is checked before its time is believed.
//
//	results := measure.Plan{Rounds: 5}.Run(1, []measure.Entry{{Name: "a", Turn: …}, {Name: "b", Turn: …}})[0]
//	slower := results[1].Over(results[0], measure.Time) // how often the time of a goes into that of b
package measure

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Sample is what one turn of one contender gave.
type Sample struct {
	Allowed, Denied, Failed int
	Keys                    int // distinct ones

	Elapsed  time.Duration // of all calls
	CPU      time.Duration // of this process, its garbage collector included
	Mallocs  uint64
	P50, P99 time.Duration // of one call; 0 where calls were not timed one by one
	Held     int64         // bytes that stay in use for it, where they were counted

	Server Server // what a Redis server did meanwhile
}

// Calls is how many calls were answered, or failed.
func (s Sample) Calls() int { return s.Allowed + s.Denied + s.Failed }

// Quantity is what tables and ratios are made of.
type Quantity func(Sample) float64

// per is a quantity divided by the number of calls.
func per(f Quantity) Quantity { return func(s Sample) float64 { return f(s) / float64(s.Calls()) } }

// The quantities, durations in nanoseconds. Time is the wall clock's for a decision, whatever the number of callers: its
// inverse is Rate.
var (
	Time      = per(func(s Sample) float64 { return float64(s.Elapsed) })
	CPU       = per(func(s Sample) float64 { return float64(s.CPU) })
	ServerCPU = per(func(s Sample) float64 { return float64(s.Server.CPU) })
	Mallocs   = per(func(s Sample) float64 { return float64(s.Mallocs) })
	Scripts   = per(func(s Sample) float64 { return float64(s.Server.Scripts) })
	Commands  = per(func(s Sample) float64 { return float64(s.Server.Commands) })
)

func Rate(s Sample) float64 { return 1e9 / Time(s) }
func P50(s Sample) float64  { return float64(s.P50) }
func P99(s Sample) float64  { return float64(s.P99) }

// Entry is one contender. A Turn returns a sample for each of its workloads, always as many.
type Entry struct {
	Name string
	Turn func() ([]Sample, error)
}

// Result is what a contender gave for one workload, round by round. Err says why it has none.
type Result struct {
	Name    string
	Samples []Sample
	Err     error
}

// Plan is how often everybody takes a turn.
type Plan struct {
	Rounds int
	Lock   func() (release func(), err error) // held through each turn; nil for nothing
}

// Run lets entries take turns, each round beginning with another of them. It returns for each of the workloads the
// results of all entries. An entry that fails once has failed: its Err is told, and it takes no more turns.
func (p Plan) Run(workloads int, entries []Entry) [][]Result {
	results := make([][]Result, workloads)
	for w := range results {
		results[w] = make([]Result, len(entries))
		for i, e := range entries {
			results[w][i].Name = e.Name
		}
	}
	for round := range p.Rounds {
		for i := range entries {
			i = (i + round) % len(entries)
			if results[0][i].Err == nil {
				p.take(entries[i], i, results)
			}
		}
	}
	return results
}

// take adds one turn of entry i to the results.
func (p Plan) take(e Entry, i int, results [][]Result) {
	samples, err := p.turn(e)
	if err == nil && len(samples) != len(results) {
		err = fmt.Errorf("%d samples, want %d", len(samples), len(results))
	}
	for w := range results {
		if err != nil {
			results[w][i].Err, results[w][i].Samples = err, nil
			continue
		}
		results[w][i].Samples = append(results[w][i].Samples, samples[w])
	}
}

func (p Plan) turn(e Entry) ([]Sample, error) {
	if p.Lock != nil {
		release, err := p.Lock()
		if err != nil {
			return nil, err
		}
		defer release()
	}
	runtime.GC() // what the one before has left is not this one's to pay for
	return e.Turn()
}

// Find returns the result of a name; one without samples if there is none.
func Find(results []Result, name string) Result {
	i := slices.IndexFunc(results, func(r Result) bool { return r.Name == name })
	if i < 0 {
		return Result{Name: name}
	}
	return results[i]
}

// Of is a quantity in each round.
func (r Result) Of(q Quantity) Series {
	s := make(Series, len(r.Samples))
	for i, sample := range r.Samples {
		s[i] = q(sample)
	}
	return s
}

// Over is a quantity of r divided by that of other in the same round.
func (r Result) Over(other Result, q Quantity) Series {
	s := make(Series, min(len(r.Samples), len(other.Samples)))
	for i := range s {
		s[i] = q(r.Samples[i]) / q(other.Samples[i])
	}
	return s
}
