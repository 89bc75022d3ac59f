package agentd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/workspace"
)

// withVault keeps what tools change.
func withVault(t *testing.T) func(*agentd.Options) {
	return func(o *agentd.Options) {
		v, err := workspace.New(workspace.Options{Blobs: o.Store, Key: []byte(strings.Repeat("k", workspace.KeySize)), Inline: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		})
		o.Loop.Vault = v
	}
}

func writing(path, content string) script.Answer {
	return wants("write_file", map[string]any{"path": path, "content": content})
}

// edits is a kit with three turns: one creates a.txt, one changes it and creates
// b.txt, one deletes nothing and creates c.txt.
func edits(t *testing.T, heard *listener, more ...script.Answer) (*kit, []*command.SubmitTurnResult) {
	t.Helper()
	k := newKitWith(
		t, all(mode("auto"), withVault(t), listened(heard)),
		append([]script.Answer{
			writing("a.txt", "one"), says("turn one"),
			{Tools: []script.Tool{
				{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "two"}},
				{Name: "write_file", Arguments: map[string]any{"path": "b.txt", "content": "two"}},
			}},
			says("turn two"),
			writing("c.txt", "three"), says("turn three"),
		}, more...)...,
	)
	var turns []*command.SubmitTurnResult
	for i := range 3 {
		r := k.submit("sess_a", fmt.Sprintf("do %d", i+1))
		k.completes(r)
		turns = append(turns, r)
	}
	return k, turns
}

func rollback(k *kit, r *command.SubmitTurnResult, change func(*command.RollbackThread)) *command.RollbackThreadResult {
	k.Helper()
	p := &command.RollbackThread{SessionID: r.SessionID, ThreadID: r.ThreadID, ToTurnID: r.TurnID}
	if change != nil {
		change(p)
	}
	return do[command.RollbackThreadResult](k, p)
}

func restore(p *command.RollbackThread) { p.Files = "restore" }

func TestRollbackTakesTurnsAndFilesBack(t *testing.T) {
	var heard listener
	k, turns := edits(t, &heard, says("after"))
	preview := rollback(k, turns[0], func(p *command.RollbackThread) { p.Files, p.Preview, p.Diff = "restore", true, true })
	if len(preview.RemovedTurns) != 2 || len(preview.Files) != 3 || !strings.Contains(preview.Diff, "a.txt") {
		t.Errorf("%+v", preview)
	}
	if k.file("a.txt") != "two" || k.file("c.txt") != "three" || k.count("sess_a", event.TypeHistoryRollbackStarted) != 0 {
		t.Fatal("a preview changed something")
	}
	got := rollback(k, turns[0], restore)
	if !slices.Equal(got.RemovedTurns, []string{turns[1].TurnID, turns[2].TurnID}) {
		t.Errorf("%+v", got)
	}
	if k.file("a.txt") != "one" || k.file("b.txt") != "-" || k.file("c.txt") != "-" {
		t.Errorf("%q %q %q", k.file("a.txt"), k.file("b.txt"), k.file("c.txt"))
	}
	for i, f := range preview.Files {
		if got.Files[i].Path != f.Path || got.Files[i].Change != f.Change {
			t.Errorf("the preview said %+v, done was %+v", f, got.Files[i])
		}
	}
	k.completes(k.submit("sess_a", "go on"))
	all := heard.heard()
	if last := transcript(all[len(all)-1]); !strings.Contains(last, "turn one") || strings.Contains(last, "turn two") || !strings.HasSuffix(last, "user: go on\n") {
		t.Errorf("the model heard:\n%s", last)
	}
	if len(k.facts("sess_a")) == 0 || k.count("sess_a", event.TypeTurnStarted) != 4 {
		t.Error("facts were deleted")
	}
}

func TestRollbackKeepsFilesUnlessToldOtherwise(t *testing.T) {
	k, turns := edits(t, &listener{})
	got := rollback(k, turns[0], nil)
	if k.file("a.txt") != "two" || len(got.Files) != 3 || got.Files[0].Change != "kept" {
		t.Errorf("%q, %+v", k.file("a.txt"), got)
	}
}

