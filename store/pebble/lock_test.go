package pebble_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentd/store"
	"agentd/store/pebble"
)

// secondProcess names the directory that the test binary opens when it is
// started again as the second process.
const secondProcess = "AGENTD_TEST_SECOND_PROCESS"

// runSecond is the second process: it prints what Open says.
func runSecond(dir string) int {
	s, err := pebble.Open(dir, nil)
	if err != nil {
		fmt.Println(errors.Is(err, store.ErrLocked), err)
		return 3
	}
	if err := s.Close(); err != nil {
		fmt.Println(err)
		return 4
	}
	return 0
}

func second(t *testing.T, dir string) (string, int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), secondProcess+"="+dir)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestTwoProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, nil)
	k := newBook(t, s)
	k.must(3, 100, "a")

	out, code := second(t, dir)
	want := fmt.Sprintf("in use by process %d", os.Getpid())
	if code != 3 || !strings.HasPrefix(out, "true ") || !strings.Contains(out, want) {
		t.Errorf("second process: exit %d, %q; want a refusal that says %q", code, out, want)
	}
	k.must(3, 100, "a")
	mustClose(t, s)

	if out, code := second(t, dir); code != 0 {
		t.Errorf("second process after Close: exit %d, %q", code, out)
	}
	s = mustOpen(t, dir, nil)
	defer mustClose(t, s)
	if err := k.check(s, false); err != nil {
		t.Error(err)
	}
}

func TestOneProcessTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, nil)
	defer mustClose(t, s)
	if _, err := pebble.Open(dir, nil); !errors.Is(err, store.ErrLocked) {
		t.Errorf("second Open: %v, want ErrLocked", err)
	}
}

func TestPermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, small(nil))
	k := newBook(t, s)
	for range 40 {
		k.must(20, 600, "a")
	}
	mustClose(t, s)
	err := filepath.Walk(dir, func(path string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if fi.IsDir() {
			want = 0o700
		}
		if got := fi.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
