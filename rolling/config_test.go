package rolling_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/rolling"
)

func TestTheZeroConfigIsTenSeconds(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Now: clock.Now})
	w.Add(1)
	clock.advance(10*time.Second - 1)
	if s := w.Stats(); s.Count != 1 || s.Span != 10*time.Second-1 {
		t.Errorf("%+v", s)
	}
	clock.advance(1)
	if s := w.Stats(); s.Count != 0 || s.Span != 9*time.Second {
		t.Errorf("%+v", s)
	}
}

func TestAConfigIsRefusedWithEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		config rolling.Config
		want   []string
	}{
		{rolling.Config{Buckets: -1}, []string{"-1 Buckets: want 1 to 3600"}},
		{rolling.Config{Buckets: 3601}, []string{"3601 Buckets"}},
		{rolling.Config{Width: -time.Second}, []string{"the Width is -1s"}},
		{rolling.Config{Width: 500}, []string{"the Width is 500ns", "write 500*time.Millisecond"}},
		{rolling.Config{Buckets: 100, Width: 4 * 24 * time.Hour}, []string{"the Width is 96h0m0s", "8784h0m0s"}},
		{rolling.Config{Buckets: 2, Width: math.MaxInt64}, []string{"the Width is"}},
		{rolling.Config{Buckets: 1, IgnoreCurrent: true}, []string{"IgnoreCurrent leaves nothing"}},
		{rolling.Config{Buckets: 1, Width: 1, IgnoreCurrent: true}, []string{"the Width is 1ns", "IgnoreCurrent leaves nothing"}},
		{rolling.Config{Buckets: math.MinInt, Width: math.MinInt64}, []string{"Buckets: want", "the Width is"}},
	} {
		_, err := rolling.NewWindow[int64](row.config)
		refused(t, err, "rolling: window: ", row.want)
		_, err = rolling.NewDistribution[int64](rolling.DistributionConfig{Buckets: row.config.Buckets, Width: row.config.Width,
			IgnoreCurrent: row.config.IgnoreCurrent, Highest: -1, Digits: 4})
		refused(t, err, "rolling: distribution: ", append(row.want, "Highest is -1", "4 Digits"))
	}
}

func TestTheBoundsOfAConfigAreWithinThem(t *testing.T) {
	t.Parallel()
	for _, config := range []rolling.Config{
		{Buckets: rolling.MaxBuckets, Width: rolling.MinWidth},
		{Buckets: 1, Width: rolling.MaxWindow},
		{Buckets: 2, Width: rolling.MaxWindow / 2, IgnoreCurrent: true},
	} {
		newWindow[float64](t, config).Add(1)
	}
	for _, config := range []rolling.DistributionConfig{{Highest: 1, Digits: 1}, {Highest: math.MaxInt64, Digits: rolling.MaxDigits}} {
		d := newDistribution(t, config)
		d.Add(1)
		d.Add(time.Duration(config.Highest))
		if s := d.Summary(0.4, 0.9); s.Quantiles[0] != 1 || int64(s.Quantiles[1]) != config.Highest || s.Clamped != 0 {
			t.Errorf("%+v", s)
		}
	}
}

func refused(t *testing.T, err error, prefix string, want []string) {
	t.Helper()
	if err == nil {
		t.Errorf("it is accepted, want %q", want)
		return
	}
	if !strings.HasPrefix(err.Error(), prefix) {
		t.Errorf("it says %q, want it to begin with %q", err, prefix)
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("it says %q, want %q in it", err, part)
		}
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines > len(want) {
		t.Errorf("it names %d faults: %q", lines, err)
	}
}
