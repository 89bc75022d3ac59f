package agentd_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
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
	refuses(to, bytes.Replace(file, []byte("hello"), []byte("hallo"), 1), fault.InvalidParams, "chain's head")
	refuses(to, []byte("nonsense\n"), fault.InvalidParams, "no exported session")
	if _, err := to.r.ImportSession(t.Context(), command.Caller{Account: "a"}, bytes.NewReader(file), agentd.ImportOptions{}); fault.KindOf(err) != fault.Forbidden {
		t.Fatalf("a client may import: %v", err)
	}
	to.completes(to.submit("sess_a", "another talk under the same id"))
	refuses(to, file, fault.Conflict, "is another one")
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
	got, err := to.imports(file, agentd.ImportOptions{})
	if err != nil || got.Written != got.Events-group {
		t.Fatalf("got %+v, %v", got, err)
	}
	if !bytes.Equal(bytesOf(t, from.store, "sess_cut"), bytesOf(t, to.store, "sess_cut")) {
		t.Fatal("the facts are not the same")
	}
}
