package loop_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
)

func rollback(k *runtimetest.Kit, r *command.SubmitTurnResult, change func(*command.RollbackThread)) *command.RollbackThreadResult {
	k.Helper()
	p := &command.RollbackThread{SessionID: r.SessionID, ThreadID: r.ThreadID, ToTurnID: r.TurnID}
	if change != nil {
		change(p)
	}
	return runtimetest.Do[command.RollbackThreadResult](k, p)
}

func restore(p *command.RollbackThread) { p.Files = "restore" }

func TestRollbackTakesTurnsAndFilesBack(t *testing.T) {
	var heard runtimetest.Listener
	k, turns := runtimetest.ThreeEdits(t, &heard, runtimetest.Says("after"))
	preview := rollback(k, turns[0], func(p *command.RollbackThread) { p.Files, p.Preview, p.Diff = "restore", true, true })
	if len(preview.RemovedTurns) != 2 || len(preview.Files) != 3 || !strings.Contains(preview.Diff, "a.txt") {
		t.Errorf("%+v", preview)
	}
	if k.ReadFile("a.txt") != "two" || k.ReadFile("c.txt") != "three" || k.CountFacts("sess_a", event.TypeHistoryRollbackStarted) != 0 {
		t.Fatal("a preview changed something")
	}
	got := rollback(k, turns[0], restore)
	if !slices.Equal(got.RemovedTurns, []string{turns[1].TurnID, turns[2].TurnID}) {
		t.Errorf("%+v", got)
	}
	if k.ReadFile("a.txt") != "one" || k.ReadFile("b.txt") != "-" || k.ReadFile("c.txt") != "-" {
		t.Errorf("%q %q %q", k.ReadFile("a.txt"), k.ReadFile("b.txt"), k.ReadFile("c.txt"))
	}
	for i, f := range preview.Files {
		if got.Files[i].Path != f.Path || got.Files[i].Change != f.Change {
			t.Errorf("the preview said %+v, done was %+v", f, got.Files[i])
		}
	}
	k.Completes(k.Submit("sess_a", "go on"))
	all := heard.Heard()
	if last := runtimetest.Conversation(all[len(all)-1]); !strings.Contains(last, "turn one") || strings.Contains(last, "turn two") || !strings.HasSuffix(last, "user: go on\n") {
		t.Errorf("the model heard:\n%s", last)
	}
	if len(k.Facts("sess_a")) == 0 || k.CountFacts("sess_a", event.TypeTurnStarted) != 4 {
		t.Error("facts were deleted")
	}
}

func TestRollbackKeepsFilesUnlessToldOtherwise(t *testing.T) {
	k, turns := runtimetest.ThreeEdits(t, &runtimetest.Listener{})
	got := rollback(k, turns[0], nil)
	if k.ReadFile("a.txt") != "two" || len(got.Files) != 3 || got.Files[0].Change != "kept" {
		t.Errorf("%q, %+v", k.ReadFile("a.txt"), got)
	}
}

// TestRollbackRefusesToOverwrite what somebody else changed since.
func TestRollbackRefusesToOverwrite(t *testing.T) {
	k, turns := runtimetest.ThreeEdits(t, &runtimetest.Listener{})
	k.WriteFile("a.txt", "by hand")
	got := rollback(k, turns[0], restore)
	if k.ReadFile("a.txt") != "by hand" || k.ReadFile("b.txt") != "-" {
		t.Errorf("%q %q", k.ReadFile("a.txt"), k.ReadFile("b.txt"))
	}
	i := slices.IndexFunc(got.Files, func(f event.RollbackFile) bool { return f.Path == "a.txt" })
	if i < 0 || got.Files[i].Change != "conflict" || got.Files[i].Reason == "" {
		t.Errorf("%+v", got.Files)
	}
}

func TestForcedRollbackOverwrites(t *testing.T) {
	k, turns := runtimetest.ThreeEdits(t, &runtimetest.Listener{})
	k.WriteFile("a.txt", "by hand")
	rollback(k, turns[0], func(p *command.RollbackThread) { p.Files, p.Force = "restore", true })
	if k.ReadFile("a.txt") != "one" {
		t.Errorf("%q", k.ReadFile("a.txt"))
	}
}

