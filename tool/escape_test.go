//go:build unix

package tool

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const (
	canary = "nobody may read this"
	kept   = "nobody may change this"
)

// jail is a workspace with things around it that must stay out of reach, and
// things in it that lead there.
func jail(t testing.TB) *desk {
	t.Helper()
	d := newDesk(t, "data")
	up := filepath.Dir(d.root)
	for name, content := range map[string]string{"secret": canary, "ws-evil/secret": canary, "victim": kept, "dir/victim": kept} {
		p := filepath.Join(up, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.putFile("data/token", canary)
	d.putFile("in/file", "fine\n")
	d.link("../secret", "up")
	d.link(filepath.Join(up, "secret"), "abs")
	d.link("..", "parent")
	d.link("/", "slash")
	d.link("/proc/self/root", "proc")
	d.link("/proc/self/cwd", "proccwd")
	d.link("/dev", "dev")
	d.link("up", "chain1")
	d.link("chain1", "chain2")
	d.link("in/../../secret", "dotted")
	d.link("../../secret", "in/deep")
	d.link("../parent/secret", "in/both")
	d.link("data", "datalink")
	d.link(filepath.Join(d.root, "data"), "absdata")
	d.link("../dir", "outdir")
	d.link("../not-there", "dangling")
	d.link("../dir/new", "danglingfile")
	return d
}

// intact fails if something outside was changed or made.
func (d *desk) intact() {
	d.t.Helper()
	up := filepath.Dir(d.root)
	for name, content := range map[string]string{"secret": canary, "ws-evil/secret": canary, "victim": kept, "dir/victim": kept, "ws/data/token": canary} {
		if b, err := os.ReadFile(filepath.Join(up, name)); err != nil || string(b) != content {
			d.t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for _, dir := range []string{up, filepath.Join(up, "dir"), filepath.Join(up, "ws-evil"), filepath.Join(d.root, "data")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			d.t.Error(err)
		}
		for _, e := range entries {
			switch e.Name() {
			case "secret", "victim", "token", "ws", "ws-evil", "dir":
			default:
				d.t.Errorf("made outside: %s", filepath.Join(dir, e.Name()))
			}
		}
	}
	d.clean()
}

// escapes are paths that lead out of the workspace or into what is hidden.
func escapes(d *desk) []string {
	up := filepath.Dir(d.root)
	return []string{
		"../secret", "../../../../../../etc/passwd", "in/../../secret", "./../secret", "in/./.././../secret", "..", "../", "../ws/../secret",
		up + "/secret", up + "/ws/../secret", up + "/ws-evil/secret", "../ws-evil/secret", d.root + "-evil/secret", up, "/", "/etc/passwd", "//etc/passwd", "/etc/../etc/passwd",
		"/proc/self/environ", "/proc/self/root" + up + "/secret", "/proc/self/cwd/x", "/proc/self/fd/0", "/proc/1/environ", "/dev/zero", "/dev/stdin", "/dev/fd/0",
		"up", "abs", "parent/secret", "parent/ws/../secret/.", "slash/etc/passwd", "proc" + up + "/secret", "proc/etc/passwd", "proccwd/x", "dev/zero", "dev/stdin",
		"chain1", "chain2", "dotted", "in/deep", "in/both", "outdir/victim", "outdir/new", "outdir/new/er", "dangling", "dangling/x", "danglingfile",
		"data/token", "data", "./data/token", "in/../data/token", d.root + "/data/token", "datalink/token", "datalink", "absdata/token", "data/new", "data/../data/token", "datalink/../data/token",
	}
}

func TestNoWayOut(t *testing.T) {
	d := jail(t)
	paths := escapes(d)
	if len(paths) < 25 {
		t.Fatalf("only %d", len(paths))
	}
	for _, p := range paths {
		for name, in := range map[string]obj{
			ReadFile:    {"path": p},
			WriteFile:   {"path": p, "content": "owned"},
			EditFile:    {"path": p, "old": "nobody", "new": "everybody"},
			ListFiles:   {"path": p},
			SearchFiles: {"path": p, "pattern": "nobody"},
		} {
			res, err := d.run(name, in)
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("%s %s: %q, %v", name, p, res.Output, err)
				continue
			}
			if e.Category != SandboxViolation && e.Category != NotFound && e.Category != InvalidInput {
				t.Errorf("%s %s: %v", name, p, e)
			}
			if strings.Contains(e.Message+e.Advice, canary) || strings.Contains(e.Message+e.Advice, kept) {
				t.Errorf("%s %s tells: %v", name, p, e)
			}
		}
		e := d.failure(ReadFile, obj{"path": p}, SandboxViolation)
		if e.Boundary != "filesystem" || e.Path != p {
			t.Errorf("%s: boundary %q, path %q", p, e.Boundary, e.Path)
		}
	}
	d.intact()
	// The whole tree shows nothing of it either.
	for _, out := range []string{d.text(SearchFiles, obj{"pattern": "nobody"}), d.text(ListFiles, obj{"path": "."})} {
		if strings.Contains(out, canary) || strings.Contains(out, "token") || strings.Contains(out, "victim") {
			t.Errorf("shown: %s", out)
		}
	}
	// Nor does it have another name.
	if err := os.Rename(filepath.Join(d.root, "data"), filepath.Join(d.root, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("moved", filepath.Join(d.root, "data")); err != nil {
		t.Fatal(err)
	}
	d.fails(ReadFile, obj{"path": "moved/token"}, SandboxViolation)
	d.fails(WriteFile, obj{"path": "moved/new", "content": ""}, SandboxViolation)
	d.fails(ListFiles, obj{"path": "moved"}, SandboxViolation)
	d.fails(SearchFiles, obj{"pattern": "nobody"}, SandboxViolation, "no longer what it was")
}

// What isn't a regular file is refused, and nothing waits for it.
func TestSpecialFiles(t *testing.T) {
	d := newDesk(t)
	if err := syscall.Mkfifo(filepath.Join(d.root, "pipe"), 0o666); err != nil {
		t.Skipf("no pipes here: %v", err)
	}
	t.Chdir(d.root) // a socket's path must be short
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	names := []string{"pipe", "socket"}
	if syscall.Mknod(filepath.Join(d.root, "device"), syscall.S_IFCHR|0o666, 1<<8|5) == nil { // the one that reads as zeros
		names = append(names, "device")
	}
	for _, n := range names {
		d.link(n, n+"link")
		for _, p := range []string{n, n + "link"} {
			d.fails(ReadFile, obj{"path": p}, InvalidInput, "a device, a pipe or a socket")
			if _, err := d.run(SearchFiles, obj{"path": p, "pattern": "."}); err == nil {
				t.Errorf("%s is searched", p)
			}
		}
		d.fails(WriteFile, obj{"path": n, "content": "x"}, InvalidInput, "a device, a pipe or a socket")
		d.fails(EditFile, obj{"path": n, "old": "x", "new": "y"}, InvalidInput, "a device, a pipe or a socket")
	}
	requireWords(t, d.text(SearchFiles, obj{"pattern": "."}), "[no match]")
	d.clean()
}

// swap makes the folder "swap" of the workspace a folder and a link to target by
// turns until stop is called.
func (d *desk) swap(target string) (stop func()) {
	at := func(name string) string { return filepath.Join(d.root, name) }
	d.putFile("swap/file", "fine\n")
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = os.Rename(at("swap"), at("aside"))
			_ = os.Symlink(target, at("swap"))
			_ = os.Remove(at("swap"))
			_ = os.Rename(at("aside"), at("swap"))
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// A folder that becomes a link between a look and a use leads nowhere.
func TestSwappedFolder(t *testing.T) {
	for _, target := range []string{"../dir", "data", "in"} {
		d := jail(t)
		outside := filepath.Join(filepath.Dir(d.root), "dir", "file")
		hidden := filepath.Join(d.root, "data", "file")
		for _, p := range []string{outside, hidden} {
			if err := os.WriteFile(p, []byte(canary), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		stop := d.swap(target)
		for range 60 {
			if res, err := d.run(ReadFile, obj{"path": "swap/file"}); err == nil && strings.Contains(string(res.Output), canary) {
				t.Fatalf("read through %s", target)
			}
			_, _ = d.run(EditFile, obj{"path": "swap/file", "old": "nobody", "new": "somebody"})
			if res, err := d.run(SearchFiles, obj{"pattern": "nobody"}); err == nil && strings.Contains(string(res.Output), canary) {
				t.Fatalf("found through %s", target)
			}
		}
		for range 20 {
			_, _ = d.run(WriteFile, obj{"path": "swap/file", "content": "fine\n"})
			_, _ = d.run(WriteFile, obj{"path": "swap/new/file", "content": "fine\n"})
		}
		stop()
		for _, p := range []string{outside, hidden} {
			if b, err := os.ReadFile(p); err != nil || string(b) != canary {
				t.Fatalf("written through %s: %q, %v", target, b, err)
			}
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
		}
		if target == "in" {
			if _, err := os.Stat(filepath.Join(d.root, "in", "new")); err == nil {
				t.Fatal("written through a link within the workspace")
			}
		}
		d.intactAfterSwap()
	}
}

// intactAfterSwap is intact but for a temporary file whose folder was moved away.
func (d *desk) intactAfterSwap() {
	d.t.Helper()
	entries, err := os.ReadDir(filepath.Join(filepath.Dir(d.root), "dir"))
	if err != nil || len(entries) != 1 {
		d.t.Errorf("outside: %v, %v", entries, err)
	}
	entries, err = os.ReadDir(filepath.Join(d.root, "data"))
	if err != nil || len(entries) != 1 {
		d.t.Errorf("hidden: %v, %v", entries, err)
	}
}

// The same with the swap at the worst moment, each time.
func TestSwappedInTheGap(t *testing.T) {
	for _, target := range []string{"../dir", "data", "in"} {
		for name, in := range map[string]obj{
			ReadFile:    {"path": "swap/victim"},
			WriteFile:   {"path": "swap/victim", "content": "owned"},
			EditFile:    {"path": "swap/victim", "old": "n", "new": "owned", "all": true},
			ListFiles:   {"path": "swap"},
			SearchFiles: {"path": "swap", "pattern": "."},
		} {
			d := jail(t)
			d.putFile("data/victim", kept)
			d.putFile("in/victim", kept)
			d.putFile("swap/victim", "mine: n\n")
			swapped := false
			d.files.gap = func(name string) {
				if name == "swap" && !swapped {
					swapped = true
					_ = os.Rename(filepath.Join(d.root, "swap"), filepath.Join(d.root, "aside"))
					_ = os.Symlink(target, filepath.Join(d.root, "swap"))
				}
			}
			res, err := d.run(name, in)
			if !swapped {
				t.Fatalf("%s: nothing was swapped", name)
			}
			if err == nil && target != "in" { // a link within the workspace may be read through
				t.Errorf("%s through %s: %s", name, target, res.Output)
			}
			for _, rel := range []string{"data/victim", "in/victim", "../dir/victim"} {
				if got := d.readFile(rel); got != kept {
					t.Errorf("%s through %s changed %s: %q", name, target, rel, got)
				}
			}
			if got := d.readFile("aside/victim"); got != "mine: n\n" {
				t.Errorf("%s changed what was moved away: %q", name, got)
			}
			d.clean()
		}
	}
}

// A file that turns into something else between the look and the opening.
func TestSwappedFileInTheGap(t *testing.T) {
	for what, swap := range map[string]func(p string) error{
		"link outside": func(p string) error { return os.Symlink("../secret", p) },
		"link hidden":  func(p string) error { return os.Symlink("data/token", p) },
		"pipe":         func(p string) error { return syscall.Mkfifo(p, 0o666) },
		"folder":       func(p string) error { return os.Mkdir(p, 0o755) },
		"nothing":      func(string) error { return nil },
	} {
		for name, in := range map[string]obj{
			ReadFile:    {"path": "f"},
			EditFile:    {"path": "f", "old": "nobody", "new": "owned"},
			SearchFiles: {"path": "f", "pattern": "nobody"},
		} {
			d := jail(t)
			d.putFile("f", "mine\n")
			swapped := false
			d.files.gap = func(name string) {
				if name == "f" && !swapped {
					swapped = true
					_ = os.Remove(filepath.Join(d.root, "f"))
					if err := swap(filepath.Join(d.root, "f")); err != nil {
						t.Error(err)
					}
				}
			}
			if res, err := d.run(name, in); err == nil || !swapped {
				t.Errorf("%s of a file that became a %s: %q", name, what, res.Output)
			}
			d.intact()
		}
	}
}

// A file that becomes a link between a look and a use is not followed.
func TestSwappedFile(t *testing.T) {
	d := jail(t)
	at := func(name string) string { return filepath.Join(d.root, name) }
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = os.Remove(at("f"))
			_ = os.Symlink("../secret", at("f"))
			_ = os.Remove(at("f"))
			_ = os.WriteFile(at("f"), []byte("fine\n"), 0o644)
			_ = os.Remove(at("f"))
			_ = syscall.Mkfifo(at("f"), 0o666)
		}
	})
	for range 150 {
		if res, err := d.run(ReadFile, obj{"path": "f"}); err == nil && strings.Contains(string(res.Output), canary) {
			t.Fatal("read through a link")
		}
		_, _ = d.run(WriteFile, obj{"path": "f", "content": "ours\n"})
		_, _ = d.run(EditFile, obj{"path": "f", "old": "nobody", "new": "somebody"})
	}
	close(done)
	wg.Wait()
	d.intact()
}

// Changing the target in the host's hook, the widest gap there is, changes nothing.
func TestSwappedWhileAnnounced(t *testing.T) {
	d := jail(t)
	d.putFile("gap/victim", kept)
	d.meanwhile = func() {
		_ = os.Rename(filepath.Join(d.root, "gap"), filepath.Join(d.root, "gone"))
		_ = os.Symlink("../dir", filepath.Join(d.root, "gap"))
	}
	d.fails(WriteFile, obj{"path": "gap/victim", "content": "owned"}, SandboxViolation, "replaced while it was written to")
	d.intact()
}

func TestWritesTakeTurns(t *testing.T) {
	d := newDesk(t)
	d.putFile("n", "0")
	var wg sync.WaitGroup
	var mu sync.Mutex
	fine := 0
	for range 4 {
		wg.Go(func() {
			for range 10 {
				c := d.call(obj{"path": "n", "old": "0", "new": "00", "all": false})
				if _, err := d.tools[EditFile].Run(context.WithoutCancel(t.Context()), c); err == nil {
					mu.Lock()
					fine++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if fine != 1 || d.readFile("n") != "00" {
		t.Errorf("%d edits of a text that was there once: %q", fine, d.readFile("n"))
	}
	f := newFiles(nil, nil)
	f.lock("a")()
	if len(f.locks) != 0 {
		t.Error("a lock is kept after its use")
	}
}
