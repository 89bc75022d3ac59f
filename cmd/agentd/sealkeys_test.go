package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/command"
)

// sharedScript changes a file at each turn.
const sharedScript = `repeat: true
answers:
  - {when: {contains: first}, tools: [{name: write_file, arguments: {path: first.bin, content: "changed"}}]}
  - {when: {contains: second}, tools: [{name: write_file, arguments: {path: second.bin, content: "changed"}}]}
  - {text: done}
`

// TestUndoThroughAnotherNode: what a turn changed through one node is taken back through
// another one of its pool, byte by byte, after the first one was killed; also by nodes that
// have another admin token since, once one of them was started with the earlier one.
func TestUndoThroughAnotherNode(t *testing.T) {
	f := newFleet(t, "1h", slow)
	work := t.TempDir()
	before := map[string]string{"first.bin": "\x00\xff first \r\n", "second.bin": strings.Repeat("\x01second\n", 100_000)}
	for name, content := range before {
		if err := os.WriteFile(filepath.Join(work, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := f.placed("node-a", work, sharedScript, ", pool: disks").node(f.dir())
	b := f.placed("node-b", work, sharedScript, ", pool: disks").node(f.dir())
	undo := func(p *process, r *command.SubmitTurnResult, name string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(work, name)); err != nil || string(got) != "changed" {
			t.Fatalf("the turn left %q, %v", got, err)
		}
		undone := call[command.RollbackThreadResult](p, &command.RollbackThread{SessionID: r.SessionID, ThreadID: r.ThreadID, ToStart: true, Files: "restore"})
		if len(undone.Files) != 1 || undone.Files[0].Change != "restored" {
			t.Errorf("undone: %+v", undone.Files)
		}
		if got, err := os.ReadFile(filepath.Join(work, name)); err != nil || string(got) != before[name] {
			t.Errorf("%s has %d bytes, %v; want the %d from before", name, len(got), err, len(before[name]))
		}
	}
	first, second := a.in("", work, "first"), a.in("", work, "second")
	a.completed(first)
	a.completed(second)
	f.kill(a)
	undo(b, first, "first.bin")

	b.stop(syscall.SIGTERM)
	earlier := strings.TrimSpace(string(f.token))
	f.token = []byte("another-" + earlier + "\n")
	dir, node := f.dir(), f.placed("node-c", work, sharedScript, ", pool: disks")
	c := &process{t: t, data: dir, lines: make(chan string, 10_000)}
	c.cmd = self(t, "serve", "--listen", "127.0.0.1:0", "--data", f.url, "--state-dir", dir, "--config", node.config)
	c.cmd.Env = append(c.cmd.Env, earlierTokenEnv+"="+earlier)
	c.begin()
	c.stop(syscall.SIGTERM)
	undo(f.placed("node-d", work, sharedScript, ", pool: disks").node(f.dir()), second, "second.bin")
}

// TestKeyOfANodeAlone: what a node sealed with a key of its own, before there was one for all
// nodes, it restores still.
func TestKeyOfANodeAlone(t *testing.T) {
	f := newFleet(t, "1h", slow)
	work, dir := t.TempDir(), f.dir()
	path := filepath.Join(work, "first.bin")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	strong := f.token
	if err := os.WriteFile(filepath.Join(dir, adminTokenFile), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	node := f.placed("node-a", work, sharedScript, "")
	a := node.node(dir)
	r := a.in("", work, "first")
	a.completed(r)
	a.stop(syscall.SIGTERM)
	if err := os.WriteFile(filepath.Join(dir, adminTokenFile), strong, 0o600); err != nil {
		t.Fatal(err)
	}
	a = node.node(dir)
	call[command.RollbackThreadResult](a, &command.RollbackThread{SessionID: r.SessionID, ThreadID: r.ThreadID, ToStart: true, Files: "restore"})
	if got, err := os.ReadFile(path); err != nil || string(got) != "before" {
		t.Errorf("the file has %q, %v", got, err)
	}
}
