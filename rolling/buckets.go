package rolling

// Number is what can be added up: int64, float64, and types of those such as time.Duration.
type Number interface{ ~int64 | ~float64 }

// buckets is a ring: that of number n lies in place n modulo their number.
type buckets[V Number] []bucket[V]

// bucket holds what was added in one Width. The zero value is an empty one.
type bucket[V Number] struct {
	number int64

	count    int64
	sum      V
	min, max V     // of an empty one 0
	ignored  int64 // NaN and infinite values
	clamped  int64 // values outside the range of a Distribution
}

// open returns the bucket of a number, emptied if it held an older one. It never holds a newer one, since whoever asks does
// so only for one of the len(b) newest, and no two of those share a place.
func (b buckets[V]) open(number int64) (open *bucket[V], emptied bool) {
	open = &b[b.place(number)]
	if emptied = open.number != number; emptied {
		*open = bucket[V]{number: number}
	}
	return open, emptied
}

func (b buckets[V]) place(number int64) int { return int(number % int64(len(b))) }

// total adds up the buckets from first to last. One that was not opened in time still has the number of an older one.
func (b buckets[V]) total(first, last int64) (sum bucket[V]) {
	for i := range b {
		if b[i].within(first, last) {
			sum.merge(&b[i])
		}
	}
	return sum
}

func (b *bucket[V]) within(first, last int64) bool { return first <= b.number && b.number <= last }

// add adds one value. What is no finite number would hide the sum and the mean of all others as long as it counts.
func (b *bucket[V]) add(v V) {
	if !finite(v) {
		b.ignored++
		return
	}
	if b.count == 0 {
		b.min, b.max = v, v
	}
	b.count++
	b.sum += v
	b.min, b.max = min(b.min, v), max(b.max, v)
}

func (b *bucket[V]) merge(other *bucket[V]) {
	b.ignored += other.ignored
	b.clamped += other.clamped
	switch {
	case other.count == 0:
		return
	case b.count == 0:
		b.min, b.max = other.min, other.max
	default:
		b.min, b.max = min(b.min, other.min), max(b.max, other.max)
	}
	b.count += other.count
	b.sum += other.sum
}

// finite reports whether v is a number, and not infinite: v less itself is 0 for those alone.
func finite[V Number](v V) bool {
	difference := v - v
	return difference == 0
}
