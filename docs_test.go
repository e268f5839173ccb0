package sash_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

func TestEveryTestThatTheDocumentationNamesExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllSubmatch(text, -1)
	if len(named) < 50 {
		t.Errorf("it names %d tests", len(named))
	}
	for _, name := range named {
		if err := exec.CommandContext(t.Context(), "grep", "-rq", "--include=*_test.go", "func "+string(name[1])+"(", ".").Run(); err != nil {
			t.Errorf("there is no %s", name[1])
		}
	}
}
