package trialrun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJobsHaveFoldersOfTheirOwn: jobs that begin in the same second don't meet, and
// a job that was given a name finds that it is taken.
func TestJobsHaveFoldersOfTheirOwn(t *testing.T) {
	jobs := t.TempDir()
	seen := map[string]bool{}
	for range 20 { // some of them within one second
		b := &Run{o: &Options{JobsDir: jobs}}
		name, err := b.makeFolder()
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(jobs, name)); err != nil || !info.IsDir() || b.dir != filepath.Join(jobs, name) || seen[name] {
			t.Errorf("the folder %s of job %s: %v", b.dir, name, err)
		}
		seen[name] = true
	}
	named := func() error {
		_, err := (&Run{o: &Options{JobsDir: jobs, Job: "mine"}}).makeFolder()
		return err
	}
	if err := named(); err != nil {
		t.Fatal(err)
	}
	if err := named(); err == nil || !strings.Contains(err.Error(), "a folder of its own") {
		t.Errorf("the folder was taken: %v", err)
	}
}

func TestPathsOfContainersAreReplacedWhole(t *testing.T) {
	places := []mappedPath{{"/logs/verifier", "/here/v"}, {"/tests", "/here/t$1"}, {"/app", "/here/w"}}
	for in, want := range map[string]string{
		"echo 1 > /logs/verifier/reward.txt":  "echo 1 > /here/v/reward.txt",
		"cd /app && pytest /tests/test_a.py":  "cd /here/w && pytest /here/t$1/test_a.py",
		`x="/app"; y='/tests'`:                `x="/here/w"; y='/here/t$1'`,
		"/application /app-1 /app.py /apple":  "/application /app-1 /app.py /apple",
		"/srv/app ../app ./tests my/tests":    "/srv/app ../app ./tests my/tests",
		"PATH=/bin:/app/bin\nROOT=/app\n/app": "PATH=/bin:/here/w/bin\nROOT=/here/w\n/here/w",
	} {
		if got := string(replacePaths([]byte(in), places)); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestATaskCannotReachOutOfItsFolder(t *testing.T) {
	from, outside := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(outside, "secret"))
	writeFile(t, filepath.Join(from, "a"))
	if err := os.Symlink("a", filepath.Join(from, "inside")); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := copyTree(from, to, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(filepath.Join(to, "inside")); err != nil || got != "a" {
		t.Errorf("%q, %v", got, err)
	}
	for _, target := range []string{filepath.Join(outside, "secret"), "../../etc/passwd"} {
		link := filepath.Join(from, "link")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if err := copyTree(from, t.TempDir(), nil); err == nil {
			t.Errorf("a link to %s was copied", target)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyTree(filepath.Join(from, "none"), to, nil); err != nil {
		t.Errorf("a folder that isn't there: %v", err)
	}
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}
