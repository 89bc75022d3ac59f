package agentd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/fault"
	"agentd/session"
	"agentd/store"
	"agentd/transfer"
)

// exported returns a session as another runtime gets it.
func (k *kit) exported(sessionID string) []byte {
	k.Helper()
	var b bytes.Buffer
	if err := k.r.ExportSession(context.Background(), command.Local(), sessionID, &b); err != nil {
		k.Fatal(err)
	}
	return b.Bytes()
}

func (k *kit) imports(file []byte, opt agentd.ImportOptions) (*agentd.ImportedSession, error) {
	return k.r.ImportSession(context.Background(), command.Local(), bytes.NewReader(file), opt)
}

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
	from := newKitWith(t, withTools(t, reads("look", gives(large))), wants("look", map[string]any{}), says("first"))
	from.completes(from.submit("sess_move", "look"))
	file := from.exported("sess_move")

	to := newKit(t, says("second"))
	got, err := to.imports(file, agentd.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Written != got.Events || got.Outputs == 0 || got.Missing != 0 || got.RuntimeID != from.r.ID() || got.OpenWork {
		t.Fatalf("imported %+v", got)
	}
	if !bytes.Equal(bytesOf(t, from.store, "sess_move"), bytesOf(t, to.store, "sess_move")) {
		t.Fatal("the facts are not the same")
	}
	ref := payloads[*event.ToolResult](to, "sess_move")[0].OutputRef
	if to.output(ref) != large {
		t.Fatal("the output is not the same")
	}
	if again, err := to.imports(file, agentd.ImportOptions{}); err != nil || again.Written != 0 {
		t.Fatalf("again: %+v, %v", again, err)
	}
	to.completes(to.submit("sess_move", "and now?"))
	if again, err := to.imports(file, agentd.ImportOptions{}); err != nil || again.Written != 0 {
		t.Fatalf("after it went on: %+v, %v", again, err)
	}
	list := do[command.ListSessionsResult](to, &command.ListSessions{})
	if len(list.Sessions) != 1 || list.Sessions[0].TurnCount != 2 {
		t.Fatalf("listed %+v", list.Sessions)
	}
}

// TestImportRefuses has what must not be taken over.
func TestImportRefuses(t *testing.T) {
	from := newKit(t, says("one"), says("two"))
	from.completes(from.submit("sess_a", "hello"))
	file := from.exported("sess_a")
	refuses := func(k *kit, file []byte, kind fault.Kind, says string) {
		t.Helper()
		before := bytesOf(t, k.store, "sess_a")
		_, err := k.imports(file, agentd.ImportOptions{})
		if fault.KindOf(err) != kind || !strings.Contains(err.Error(), says) {
			t.Fatalf("got %v, want %s that says %q", err, kind, says)
		}
		if !bytes.Equal(before, bytesOf(t, k.store, "sess_a")) {
			t.Fatal("something was written")
		}
	}
	to := newKit(t, says("other"))
	lines := bytes.SplitAfter(file, []byte("\n"))
	refuses(to, bytes.Join(lines[:len(lines)-2], nil), fault.InvalidParams, "cut off")
	refuses(to, bytes.Replace(file, []byte("hello"), []byte("hallo"), 1), fault.InvalidParams, "hash chain")
	refuses(to, []byte("nonsense\n"), fault.InvalidParams, "not an exported session")
	if _, err := to.r.ImportSession(t.Context(), command.Caller{Account: "a"}, bytes.NewReader(file), agentd.ImportOptions{}); fault.KindOf(err) != fault.Forbidden {
		t.Fatalf("a client may import: %v", err)
	}
	to.completes(to.submit("sess_a", "another talk under the same id"))
	refuses(to, file, fault.Conflict, "with a different fact")
	own := bytes.Replace(file, []byte("sess_a"), []byte(event.RuntimeSession), 1)
	refuses(to, own, fault.InvalidParams, "stays there")
}

// TestOpenWorkIsNotDoubled shows that a session that waits for an answer is taken
// over only when told to.
func TestOpenWorkIsNotDoubled(t *testing.T) {
	from := newKitWith(t, withTools(t, writes("change", gives("done"))), wants("change", map[string]any{}), says("changed"))
	from.submit("sess_open", "change it")
	from.required("sess_open", 1)
	file := from.exported("sess_open")
	to := newKitWith(t, withTools(t, writes("change", gives("done"))), says("changed"))
	if _, err := to.imports(file, agentd.ImportOptions{}); fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "unfinished") {
		t.Fatalf("got %v", err)
	}
	got, err := to.imports(file, agentd.ImportOptions{AllowOpen: true})
	if err != nil || !got.OpenWork {
		t.Fatalf("got %+v, %v", got, err)
	}
	actions := do[command.ListActionsResult](to, &command.ListActions{Status: "pending"})
	if len(actions.Actions) != 1 {
		t.Fatalf("pending: %+v", actions.Actions)
	}
	interrupted := do[command.InterruptTurnResult](from, &command.InterruptTurn{SessionID: "sess_open"})
	if !interrupted.Interrupted {
		t.Fatal("where it came from, it was not interrupted")
	}
}

