package rolling

import (
	"errors"
	"fmt"
	"time"
)

// The bounds of a Config. A read looks at every bucket.
const (
	MaxBuckets = 3600
	MinWidth   = time.Millisecond
	MaxWindow  = 366 * 24 * time.Hour // Buckets times Width
)

// Config says how far back a Window looks: over Buckets times Width. The zero value is ten buckets of one second.
type Config struct {
	Buckets int           // 1 to MaxBuckets, the unfinished one among them; 0 means 10
	Width   time.Duration // of one bucket, MinWidth to MaxWindow/Buckets; 0 means a second

	// IgnoreCurrent leaves the unfinished bucket out of what is read: statistics of Buckets-1 whole Widths, the newest of
	// which is up to one Width old. It needs two Buckets.
	IgnoreCurrent bool

	// Now is the clock; only the differences of its values are used. It is called by several goroutines at once, and must not
	// call back. nil means the monotonic clock of this process, which no adjustment of the wall clock moves.
	//
	// If it steps back behind the newest bucket, that bucket begins again: nothing is lost or counted for less than the time that
	// passes, and everything counts for up to one Width longer.
	Now func() time.Time
}

// withDefaults returns the config with every default in its place, and everything that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	if c.Buckets == 0 {
		c.Buckets = 10
	}
	if c.Width == 0 {
		c.Width = time.Second
	}
	return c, c.validate()
}

func (c Config) validate() error {
	var faults []error
	if c.Buckets < 1 || c.Buckets > MaxBuckets {
		faults = append(faults, fmt.Errorf("there are %d Buckets: want 1 to %d", c.Buckets, MaxBuckets))
	}
	switch {
	case c.Width < MinWidth:
		faults = append(faults, fmt.Errorf("the Width is %v: want at least %v (a plain number is nanoseconds: write 500*time.Millisecond)", c.Width, MinWidth))
	case c.Width > MaxWindow/time.Duration(max(1, c.Buckets)):
		faults = append(faults, fmt.Errorf("the Width is %v: want at most %v, divided by the number of Buckets", c.Width, MaxWindow))
	}
	if c.IgnoreCurrent && c.Buckets == 1 {
		faults = append(faults, errors.New("IgnoreCurrent leaves nothing of 1 bucket: want at least 2"))
	}
	return errors.Join(faults...)
}

// MaxDigits bounds DistributionConfig.Digits: one more makes everything ten times as large.
const MaxDigits = 3

// DistributionConfig sets up a Distribution. The zero value is right for latencies up to a minute, of the last ten seconds.
type DistributionConfig struct {
	Buckets       int // these four are those of Config
	Width         time.Duration
	IgnoreCurrent bool
	Now           func() time.Time

	// Highest is the largest value of which quantiles are told apart, at least 1, in the unit of the values; 0 means
	// 60,000,000,000, a minute of nanoseconds. The range is 0 to Highest, in steps of 1 at its lower end.
	Highest int64

	// Digits bounds the relative error of a quantile to 10^-Digits: 1 to MaxDigits; 0 means 2, so an error of at most 1 %.
	Digits int
}

func (c DistributionConfig) withDefaults() DistributionConfig {
	if c.Highest == 0 {
		c.Highest = int64(time.Minute)
	}
	if c.Digits == 0 {
		c.Digits = 2
	}
	return c
}

func (c DistributionConfig) validate() error {
	var faults []error
	if c.Highest < 1 {
		faults = append(faults, fmt.Errorf("the Highest is %d: want at least 1", c.Highest))
	}
	if c.Digits < 1 || c.Digits > MaxDigits {
		faults = append(faults, fmt.Errorf("there are %d Digits: want 1 to %d", c.Digits, MaxDigits))
	}
	return errors.Join(faults...)
}
