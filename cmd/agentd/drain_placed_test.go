package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"agentd/command"
	"agentd/event"
)

// stepScript has a turn of two steps: a command that runs until there is a file, and an answer.
const stepScript = `repeat: true
answers:
  - {when: {contains: step}, tools: [{name: shell, arguments: {command: "until [ -e go ]; do sleep 0.05; done; echo stepped"}}]}
  - {text: done}
`

// drains drains a node, or opens it again, through another one.
func (p *process) drains(nodeID string, end bool) {
	p.t.Helper()
	call[command.DrainNodeResult](p, &command.DrainNode{NodeID: nodeID, End: end})
}

// awaitState waits until a node is in a state.
func (p *process) awaitState(nodeID, state string) {
	p.t.Helper()
	for p.states()[nodeID] != state {
		if p.t.Failed() {
			p.t.FailNow()
		}
	}
}

// following is "agentd run" while it runs.
type following struct {
	cmd       *exec.Cmd
	out, errs bytes.Buffer
}

// runs begins "agentd run" against a node.
func (p *process) runs(args ...string) *following {
	p.t.Helper()
	r := &following{cmd: self(p.t, append([]string{"run", "--server", p.url}, args...)...)}
	r.cmd.Env = append(r.cmd.Env, "AGENTD_TOKEN="+p.token())
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.errs
	if err := r.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// ended waits for the end of "agentd run", which must have an answer.
func (r *following) ended(t *testing.T) {
	t.Helper()
	if err := r.cmd.Wait(); err != nil || r.out.String() != "done\n" {
		t.Errorf("agentd run: %v, %q\n%s", err, &r.out, &r.errs)
	}
}

// ownerOf returns the node that has a session.
func (f *fleet) ownerOf(sessionID string) (owner string) {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.url)
	if err == nil {
		defer func() { _ = conn.Close(context.WithoutCancel(f.t.Context())) }()
		err = conn.QueryRow(f.t.Context(), `SELECT coalesce(owner, 'none') FROM agentd.sessions WHERE session_id = $1`, sessionID).Scan(&owner)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return owner
}

// inStep begins a turn with "agentd run" through a node, and returns when its command runs at
// the node that has the session.
func (p *process) inStep(sessionID string, nth int) *following {
	p.t.Helper()
	r := p.runs("--session", sessionID, "step")
	p.until(sessionID, event.TypeProcessStarted, nth)
	return r
}

// TestDrainKeepsWhatOnlyOneNodeReaches drains a node with a session whose files only it has, in
// the middle of a command: it waits for the command and keeps the session, which goes on when
// the drain ends, and after a restart that takes long enough for the others to say that the
// files are out of reach. "agentd run" only follows.
func TestDrainKeepsWhatOnlyOneNodeReaches(t *testing.T) {
	f := newFleet(t, "1h", slow)
	here, there, dir := t.TempDir(), t.TempDir(), f.dir()
	a, b := f.placed("node-a", here, stepScript, "").node(dir), f.placed("node-b", there, stepScript, "").node(f.dir())
	id := call[command.CreateSessionResult](a, &command.CreateSession{}).SessionID

	run := b.inStep(id, 1)
	b.drains("node-a", false)
	if got := b.states()["node-a"]; got != "draining" {
		t.Errorf("a node with a command under way is %s", got)
	}
	writeFile(t, here, "go", "")
	b.awaitState("node-a", "drained")
	if got := f.ownerOf(id); got != "node-a" {
		t.Errorf("the session is owned by %s while the only node with its files is drained", got)
	}
	b.drains("node-a", true)
	run.ended(t)
	if err := os.Remove(filepath.Join(here, "go")); err != nil {
		t.Fatal(err)
	}

	run = b.inStep(id, 2)
	b.drains("node-a", false)
	writeFile(t, here, "go", "")
	b.awaitState("node-a", "drained")
	if code := a.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
	blocked := b.until(id, event.TypeThreadUpdated, 1).Payload.(*event.ThreadUpdated)
	if blocked.Status != "blocked" || blocked.Code != event.PlaceUnreachable {
		t.Errorf("the first word about the thread is %+v", blocked)
	}
	f.placed("node-a", here, "repeat: true\nanswers: [{text: done}]", "").node(dir)
	run.ended(t)
	for _, says := range []string{"the turn waits: the files of session " + id, "on node node-a", "the turn goes on: the session's files are there again"} {
		if !strings.Contains(run.errs.String(), says) {
			t.Errorf("agentd run doesn't say %q:\n%s", says, &run.errs)
		}
	}
}

// TestDrainAsksWhoHasTheSameFolder: a node that is drained can't know that another one has the
// very same folder. That one goes on with the session while the first is drained.
func TestDrainAsksWhoHasTheSameFolder(t *testing.T) {
	f := newFleet(t, "1h", slow)
	here := t.TempDir()
	a := f.placed("node-a", here, stepScript, "").node(f.dir())
	b := f.placed("node-b", here, stepScript, "").node(f.dir())
	id := call[command.CreateSessionResult](a, &command.CreateSession{}).SessionID
	run := a.inStep(id, 1)
	if got := f.ownerOf(id); got != "node-a" {
		t.Fatalf("the session is owned by %s", got)
	}
	b.drains("node-a", false)
	writeFile(t, here, "go", "")
	run.ended(t)
	b.awaitState("node-a", "drained")
	if got := f.ownerOf(id); got == "node-a" {
		t.Error("the turn ended at the node that is drained")
	}
}
