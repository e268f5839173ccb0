package rolling

import "time"

// Stats tell what was added within the Span. They are of one moment: Sum and Count belong together. Of nothing, everything
// but Span is 0: look at Count before you believe a Mean, a Min or a Max.
type Stats[V Number] struct {
	Count int64   // of values
	Sum   V       // of values; beyond the range of int64 it wraps around, beyond that of float64 it is infinite
	Mean  float64 // Sum/Count, in the unit of the values
	Min   V
	Max   V

	// Span is the time that was looked at, and that the rates are divided by: from the first edge that is not yet a Window
	// old, or from the beginning of a Window that has not lived so long, until now or, with IgnoreCurrent, until the
	// unfinished bucket began. It is at least 0, and less than Window.
	Span time.Duration

	// Rate is Sum for a second of Span, and Frequency is Count for a second of Span: the same where every value is 1. They are
	// 0 as long as Span is, and jump about as long as it is short.
	Rate, Frequency float64

	Ignored int64 // NaN and infinite values: they are not in any of the above
}

func statsOf[V Number](total bucket[V], span time.Duration) Stats[V] {
	s := Stats[V]{Count: total.count, Sum: total.sum, Min: total.min, Max: total.max, Span: span, Ignored: total.ignored}
	if s.Count > 0 {
		s.Mean = float64(s.Sum) / float64(s.Count)
	}
	if seconds := span.Seconds(); seconds > 0 {
		s.Rate, s.Frequency = float64(s.Sum)/seconds, float64(s.Count)/seconds
	}
	return s
}
