//go:build unix

package loop

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"agentd/event"
	"agentd/tool"
)

func coverOf(root, pattern, toolName string) *guarded {
	g := &guarded{rules: []event.PolicyRule{{Decision: "deny", Tool: toolName, Match: pattern}}}
	g.coverFiles(root)
	return g
}

// TestTooManyDeniedFilesRefuse: a command can make so many files that a rule is about
// that the next could read one; then nothing runs.
func TestTooManyDeniedFilesRefuse(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{}
	for i := range maxCovered {
		files[fmt.Sprintf("a/%04d/.env", i)], files[fmt.Sprintf("a/%04d/x", i)] = "", ""
	}
	plant(t, root, files)
	if g := coverOf(root, "**/.env", "*_file"); g.uncoverable != "" || len(g.hidden) != maxCovered {
		t.Errorf("%d are hidden: %s", len(g.hidden), g.uncoverable)
	}
	plant(t, root, map[string]string{"zz/.env": "", "zz/x": ""})
	g := coverOf(root, "**/.env", "*_file")
	r := &toolRun{guard: *g}
	_, err := r.planCall(root)
	var refused *tool.Error
	if !errors.As(err, &refused) || refused.Category != tool.Denied || refused.Boundary != "rule" || refused.Advice == "" {
		t.Errorf("the plan gives %v", err)
	}
}

// TestFoldersOfDeniedFilesAreCoveredAsAWhole: rules about all of a folder hold however
// much is in it.
func TestFoldersOfDeniedFilesAreCoveredAsAWhole(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{"src/x": ""}
	for i := range maxCovered + 1 {
		files[fmt.Sprintf("node_modules/p%04d/index.js", i)] = ""
	}
	plant(t, root, files)
	for _, toolName := range []string{"*_file", "write_file"} {
		g := coverOf(root, "node_modules/**", toolName)
		if all := slices.Concat(g.hidden, g.readOnly); g.uncoverable != "" || !slices.Equal(all, []string{root + "/node_modules"}) {
			t.Errorf("%s: %d are covered: %s", toolName, len(all), g.uncoverable)
		}
	}
	if g := coverOf(root, "**/index.js", "*_file"); g.uncoverable != "" || !slices.Equal(g.hidden, []string{root + "/node_modules"}) {
		t.Errorf("%d are covered: %s", len(g.hidden), g.uncoverable)
	}
}

// TestFoldersThatCannotBeListedAreCovered: the next command could open one.
func TestFoldersThatCannotBeListedAreCovered(t *testing.T) {
	w := coverWalk{root: "/ws"}
	if err := w.visit("/ws/sec", nil, os.ErrPermission); err != nil || !slices.Equal(w.hidden, []string{"/ws/sec"}) {
		t.Errorf("%v, %v", w.hidden, err)
	}
	root := t.TempDir()
	plant(t, root, map[string]string{"sec/.env": "", "open/x": ""})
	if err := os.Chmod(root+"/sec", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(root+"/sec", 0o755) })
	g := coverOf(root, "**/.env", "*_file")
	if len(g.hidden) != 1 || !strings.HasPrefix(g.hidden[0], root+"/sec") {
		t.Errorf("%v are hidden", g.hidden)
	}
}

// TestWhatADeniedLinkLeadsToIsCovered: no mount covers a link, and a program that opens
// it by its denied name reads what it leads to.
func TestWhatADeniedLinkLeadsToIsCovered(t *testing.T) {
	base := t.TempDir()
	root := base + "/ws"
	plant(t, base, map[string]string{"ws/real": "", "shared/secrets": "", "ws/sub/x": ""})
	for name, to := range map[string]string{"a.env": "real", "b.env": "../shared/secrets", "c.env": "nowhere", "d.env": ".", "e.env": "..", "f.env": "/dev/null", "sub/g.env": "../real"} {
		if err := os.Symlink(to, root+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	g := coverOf(root, "**/*.env", "*_file")
	slices.Sort(g.hidden)
	if want := []string{base + "/shared/secrets", root + "/real"}; !slices.Equal(g.hidden, want) {
		t.Errorf("%v are hidden, want %v", g.hidden, want)
	}
	if g := coverOf(root, "**/*.env", "write_file"); len(g.readOnly) != 2 || len(g.hidden) != 0 {
		t.Errorf("%v are read-only, %v hidden", g.readOnly, g.hidden)
	}
}