// TestUndoAfterAnUndo: turns after a rollback can be taken back too, also those
// before it, and what was taken back once isn't taken back again.
func TestUndoAfterAnUndo(t *testing.T) {
	k, turns := runtimetest.ThreeEdits(t, &runtimetest.Listener{}, runtimetest.WritesFile("d.txt", "four"), runtimetest.Says("turn four"))
	rollback(k, turns[1], restore)
	if k.ReadFile("c.txt") != "-" {
		t.Error("c.txt is still there")
	}
	k.Completes(k.Submit("sess_a", "do 4"))
	k.Close()
	k.Open()
	got := rollback(k, turns[0], restore)
	if len(got.RemovedTurns) != 2 || slices.Contains(got.RemovedTurns, turns[2].TurnID) {
		t.Errorf("%+v", got)
	}
	if k.ReadFile("a.txt") != "one" || k.ReadFile("b.txt") != "-" || k.ReadFile("d.txt") != "-" {
		t.Errorf("%q %q %q", k.ReadFile("a.txt"), k.ReadFile("b.txt"), k.ReadFile("d.txt"))
	}
	start := runtimetest.Do[command.RollbackThreadResult](k, &command.RollbackThread{SessionID: "sess_a", ThreadID: turns[0].ThreadID, ToStart: true, Files: "restore"})
	if len(start.RemovedTurns) != 1 || k.ReadFile("a.txt") != "-" {
		t.Errorf("%+v, %q", start, k.ReadFile("a.txt"))
	}
}

func TestRollbackOfABusyThread(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("one"), script.Answer{Ask: &script.Ask{Prompt: "Well?"}})
	r := k.Submit("sess_a", "one")
	k.Completes(r)
	k.Submit("sess_a", "two")
	k.WaitForAction("sess_a", 1)
	runtimetest.Refused(k, &command.RollbackThread{SessionID: "sess_a", ThreadID: r.ThreadID, ToTurnID: r.TurnID}, fault.Conflict)
	runtimetest.Refused(k, &command.RollbackThread{SessionID: "sess_a", ThreadID: "thread_none", ToTurnID: r.TurnID}, fault.NotFound)
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeTaskCancelled, ""))
	runtimetest.Refused(k, &command.RollbackThread{SessionID: "sess_a", ThreadID: r.ThreadID, ToTurnID: "turn_none"}, fault.NotFound)
	rollback(k, r, nil)
}

// TestRollbackToATurnThatLeftTheWorkingSet: old turns are records of their own.
func TestRollbackToAnOldTurn(t *testing.T) {
	k := runtimetest.New(t)
	first := k.Submit("sess_a", "first")
	k.Completes(first)
	for range 30 {
		k.Completes(k.Submit("sess_a", "more"))
	}
	if got := rollback(k, first, nil); len(got.RemovedTurns) != 30 {
		t.Errorf("%d turns were removed", len(got.RemovedTurns))
	}
}

func TestShellChangesAreTakenBack(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithVault(t), runtimetest.WithShell), runtimetest.Says("nothing yet"),
		runtimetest.CallsTool("shell", map[string]any{"command": "echo new > made.txt; echo changed > old.txt; rm gone.txt"}), runtimetest.Says("done"))
	k.WriteFile("old.txt", "old")
	k.WriteFile("gone.txt", "gone")
	first := k.Submit("sess_a", "one")
	k.Completes(first)
	k.Completes(k.Submit("sess_a", "two"))
	if k.ReadFile("made.txt") != "new\n" || k.ReadFile("old.txt") != "changed\n" || k.ReadFile("gone.txt") != "-" {
		t.Fatalf("%q %q %q", k.ReadFile("made.txt"), k.ReadFile("old.txt"), k.ReadFile("gone.txt"))
	}
	rollback(k, first, restore)
	if k.ReadFile("made.txt") != "-" || k.ReadFile("old.txt") != "old" || k.ReadFile("gone.txt") != "gone" {
		t.Errorf("%q %q %q", k.ReadFile("made.txt"), k.ReadFile("old.txt"), k.ReadFile("gone.txt"))
	}
}

