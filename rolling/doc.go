// Package rolling keeps statistics of the last few seconds, minutes or hours in one process: how many, how much, how fast,
// and how the values are distributed.
//
//	w, err := rolling.NewWindow[int64](rolling.Config{Buckets: 10, Width: time.Second})
//	if err != nil {
//		return err
//	}
//	w.Add(1)                        // for each request
//	perSecond := w.Stats().Rate     // at any time
//
// A [Window] gives sums and extremes, a [Distribution] quantiles as well: the 50th and the 99th percentile of a latency.
//
// # What is counted
//
// Time is cut into buckets of one Width, W, whose edges lie at start + i·W for whole i, where start is when the Window was
// made: they do not drift, however seldom the Window is used. Of these the newest N are kept, the one that has not finished yet among them, so that Window
// = N·W. At time t, let e be the edge at which the unfinished bucket began, e ≤ t < e+W. What is counted was added in
//
//	[e - (N-1)·W, t]      or with IgnoreCurrent in      [e - (N-1)·W, e)
//
// and not before start. The length of that interval is the Span of the [Stats], from (N-1)·W to N·W once a Window has
// lived that long.
//
// # How far off it is
//
// Let S(T) be the exact sum of what was added in (t-T, t]. For values that are not negative, a sum or a count s is
//
//	S(Window - W) ≤ s ≤ S(Window)
//
// so that what is exactly Window old is never counted, and what is missing was added within one Width, at the far end of the
// window. At a steady rate that is a share of at most W/Window = 1/N. A rate is divided by the Span, and so is not low by that
// share. With IgnoreCurrent s lies between 0 and S(Window) instead: up to one Width of the newest is missing as well.
//
// # What is given up
//
// Memory and the time of a read grow with N, and not with how much is added. Adding allocates nothing. Adding and reading take
// one lock, for some nanoseconds: what is read is of one moment, so that a Sum belongs to its Count. On dozens of cores that add
// without a pause, give each a Window of its own.
package rolling
