package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// movedScript writes a file, and answers at once.
const movedScript = `repeat: true
answers:
  - {when: {contains: write}, tools: [{name: write_file, arguments: {path: a.txt, content: "made here"}}]}
  - {text: done}
`

// denied gives a command that must be refused for a reason, and says so.
func (p *process) denied(params command.Params, kind fault.Kind, says string) {
	p.t.Helper()
	var res any
	err := p.client().Do(p.t.Context(), params, &res)
	if fault.KindOf(err) != kind || !strings.Contains(err.Error(), says) {
		p.t.Errorf("%s: %v, %v; want %s, with %q", params.Command(), res, err, kind, says)
	}
}

// placeOf returns where a session's files are.
func (p *process) placeOf(sessionID string) *event.WorkspacePlace {
	p.t.Helper()
	return call[struct {
		Place *event.WorkspacePlace `json:"place"`
	}](p, &command.GetSession{SessionID: sessionID}).Place
}

// commandLine runs a command of the program against a node, which must succeed.
func (p *process) commandLine(args ...string) string {
	p.t.Helper()
	out, err := p.shell(args...)
	if err != nil {
		p.t.Fatalf("agentd %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// shell runs a command of the program against a node, and returns all that it says.
func (p *process) shell(args ...string) (string, error) {
	p.t.Helper()
	cmd := self(p.t, append(args, "--server", p.url)...)
	cmd.Env = append(cmd.Env, "AGENTD_TOKEN="+p.token())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestNodesThatNeverComeBack kills a node with a session whose files only it has. The session
// is blocked; the node is forgotten; the session is given a place at the other node and goes
// on there, and undo claims nothing of the files that were left. When the node comes back
// after all, the session stays where it is.
func TestNodesThatNeverComeBack(t *testing.T) {
	f := newFleet(t, "1h", slow)
	here, there, dir := t.TempDir(), t.TempDir(), f.dir()
	a, b := f.placed("node-a", here, placedScript, "").node(dir), f.placed("node-b", there, movedScript, "").node(f.dir())
	r := a.submit("write it")
	b.completed(r)
	stuck := b.in(r.SessionID, "", "stay there")
	b.until(r.SessionID, "model.requested", 3)
	b.denied(&command.ForgetNode{NodeID: "node-a"}, fault.Conflict, "is alive")
	b.denied(&command.ForgetNode{NodeID: "node-z"}, fault.NotFound, "node-z")
	b.denied(&command.MoveSession{SessionID: r.SessionID, NodeID: "node-b"}, fault.Conflict, "drain it first")
	if live := call[command.ForgetNodeResult](b, &command.ForgetNode{NodeID: "node-a", Preview: true}); !live.Alive || live.Forgotten || !slices.Equal(live.SessionIDs, []string{r.SessionID}) {
		t.Errorf("the preview of a live node: %+v", live)
	}

	f.kill(a)
	b.until(r.SessionID, "thread.updated", 1)
	b.refused(submitAgain(t, r.SessionID), "agentd nodes move")
	if out := b.commandLine("nodes", "forget", "node-a"); !strings.Contains(out, "is forgotten") || !strings.Contains(out, r.SessionID) {
		t.Errorf("agentd nodes forget says:\n%s", out)
	}
	if states := b.states(); len(states) != 1 || states["node-b"] == "" {
		t.Errorf("the nodes are %v", states)
	}
	b.refused(submitAgain(t, r.SessionID), "node-a") // it is still blocked
	if out := b.commandLine("nodes", "move", r.SessionID, "--to", "node-b"); !strings.Contains(out, "to "+resolved(t, there)+" on node node-b") {
		t.Errorf("agentd nodes move says:\n%s", out)
	}
	b.completed(stuck)
	if p := b.placeOf(r.SessionID); p == nil || p.Node != "node-b" || p.Away != "" {
		t.Errorf("the place is %+v", p)
	}
	b.denied(&command.MoveSession{SessionID: r.SessionID}, fault.Conflict, "name another folder")

	undone := call[command.RollbackThreadResult](b, &command.RollbackThread{SessionID: r.SessionID, ThreadID: r.ThreadID, ToStart: true, Files: "restore", Force: true})
	if len(undone.Files) != 1 || undone.Files[0].Change != "unavailable" || !strings.Contains(undone.Files[0].Reason, "can't be seen") {
		t.Errorf("undone: %+v", undone)
	}
	if _, err := os.Stat(filepath.Join(here, "a.txt")); err != nil {
		t.Errorf("the file of the node that is gone: %v", err)
	}
	again := b.in(r.SessionID, "", "write it")
	b.completed(again)
	undone = call[command.RollbackThreadResult](b, &command.RollbackThread{SessionID: r.SessionID, ThreadID: r.ThreadID, ToStart: true, Files: "restore"})
	if _, err := os.Stat(filepath.Join(there, "a.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that was made after the move is still there: %+v, %v", undone, err)
	}

	back := f.placed("node-a", here, movedScript, "").node(dir)
	if states := back.states(); len(states) != 2 {
		t.Errorf("the nodes are %v once the node is back", states)
	}
	back.completed(back.in(r.SessionID, "", "go on"))
	if p := back.placeOf(r.SessionID); p.Node != "node-b" {
		t.Errorf("the place is %+v once the node is back", p)
	}
	if out, errs, code := program(t, "verify", "--data", f.url, "--state-dir", f.dir(), "--config", f.config); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
}

// TestForgettingIsFinished kills a node between the fact that another one is forgotten and what
// it says: the call that is repeated does that, once, and not to a node that came back since.
func TestForgettingIsFinished(t *testing.T) {
	f := newFleet(t, "1h", slow)
	dir := f.dir()
	node := func(name, dir string) *process { return f.placed(name, t.TempDir(), movedScript, "").node(dir) }
	a, b, c := node("node-a", dir), node("node-b", f.dir()), node("node-c", f.dir())
	f.kill(a)
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), f.url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
		return conn
	}
	conn, look := connect(), connect() // a transaction sees others as they were when it looked first
	lock, err := conn.Begin(t.Context())
	if err == nil {
		_, err = lock.Exec(t.Context(), `SELECT 1 FROM agentd.nodes WHERE node_id = 'node-a' FOR UPDATE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	forget := &command.ForgetNode{NodeID: "node-a"}
	forget.IdempotencyKey = "forget it"
	cut := make(chan error, 1)
	go func() { cut <- b.client().Do(t.Context(), forget, new(any)) }()
	var waiting int32
	for waiting == 0 { // until it is about to mark the node, which is after the fact
		err := look.QueryRow(t.Context(), `SELECT coalesce(max(pid), 0) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%forgotten%'`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
	f.kill(b)
	if _, err := look.Exec(t.Context(), `SELECT pg_terminate_backend($1, 60000)`, waiting); err != nil {
		t.Fatal(err)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-cut; err == nil {
		t.Error("the call of the node that was killed was answered")
	}
	if states := c.states(); states["node-a"] == "" {
		t.Errorf("the nodes are %v: the node was marked before it was killed, so nothing is tested", states)
	}
	for range 2 {
		if res := call[command.ForgetNodeResult](c, forget); !res.Forgotten {
			t.Errorf("the repeated call says %+v", res)
		}
		if states := c.states(); states["node-a"] != "" {
			t.Errorf("the nodes are %v after the repeated call", states)
		}
	}
	back := node("node-a", dir)
	f.kill(back)
	call[command.ForgetNodeResult](c, forget)
	if states := c.states(); states["node-a"] == "" {
		t.Errorf("the nodes are %v: a node that had come back was forgotten by a call from before", states)
	}
	facts := 0
	for _, e := range c.eventsOf(event.RuntimeSession) {
		if p, ok := e.Payload.(*event.RuntimeChanged); ok && p.Change == "node_forgotten" {
			facts++
		}
	}
	if facts != 1 {
		t.Errorf("%d facts say that the node is forgotten", facts)
	}
}

// TestMoveFromADrainedNode: what a drained node has can be taken elsewhere while it lives, and
// what was brought along can be undone there.
func TestMoveFromADrainedNode(t *testing.T) {
	f := newFleet(t, "1h", slow)
	here, there := t.TempDir(), t.TempDir()
	a, b := f.placed("node-a", here, movedScript, "").node(f.dir()), f.placed("node-b", there, movedScript, "").node(f.dir())
	r := a.submit("write it")
	a.completed(r)
	move := &command.MoveSession{SessionID: r.SessionID, NodeID: "node-b"}
	a.denied(move, fault.Conflict, "drain it first")
	call[command.DrainNodeResult](b, &command.DrainNode{NodeID: "node-a"})
	for s := b.states()["node-a"]; s != "drained"; s = b.states()["node-a"] {
		if s != "draining" {
			t.Fatalf("a node that is being drained says that it is %s", s)
		}
	}
	a.denied(&command.MoveSession{SessionID: r.SessionID, NodeID: "node-a", Root: t.TempDir()}, fault.Conflict, "is drained")
	bring(t, filepath.Join(here, "a.txt"), filepath.Join(there, "a.txt"))
	moved := call[command.MoveSessionResult](a, move)
	if moved.From.NodeID != "node-a" || moved.To.NodeID != "node-b" {
		t.Errorf("moved: %+v", moved)
	}
	a.completed(b.in(r.SessionID, "", "go on"))
	undone := call[command.RollbackThreadResult](b, &command.RollbackThread{SessionID: r.SessionID, ThreadID: r.ThreadID, ToStart: true, Files: "restore"})
	if len(undone.Files) != 1 || undone.Files[0].Change != "deleted" {
		t.Errorf("undone: %+v", undone)
	}
	if _, err := os.Stat(filepath.Join(there, "a.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file that was brought is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(here, "a.txt")); err != nil {
		t.Errorf("the file that was left: %v", err)
	}
}

// TestImportedSessionsHaveAPlaceHere takes a session from one database to another, whose node
// has the name of the one that has the files: it goes on there, without them.
func TestImportedSessionsHaveAPlaceHere(t *testing.T) {
	from, to := newFleet(t, "1h", slow), newFleet(t, "1h", slow)
	here, there, file := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "session.jsonl")
	a := from.placed("node-a", here, movedScript, "").node(from.dir())
	r := a.submit("write it")
	a.completed(r)
	a.commandLine("sessions", "export", r.SessionID, "--out", file)
	named := to.placed("node-a", t.TempDir(), movedScript, "").node(to.dir())
	b := to.placed("node-b", there, movedScript, "").node(to.dir())
	for range 2 { // the second time it is there already
		if out := b.commandLine("sessions", "import", file); !strings.Contains(out, "were not brought along") {
			t.Errorf("agentd sessions import says:\n%s", out)
		}
	}
	if p := b.placeOf(r.SessionID); p != nil {
		t.Errorf("the place is %+v", p)
	}
	if changed := b.until(r.SessionID, "session.updated", 2).Payload.(*event.SessionUpdated); !slices.Equal(changed.Cleared, []string{"place"}) || !strings.Contains(changed.Reason, "node-a") {
		t.Errorf("the fact is %+v", changed)
	}
	b.completed(b.in(r.SessionID, "", "write it"))
	if _, err := os.Stat(filepath.Join(there, "a.txt")); err != nil {
		t.Errorf("the session doesn't work at the node that it was imported at: %v", err)
	}
	undone := call[command.RollbackThreadResult](named, &command.RollbackThread{SessionID: r.SessionID, ThreadID: r.ThreadID, ToStart: true, Files: "restore"})
	if len(undone.Files) != 1 || undone.Files[0].Change != "deleted" || !strings.Contains(undone.Files[0].Reason, "when the session came here") {
		t.Errorf("undone: %+v", undone)
	}
	if _, err := os.Stat(filepath.Join(here, "a.txt")); err != nil {
		t.Errorf("the file that was left: %v", err)
	}
}

func submitAgain(t *testing.T, sessionID string) *command.SubmitTurn {
	t.Helper()
	p := submitParams(t, "write it again")
	p.SessionID = sessionID
	return p
}

func resolved(t *testing.T, path string) string {
	t.Helper()
	out, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// bring copies a file as it is.
func bring(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(to, text, 0o600), os.Chmod(to, info.Mode())); err != nil {
		t.Fatal(err)
	}
}
