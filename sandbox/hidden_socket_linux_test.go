package sandbox

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHiddenSockets: a socket among the hidden paths, or in a hidden folder, can't be used,
// also where the network is allowed and other sockets can be.
func TestHiddenSockets(t *testing.T) {
	root, outside := workspace(t), workspace(t)
	userRun := filepath.Join(outside, "run")
	t.Setenv("XDG_RUNTIME_DIR", userRun)
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
	if !slices.Contains(hidden, userRun+"/bus") || !slices.ContainsFunc(hidden, func(p string) bool { return filepath.Dir(filepath.Dir(p)) == "/run/user" }) {
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

// TestHiddenOutOfReach: a hidden path that a folder of another user keeps this one from, such as
// a socket below the XDG_RUNTIME_DIR that is still in the environment after su, doesn't keep
// commands from running. A folder of this user's own does: a command could have closed it so that
// the next one, which nothing hides the path from, opens it again. The same is true of a path that
// could be looked at before.
func TestHiddenOutOfReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make folders of other users")
	}
	for name, c := range map[string]struct {
		owner int
		known bool
		out   bool
	}{
		"another user's folder":             {owner: 1, out: true},
		"this user's own folder":            {owner: 0},
		"another user's folder since a bit": {owner: 1, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			root, others := workspace(t), workspace(t)
			deep := filepath.Join(others, "deep")
			bus := filepath.Join(deep, "bus")
			if err := errors.Join(os.Mkdir(deep, 0o755), os.WriteFile(bus, nil, 0o600), os.Chmod(root, 0o755)); err != nil {
				t.Fatal(err)
			}
			p := Profile{Mode: WorkspaceWrite, Root: root, Hidden: []string{bus}}
			if c.known {
				plan, err := Prepare(p, report())
				if err != nil {
					t.Fatal(err)
				}
				p.Identities = plan.Profile.Identities
			}
			if err := errors.Join(os.Chown(others, c.owner, -1), os.Chmod(others, 0)); err != nil {
				t.Fatal(err)
			}
			asNobody(t, func() {
				plan, err := Prepare(p, report())
				if out := err == nil && len(plan.Profile.Hidden) == 0; out != c.out {
					t.Errorf("left out: %t, want %t (%v)", out, c.out, err)
				}
			})
		})
	}
}

// asNobody does something as a user who owns no file.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.SetfsuidRetUid(65534)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = unix.SetfsuidRetUid(before) }()
	do()
}
