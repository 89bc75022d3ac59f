package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module whose packages have one test file each, and makes its
// folder the working directory.
func module(t *testing.T, packages map[string]string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module small\n\ngo 1.26.0\n")
	for name, body := range packages {
		write(name+"/x_test.go", "package "+name+"\n\nimport \"testing\"\n\n"+body)
	}
	t.Chdir(dir)
}

// runTests runs all tests of the module.
func runTests(t *testing.T) (status int, output string) {
	t.Helper()
	var out, stderr bytes.Buffer
	status, err := runCommand([]string{"go", "test", "./..."}, &out, &stderr)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &stderr)
	}
	return status, out.String() + stderr.String()
}

func TestSkipsAreNamedWithTheirReason(t *testing.T) {
	module(t, map[string]string{
		"a": `func TestPasses(t *testing.T) { t.Log("not of interest") }
func TestA(t *testing.T) { t.Parallel(); t.Log("before"); t.Skip("skipped: needs a moon") }`,
		"b": `func TestB(t *testing.T) { t.Run("part", func(t *testing.T) { t.Skip("skipped: needs a moon") }) }
func TestMute(t *testing.T) { t.SkipNow() }`,
	})
	status, out := runTests(t)
	want := `skipped: 3 tests
  (no reason given)
    small/b: TestMute
  skipped: needs a moon
    small/a: TestA
    small/b: TestB/part
`
	if status != 0 || !strings.HasSuffix(out, want) {
		t.Errorf("status %d, want 0, and at the end\n%s\ngot\n%s", status, want, out)
	}
	if !strings.Contains(out, "ok  \tsmall/a\t") || strings.Contains(out, "not of interest") {
		t.Errorf("a line a package and nothing of what passed, got\n%s", out)
	}
}

func TestFailuresAreShownWhole(t *testing.T) {
	module(t, map[string]string{
		"a": `func TestPasses(t *testing.T) { t.Log("not of interest") }`,
		"b": `func TestPasses(t *testing.T) { t.Log("not of interest") }
func TestFails(t *testing.T) { t.Log("on the way"); t.Run("part", func(t *testing.T) { t.Error("went wrong") }) }`,
		"c": `func TestFine(t *testing.T) {}
func TestPanics(t *testing.T) { panic("out of the blue") }`,
		"d": `func TestDoesNotCompile(t *testing.T) { undefined() }`,
	})
	status, out := runTests(t)
	if status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	for _, want := range []string{
		"ok  \tsmall/a\t", "on the way", "went wrong", "--- FAIL: TestFails/part", "FAIL\tsmall/b\t",
		"out of the blue", "FAIL\tsmall/c\t", "undefined: undefined", "FAIL\tsmall/d [build failed]",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "not of interest") {
		t.Errorf("what passed is shown:\n%s", out)
	}
}

func TestWhatIsCutOffIsShown(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out)
	for _, line := range []string{
		`{"Action":"start","Package":"p"}`,
		`{"Action":"run","Package":"p","Test":"TestHangs"}`,
		`{"Action":"output","Package":"p","Test":"TestHangs","Output":"=== PAUSE TestHangs\n"}`,
		`{"Action":"output","Package":"p","Test":"TestHangs","Output":"waiting\n"}`,
		"no JSON\n",
	} {
		r.line([]byte(line))
	}
	r.finish()
	if got, want := out.String(), "no JSON\nwaiting\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSlowestAreNamedFirst(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out)
	for _, line := range []string{
		`{"Action":"pass","Package":"p","Test":"TestQuick","Elapsed":0.3}`,
		`{"Action":"pass","Package":"p","Test":"TestSlow","Elapsed":11.2}`,
		`{"Action":"pass","Package":"p","Test":"TestSlowest/part","Elapsed":80}`,
		`{"Action":"pass","Package":"p","Test":"TestSlowest","Elapsed":90.4}`,
		`{"Action":"pass","Package":"p","Elapsed":120}`,
	} {
		r.line([]byte(line))
	}
	r.finish()
	if got, want := out.String(), "slowest tests, in seconds:\n     90  p: TestSlowest\n     11  p: TestSlow\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCommandThatIsNoTest(t *testing.T) {
	var out bytes.Buffer
	if status, err := runCommand([]string{"go", "version"}, &out, &out); status == 0 || err == nil {
		t.Errorf("status %d, %v, want a usage error", status, err)
	}
	if status, err := runCommand([]string{filepath.Join(t.TempDir(), "missing"), "test"}, &out, &out); status == 0 || err == nil {
		t.Errorf("status %d, %v, want an error", status, err)
	}
}

// writes keeps what each call of Write was given.
type writes []string

func (w *writes) Write(data []byte) (int, error) {
	*w = append(*w, string(data))
	return len(data), nil
}

// Two passes print to one terminal: what one says about a package isn't torn by the other.
func TestAPackageIsWrittenInOnePiece(t *testing.T) {
	var out writes
	r := newReport(&out)
	for _, line := range []string{
		`{"Action":"output","Package":"p","Test":"TestOne","Output":"one\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestOne","Elapsed":11}`,
		`{"Action":"output","Package":"p","Test":"TestTwo","Output":"two\n"}`,
		`{"Action":"skip","Package":"p","Test":"TestThree"}`,
		`{"Action":"fail","Package":"p"}`,
	} {
		r.line([]byte(line))
	}
	r.finish()
	if len(out) != 2 || out[0] != "one\ntwo\n" || !strings.Contains(out[1], "TestOne") || !strings.Contains(out[1], "TestThree") {
		t.Errorf("want a piece for the package and one for the end, got %q", out)
	}
}
