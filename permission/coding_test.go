package permission

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed testdata/coding.txt
var coding string

// codingCall is a call of ordinary work.
type codingCall struct {
	// kind is r, c, f, e or w; see the file.
	kind, what string
}

func codingCalls(t *testing.T) []codingCall {
	t.Helper()
	var out []codingCall
	for row := range strings.Lines(coding) {
		kind, what, ok := strings.Cut(strings.TrimSuffix(row, "\n"), "\t")
		if ok && !strings.HasPrefix(row, "#") {
			out = append(out, codingCall{kind, what})
		}
	}
	if len(out) < 200 {
		t.Fatalf("the corpus has %d calls, and needs 200", len(out))
	}
	return out
}

func (c codingCall) question() Question {
	var q Question
	switch c.kind {
	case "f":
		q = fileCall("read_file", c.what, true)
	case "e":
		q = fileCall("edit_file", c.what, false)
	case "w":
		q = fileCall("write_file", c.what, false)
	default:
		q = shellQuestion("", c.what, nil)
		q.Sandbox = confined()
	}
	q.Mode, q.Undo, q.Interactive = ModeDefault, true, true
	return q
}

// asksWithoutReads says that a call asked before commands that only read ran by
// themselves in mode default: then every command did, and everything that isn't a read.
func (c codingCall) asksWithoutReads() bool { return c.kind != "f" }

// TestQuestionsOfOrdinaryWork: with commands that only read allowed, mode default asks
// at least 60 % less, and nothing that changes something runs unasked.
func TestQuestionsOfOrdinaryWork(t *testing.T) {
	before, after := 0, 0
	for _, c := range codingCalls(t) {
		d := Decide(c.question())
		if c.asksWithoutReads() {
			before++
		}
		if d.Decision == Ask {
			after++
		}
		want := Ask
		if c.kind == "r" || c.kind == "f" {
			want = Allow
		}
		if d.Decision != want {
			t.Errorf("%s %q: %s, want %s (%s)", c.kind, c.what, d.Decision, want, d.DecisionReason)
		}
	}
	saved := 100 * (before - after) / before
	t.Logf("%d questions instead of %d: %d %% less", after, before, saved)
	if saved < 60 {
		t.Errorf("%d %% of the questions are saved, want 60", saved)
	}
}

// TestOrdinaryReadsChangeNothing runs what ran unasked, and looks at the folder before
// and after.
func TestOrdinaryReadsChangeNothing(t *testing.T) {
	sh, err := exec.LookPath("sh")
	git, gitErr := exec.LookPath("git")
	if err != nil || gitErr != nil {
		t.Skip("needs sh and git")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module x\n", "README.md": "# x\n", "package.json": `{"scripts":{}}`, "src/app/session.ts": "export {}\n", "logs/server.log": "a ERROR b\n",
		"config/default.yaml": "a: 1\n", "Makefile": "all:\n\ttrue\n", "scripts/release.sh": "#!/bin/sh\n", "tests/conftest.py": "x = 1\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0"}
	run := func(name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env, cmd.Stdin = dir, env, strings.NewReader("")
		_ = cmd.Run() // many of the files that the lines name aren't here
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "x"}, {"status"}} {
		run(git, args...)
	}
	before := treeOf(t, dir)
	for _, c := range codingCalls(t) {
		if c.kind != "r" {
			continue
		}
		run(sh, "-c", c.what)
		if after := treeOf(t, dir); !bytes.Equal(before, after) {
			t.Fatalf("%q changed something:\n%s\nwas\n%s", c.what, after, before)
		}
	}
}

// treeOf describes a folder: the names, kinds and contents of all that is in it.
func treeOf(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		out.WriteString(path + " " + e.Type().String())
		if e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			out.WriteString(" ")
			out.Write(sum[:4])
		}
		out.WriteByte('\n')
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
