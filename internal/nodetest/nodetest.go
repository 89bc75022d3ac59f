// Package nodetest gives tests the programs of Node.js that they are checked against.
//
// # Contract
//
// A test's folder has a package.json and a package-lock.json with exact versions.
// [Modules] installs them with npm below the folder's .node, once for each content
// of the lock file, and returns where they are. Without Node.js the test is
// skipped and says so; with AGENTD_TEST_NODE=require it fails.
package nodetest

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Modules returns the folder of the installed packages, or ends the test. It reads
// the lock file of the test's own folder. What says in a few words what the
// packages are needed for.
func Modules(t *testing.T, what string) string {
	t.Helper()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if os.Getenv("AGENTD_TEST_NODE") == "require" {
			t.Fatalf("%s is not in PATH; run scripts/node.sh", name)
		}
		t.Skipf("skipped: %s needs Node.js, and %s is not in PATH; run scripts/node.sh", what, name)
	}
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	dir, err := filepath.Abs(filepath.Join(".node", hex.EncodeToString(sum[:8])))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		install(t, dir)
	}
	return filepath.Join(dir, "node_modules")
}

// install fills a folder beside dir and renames it: two runs at the same time
// don't disturb each other, and one that is cut off leaves nothing half done.
func install(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "new-") //nolint:usetesting // renaming needs the same file system
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(work) }() // it is gone when all went well
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// No package's own scripts: nothing here needs one.
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	if err := os.Rename(work, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			t.Fatal(err)
		}
	}
}

// Environment is that of the programs: plain output, and no talk with their makers.
func Environment() []string {
	return append(os.Environ(), "NO_COLOR=1", "FORCE_COLOR=0", "NODE_ENV=test",
		"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "CI=true")
}
