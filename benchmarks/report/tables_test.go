package report

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/benchmarks/attack"
	"github.com/sashlimit/sash/benchmarks/measure"
	"github.com/sashlimit/sash/benchmarks/rivals"
)

// took is a result of rounds in which one decision took so long.
func took(name string, rounds ...time.Duration) measure.Result {
	r := measure.Result{Name: name}
	for _, d := range rounds {
		r.Samples = append(r.Samples, measure.Sample{Allowed: 1, Elapsed: d, CPU: d})
	}
	return r
}

func TestABarIsHeldAgainstTheMedianOfTheRounds(t *testing.T) {
	t.Parallel()
	ours, other := took(rivals.Sash, 10, 10, 10), took("redis_rate", 30, 20, 1)
	for bound, want := range map[float64]string{2: "| met |", 2.1: "| **missed** |"} {
		r, p := &run{}, newPage("")
		r.faster("here", bound, ours, other)
		r.barTable(p)
		if !strings.Contains(p.String(), want) {
			t.Errorf("twice as fast at a bar of %g: want %s in\n%s", bound, want, p)
		}
	}
}

func TestABarWithoutAMeasurementIsNotMet(t *testing.T) {
	t.Parallel()
	r, p := &run{}, newPage("")
	r.faster("here", 1, took(rivals.Sash, 10), measure.Result{Name: "redis_rate"})
	r.atMost("nothing", 1, nil)
	r.barTable(p)
	if got := strings.Count(p.String(), "not measured"); got != 2 {
		t.Errorf("%d of 2 bars say that they are not measured:\n%s", got, p)
	}
}

func TestFloorsAreNoRivals(t *testing.T) {
	t.Parallel()
	results := []measure.Result{took("time.Now", 1), took("failsafe-go", 2), took("httprate", 3), took(rivals.Sash, 4)}
	if got := fastest(results, isRival).Name; got != "failsafe-go" {
		t.Errorf("the fastest rival is %s", got)
	}
	if got := fastest(results, isKeyed).Name; got != "httprate" {
		t.Errorf("the fastest that knows keys is %s", got)
	}
	if order := ranked(results); order[len(order)-1].Name != "time.Now" {
		t.Errorf("the floor is not last in %v", order)
	}
}

func TestAFastWrongAnswerIsMarked(t *testing.T) {
	t.Parallel()
	r := &run{Size: Full()}
	found := map[string]attack.Report{rivals.Sash: {Burst: attack.Found{Most: 100}}, "redis_rate": {Paced: attack.Found{Most: 199}}}
	for name, want := range map[string]string{rivals.SashAlways: "100 ✓", "redis_rate": "**199 ✗**", "PING": "–"} {
		if got := r.verdict(name, found); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// failures is a testing.TB that counts what is reported to it.
type failures struct {
	testing.TB
	count int
}

func (f *failures) Errorf(string, ...any) { f.count++ }

func TestARivalThatFailsIsToldAndOursFailsTheRun(t *testing.T) {
	t.Parallel()
	lost := errors.New("3 of 5 calls failed")
	for name, want := range map[string]int{"throttled": 0, rivals.SashGin: 1, "PING": 1} {
		f := &failures{TB: t}
		good, told := (&run{t: f}).found([]measure.Result{{Name: name, Err: lost}})
		if len(good) != 0 || len(told) != 1 || !strings.Contains(told[0], lost.Error()) || f.count != want {
			t.Errorf("%s: %v is good, told %q, %d errors, want %d", name, good, told, f.count, want)
		}
	}
}

func TestAVersionIsThatOfTheModuleFile(t *testing.T) {
	t.Parallel()
	const mod = "module m\n\nrequire example.com/a v1.2.3\n\nrequire (\n\texample.com/b v0.1.0\n\texample.com/b/v2 v2.0.1 // indirect\n)\n"
	for module, want := range map[string]string{"example.com/a": "v1.2.3", "example.com/b": "v0.1.0", "example.com/b/v2": "v2.0.1", "": "written here"} {
		if got := version(mod, rivals.Contender{Module: module}); got != want {
			t.Errorf("%s: %s, want %s", module, got, want)
		}
	}
}

func TestNumbersCanBeRead(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1_000_000: "1,000,000"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
	for v, want := range map[float64]string{0.123: "0.12", 12.34: "12.3", 1234.5: "1234"} {
		if got := significant(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}
