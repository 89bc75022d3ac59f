package transfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/session"
	"agentd/store"
	"agentd/transfer"
)

// bytesOf returns the stored facts of a session.
func bytesOf(t *testing.T, s store.Store, sessionID string) []byte {
	t.Helper()
	var b bytes.Buffer
	for rec, err := range s.Read(context.Background(), sessionID, store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		b.Write(rec.Data)
		b.Write(rec.Hash[:])
	}
	return b.Bytes()
}

// TestSessionMoves takes a session with a large output to another runtime, where
// it is the same to the byte, its output can be read, and the talk goes on.
func TestSessionMoves(t *testing.T) {
	large := strings.Repeat("a line of a long output\n", 2000)
	from := runtimetest.NewWith(t, runtimetest.WithTools(t, runtimetest.ReadOnlyTool("look", runtimetest.GivesText(large))), runtimetest.CallsTool("look", map[string]any{}), runtimetest.Says("first"))
	from.Completes(from.Submit("sess_move", "look"))
	file := from.ExportSession("sess_move")

	to := runtimetest.New(t, runtimetest.Says("second"))
	got, err := to.ImportSession(file, transfer.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Written != got.Events || got.Outputs == 0 || got.Missing != 0 || got.RuntimeID != from.Runtime.ID() || got.OpenWork {
		t.Fatalf("imported %+v", got)
	}
	if !bytes.Equal(bytesOf(t, from.Store, "sess_move"), bytesOf(t, to.Store, "sess_move")) {
		t.Fatal("the facts are not the same")
	}
	ref := runtimetest.Payloads[*event.ToolResult](to, "sess_move")[0].OutputRef
	if to.ReadOutput(ref) != large {
		t.Fatal("the output is not the same")
	}
	if again, err := to.ImportSession(file, transfer.ImportOptions{}); err != nil || again.Written != 0 {
		t.Fatalf("again: %+v, %v", again, err)
	}
	to.Completes(to.Submit("sess_move", "and now?"))
	if again, err := to.ImportSession(file, transfer.ImportOptions{}); err != nil || again.Written != 0 {
		t.Fatalf("after it went on: %+v, %v", again, err)
	}
	list := runtimetest.Do[command.ListSessionsResult](to, &command.ListSessions{})
	if len(list.Sessions) != 1 || list.Sessions[0].TurnCount != 2 {
		t.Fatalf("listed %+v", list.Sessions)
	}
}

// TestImportRefuses has what must not be taken over.
func TestImportRefuses(t *testing.T) {
	from := runtimetest.New(t, runtimetest.Says("one"), runtimetest.Says("two"))
	from.Completes(from.Submit("sess_a", "hello"))
	file := from.ExportSession("sess_a")
	refuses := func(k *runtimetest.Kit, file []byte, kind fault.Kind, says string) {
		t.Helper()
		before := bytesOf(t, k.Store, "sess_a")
		_, err := k.ImportSession(file, transfer.ImportOptions{})
		if fault.KindOf(err) != kind || !strings.Contains(err.Error(), says) {
			t.Fatalf("got %v, want %s that says %q", err, kind, says)
		}
		if !bytes.Equal(before, bytesOf(t, k.Store, "sess_a")) {
			t.Fatal("something was written")
		}
	}
	to := runtimetest.New(t, runtimetest.Says("other"))
	lines := bytes.SplitAfter(file, []byte("\n"))
	refuses(to, bytes.Join(lines[:len(lines)-2], nil), fault.InvalidParams, "cut off")
	refuses(to, bytes.Replace(file, []byte("hello"), []byte("hallo"), 1), fault.InvalidParams, "hash chain")
	refuses(to, []byte("nonsense\n"), fault.InvalidParams, "not an exported session")
	if _, err := to.Runtime.ImportSession(t.Context(), command.Caller{Account: "a"}, bytes.NewReader(file), transfer.ImportOptions{}); fault.KindOf(err) != fault.Forbidden {
		t.Fatalf("a client may import: %v", err)
	}
	to.Completes(to.Submit("sess_a", "another talk under the same id"))
	refuses(to, file, fault.Conflict, "with a different fact")
	own := bytes.Replace(file, []byte("sess_a"), []byte(event.RuntimeSession), 1)
	refuses(to, own, fault.InvalidParams, "stays there")
}

// TestOpenWorkIsNotDoubled shows that a session that waits for an answer is taken
// over only when told to.
func TestOpenWorkIsNotDoubled(t *testing.T) {
	from := runtimetest.NewWith(t, runtimetest.WithTools(t, runtimetest.WritingTool("change", runtimetest.GivesText("done"))), runtimetest.CallsTool("change", map[string]any{}), runtimetest.Says("changed"))
	from.Submit("sess_open", "change it")
	from.WaitForAction("sess_open", 1)
	file := from.ExportSession("sess_open")
	to := runtimetest.NewWith(t, runtimetest.WithTools(t, runtimetest.WritingTool("change", runtimetest.GivesText("done"))), runtimetest.Says("changed"))
	if _, err := to.ImportSession(file, transfer.ImportOptions{}); fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "unfinished") {
		t.Fatalf("got %v", err)
	}
	got, err := to.ImportSession(file, transfer.ImportOptions{AllowOpen: true})
	if err != nil || !got.OpenWork {
		t.Fatalf("got %+v, %v", got, err)
	}
	actions := runtimetest.Do[command.ListActionsResult](to, &command.ListActions{Status: "pending"})
	if len(actions.Actions) != 1 {
		t.Fatalf("pending: %+v", actions.Actions)
	}
	interrupted := runtimetest.Do[command.InterruptTurnResult](from, &command.InterruptTurn{SessionID: "sess_open"})
	if !interrupted.Interrupted {
		t.Fatal("where it came from, it was not interrupted")
	}
}

