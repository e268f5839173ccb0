// Package benchmarks measures Sash beside floors taken in the same run: a decision in memory, a decision in
// Redis beside a bare PING, a whole request beside a bare handler. It is a module of its own, so that what it
// compares with never enters the library's requirements.
//
//	make bench
//
// Each benchmark checks its own workload: how many requests were allowed.
package benchmarks
