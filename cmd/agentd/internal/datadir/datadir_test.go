package datadir_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentd/cmd/agentd/internal/datadir"
)

// user returns the keeper of a user with a home of its own.
func user(t *testing.T) *datadir.Keeper {
	t.Helper()
	return keeperAt(t.TempDir())
}

func keeperAt(home string) *datadir.Keeper {
	return datadir.New(func(name string) string { return map[string]string{"HOME": home}[name] })
}

// made returns a data directory of a user with a file in it.
func made(t *testing.T, k *datadir.Keeper) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := k.Claim(dir); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "token"), "x")
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// refused wants an error about a directory.
func refused(t *testing.T, err error, acceptable bool, reason string) {
	t.Helper()
	e, ok := errors.AsType[*datadir.Error](err)
	if !ok || e.Acceptable != acceptable || !strings.Contains(e.Reason, reason) {
		t.Errorf("got %v, want a refusal with %q, acceptable %v", err, reason, acceptable)
	}
}

func TestWhatIsMineStaysMine(t *testing.T) {
	k := user(t)
	dir := made(t, k)
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	for _, again := range []func(string) error{k.Check, k.Claim} {
		if err := again(moved); err != nil {
			t.Error(err)
		}
	}
	if err := k.Check(dir); err != nil {
		t.Errorf("a directory that isn't there: %v", err)
	}
	if err := k.Claim(dir); err != nil {
		t.Error(err)
	}
}

// Whatever way a directory came here, it is refused until it is accepted.
func TestWhatOthersMadeIsRefused(t *testing.T) {
	me, other := user(t), user(t)
	mine := made(t, me)
	mark, err := os.ReadFile(filepath.Join(mine, datadir.MarkFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir    string
		reason string
	}{
		"another user's": {made(t, other), "made elsewhere"},
		"copied":         {copied(t, mine), "made elsewhere"},
		"no mark":        {holding(t, "token", "x"), "not made by your agentd"},
		"an empty mark":  {holding(t, datadir.MarkFile, ""), "made elsewhere"},
		"a stolen mark":  {holding(t, datadir.MarkFile, string(mark)), "made elsewhere"},
		"a long mark":    {holding(t, datadir.MarkFile, string(mark)+strings.Repeat("x", 1000)), "made elsewhere"},
		"only a store":   {holding(t, "db/CURRENT", "x"), "not made by your agentd"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, me.Check(c.dir), true, c.reason)
			refused(t, me.Claim(c.dir), true, c.reason)
			if err := me.Accept(c.dir); err != nil {
				t.Fatal(err)
			}
			if err := me.Check(c.dir); err != nil {
				t.Error(err)
			}
			refused(t, other.Check(c.dir), true, "made elsewhere")
		})
	}
}

// TestTheRootOfAVolume: a file system that is new has a folder of its own there.
func TestTheRootOfAVolume(t *testing.T) {
	k, dir := user(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, claim := range []func(string) error{k.Check, k.Claim, k.Check, k.Claim} {
		if err := claim(dir); err != nil {
			t.Error(err)
		}
	}
	refused(t, user(t).Check(dir), true, "made elsewhere")
}

func holding(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, name), text)
	return dir
}

func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", dir, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

// What others can write to is refused, with or without a mark, and accepting it
// doesn't help.
func TestWhatOthersCanWriteIsRefused(t *testing.T) {
	k := user(t)
	for name, c := range map[string]struct {
		spoil  func(dir string) error
		reason string
	}{
		"the directory, group":  {func(dir string) error { return os.Chmod(dir, 0o770) }, "chmod go-w"},
		"the directory, others": {func(dir string) error { return os.Chmod(dir, 0o702) }, "chmod go-w"},
		"a file, group":         {func(dir string) error { return os.Chmod(filepath.Join(dir, "token"), 0o660) }, "chmod go-w"},
		"a file, others":        {func(dir string) error { return os.Chmod(filepath.Join(dir, "token"), 0o606) }, "chmod go-w"},
		"the mark":              {func(dir string) error { return os.Chmod(filepath.Join(dir, datadir.MarkFile), 0o666) }, "chmod go-w"},
		"a link":                {func(dir string) error { return os.Symlink("/etc/hostname", filepath.Join(dir, "server.json")) }, "symbolic link"},
		"a link to nothing":     {func(dir string) error { return os.Symlink("nothing", filepath.Join(dir, "tokens.json")) }, "symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := made(t, k)
			if err := c.spoil(dir); err != nil {
				t.Fatal(err)
			}
			refused(t, k.Check(dir), false, c.reason)
			refused(t, k.Claim(dir), false, c.reason)
			refused(t, k.Accept(dir), false, c.reason)
		})
	}
}

func TestAnotherUsersFilesAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	k := user(t)
	for _, name := range []string{".", "token", datadir.MarkFile} {
		dir := made(t, k)
		if err := os.Chown(filepath.Join(dir, name), 12345, -1); err != nil {
			t.Fatal(err)
		}
		refused(t, k.Check(dir), false, "belongs to another user")
		refused(t, k.Accept(dir), false, "belongs to another user")
	}
}

// Without a key nothing is believed, and what else is wrong is still said.
func TestWithoutAKey(t *testing.T) {
	dir := made(t, user(t))
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	for name, k := range map[string]*datadir.Keeper{"no home": keeperAt(""), "a relative home": keeperAt("home"), "a file for a home": keeperAt(file)} {
		if err := k.Check(dir); !errors.Is(err, datadir.ErrNoKey) {
			t.Errorf("%s: %v", name, err)
		}
		fresh := filepath.Join(t.TempDir(), "fresh")
		if err := k.Claim(fresh); !errors.Is(err, datadir.ErrNoKey) {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Stat(fresh); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: the directory is not there: %v", name, err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	refused(t, keeperAt("").Check(dir), false, "chmod go-w")
}

// A key that others could have chosen is none.
func TestTheKeyIsTheUsersAlone(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"readable": func(path string) error { return os.Chmod(path, 0o644) },
		"short":    func(path string) error { return os.Truncate(path, 31) },
		"empty":    func(path string) error { return os.Truncate(path, 0) },
		"a link": func(path string) error {
			return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
		},
	} {
		k := user(t)
		dir := made(t, k)
		key := filepath.Join(k.Folder(), "owner.key")
		if info, err := os.Lstat(key); err != nil || info.Mode() != 0o600 || info.Size() != 32 {
			t.Fatalf("the key is %v, %v", info, err)
		}
		if err := spoil(key); err != nil {
			t.Fatal(err)
		}
		if err := k.Check(dir); !errors.Is(err, datadir.ErrNoKey) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Processes that start at the same time for the first time agree on a key, and none
// takes the other's directory for a foreign one.
func TestFirstStartsAtTheSameTime(t *testing.T) {
	for range 50 {
		home, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				k := keeperAt(home)
				if err := errors.Join(k.Claim(dir), k.Check(dir)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

func TestFolder(t *testing.T) {
	for _, c := range []struct{ state, home, want string }{
		{"/s", "/h", "/s/agentd"}, {"", "/h", "/h/.local/state/agentd"}, {"s", "/h", "/h/.local/state/agentd"}, {"", "", ""},
	} {
		k := datadir.New(func(name string) string { return map[string]string{"HOME": c.home, "XDG_STATE_HOME": c.state}[name] })
		if got := k.Folder(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
