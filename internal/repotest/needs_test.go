package repotest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a PATH of its own: a few programs of the system and fakes.
type machine struct {
	dir, bin string
}

// newMachine has what the scripts take for granted, and an ordinary user.
func newMachine(t *testing.T) machine {
	t.Helper()
	m := machine{dir: t.TempDir()}
	m.bin = filepath.Join(m.dir, "bin")
	if err := os.Mkdir(m.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "cat", "date", "dirname", "head", "ls", "mktemp", "readlink", "rm", "sed", "sort"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(m.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	m.fake(t, "id", "echo 1000")
	return m
}

// fake adds a program that is a line of shell.
func (m machine) fake(t *testing.T, name, line string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.bin, name), []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// run runs a script of the repository on the machine.
func (m machine) run(t *testing.T, name string, args ...string) (output string, ok bool) {
	t.Helper()
	_, fsys, _ := repository(t)
	for _, file := range []string{"go.mod", "scripts/install.sh", "scripts/step.sh", "scripts/" + name} {
		copyFile(t, fsys, file, filepath.Join(m.dir, file))
	}
	cmd := exec.Command(filepath.Join(m.bin, "sh"), append([]string{"scripts/" + name}, args...)...)
	cmd.Dir = m.dir
	cmd.Env = []string{"PATH=" + m.bin, "TMPDIR=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// fails runs a script that has to fail and to say all of what is wanted.
func (m machine) fails(t *testing.T, want []string, name string, args ...string) {
	t.Helper()
	out, ok := m.run(t, name, args...)
	if ok {
		t.Errorf("%s went through:\n%s", name, out)
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("%s doesn't say %q:\n%s", name, text, out)
		}
	}
}

func TestInstallScriptSaysWhatToDo(t *testing.T) {
	m := newMachine(t)
	m.fails(t, []string{"Moon: missing", "by hand", "moon lua"}, "install.sh", "Moon", "moon", "lua")
	m.fake(t, "apt-get", "echo must not be called; exit 0")
	m.fails(t, []string{"Moon: missing", "sudo make needs", "moon lua"}, "install.sh", "Moon", "moon", "lua")
}

func TestInstallScriptShowsWhatAptSaidIfItFails(t *testing.T) {
	m := newMachine(t)
	m.fake(t, "id", "echo 0")
	m.fake(t, "apt-get", `case "$*" in *" install "*) echo "Unable to locate package"; exit 100 ;; esac`)
	m.fails(t, []string{"Unable to locate package", "could not install moon"}, "install.sh", "Moon", "moon")
	// A list that can't be fetched is no reason to give up.
	m.fake(t, "apt-get", `case "$*" in *" update"*) exit 100 ;; esac; echo "many lines"`)
	out, ok := m.run(t, "install.sh", "Moon", "moon")
	if !ok || strings.Contains(out, "many lines") {
		t.Errorf("installed: %v, want true and little noise:\n%s", ok, out)
	}
}

func TestCompilerScript(t *testing.T) {
	m := newMachine(t)
	m.fails(t, []string{"C compiler for the race detector", "gcc"}, "compiler.sh")
	m.fake(t, "clang", "true")
	if out, ok := m.run(t, "compiler.sh"); !ok || !strings.Contains(out, "clang") {
		t.Errorf("clang isn't found: %s", out)
	}
}

func TestNodeScript(t *testing.T) {
	m := newMachine(t)
	m.fails(t, []string{"Node.js", "nodejs npm"}, "node.sh")
	m.fake(t, "node", "echo v18.19.1")
	m.fails(t, []string{"npm: missing"}, "node.sh")
	m.fake(t, "npm", "true")
	m.fails(t, []string{"v18.19.1 is too old", "PATH"}, "node.sh")
	m.fake(t, "node", "echo v24.1.0")
	if out, ok := m.run(t, "node.sh"); !ok || !strings.Contains(out, "v24.1.0") {
		t.Errorf("a Node.js that is new enough is refused: %s", out)
	}
}

func TestGoScript(t *testing.T) {
	m := newMachine(t)
	m.fails(t, []string{"go is not in PATH", "Install Go 1."}, "go.sh")
	m.fake(t, "go", "echo go1.19.8")
	m.fails(t, []string{"this is 1.19.8", "asks for 1."}, "go.sh")
	m.fake(t, "go", "echo go1.999rc1")
	if out, ok := m.run(t, "go.sh"); !ok {
		t.Errorf("a newer Go is refused: %s", out)
	}
}

func TestNeedsScriptNamesAllAtOnce(t *testing.T) {
	m := newMachine(t)
	_, fsys, _ := repository(t)
	for _, name := range []string{"compiler.sh", "postgres.sh", "pgbouncer.sh", "haproxy.sh", "node.sh", "browser.sh"} {
		copyFile(t, fsys, "scripts/"+name, filepath.Join(m.dir, "scripts", name))
	}
	// Whether PostgreSQL is there is the system's business, in Debian's folder.
	m.fails(t, []string{"C compiler", "Node.js", "Chromium", "of 6 are missing", "make test-unit"}, "needs.sh")
}

func TestPhasesScriptPrintsATable(t *testing.T) {
	m := newMachine(t)
	steps := `sh scripts/step.sh "First thing" sh -c "sh scripts/step.sh Inner true"; sh scripts/step.sh Second sh -c "exit 7"`
	m.fails(t, []string{"ok      First thing\n", "FAILED  Second\n", "FAILED  all\n"}, "phases.sh", "sh", "-c", steps)
	out, ok := m.run(t, "phases.sh", "sh", "-c", `sh scripts/step.sh Outer sh scripts/step.sh Inner true`)
	if !ok || !strings.Contains(out, "ok      Outer\n") || !strings.Contains(out, "ok      all\n") {
		t.Errorf("a run that went well: %v\n%s", ok, out)
	}
	if strings.Contains(out, "ok      Inner") {
		t.Errorf("a step within a step counts twice:\n%s", out)
	}
}
