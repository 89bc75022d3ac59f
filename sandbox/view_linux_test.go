package sandbox

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestViewOfADescriptor looks up paths that begin at a folder which was removed, beside
// a link that has the name which the kernel gives it.
func TestViewOfADescriptor(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"folder", "decoy"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("decoy", filepath.Join(dir, "folder (deleted)")); err != nil {
		t.Fatal(err)
	}
	folder, err := openFile(filepath.Join(dir, "folder"), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(folder)
	v, err := openView(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer v.close()
	file, err := v.open(folder, "../decoy", 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(file)
	if err := os.Remove(filepath.Join(dir, "folder")); err != nil {
		t.Fatal(err)
	}
	if _, err := v.open(folder, "../decoy", 0); err == nil || !strings.Contains(err.Error(), folderRefused) {
		t.Errorf("a path in a removed folder: %v", err)
	}
}

// TestViewOfAThread looks up paths for a thread whose working directory is its own:
// /proc/self isn't about it.
func TestViewOfAThread(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	there, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	onOwnThread(func() {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			t.Errorf("no working directory for a thread: %v", err)
			return
		}
		if err := unix.Chdir(there); err != nil {
			t.Error(err)
			return
		}
		v, err := openView(unix.Gettid())
		if err != nil {
			t.Error(err)
			return
		}
		defer v.close()
		for path, want := range map[string]string{".": there, "/proc/thread-self/cwd/.": there, "/proc/self/cwd/.": here, "/proc/self/root/" + here: here} {
			file, err := v.open(unix.AT_FDCWD, path, 0)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if got, _, err := identifyFile(file); err != nil || got != want {
				t.Errorf("%s is %q, not %q: %v", path, got, want, err)
			}
			_ = unix.Close(file)
		}
	})
}

// onOwnThread runs f on a thread that ends with it and that isn't the process's first,
// whose folder is the process's.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			f()
			return // without unlocking, which ends the thread
		}
		onOwnThread(f) // on another, because this one is taken in the meantime
		runtime.UnlockOSThread()
	}()
	<-done
}

// TestViewLeavesParentsToTheKernel looks at which paths are followed here.
func TestViewLeavesParentsToTheKernel(t *testing.T) {
	for _, tc := range []struct{ path, name, rest string }{
		{"/proc/self/exe", "exe", ""},
		{"//proc/.//self/./exe", "exe", ""},
		{"/proc/self/cwd/a/../b", "cwd", "/a/../b"},
		{"/proc/thread-self/root/x", "root", "/x"},
		{"/proc/self/../x", "..", "/x"}, // known, and refused
		{"/dev/fd/9", "fd", "/9"},
		{"/dev/stderr", "fd", "2"},
		{"/dev/../proc/self/exe", "", ""},
		{"/proc/../proc/self/exe", "", ""},
		{"/../proc/self/exe", "", ""},
		{"/proc/selfish/exe", "", ""},
		{"/usr/bin/env", "", ""},
		{"/", "", ""},
	} {
		_, name, rest, ok := ownEntry(tc.path)
		if name != tc.name || rest != tc.rest || ok != (tc.name != "") {
			t.Errorf("%s: %q %q %v", tc.path, name, rest, ok)
		}
	}
}
