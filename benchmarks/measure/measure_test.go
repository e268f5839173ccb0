package measure_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/benchmarks/measure"
	"github.com/sashlimit/sash/internal/redistest"
)

// counter allows so many calls of each key.
type counter struct {
	limit int

	mu   sync.Mutex
	seen map[string]int
}

func (c *counter) Allow(_ context.Context, key string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = make(map[string]int)
	}
	c.seen[key]++
	return c.seen[key] <= c.limit, nil
}

func keys(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return list
}

func TestAPassAsksForEachKeyOnce(t *testing.T) {
	t.Parallel()
	for _, goroutines := range []int{1, 2, 7} {
		for order := range 2 {
			c := &counter{limit: 1}
			s := measure.Pass(c, keys(1000), goroutines, order)
			if err := (measure.Want{Keys: 1000, Allowed: 1000}).Check(s); err != nil || len(c.seen) != 1000 {
				t.Errorf("%d goroutines, order %d: %v; %d keys were seen", goroutines, order, err, len(c.seen))
			}
		}
	}
}

func TestASpinGoesAroundAllKeys(t *testing.T) {
	t.Parallel()
	c := &counter{limit: 1}
	s := measure.Spin(c, keys(100), 2, time.Millisecond)
	if len(c.seen) != 100 || s.Allowed != 100 || s.Denied != s.Calls()-100 {
		t.Errorf("%d keys were seen, %d calls allowed, %d denied", len(c.seen), s.Allowed, s.Denied)
	}
}

func TestCallersShareTheKeysAmongThem(t *testing.T) {
	t.Parallel()
	c := &counter{limit: 1}
	s := measure.Call(c, keys(100), 7, 20*time.Millisecond)
	if err := (measure.Want{Keys: len(c.seen), Allowed: len(c.seen)}).Check(s); err != nil || s.P50 <= 0 || s.P99 < s.P50 {
		t.Errorf("%v; p50 %v, p99 %v", err, s.P50, s.P99)
	}
	if err := (measure.Want{Distinct: true}).Check(s); err == nil {
		t.Errorf("%d calls for %d keys had a key of their own each", s.Calls(), s.Keys)
	}
}

func TestAWrongWorkloadIsAnError(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]measure.Sample{
		"1 of 2 calls failed":                    {Allowed: 1, Failed: 1},
		"no call was made":                       {},
		"1 distinct keys, want 2":                {Allowed: 3, Keys: 1},
		"2 of 4 calls were allowed, want 3 to 3": {Allowed: 2, Denied: 2, Keys: 2},
		"5 of 5 calls were allowed, want 3 to 3": {Allowed: 5, Keys: 2},
		"":                                       {Allowed: 3, Denied: 9, Keys: 2},
	} {
		err := measure.Want{Keys: 2, Allowed: 3}.Check(s)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
	if err := (measure.Want{Allowed: measure.AllOf}).Check(measure.Sample{Allowed: 1, Denied: 1}); err == nil {
		t.Error("a denial where all should be allowed is no error")
	}
}

func TestARatioComparesWhatWasMeasuredInTheSameRound(t *testing.T) {
	t.Parallel()
	var order []string
	entry := func(name string, took ...time.Duration) measure.Entry {
		return measure.Entry{Name: name, Turn: func() ([]measure.Sample, error) {
			order = append(order, name)
			s := measure.Sample{Allowed: 1, Elapsed: took[0]}
			took = took[1:]
			return []measure.Sample{s}, nil
		}}
	}
	results := measure.Plan{Rounds: 3}.Run(1, []measure.Entry{entry("a", 10, 100, 1000), entry("b", 20, 200, 4000)})[0]
	over := measure.Find(results, "b").Over(measure.Find(results, "a"), measure.Time)
	if !slices.Equal(over, measure.Series{2, 2, 4}) || over.Median() != 2 || over.Min() != 2 || over.Max() != 4 {
		t.Errorf("ratios %v", over)
	}
	if got := strings.Join(order, ""); got != "abbaab" {
		t.Errorf("turns were taken in the order %s", got)
	}
}

func TestWhoFailsOnceIsNotMeasured(t *testing.T) {
	t.Parallel()
	turns := 0
	results := measure.Plan{Rounds: 3}.Run(2, []measure.Entry{{Name: "a", Turn: func() ([]measure.Sample, error) {
		if turns++; turns == 2 {
			return nil, errors.New("lost")
		}
		return make([]measure.Sample, 2), nil
	}}})
	for _, r := range results {
		if r[0].Err == nil || len(r[0].Samples) != 0 || turns != 2 {
			t.Errorf("%+v after %d turns", r[0], turns)
		}
	}
}

func TestTheMedianOfAnEvenNumberIsBetweenTheTwoInTheMiddle(t *testing.T) {
	t.Parallel()
	if m := (measure.Series{4, 1, 3, 2}).Median(); m != 2.5 {
		t.Errorf("median %v, want 2.5", m)
	}
	if m := (measure.Series{}).Median(); m != 0 || math.IsNaN(m) {
		t.Errorf("median of nothing: %v", m)
	}
}

func TestAServerTellsWhatItDid(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	s, err := measure.Watched(client, func() measure.Sample {
		for range 10 {
			client.Set(t.Context(), "a", 1, 0)
			client.Eval(t.Context(), "return redis.call('GET', KEYS[1])", []string{"a"})
		}
		return measure.Sample{}
	})
	if err != nil || s.Server.Scripts != 10 || s.Server.Commands != 30 || s.Server.CPU <= 0 {
		t.Errorf("%+v, %v", s.Server, err)
	}
}
