// Package benchmarks measures Sash beside floors and rivals, all in the same run. It is a module of its own, so that
// what it compares with never enters the library's requirements.
//
//	make bench                # measures everything, and writes REPORT.md: some twelve minutes
//	make bench REPORT=quick   # the same, less surely: some three
//
// Package rivals has one file for each project, package attack tries how much each of them lets through, package measure times
// them in turns and checks what they did, package report asks the questions and tells the answers, package plot draws.
//
// The benchmarks beside this file tell what each thing that a Rule can say costs. Each checks its own workload: how many
// requests were allowed.
package benchmarks
