package measure

import "slices"

// Series are the values of one quantity, a value a round. An empty one has no median.
type Series []float64

// Median is the middle value, the mean of the two middle ones if they are even in number, and 0 if there is none.
func (s Series) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Min is the least value, 0 if there is none.
func (s Series) Min() float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Min(s)
}

// Max is the greatest value, 0 if there is none.
func (s Series) Max() float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Max(s)
}
