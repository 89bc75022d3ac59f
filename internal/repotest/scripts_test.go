package repotest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script runs a shell script of the repository, copied to dir/scripts so that
// it works on dir instead of the checkout.
func script(t *testing.T, dir, name string, args ...string) (output string, err error) {
	t.Helper()
	_, fsys, _ := repository(t)
	copied := filepath.Join(dir, "scripts", name)
	copyFile(t, fsys, "scripts/"+name, copied)
	cmd := exec.Command("sh", append([]string{copied}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestStepScript(t *testing.T) {
	out, err := script(t, t.TempDir(), "step.sh", "Greeting", "echo", "a  b")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "==> Greeting\na  b\n==> ok: Greeting (") {
		t.Errorf("heading, output and duration in this order, got:\n%s", out)
	}
}

func TestStepScriptFails(t *testing.T) {
	out, err := script(t, t.TempDir(), "step.sh", "Trouble", "sh", "-c", "exit 7")
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
		t.Errorf("exit status: %v, want 7", err)
	}
	if !strings.Contains(out, "==> FAILED: Trouble (exit 7 after ") || strings.Contains(out, "==> ok") {
		t.Errorf("no clear line about the failure:\n%s", out)
	}
}

// smallModule writes a module with the given test file.
func smallModule(t *testing.T, code string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module small\n\ngo 1.26.0\n",
		"p/p.go":            "package p\n",
		"p/p_test.go":       strings.ReplaceAll(code, "\n\tfunc", "\nfunc"),
		"p/alloc_test.go":   "//go:build !race\n\npackage p\n\nimport \"testing\"\n\nfunc TestAllocations(t *testing.T) { t.Log(\"counted\") }\n",
		"quick/q.go":        "package quick\n",
		"quick/q_test.go":   "package quick\n\nimport \"testing\"\n\nfunc TestQuick(t *testing.T) { t.Error(\"must not run here\") }\n",
		"tools/go.mod":      "module tools\n",
		"tools/x_test.go":   "package tools\n\nfunc TestLongTool() {}\n",
		".hidden/y_test.go": "package hidden\n\nfunc TestLongHidden() {}\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The test in it is indented so that test-plain.sh doesn't find it here.
const longTest = `package p

import (
	"os"
	"testing"
)

	func TestLongRounds(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("long")
	}
	t.Log("many rounds")
	OUTCOME
}

func TestOrdinary(t *testing.T) { t.Error("must not run here") }
`

func TestPlainScript(t *testing.T) {
	dir := smallModule(t, strings.Replace(longTest, "OUTCOME", "", 1))
	for kind, want := range map[string]string{"long": "many rounds", "short": "counted"} {
		out, err := script(t, dir, "test-plain.sh", kind, "-v")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !strings.Contains(out, want) || !strings.Contains(out, "packages with tests of this kind: 1") {
			t.Errorf("no %q in:\n%s", want, out)
		}
		if strings.Contains(out, "many rounds") && strings.Contains(out, "counted") {
			t.Errorf("%s runs tests of the other kind:\n%s", kind, out)
		}
	}
	if out, err := script(t, dir, "test-plain.sh"); err == nil || !strings.Contains(out, "short or long") {
		t.Errorf("without a kind: %v\n%s", err, out)
	}
}

// What runs without the race detector as a whole doesn't run a second time.
func TestPlainScriptLeavesOut(t *testing.T) {
	dir := smallModule(t, "package p\n")
	counted := "//go:build !race\n\npackage quick\n\nimport \"testing\"\n\nfunc TestCounted(t *testing.T) { t.Log(\"counted again\") }\n"
	if err := os.WriteFile(filepath.Join(dir, "quick", "alloc_test.go"), []byte(counted), 0o600); err != nil {
		t.Fatal(err)
	}
	for but, want := range map[string]bool{"": true, "./quick/...": false} {
		t.Setenv("BUT", but)
		out, err := script(t, dir, "test-plain.sh", "short", "-v")
		if err != nil || strings.Contains(out, "counted again") != want || !strings.Contains(out, "TestAllocations") {
			t.Errorf("BUT=%q: %v\n%s", but, err, out)
		}
	}
}

func TestPlainScriptFails(t *testing.T) {
	dir := smallModule(t, strings.Replace(longTest, "OUTCOME", `t.Error("a round was lost")`, 1))
	out, err := script(t, dir, "test-plain.sh", "long")
	if err == nil || !strings.Contains(out, "a round was lost") || !strings.Contains(out, "--- FAIL: TestLongRounds") {
		t.Errorf("a failing long test went by: %v\n%s", err, out)
	}
}

// A script that finds no tests has lost them.
func TestPlainScriptWithoutTests(t *testing.T) {
	dir := smallModule(t, "package p\n")
	if err := os.Remove(filepath.Join(dir, "p", "alloc_test.go")); err != nil {
		t.Fatal(err)
	}
	if out, err := script(t, dir, "test-plain.sh", "long"); err == nil || !strings.Contains(out, "no package has tests") {
		t.Errorf("no test was found, and nobody said so: %v\n%s", err, out)
	}
}

// TestStressScript: every round runs beside the load, a failure ends it with its exit
// code, and the load is gone afterwards.
func TestStressScript(t *testing.T) {
	dir := t.TempDir()
	rounds := filepath.Join(dir, "rounds")
	out, err := script(t, dir, "stress.sh", "2", "3", "sh", "-c", "echo round >> "+rounds)
	if err != nil || !strings.Contains(out, "3 rounds passed beside a load of 2") {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(rounds)
	if err != nil || strings.Count(string(text), "round\n") != 3 {
		t.Errorf("the command ran %q times, %v", text, err)
	}
	out, err = script(t, dir, "stress.sh", "1", "3", "sh", "-c", "exit 7")
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 || !strings.Contains(out, "round 1 of 3 failed (exit 7)") {
		t.Errorf("%v\n%s", err, out)
	}
}
