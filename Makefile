# make test is all that a newcomer needs: it installs a Redis server (or Valkey) and a C compiler for the
# race detector if they are missing, and runs everything against real servers.

.PHONY: test test-servers lint bench server compiler

test: server compiler
	go test -race -shuffle=on ./...

# The same on other servers, Redis 8 and Valkey 8 and 9, which it fetches once from other suites of Debian.
test-servers: server compiler
	@.ci/servers

lint:
	go vet ./...
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	cd benchmarks && go vet ./... && go test ./...

# Measures Sash beside its rivals, into benchmarks/REPORT.md; REPORT=quick takes a quarter of the time.
REPORT = full

bench: server
	cd benchmarks && go test -count=1 -timeout 60m -run '^TestReport$$' -v . -report $(REPORT)

server:
	@command -v redis-server >/dev/null || command -v valkey-server >/dev/null || .ci/install redis-server redis redis valkey redis

compiler:
	@command -v $${CC:-gcc} >/dev/null || .ci/install gcc gcc gcc gcc gcc
