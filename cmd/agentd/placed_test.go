package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// placedScript writes a file, reads it, or never answers.
const placedScript = `repeat: true
answers:
  - {when: {contains: write}, tools: [{name: write_file, arguments: {path: a.txt, content: "made here"}}]}
  - {when: {contains: stay}, text: never, stall: 1h}
  - {text: done}
`

// placed returns the fleet with a configuration of its own for one node: the folder of
// sessions that name none, and more.
func (f *fleet) placed(name, workspace, script, more string) *fleet {
	f.t.Helper()
	out, dir := *f, f.t.TempDir()
	out.config = writeFile(f.t, dir, "node.yaml", "node: {lease: "+f.lease+", name: "+name+more+"}\npermissions: {mode: bypass}\nworkspace: {root: "+workspace+"}\n"+
		"providers:\n  - {id: play, kind: script, script: "+writeFile(f.t, dir, "answers.yaml", script)+", models: [{id: m, capabilities: [tools]}]}\n")
	return &out
}

// in submits a turn to a session, or to a new one in a folder.
func (p *process) in(sessionID, root, text string) *command.SubmitTurnResult {
	p.t.Helper()
	params := submitParams(p.t, text)
	params.SessionID = sessionID
	if root != "" {
		made := call[command.CreateSessionResult](p, &command.CreateSession{Workspace: &event.Workspace{Root: root}})
		params.SessionID = made.SessionID
	}
	return call[command.SubmitTurnResult](p, params)
}

// refused gives a command that must be refused because no node reaches the files.
func (p *process) refused(params command.Params, names string) {
	p.t.Helper()
	var res any
	err := p.client().Do(p.t.Context(), params, &res)
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), names) {
		p.t.Errorf("%s: %v, %v; want it refused, with %q", params.Command(), res, err, names)
	}
}

// TestSessionsGoOnWhereTheirFilesAre has two nodes whose folders for sessions are different
// ones, as on two machines. Commands go to the node with the files; without it the session
// is blocked and says so, nothing claims anything about the files, and it goes on by itself
// when the node is back.
func TestSessionsGoOnWhereTheirFilesAre(t *testing.T) {
	f := newFleet(t, "1h", slow)
	here, there := t.TempDir(), t.TempDir()
	dir := f.dir()
	a, b := f.placed("node-a", here, placedScript, "").node(dir), f.placed("node-b", there, placedScript, "").node(f.dir())
	r := a.submit("write it")
	b.completed(r)
	if got := call[command.GetDiffResult](b, &command.GetDiff{SessionID: r.SessionID, TurnID: r.TurnID}); !strings.Contains(got.Diff, "made here") {
		t.Errorf("the diff through the other node is %q", got.Diff)
	}
	stuck := b.in(r.SessionID, "", "stay there")
	b.until(r.SessionID, "model.requested", 3)
	f.kill(a)

	blocked := b.until(r.SessionID, "thread.updated", 1).Payload.(*event.ThreadUpdated)
	if blocked.Status != "blocked" || blocked.Code != "place_unreachable" || !strings.Contains(blocked.Reason, "node-a") {
		t.Errorf("the thread says %+v", blocked)
	}
	b.refused(&command.RollbackThread{SessionID: r.SessionID, ThreadID: r.ThreadID, ToStart: true, Files: "restore", Preview: true}, "node-a")
	b.refused(&command.GetDiff{SessionID: r.SessionID, TurnID: r.TurnID}, "node-a")
	again := submitParams(t, "write it again")
	again.SessionID = r.SessionID
	b.refused(again, "start node node-a again")
	res := call[struct {
		Place *event.WorkspacePlace `json:"place"`
	}](b, &command.GetSession{SessionID: r.SessionID})
	if res.Place == nil || res.Place.Node != "node-a" || res.Place.Away == "" || res.Place.Root == "" {
		t.Errorf("get_session says of the place: %+v", res.Place)
	}

	f.placed("node-a", here, "answers: [{text: done}]", "").node(dir)
	b.completed(stuck)
	undone := call[command.RollbackThreadResult](b, &command.RollbackThread{SessionID: r.SessionID, ThreadID: r.ThreadID, ToStart: true, Files: "restore"})
	if len(undone.Files) != 1 {
		t.Errorf("undone: %+v", undone)
	}
	if _, err := os.Stat(filepath.Join(here, "a.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

// TestPlacesThatOthersReach: a session goes on at another node if that has the very same
// folder, or is in the pool whose file system the folder is on; and anywhere if it used no
// files.
func TestPlacesThatOthersReach(t *testing.T) {
	f := newFleet(t, "1h", slow)
	work, shared := t.TempDir(), filepath.Join(t.TempDir(), "shared")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	a := f.placed("node-a", t.TempDir(), placedScript, ", pool: disks").node(f.dir())
	same, pooled, free := a.in("", work, "write it"), a.in("", shared, "write it"), a.submit("stay")
	for _, r := range []*command.SubmitTurnResult{same, pooled} {
		a.completed(r)
		a.in(r.SessionID, "", "stay there")
		a.until(r.SessionID, "model.requested", 3)
	}
	a.until(free.SessionID, "model.requested", 1)
	// Another folder of that path stands for the shared file system of another machine.
	if err := errors.Join(os.Rename(shared, shared+".moved"), os.Mkdir(shared, 0o700)); err != nil {
		t.Fatal(err)
	}
	f.kill(a)
	const quick = "answers: [{text: done}, {text: done}, {text: done}]"
	b := f.placed("node-b", t.TempDir(), quick, "").node(f.dir())
	b.until(same.SessionID, "turn.completed", 2)
	b.until(free.SessionID, "turn.completed", 1)
	b.until(pooled.SessionID, "thread.updated", 1) // it isn't in the pool
	f.placed("node-c", t.TempDir(), quick, ", pool: disks").node(f.dir())
	b.until(pooled.SessionID, "turn.completed", 2)
	if _, err := client.Call[command.GetDiffResult](t.Context(), b.client(), &command.GetDiff{SessionID: pooled.SessionID, TurnID: pooled.TurnID}); err != nil {
		t.Errorf("a diff through a node that isn't in the pool: %v", err)
	}
}