// TestFork: a fork begins with its source's conversation up to a fact, and leaves
// the source alone; a fork of a fork too.
func TestFork(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.ListenedBy(&heard))
	one := k.Submit("sess_a", "one")
	k.Completes(one)
	two := k.Submit("sess_a", "two")
	k.Completes(two)
	ends := map[string]uint64{}
	for _, e := range k.Facts("sess_a") {
		if e.Type == event.TypeTaskCompleted {
			ends[e.TurnID] = e.Sequence
		}
	}
	before := len(k.Facts("sess_a"))
	fork := runtimetest.Do[command.ForkThreadResult](k, &command.ForkThread{SessionID: "sess_a", ThreadID: one.ThreadID, AtSequence: ends[one.TurnID]})
	three := k.Submit(fork.SessionID, "three")
	k.Completes(three)
	last := func() string {
		all := heard.Heard()
		return runtimetest.Conversation(all[len(all)-1])
	}
	if got := last(); got != "user: one\nassistant: You said: one\nuser: three\n" {
		t.Errorf("the fork's model heard:\n%s", got)
	}
	if len(k.Facts("sess_a")) != before {
		t.Error("the source changed")
	}
	head := k.Facts(fork.SessionID)
	again := runtimetest.Do[command.ForkThreadResult](k, &command.ForkThread{SessionID: fork.SessionID, ThreadID: fork.ThreadID, AtSequence: head[len(head)-1].Sequence})
	k.Close()
	k.Open()
	k.Completes(k.Submit(again.SessionID, "four"))
	if got := last(); got != "user: one\nassistant: You said: one\nuser: three\nassistant: You said: three\nuser: four\n" {
		t.Errorf("the second fork's model heard:\n%s", got)
	}
	k.Completes(k.Submit("sess_a", "five"))
	if got := last(); !strings.Contains(got, "user: two\n") || strings.Contains(got, "three") {
		t.Errorf("the source's model heard:\n%s", got)
	}
	runtimetest.Refused(k, &command.ForkThread{SessionID: "sess_a", ThreadID: one.ThreadID, AtSequence: 10_000}, fault.InvalidParams)
}

// TestForkInTheMiddleOfATurn: what was under way there isn't here.
func TestForkInTheMiddleOfATurn(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.ListenedBy(&heard), script.Answer{Tools: []script.Tool{{Name: "request_input", ID: "q", Arguments: map[string]any{"prompt": "Well?"}}}})
	r := k.Submit("sess_a", "one")
	k.WaitForAction("sess_a", 1)
	facts := k.Facts("sess_a")
	fork := runtimetest.Do[command.ForkThreadResult](k, &command.ForkThread{SessionID: "sess_a", ThreadID: r.ThreadID, AtSequence: facts[len(facts)-1].Sequence})
	k.Script.Answers[0] = runtimetest.Says("ok")
	k.Completes(k.Submit(fork.SessionID, "two"))
	all := heard.Heard()
	got := runtimetest.Conversation(all[len(all)-1])
	if !strings.Contains(got, "[request_input q]\nuser: two") {
		t.Errorf("the fork's model heard:\n%s", got)
	}
	if read := k.Thread(r); read.Phase != "waiting_input" {
		t.Errorf("the source is %s", read.Phase)
	}
}

// TestRollbackIsFinishedByTheNextProcess even if nothing else is open.
func TestRollbackWithoutAVault(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("auto"), runtimetest.Says("one"), runtimetest.WritesFile("a.txt", "x"), runtimetest.Says("two"))
	r := k.Submit("sess_a", "one")
	k.Completes(r)
	k.Completes(k.Submit("sess_a", "two"))
	got := rollback(k, r, restore)
	if len(got.Files) != 1 || got.Files[0].Change != "unavailable" || got.Files[0].Reason == "" {
		t.Errorf("%+v", got.Files)
	}
	if _, err := os.Stat(filepath.Join(k.Dir, "a.txt")); err != nil {
		t.Error("nothing was kept, and the file is gone")
	}
	if _, err := k.Runtime.Do(context.Background(), command.Local(), &command.RollbackThread{SessionID: "sess_a", ThreadID: r.ThreadID}); fault.KindOf(err) != fault.InvalidParams {
		t.Errorf("a rollback to nowhere: %v", err)
	}
}

// TestARollbackNamesWhatItTakesBackAlone: what an earlier rollback took back is not said to
// be affected by a later one.
func TestARollbackNamesWhatItTakesBackAlone(t *testing.T) {
	var heard runtimetest.Listener
	k, turns := runtimetest.ThreeEdits(t, &heard)
	calls := map[string][]string{}
	for _, e := range k.Facts("sess_a") {
		if e.Type == event.TypeToolResult {
			calls[e.TurnID] = append(calls[e.TurnID], e.ToolCallID)
		}
	}
	rollback(k, turns[1], nil)
	rollback(k, turns[0], nil)
	rollback(k, turns[0], nil)
	var got [][]string
	for _, p := range runtimetest.Payloads[*event.RollbackCompleted](k, "sess_a") {
		got = append(got, p.AffectedTools)
	}
	want := [][]string{calls[turns[2].TurnID], calls[turns[1].TurnID], nil}
	if !slices.EqualFunc(got, want, slices.Equal) || len(want[0]) != 1 || len(want[1]) != 2 {
		t.Errorf("affected are %v, want %v", got, want)
	}
}
