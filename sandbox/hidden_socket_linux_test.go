package sandbox

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestHiddenSockets: a socket among the hidden paths, or in a hidden folder, can't be used,
// also where the network is allowed and other sockets can be.
func TestHiddenSockets(t *testing.T) {
	root, outside := workspace(t), workspace(t)
	runtime := filepath.Join(outside, "run")
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	sockets := map[string]bool{"run/bus": true, "run/keyring/control": true, "run/gnupg/S.gpg-agent": true, "run/other": false}
	for name := range sockets {
		path := filepath.Join(outside, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	hidden := SecretPaths()
	if !slices.Contains(hidden, runtime+"/bus") || !slices.ContainsFunc(hidden, func(p string) bool { return filepath.Dir(filepath.Dir(p)) == "/run/user" }) {
		t.Errorf("%v", hidden)
	}
	plan := prepared(t, Profile{Mode: WorkspaceWrite, Root: root, Network: NetworkAllow, Hidden: hidden})
	if !plan.use.mount {
		t.Skipf("no mount namespace here: %v", plan.NotEnforced)
	}
	copySelf(t, root+"/attacker")
	for name, isHidden := range sockets {
		r := run(t, plan, attackEnv+`=unix ./attacker `+filepath.Join(outside, name))
		if (r.Code != 0) != isHidden {
			t.Errorf("%s: %+v %s", name, r.Exit, r.stderr)
		}
	}
}
