//go:build unix

package loop

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"agentd/event"
)

// TestFilesAreReadAsToolsWouldReadThem: what is read to decide about a call becomes a
// fact, and the agent chooses the names.
func TestFilesAreReadAsToolsWouldReadThem(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := base + "/ws"
	plant(t, base, map[string]string{
		"ws/run.sh": "echo a", "ws/.env": "K=1", "ws/.agentd/token": "t", "home/.netrc": "n", "home/notes.sh": "echo b", "opt/build.sh": "echo c",
	})
	for name, to := range map[string]string{"again.sh": "run.sh", "env.sh": ".env", "netrc.sh": "../home/.netrc", "up.sh": "../opt/build.sh"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(root+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	c := &callFiles{root: root, hidden: []string{root + "/.agentd", base + "/home/.netrc"}, rules: []event.PolicyRule{{Decision: "deny", Tool: "*_file", Match: "**/.env"}}}
	for path, want := range map[string]struct{ script, hash bool }{
		"ws/run.sh": {true, true}, "ws/again.sh": {true, true}, "home/notes.sh": {false, true}, "opt/build.sh": {false, true}, "ws/up.sh": {false, true},
		"ws/.env": {}, "ws/env.sh": {}, "ws/.agentd/token": {}, "home/.netrc": {}, "ws/netrc.sh": {}, "ws/pipe": {}, "ws": {}, "ws/none": {},
	} {
		if _, ok := c.script(filepath.Join(base, path)); ok != want.script {
			t.Errorf("%s is read as a script: %v", path, ok)
		}
		if _, ok := c.contentHash(filepath.Join(base, path)); ok != want.hash {
			t.Errorf("the content of %s is hashed: %v", path, ok)
		}
	}
	c.readRoots = []string{root, base + "/opt"}
	if _, ok := c.contentHash(base + "/home/notes.sh"); ok {
		t.Error("a file outside of the read roots was read")
	}
	if _, ok := c.contentHash(base + "/opt/build.sh"); !ok {
		t.Error("a file in the read roots was not read")
	}
	for _, kernel := range []string{"/proc/version", "/proc/kmsg", "/sys/kernel/notes"} {
		if _, ok := c.contentHash(kernel); ok {
			t.Errorf("%s was read", kernel)
		}
	}
}
