package sash_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

func TestEveryTestThatTheDocumentationNamesExists(t *testing.T) {
	t.Parallel()
	for page, least := range map[string]int{"docs/reliability.md": 50, "docs/windows.md": 4} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllSubmatch(text, -1)
		if len(named) < least {
			t.Errorf("%s names %d tests", page, len(named))
		}
		for _, name := range named {
			if err := exec.CommandContext(t.Context(), "grep", "-rq", "--include=*_test.go", "func "+string(name[1])+"(", ".").Run(); err != nil {
				t.Errorf("%s: there is no %s", page, name[1])
			}
		}
	}
}