// TestRollbackRefusesToOverwrite what somebody else changed since.
func TestRollbackRefusesToOverwrite(t *testing.T) {
	k, turns := edits(t, &listener{})
	k.write("a.txt", "by hand")
	got := rollback(k, turns[0], restore)
	if k.file("a.txt") != "by hand" || k.file("b.txt") != "-" {
		t.Errorf("%q %q", k.file("a.txt"), k.file("b.txt"))
	}
	i := slices.IndexFunc(got.Files, func(f event.RollbackFile) bool { return f.Path == "a.txt" })
	if i < 0 || got.Files[i].Change != "conflict" || got.Files[i].Reason == "" {
		t.Errorf("%+v", got.Files)
	}
}

func TestForcedRollbackOverwrites(t *testing.T) {
	k, turns := edits(t, &listener{})
	k.write("a.txt", "by hand")
	rollback(k, turns[0], func(p *command.RollbackThread) { p.Files, p.Force = "restore", true })
	if k.file("a.txt") != "one" {
		t.Errorf("%q", k.file("a.txt"))
	}
}

// TestUndoAfterAnUndo: turns after a rollback can be taken back too, also those
// before it, and what was taken back once isn't taken back again.
func TestUndoAfterAnUndo(t *testing.T) {
	k, turns := edits(t, &listener{}, writing("d.txt", "four"), says("turn four"))
	rollback(k, turns[1], restore)
	if k.file("c.txt") != "-" {
		t.Error("c.txt is still there")
	}
	k.completes(k.submit("sess_a", "do 4"))
	k.close()
	k.open()
	got := rollback(k, turns[0], restore)
	if len(got.RemovedTurns) != 2 || slices.Contains(got.RemovedTurns, turns[2].TurnID) {
		t.Errorf("%+v", got)
	}
	if k.file("a.txt") != "one" || k.file("b.txt") != "-" || k.file("d.txt") != "-" {
		t.Errorf("%q %q %q", k.file("a.txt"), k.file("b.txt"), k.file("d.txt"))
	}
	start := do[command.RollbackThreadResult](k, &command.RollbackThread{SessionID: "sess_a", ThreadID: turns[0].ThreadID, ToStart: true, Files: "restore"})
	if len(start.RemovedTurns) != 1 || k.file("a.txt") != "-" {
		t.Errorf("%+v, %q", start, k.file("a.txt"))
	}
}

func TestRollbackOfABusyThread(t *testing.T) {
	k := newKit(t, says("one"), script.Answer{Ask: &script.Ask{Prompt: "Well?"}})
	r := k.submit("sess_a", "one")
	k.completes(r)
	k.submit("sess_a", "two")
	k.required("sess_a", 1)
	refused(k, &command.RollbackThread{SessionID: "sess_a", ThreadID: r.ThreadID, ToTurnID: r.TurnID}, fault.Conflict)
	refused(k, &command.RollbackThread{SessionID: "sess_a", ThreadID: "thread_none", ToTurnID: r.TurnID}, fault.NotFound)
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	k.until("sess_a", is(event.TypeTaskCancelled, ""))
	refused(k, &command.RollbackThread{SessionID: "sess_a", ThreadID: r.ThreadID, ToTurnID: "turn_none"}, fault.NotFound)
	rollback(k, r, nil)
}

// TestRollbackToATurnThatLeftTheWorkingSet: old turns are records of their own.
func TestRollbackToAnOldTurn(t *testing.T) {
	k := newKit(t)
	first := k.submit("sess_a", "first")
	k.completes(first)
	for range 30 {
		k.completes(k.submit("sess_a", "more"))
	}
	if got := rollback(k, first, nil); len(got.RemovedTurns) != 30 {
		t.Errorf("%d turns were removed", len(got.RemovedTurns))
	}
}

func TestShellChangesAreTakenBack(t *testing.T) {
	needsSandbox(t)
	k := newKitWith(t, all(mode("auto"), withVault(t), withShell), says("nothing yet"),
		wants("shell", map[string]any{"command": "echo new > made.txt; echo changed > old.txt; rm gone.txt"}), says("done"))
	k.write("old.txt", "old")
	k.write("gone.txt", "gone")
	first := k.submit("sess_a", "one")
	k.completes(first)
	k.completes(k.submit("sess_a", "two"))
	if k.file("made.txt") != "new\n" || k.file("old.txt") != "changed\n" || k.file("gone.txt") != "-" {
		t.Fatalf("%q %q %q", k.file("made.txt"), k.file("old.txt"), k.file("gone.txt"))
	}
	rollback(k, first, restore)
	if k.file("made.txt") != "-" || k.file("old.txt") != "old" || k.file("gone.txt") != "gone" {
		t.Errorf("%q %q %q", k.file("made.txt"), k.file("old.txt"), k.file("gone.txt"))
	}
}