// holdsPart fails unless a session of which an import brought the first part can be
// looked at, and nobody goes on with it, also after a restart.
func (k *kit) holdsPart(sessionID string) {
	k.Helper()
	for range 2 {
		if list := do[command.ListSessionsResult](k, &command.ListSessions{}); len(list.Sessions) != 1 {
			k.Errorf("listed %+v", list.Sessions)
		}
		part := do[session.GetSessionResult](k, &command.GetSession{SessionID: sessionID})
		if len(part.History.Events) == 0 {
			k.Error("nothing can be read")
		}
		for _, p := range []command.Params{
			&command.SubmitTurn{SessionID: sessionID, Create: true, Input: quoted("mine")},
			&command.ResumeThread{SessionID: sessionID, ThreadID: part.Threads[0].ThreadID},
		} {
			_, err := k.r.Do(k.Context(), command.Local(), p)
			if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "import the same file again") {
				k.Errorf("%s: %v", p.Command(), err)
			}
		}
		if err := k.r.Close(k.Context()); err != nil {
			k.Error(err)
		}
		k.open()
	}
	report, err := session.Verify(k.Context(), k.store, session.VerifyOptions{})
	if err != nil || !strings.Contains(fmt.Sprint(report.Problems), "was cut off") {
		k.Errorf("verify: %+v, %v", report.Problems, err)
	}
}

// TestImportGoesOn imports a session whose first facts an earlier import wrote
// before it was cut off. It was cut off in the middle of a turn, and the runtime that
// starts meanwhile doesn't take that for work of its own.
func TestImportGoesOn(t *testing.T) {
	const group = 256 // facts are written so many at a time
	from := newKit(t)
	for len(from.facts("sess_cut")) <= group+10 {
		from.completes(from.submit("sess_cut", "again"))
	}
	file := from.exported("sess_cut")
	to := newKit(t)
	if err := to.r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	manager := session.New(session.Options{Store: to.store, RuntimeID: to.r.ID()})
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
	to.open()
	to.holdsPart("sess_cut")
	got, err := to.imports(file, agentd.ImportOptions{})
	if err != nil || got.Written != got.Events-group {
		t.Fatalf("got %+v, %v", got, err)
	}
	if !bytes.Equal(bytesOf(t, from.store, "sess_cut"), bytesOf(t, to.store, "sess_cut")) {
		t.Fatal("the facts are not the same")
	}
}

// TestSumsAreNoOutputs: versions, keys and digests look like references. They are
// none, so nothing is said to be missing, neither in an exported session nor in its
// evidence.
func TestSumsAreNoOutputs(t *testing.T) {
	from := newKit(t, says("solved"))
	sum := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	trial := trialOf("trial_sums", "fix-7", "base")
	trial.DatasetVersion = sum("a")
	started, _ := from.try(&command.StartBenchmarkTrial{Benchmark: trial, Input: quoted("solve it")})
	score := scoreOf("trial_sums", 1)
	score.Verifier = &event.BenchmarkVerifier{Name: "tests", Version: sum("b"), Status: "completed"}
	do[command.TrialResult](from, score)
	do[command.ExportBenchmarkTrialResult](from, &command.ExportBenchmarkTrial{TrialID: "trial_sums"})
	pack := do[command.ExportResult](from, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: started.SessionID}})
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
	do[command.ExportBenchmarkTrialResult](from, &command.ExportBenchmarkTrial{TrialID: "trial_sums"})
	var again struct{ Contents []evidence.Content }
	if err := json.Unmarshal(do[command.ExportResult](from, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: started.SessionID}}).Pack, &again); err != nil || !slices.Equal(again.Contents, held.Contents) {
		t.Errorf("%v: the contents were %+v and are %+v", err, held.Contents, again.Contents)
	}
	got, err := newKit(t).imports(from.exported(started.SessionID), agentd.ImportOptions{})
	if err != nil || got.Missing != 0 || got.Outputs < 5 {
		t.Errorf("imported %+v, %v", got, err)
	}
}
