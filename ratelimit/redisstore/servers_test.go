package redisstore_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
)

// A suite that ran on another server than it was told to (make test-servers) would prove nothing.
func TestTheSuiteRunsOnTheServerThatWasAskedFor(t *testing.T) {
	t.Parallel()
	info := redistest.Start(t).Client().Info(t.Context(), "server").Val()
	binary := os.Getenv(redistest.ServerVariable)
	if binary == "" {
		return
	}
	says, err := exec.CommandContext(t.Context(), binary, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`^(\w+) server v=(\S+)`).FindStringSubmatch(string(says))
	if len(named) != 3 {
		t.Fatalf("%s says %q", binary, says)
	}
	// Valkey names a version of Redis too, for clients that know of no other.
	if want := strings.ToLower(named[1]) + "_version:" + named[2] + "\r\n"; !strings.Contains(info, want) {
		t.Errorf("want %q in\n%s", want, info)
	}
}
