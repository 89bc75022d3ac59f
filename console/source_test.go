package console_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var boundElement = regexp.MustCompile(`bind:this=\{(\w+)\}`)

// TestElementsMayBeGone: the browser tells of some events later, when the element that a
// name is bound to may be gone. The compiler asks for a check only if its type says so.
func TestElementsMayBeGone(t *testing.T) {
	bound := 0
	err := filepath.WalkDir("src", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".svelte") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range boundElement.FindAllSubmatch(source, -1) {
			bound++
			name := string(match[1])
			if !regexp.MustCompile(`let ` + name + `: [\w<>]+ \| undefined = \$state\(`).Match(source) {
				t.Errorf("%s: %s is bound to an element; declare it as \"| undefined = $state()\"", path, name)
			}
			if regexp.MustCompile(`\b` + name + `!`).Match(source) {
				t.Errorf("%s: %s! says that an element is there which may be gone", path, name)
			}
		}
		return nil
	})
	if err != nil || bound == 0 {
		t.Fatalf("%d elements are bound: %v", bound, err)
	}
}
