package loop

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestAPathThatAppearsIsNoticed: whatever is between the nearest folder and the path, and
// whether or not the folder's stamp counted before.
func TestAPathThatAppearsIsNoticed(t *testing.T) {
	later := time.Now().Add(time.Hour) // when everything that the test made has settled
	for name, c := range map[string]struct {
		path          string
		make, between func(t *testing.T, dir string)
	}{
		"in the folder itself": {path: "there/secret"},
		"as a folder":          {path: "there/secret", make: makeFolder("there/secret")},
		"as a link to nothing": {path: "there/secret", make: makeLink("nowhere", "there/secret")},
		"below new folders":    {path: "there/a/b/secret"},
		"folder by folder":     {path: "there/a/b/secret", between: makeFolder("there/a")},
		"behind a link":        {path: "link/secret", make: writeFile("there/secret")},
		"behind a link that leads nowhere yet": {
			path: "dangling/secret", make: writeFile("elsewhere/secret"),
		},
		"in a folder that was replaced": {path: "there/secret", between: func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Rename(filepath.Join(dir, "there"), filepath.Join(dir, "away")); err != nil {
				t.Fatal(err)
			}
		}},
		"in a file's place": {path: "file/secret", between: func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(filepath.Join(dir, "file")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		for when, now := range map[string]time.Time{"settled": later, "just changed": time.Now()} {
			t.Run(name+", "+when, func(t *testing.T) {
				dir := t.TempDir()
				makeFolder("there")(t, dir)
				writeFile("file")(t, dir)
				makeLink("there", "link")(t, dir)
				makeLink("elsewhere", "dangling")(t, dir)
				awaitLaterTime(t)
				a := newAbsent([]string{filepath.Join(dir, c.path), filepath.Join(dir, "there", "other")}, now)
				refuteAppeared(t, a, now)
				if c.between != nil {
					c.between(t, dir)
					awaitLaterTime(t)
					refuteAppeared(t, a, now)
				}
				if c.make == nil {
					c.make = writeFile(c.path)
				}
				c.make(t, dir)
				if !a.hasAppeared(now) {
					t.Errorf("%s was not noticed", c.path)
				}
			})
		}
	}
}

// TestAPathThatAppearsWhileItIsAddedIsNoticed: it is there when the first question comes.
func TestAPathThatAppearsWhileItIsAddedIsNoticed(t *testing.T) {
	dir := t.TempDir()
	writeFile("secret")(t, dir)
	later := time.Now().Add(time.Hour)
	if a := newAbsent([]string{filepath.Join(dir, "secret")}, later); !a.hasAppeared(later) {
		t.Error("it was not noticed")
	}
}

// refuteAppeared asks twice: the first answer may renew what the second goes by.
func refuteAppeared(t *testing.T, a *absent, now time.Time) {
	t.Helper()
	for range 2 {
		if a.hasAppeared(now) {
			t.Fatal("none of the paths appeared")
		}
	}
}

// awaitLaterTime waits until the file system gives a change another time than all before.
// The test takes what it made for settled, which it is not while times are coarse.
func awaitLaterTime(t *testing.T) {
	t.Helper()
	probe := filepath.Join(t.TempDir(), "probe")
	touch := func() time.Time {
		if err := os.WriteFile(probe, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(probe)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	first := touch()
	for !touch().After(first) {
		runtime.Gosched()
	}
}

func makeFolder(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func writeFile(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		makeFolder(filepath.Dir(name))(t, dir)
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func makeLink(target, name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}
