//go:build unix

package rundir

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestSocketIsInAPrivateFolder(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "rd") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	vars := env(map[string]string{"XDG_RUNTIME_DIR": dir})
	one, err := Socket(vars, "/data/one")
	if err != nil {
		t.Fatal(err)
	}
	two, err := Socket(vars, "/data/two")
	if err != nil || one == two || filepath.Dir(one) != filepath.Join(dir, "agentd") {
		t.Errorf("%s, %s, %v", one, two, err)
	}
	if info, err := os.Stat(filepath.Dir(one)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	// What others can enter, what is no folder and what isn't there is passed over.
	for name, spoil := range map[string]func(path string) error{
		"open to others": func(path string) error { return os.Mkdir(path, 0o755) },
		"a file":         func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a link":         func(path string) error { return os.Symlink(dir, path) },
	} {
		spoiled, rest := filepath.Join(dir, name), filepath.Join(dir, "tmp of "+name)
		for _, d := range []string{spoiled, rest} {
			if err := os.Mkdir(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := spoil(filepath.Join(spoiled, "agentd")); err != nil {
			t.Fatal(err)
		}
		got, err := Socket(env(map[string]string{"XDG_RUNTIME_DIR": spoiled, "TMPDIR": rest}), "/data")
		if err != nil || !strings.HasPrefix(got, rest) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	long := filepath.Join(dir, strings.Repeat("x", 120))
	if got, err := Socket(env(map[string]string{"XDG_RUNTIME_DIR": long, "TMPDIR": dir}), "/data"); err != nil || !strings.HasPrefix(got, dir+"/agentd-") {
		t.Errorf("%s, %v", got, err)
	}
}

func TestDialChecksWhoIsThere(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "rd") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	if _, err := Dial(t.Context(), path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if os.Geteuid() == 0 { // only root can give a socket away
		if err := os.Chown(path, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := Dial(t.Context(), path); !errors.Is(err, ErrForeign) {
			t.Errorf("another user's socket: %v", err)
		}
	}
	_ = l.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), path); err == nil {
		t.Error("a file was taken for a socket")
	}
}

func TestLockIsHeldByOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var held, most int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			unlock, err := Lock(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			held++
			most = max(most, held)
			mu.Unlock()
			mu.Lock()
			held--
			mu.Unlock()
			unlock()
		})
	}
	all.Wait()
	if most != 1 {
		t.Errorf("%d held it at once", most)
	}
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Lock(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was ended: %v", err)
	}
}
