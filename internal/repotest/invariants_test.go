package repotest

import (
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the cells of docs/dependencies.md that follow from the code")

// repository returns the module's root and its files.
func repository(t *testing.T) (root string, fsys fs.FS, names []string) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	fsys = os.DirFS(root)
	names, err = listFiles(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return root, fsys, names
}

func packagesOf(t *testing.T, fsys fs.FS) []*sourcePackage {
	t.Helper()
	pkgs, err := loadPackages(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

// report fails the test once for each finding.
func report(t *testing.T, found []string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

func TestImports(t *testing.T) {
	_, fsys, _ := repository(t)
	report(t, checkTable(importTable), nil)
	report(t, checkImports(packagesOf(t, fsys), importTable), nil)
}

func TestPackageComments(t *testing.T) {
	_, fsys, _ := repository(t)
	report(t, checkPackageComments(packagesOf(t, fsys)), nil)
}

func TestNames(t *testing.T) {
	_, fsys, _ := repository(t)
	report(t, checkNames(packagesOf(t, fsys)), nil)
}

func TestText(t *testing.T) {
	_, fsys, names := repository(t)
	found, err := checkText(fsys, names, textRules)
	report(t, found, err)
}

func TestFileLength(t *testing.T) {
	_, fsys, names := repository(t)
	found, err := checkLength(fsys, names, maxLines)
	report(t, found, err)
}

// TestRootIsAFrontDoor keeps the root package short enough to be read at once: what a runtime
// is made of has packages of its own.
func TestRootIsAFrontDoor(t *testing.T) {
	const limit = 10
	_, fsys, _ := repository(t)
	for _, p := range packagesOf(t, fsys) {
		var names []string
		for _, f := range p.files {
			if !f.test {
				names = append(names, f.name)
			}
		}
		if p.dir == "." && len(names) > limit {
			t.Errorf("the root package has %d files, and at most %d are allowed; a new need belongs to a package below it: %s", len(names), limit, strings.Join(names, ", "))
		}
	}
}

// TestFileSize keeps programs and data out of the repository: every clone would carry
// them for ever.
func TestFileSize(t *testing.T) {
	const limit = 1 << 20
	root, _, _ := repository(t)
	listed, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Skip("not a git checkout: ", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil {
			continue // removed, but not yet committed
		}
		if info.Size() > limit {
			t.Errorf("%s has %d bytes; files in the repository have at most %d. If a build left it, remove it from the commit", name, info.Size(), limit)
		}
	}
}

func TestLinks(t *testing.T) {
	_, fsys, names := repository(t)
	found, err := checkLinks(fsys, names)
	report(t, found, err)
	found, err = checkIndex(fsys, names, "docs/README.md")
	report(t, found, err)
}

func TestMarksOfLongTests(t *testing.T) {
	_, fsys, _ := repository(t)
	report(t, checkLongTests(packagesOf(t, fsys)), nil)
}

func TestEnumsAreDeclaredOnce(t *testing.T) {
	_, fsys, _ := repository(t)
	report(t, checkEnums(packagesOf(t, fsys)), nil)
}

func TestToolNamesAreWrittenOnce(t *testing.T) {
	_, fsys, _ := repository(t)
	report(t, checkToolNames(packagesOf(t, fsys), importTable), nil)
}

func TestFactsAreReadWhole(t *testing.T) {
	_, fsys, _ := repository(t)
	report(t, checkWholeFacts(packagesOf(t, fsys), factReaders, shortPayloads), nil)
}

func TestDependencies(t *testing.T) {
	root, fsys, _ := repository(t)
	required, err := readRequirements(root)
	if err != nil {
		t.Fatal(err)
	}
	uses := usageByModule(packagesOf(t, fsys), importTable, required)
	want, err := wantedDependencies(root, required, uses)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(root, "docs", "dependencies.md")
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		page = []byte(updateDependencies(string(page), want))
		if err := os.WriteFile(name, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := parseDependencies(string(page))
	if err != nil {
		t.Fatal(err)
	}
	report(t, checkDependencies(listed, want, required), nil)
	if t.Failed() {
		t.Log("go test ./internal/repotest -run TestDependencies -update writes every cell but the reason")
	}
}

func TestLicencesOfLinkedModules(t *testing.T) {
	root, _, _ := repository(t)
	modules, err := linkedModules(root, "./...")
	if err != nil {
		t.Fatal(err)
	}
	licences, err := moduleLicences(root, modules)
	report(t, checkLicences(licences), err)
}

// checkGenerated runs the generator over a checkout and returns what it says.
func checkGenerated(root string) (string, error) {
	cmd := exec.Command("go", "run", "-tags", "bootstrap", "./internal/gen/generate", "-check")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestGeneratedFiles(t *testing.T) {
	root, _, _ := repository(t)
	if out, err := checkGenerated(root); err != nil {
		t.Errorf("generated files are not up to date, run make generate: %v\n%s", err, out)
	}
}

func TestGeneratedFilesNoticeAChange(t *testing.T) {
	root, fsys, names := repository(t)
	dir := t.TempDir()
	for _, name := range names {
		copyFile(t, fsys, name, filepath.Join(dir, name))
	}
	changed := filepath.Join("event", "types_gen.go")
	f, err := os.OpenFile(filepath.Join(dir, changed), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\n// A line that the generator didn't write.\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := checkGenerated(dir)
	if err == nil {
		t.Fatalf("a changed %s in a copy of %s was not noticed", changed, filepath.Base(root))
	}
	if !strings.Contains(out, filepath.ToSlash(changed)) {
		t.Errorf("the message doesn't name %s:\n%s", changed, out)
	}
}

func copyFile(t *testing.T, fsys fs.FS, name, to string) {
	t.Helper()
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
