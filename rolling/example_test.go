package rolling_test

import (
	"fmt"
	"time"

	"github.com/sashlimit/sash/rolling"
)

func ExampleWindow() {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w, err := rolling.NewWindow[int64](rolling.Config{
		Buckets: 4,
		Width:   500 * time.Millisecond,
		Now:     func() time.Time { return now },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for v := int64(10); v <= 40; v += 10 {
		w.Add(v)
		now = now.Add(500 * time.Millisecond)
	}
	s := w.Stats() // the 10 is exactly a Window old, and has left
	fmt.Println(s.Count, s.Sum, s.Mean, s.Min, s.Max)
	fmt.Println(s.Rate, "a second, over", s.Span)
	// Output:
	// 3 90 30 20 40
	// 60 a second, over 1.5s
}

func ExampleWindow_AddAt() {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := start
	w, err := rolling.NewWindow[int64](rolling.Config{Buckets: 3, Width: time.Second, Now: func() time.Time { return now }})
	if err != nil {
		fmt.Println(err)
		return
	}
	now = start.Add(2 * time.Second)
	w.AddAt(start.Add(100*time.Millisecond), 7) // reported late
	w.Add(1)
	fmt.Println(w.Stats().Sum)
	now = start.Add(3 * time.Second)
	fmt.Println(w.Stats().Sum)
	// Output:
	// 8
	// 1
}

func ExampleDistribution() {
	d, err := rolling.NewDistribution[time.Duration](rolling.DistributionConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := 1; i <= 100; i++ {
		d.Add(time.Duration(i) * time.Millisecond)
	}
	s := d.Summary(0.5, 0.99) // to two digits
	fmt.Println(s.Quantiles[0].Round(time.Millisecond), s.Quantiles[1].Round(time.Millisecond), s.Max, s.Count)
	// Output:
	// 50ms 99ms 100ms 100
}

func ExampleNewWindow_wrong() {
	_, err := rolling.NewWindow[float64](rolling.Config{Buckets: 1, Width: 500, IgnoreCurrent: true})
	fmt.Println(err)
	// Output:
	// rolling: window: the Width is 500ns: want at least 1ms (a plain number is nanoseconds: write 500*time.Millisecond)
	// IgnoreCurrent leaves nothing of 1 bucket: want at least 2
}