// holdsPart fails unless a session of which an import brought the first part can be
// looked at, and nobody goes on with it, also after a restart.
func holdsPart(k *runtimetest.Kit, sessionID string) {
	k.Helper()
	for range 2 {
		if list := runtimetest.Do[command.ListSessionsResult](k, &command.ListSessions{}); len(list.Sessions) != 1 {
			k.Errorf("listed %+v", list.Sessions)
		}
		part := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: sessionID})
		if len(part.History.Events) == 0 {
			k.Error("nothing can be read")
		}
		for _, p := range []command.Params{
			&command.SubmitTurn{SessionID: sessionID, Create: true, Input: runtimetest.Quoted("mine")},
			&command.ResumeThread{SessionID: sessionID, ThreadID: part.Threads[0].ThreadID},
		} {
			_, err := k.Runtime.Do(k.Context(), command.Local(), p)
			if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "import the same file again") {
				k.Errorf("%s: %v", p.Command(), err)
			}
		}
		if err := k.Runtime.Close(k.Context()); err != nil {
			k.Error(err)
		}
		k.Open()
	}
	report, err := session.Verify(k.Context(), k.Store, session.VerifyOptions{})
	if err != nil || !strings.Contains(fmt.Sprint(report.Problems), "was cut off") {
		k.Errorf("verify: %+v, %v", report.Problems, err)
	}
}

// TestImportGoesOn imports a session whose first facts an earlier import wrote
// before it was cut off. It was cut off in the middle of a turn, and the runtime that
// starts meanwhile doesn't take that for work of its own.
func TestImportGoesOn(t *testing.T) {
	const group = 256 // facts are written so many at a time
	from := runtimetest.New(t)
	for len(from.Facts("sess_cut")) <= group+10 {
		from.Completes(from.Submit("sess_cut", "again"))
	}
	file := from.ExportSession("sess_cut")
	to := runtimetest.New(t)
	if err := to.Runtime.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	manager := session.New(session.Options{Store: to.Store, RuntimeID: to.Runtime.ID()})
	in, err := manager.BeginImport(t.Context(), "sess_cut")
	if err != nil {
		t.Fatal(err)
	}
	cut := errors.New("cut off")
	if _, err := transfer.Read(bytes.NewReader(file), transfer.Visitor{Event: func(r store.Record) error {
		return in.Add(t.Context(), &r)
	}}); err != nil {
		t.Fatal(err)
	}
	if got, err := in.Close(t.Context(), cut); !errors.Is(err, cut) || got.Written != group {
		t.Fatalf("got %+v, %v", got, err)
	}
	if open, err := manager.Open(t.Context()); err != nil || slices.Contains(open, "sess_cut") {
		t.Fatalf("unfinished: %v, %v", open, err)
	}
	if err := manager.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	to.Open()
	holdsPart(to, "sess_cut")
	got, err := to.ImportSession(file, transfer.ImportOptions{})
	if err != nil || got.Written != got.Events-group {
		t.Fatalf("got %+v, %v", got, err)
	}
	if !bytes.Equal(bytesOf(t, from.Store, "sess_cut"), bytesOf(t, to.Store, "sess_cut")) {
		t.Fatal("the facts are not the same")
	}
}

// TestSumsAreNoOutputs: versions, keys and digests look like references. They are
// none, so nothing is said to be missing, neither in an exported session nor in its
// evidence.
func TestSumsAreNoOutputs(t *testing.T) {
	from := runtimetest.New(t, runtimetest.Says("solved"))
	sum := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	trial := runtimetest.TrialOf("trial_sums", "fix-7", "base")
	trial.DatasetVersion = sum("a")
	started, _ := from.RunTrial(&command.StartBenchmarkTrial{Benchmark: trial, Input: runtimetest.Quoted("solve it")})
	score := runtimetest.ScoreOf("trial_sums", 1)
	score.Verifier = &event.BenchmarkVerifier{Name: "tests", Version: sum("b"), Status: "completed"}
	runtimetest.Do[command.TrialResult](from, score)
	runtimetest.Do[command.ExportBenchmarkTrialResult](from, &command.ExportBenchmarkTrial{TrialID: "trial_sums"})
	pack := runtimetest.Do[command.ExportResult](from, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: started.SessionID}})
	var held struct{ Contents []evidence.Content }
	if err := json.Unmarshal(pack.Pack, &held); err != nil || len(held.Contents) == 0 {
		t.Fatalf("%d contents, %v", len(held.Contents), err)
	}
	for _, c := range held.Contents {
		if c.Status != "stored" {
			t.Errorf("the evidence misses %+v", c)
		}
	}
	// The export of a trial is no fact of what happened: another one is the same.
	runtimetest.Do[command.ExportBenchmarkTrialResult](from, &command.ExportBenchmarkTrial{TrialID: "trial_sums"})
	var again struct{ Contents []evidence.Content }
	if err := json.Unmarshal(runtimetest.Do[command.ExportResult](from, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: started.SessionID}}).Pack, &again); err != nil || !slices.Equal(again.Contents, held.Contents) {
		t.Errorf("%v: the contents were %+v and are %+v", err, held.Contents, again.Contents)
	}
	got, err := runtimetest.New(t).ImportSession(from.ExportSession(started.SessionID), transfer.ImportOptions{})
	if err != nil || got.Missing != 0 || got.Outputs < 5 {
		t.Errorf("imported %+v, %v", got, err)
	}
}
