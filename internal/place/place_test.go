package place_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"agentd/internal/place"
)

// folder makes a folder below a temporary one whose path has no links.
func folder(t *testing.T, names ...string) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(append([]string{base}, names...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestReplacedPlaceIsRefused replaces a folder in each way that an agent could.
func TestReplacedPlaceIsRefused(t *testing.T) {
	for name, replace := range map[string]func(dir string) error{
		"renamed": func(dir string) error { return os.Rename(dir, dir+"2") },
		"another folder": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"2"), os.Mkdir(dir, 0o755))
		},
		"link": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"2"), os.Symlink(filepath.Dir(filepath.Dir(dir)), dir))
		},
		"link to itself": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"2"), os.Symlink(dir+"2", dir))
		},
		"parent": func(dir string) error {
			parent := filepath.Dir(dir)
			return errors.Join(os.Rename(parent, parent+"2"), os.Symlink(parent+"2", parent))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, "ws", "pkg", "x")
			var places place.Places
			p, err := places.Fix(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := replace(dir); err != nil {
				t.Fatal(err)
			}
			if err := p.Check(); err == nil {
				t.Error("Check accepts what was replaced")
			}
			if _, err := places.Fix(dir); err == nil {
				t.Error("Fix accepts what was replaced")
			}
			places.Forget(dir)
			if _, err := places.Fix(dir); err == nil && name != "another folder" {
				t.Error("a path with a link in it is accepted as one that was resolved")
			}
		})
	}
}

// TestOpenRootIsThePlace opens a folder whose name now belongs to another.
func TestOpenRootIsThePlace(t *testing.T) {
	dir := folder(t, "ws")
	p, err := place.Resolve(dir)
	if err != nil {
		t.Fatal(err)
	}
	root, err := p.OpenRoot()
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(dir, dir+"2"), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.OpenRoot(); !errors.Is(err, place.ErrReplaced) {
		t.Errorf("OpenRoot = %v, want ErrReplaced", err)
	}
}

// TestBelow lists the places below a folder.
func TestBelow(t *testing.T) {
	dir := folder(t, "ws", "a")
	var places place.Places
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if _, err := places.Fix(d); err != nil {
			t.Fatal(err)
		}
	}
	below := places.Below(filepath.Dir(dir))
	if len(below) != 1 || below[0].Path != dir {
		t.Errorf("Below = %v, want %s alone", below, dir)
	}
}

// TestRenewAcceptsWhatIsThere takes over another folder, and never a link.
func TestRenewAcceptsWhatIsThere(t *testing.T) {
	dir, linked := folder(t, "ws"), folder(t, "linked")
	var places place.Places
	for _, d := range []string{dir, linked} {
		if _, err := places.Recall(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Rename(dir, dir+"2"), os.Mkdir(dir, 0o755), os.Rename(linked, linked+"2"), os.Symlink(dir, linked)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, linked} {
		p, err := places.Recall(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.OpenRoot(); !errors.Is(err, place.ErrReplaced) {
			t.Errorf("OpenRoot of %s = %v, want ErrReplaced", d, err)
		}
	}
	places.Renew()
	if p, err := places.Recall(dir); err != nil || p.Check() != nil {
		t.Errorf("Recall after Renew = %v", err)
	}
	if _, err := places.Recall(linked); !errors.Is(err, place.ErrReplaced) {
		t.Errorf("Recall of a link after Renew = %v, want ErrReplaced", err)
	}
}

// TestNearest follows the links of what exists of a path.
func TestNearest(t *testing.T) {
	dir := folder(t, "ws")
	link, dangling := filepath.Join(filepath.Dir(dir), "link"), filepath.Join(dir, "dangling")
	if err := errors.Join(os.Symlink(dir, link), os.Symlink("/nowhere/at/all", dangling)); err != nil {
		t.Fatal(err)
	}
	got, err := place.Nearest(filepath.Join(link, "a", "..", "a", "b"))
	if want := filepath.Join(dir, "a", "b"); err != nil || got != want {
		t.Errorf("Nearest = %s, %v, want %s", got, err, want)
	}
	if got, err := place.Nearest(dangling); err == nil {
		t.Errorf("Nearest of a link that leads nowhere = %s", got)
	}
}
