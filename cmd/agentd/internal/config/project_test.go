//go:build unix

package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What a checkout brings as the project's file is read only if it is a small regular file:
// nothing waits for it, nothing is read through it, and nothing grows with it.
func TestProjectFileIsASmallFile(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(path string) error
		want string
	}{
		"a device":         {func(path string) error { return os.Symlink("/dev/zero", path) }, "regular file"},
		"a link":           {func(path string) error { return os.Symlink("/etc/passwd", path) }, "regular file"},
		"a link to none":   {func(path string) error { return os.Symlink("none", path) }, "regular file"},
		"a link to a loop": {func(path string) error { return os.Symlink(filepath.Base(path), path) }, "regular file"},
		"a pipe":           {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "regular file"},
		"a folder":         {func(path string) error { return os.Mkdir(path, 0o700) }, "regular file"},
		"a large file": {func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("#\n", maxProjectFile)), 0o600)
		}, "64 KiB"},
		"a sparse file": {func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) }, "64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), ProjectFileName)
			if err := tc.make(path); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(Sources{ProjectFile: path}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A project's file may choose a mode that isn't wider than the user's, by the same order
// as everywhere.
func TestProjectModes(t *testing.T) {
	for _, tc := range []struct{ mine, asked, holds string }{
		{"auto", "default", "default"},
		{"auto", "auto", "auto"},
		{"default", "auto", ""},
		{"never", "auto", ""},
		{"never", "on_request", ""},
		{"plan", "untrusted", ""},
		{"auto", "bypass", ""},
	} {
		path := filepath.Join(t.TempDir(), ProjectFileName)
		if err := os.WriteFile(path, []byte("permissions: {mode: "+tc.asked+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		user := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(user, []byte("permissions: {mode: "+tc.mine+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := Load(Sources{File: user, ProjectFile: path})
		if err != nil {
			t.Fatal(err)
		}
		if loaded.Project.Mode != tc.holds || (tc.holds == "") != (len(loaded.Project.Ignored) == 1) {
			t.Errorf("%+v: %+v", tc, loaded.Project)
		}
	}
}
