package rolling_test

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/rolling"
)

// What an Add and a read cost, on one core and on two. AddAt is told the time: the difference is the reading of a clock.
//
//	go test -run '^$' -bench . -cpu 1,2 ./rolling/

func BenchmarkWindowAdd(b *testing.B) {
	w := newWindow[int64](b, rolling.Config{Width: time.Hour})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			w.Add(1)
		}
	})
	if n := w.Stats().Count; n < int64(b.N) {
		b.Fatalf("%d were counted of %d", n, b.N)
	}
}

func BenchmarkWindowAddAt(b *testing.B) {
	w := newWindow[int64](b, rolling.Config{Width: time.Hour})
	at := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		w.AddAt(at, 1)
	}
}

func BenchmarkWindowStats(b *testing.B) {
	w := newWindow[int64](b, rolling.Config{Width: time.Hour})
	w.Add(1)
	b.ReportAllocs()
	for b.Loop() {
		if w.Stats().Sum != 1 {
			b.Fatal(w.Stats())
		}
	}
}

func BenchmarkDistributionAdd(b *testing.B) {
	d := newDistribution(b, rolling.DistributionConfig{Width: time.Hour})
	values := latencies(4096)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			d.Add(values[i%len(values)])
		}
	})
	if n := d.Summary().Count; n < int64(b.N) {
		b.Fatalf("%d were counted of %d", n, b.N)
	}
}

func BenchmarkDistributionSummary(b *testing.B) {
	clock := newClock()
	d := newDistribution(b, rolling.DistributionConfig{Now: clock.Now})
	for range 10 {
		clock.advance(time.Second)
		for _, v := range latencies(4096) {
			d.Add(v)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if d.Summary(0.5, 0.99).Count != 10*4096 {
			b.Fatal(d.Summary())
		}
	}
}