// TestFork: a fork begins with its source's conversation up to a fact, and leaves
// the source alone; a fork of a fork too.
func TestFork(t *testing.T) {
	var heard listener
	k := newKitWith(t, listened(&heard))
	one := k.submit("sess_a", "one")
	k.completes(one)
	two := k.submit("sess_a", "two")
	k.completes(two)
	ends := map[string]uint64{}
	for _, e := range k.facts("sess_a") {
		if e.Type == event.TypeTaskCompleted {
			ends[e.TurnID] = e.Sequence
		}
	}
	before := len(k.facts("sess_a"))
	fork := do[command.ForkThreadResult](k, &command.ForkThread{SessionID: "sess_a", ThreadID: one.ThreadID, AtSequence: ends[one.TurnID]})
	three := k.submit(fork.SessionID, "three")
	k.completes(three)
	last := func() string {
		all := heard.heard()
		return transcript(all[len(all)-1])
	}
	if got := last(); got != "user: one\nassistant: You said: one\nuser: three\n" {
		t.Errorf("the fork's model heard:\n%s", got)
	}
	if len(k.facts("sess_a")) != before {
		t.Error("the source changed")
	}
	head := k.facts(fork.SessionID)
	again := do[command.ForkThreadResult](k, &command.ForkThread{SessionID: fork.SessionID, ThreadID: fork.ThreadID, AtSequence: head[len(head)-1].Sequence})
	k.close()
	k.open()
	k.completes(k.submit(again.SessionID, "four"))
	if got := last(); got != "user: one\nassistant: You said: one\nuser: three\nassistant: You said: three\nuser: four\n" {
		t.Errorf("the second fork's model heard:\n%s", got)
	}
	k.completes(k.submit("sess_a", "five"))
	if got := last(); !strings.Contains(got, "user: two\n") || strings.Contains(got, "three") {
		t.Errorf("the source's model heard:\n%s", got)
	}
	refused(k, &command.ForkThread{SessionID: "sess_a", ThreadID: one.ThreadID, AtSequence: 10_000}, fault.InvalidParams)
}

// TestForkInTheMiddleOfATurn: what was under way there isn't here.
func TestForkInTheMiddleOfATurn(t *testing.T) {
	var heard listener
	k := newKitWith(t, listened(&heard), script.Answer{Tools: []script.Tool{{Name: "request_input", ID: "q", Arguments: map[string]any{"prompt": "Well?"}}}})
	r := k.submit("sess_a", "one")
	k.required("sess_a", 1)
	facts := k.facts("sess_a")
	fork := do[command.ForkThreadResult](k, &command.ForkThread{SessionID: "sess_a", ThreadID: r.ThreadID, AtSequence: facts[len(facts)-1].Sequence})
	k.script.Answers[0] = says("ok")
	k.completes(k.submit(fork.SessionID, "two"))
	all := heard.heard()
	got := transcript(all[len(all)-1])
	if !strings.Contains(got, "[request_input q]\nuser: two") {
		t.Errorf("the fork's model heard:\n%s", got)
	}
	if read := k.thread(r); read.Phase != "waiting_input" {
		t.Errorf("the source is %s", read.Phase)
	}
}

// TestRollbackIsFinishedByTheNextProcess even if nothing else is open.
func TestRollbackWithoutAVault(t *testing.T) {
	k := newKitWith(t, mode("auto"), says("one"), writing("a.txt", "x"), says("two"))
	r := k.submit("sess_a", "one")
	k.completes(r)
	k.completes(k.submit("sess_a", "two"))
	got := rollback(k, r, restore)
	if len(got.Files) != 1 || got.Files[0].Change != "unavailable" || got.Files[0].Reason == "" {
		t.Errorf("%+v", got.Files)
	}
	if _, err := os.Stat(filepath.Join(k.dir, "a.txt")); err != nil {
		t.Error("nothing was kept, and the file is gone")
	}
	if _, err := k.r.Do(context.Background(), command.Local(), &command.RollbackThread{SessionID: "sess_a", ThreadID: r.ThreadID}); fault.KindOf(err) != fault.InvalidParams {
		t.Errorf("a rollback to nowhere: %v", err)
	}
}
