package loop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
)

// outcomesOf returns what became of files, in one line.
func outcomesOf(res *command.RollbackThreadResult) string {
	var out []string
	for _, f := range res.Files {
		out = append(out, f.Path+" "+f.Change)
	}
	return strings.Join(out, ", ")
}

// TestMovedSession gives a session another folder, into which one of its files was brought:
// turns go on there, what earlier turns changed is taken back as far as the files are there,
// and of the others nothing is claimed.
func TestMovedSession(t *testing.T) {
	var heard runtimetest.Listener
	k, turns := runtimetest.ThreeEdits(t, &heard, runtimetest.WritesFile("d.txt", "four"), runtimetest.Says("done"))
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(k.Dir, "a.txt")); err != nil || os.Chmod(filepath.Join(root, "a.txt"), info.Mode()) != nil {
		t.Fatal(err)
	}
	moved := runtimetest.Do[command.MoveSessionResult](k, &command.MoveSession{SessionID: "sess_a", Root: root})
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil || moved.To.Root != resolved || moved.From.Root == resolved || moved.From.NodeID != moved.To.NodeID {
		t.Fatalf("%+v, %v", moved, err)
	}
	k.Completes(k.Submit("sess_a", "go on"))
	if _, err := os.Stat(filepath.Join(root, "d.txt")); err != nil {
		t.Errorf("the next turn works elsewhere: %v", err)
	}
	k.Close()
	k.Open()
	_, diff := diffOf(k, command.GetDiff{TurnID: turns[2].TurnID})
	if len(diff.Files) != 1 || !strings.Contains(diff.Files[0].Note, "can't be seen") || strings.Contains(diff.Diff, "three") {
		t.Errorf("the diff of a turn before: %+v", diff)
	}
	whole := command.RollbackThread{SessionID: "sess_a", ThreadID: turns[0].ThreadID, ToTurnID: turns[0].TurnID, Files: "restore", Preview: true, Diff: true}
	const want = "a.txt restored, b.txt unavailable, c.txt unavailable, d.txt deleted"
	preview := runtimetest.Do[command.RollbackThreadResult](k, &whole)
	if got := outcomesOf(preview); got != want || !strings.Contains(preview.Diff, "c.txt: what it is now is not known") {
		t.Errorf("previewed: %s\n%s", got, preview.Diff)
	}
	whole.Preview, whole.Diff, whole.Force = false, false, true
	if got := outcomesOf(runtimetest.Do[command.RollbackThreadResult](k, &whole)); got != want {
		t.Errorf("taken back: %s", got)
	}
	if text, err := os.ReadFile(filepath.Join(root, "a.txt")); err != nil || string(text) != "one" {
		t.Errorf("the file that was brought is %q, %v", text, err)
	}
	if k.ReadFile("c.txt") != "three" {
		t.Error("a file of the old place was touched")
	}
}

// TestMoveIsRefused says why a session can't be moved.
func TestMoveIsRefused(t *testing.T) {
	asked := make(chan struct{}, 1)
	k := runtimetest.NewWith(t, runtimetest.StuckModel(asked))
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	root := t.TempDir()
	for _, c := range []struct {
		p    command.MoveSession
		kind fault.Kind
		says string
	}{
		{command.MoveSession{SessionID: "sess_none", Root: root}, fault.NotFound, "sess_none"},
		{command.MoveSession{SessionID: event.RuntimeSession, Root: root}, fault.InvalidParams, "own session"},
		{command.MoveSession{SessionID: "sess_a"}, fault.Conflict, "name another folder"},
		{command.MoveSession{SessionID: "sess_a", NodeID: "node-z", Root: root}, fault.NotFound, "node-z"},
		{command.MoveSession{SessionID: "sess_a", Root: filepath.Join(root, "none")}, fault.InvalidParams, "make the folder"},
		{command.MoveSession{SessionID: "sess_a", Root: "/proc"}, fault.InvalidParams, "root: "},
	} {
		if got := runtimetest.Refused(k, &c.p, c.kind); !strings.Contains(got, c.says) {
			t.Errorf("%+v: %s", c.p, got)
		}
	}
	runtimetest.RefusedAs(k, runtimetest.ClientOf(""), &command.MoveSession{SessionID: "sess_a", Root: root}, fault.Forbidden)
	turn := k.Submit("sess_a", "go")
	<-asked
	if got := runtimetest.Refused(k, &command.MoveSession{SessionID: "sess_a", Root: root}, fault.Conflict); !strings.Contains(got, "is running") {
		t.Error(got)
	}
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	k.WaitForEnd("sess_a", turn.TurnID)
	p := &command.MoveSession{SessionID: "sess_a", Root: root}
	runtimetest.Do[command.MoveSessionResult](k, p)
	if got := runtimetest.Refused(k, p, fault.InvalidParams); !strings.Contains(got, "works already") {
		t.Error(got)
	}
}
