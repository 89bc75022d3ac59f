package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/internal/place"
)

// TestReplacedRootRefuses: neither what is recorded nor what is taken back follows a
// workspace's name to another folder.
func TestReplacedRootRefuses(t *testing.T) {
	for how, replace := range map[string]func(root, other string) error{
		"renamed":        func(root, _ string) error { return os.Rename(root, root+"2") },
		"another folder": func(root, other string) error { return errors.Join(os.Rename(root, root+"2"), os.Rename(other, root)) },
		"link":           func(root, other string) error { return errors.Join(os.Rename(root, root+"2"), os.Symlink(other, root)) },
	} {
		t.Run(how, func(t *testing.T) {
			k := newKit(t, Options{})
			k.write("f", "before")
			files := k.shell(func() { k.write("f", "after") })
			other := filepath.Join(realTemp(t), "other")
			k.must(os.Mkdir(other, 0o755))
			k.must(os.WriteFile(filepath.Join(other, "f"), []byte("after"), 0o600))
			r, err := k.v.Record(k.root)
			k.must(err)
			k.must(replace(k.root, other))
			if err := r.Before(k.ctx); err == nil {
				t.Error("a command is recorded in another folder")
			}
			k.must(r.Close())
			turned := []Turned{{Files: files}}
			_, recordErr := k.v.Record(k.root)
			_, previewErr := k.v.Preview(k.ctx, k.root, turned, ApplyOptions{Force: true})
			_, applyErr := k.v.Apply(k.ctx, k.root, turned, ApplyOptions{Force: true})
			_, diffErr := k.v.Diff(k.ctx, k.root, turned, DiffOptions{})
			for _, err := range []error{recordErr, previewErr, applyErr, diffErr} {
				if !errors.Is(err, place.ErrReplaced) {
					t.Errorf("%v, want ErrReplaced", err)
				}
			}
			for _, path := range []string{filepath.Join(other, "f"), filepath.Join(k.root, "f"), filepath.Join(k.root+"2", "f")} {
				if b, err := os.ReadFile(path); err == nil && string(b) != "after" {
					t.Errorf("%s was taken back: %s", path, b)
				}
			}
		})
	}
}

// TestAnotherFolderAfterRenew: once the operator accepts another folder, it is the
// workspace, and nothing of the old one is taken for it.
func TestAnotherFolderAfterRenew(t *testing.T) {
	places := &place.Places{}
	k := newKit(t, Options{Places: places})
	k.write("f", "before")
	k.shell(func() { k.write("f", "after") })
	k.must(os.Rename(k.root, k.root+"2"))
	k.must(os.Mkdir(k.root, 0o755))
	places.Renew()
	files := k.shell(func() { k.write("f", "new") })
	k.want(facts(files), "created f")
}

// TestExcludedByAnyName: what belongs to the runtime is not looked at, also after
// somebody renamed it or a folder above it.
func TestExcludedByAnyName(t *testing.T) {
	root := realTemp(t)
	for _, data := range []string{"data", "a/b/data"} {
		k := newKit(t, Options{})
		k.close()
		k.root = filepath.Join(root, strings.ReplaceAll(data, "/", "_"))
		k.write(data+"/token", "secret")
		k.write("f", "1")
		k.open(Options{Exclude: []string{filepath.Join(k.root, data)}})
		top, _, _ := strings.Cut(data, "/")
		files := k.shell(func() {
			k.must(os.Rename(k.path(top), k.path("moved")))
			k.write("f", "2")
		})
		for _, f := range files {
			if strings.Contains(f.Path, "token") {
				t.Errorf("%s: %s is recorded", data, f.Path)
			}
		}
	}
}
