package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/store"
	"agentd/store/storetest"
)

// TestWhatIsKnownIsNotPutAgain has facts that refer to the same contents again and again: an
// entry for them is written once, and again after it was removed.
func TestWhatIsKnownIsNotPutAgain(t *testing.T) {
	s := &watched{Store: storetest.NewMem()}
	x := newShelf(t, s)
	puts := func(kind, ref string) (n int) {
		t.Helper()
		for _, op := range s.ops {
			if op.Kind == kind && strings.HasPrefix(op.Key, ref+"/") && !op.Delete {
				n++
			}
		}
		return n
	}
	keep := func(ref string) {
		t.Helper()
		if err := x.m.Emit(t.Context(), "sess_a", event.ByLoop, func(tx *session.Tx) error {
			tx.Emit(event.Event{Type: event.TypeArtifactChanged, Scope: event.Scope{ArtifactID: "artifact_1"}, Payload: &event.ArtifactChanged{Change: "created", ReadRef: ref}})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	out := x.spill("sess_a", "out")
	x.spill("sess_a", "out")
	if n := puts("ref", out); n != 1 {
		t.Errorf("the right to read what is stored twice is put %d times, not once", n)
	}
	x.pass(10 * day)
	x.sweep(5)
	if _, err := x.read(out); err == nil {
		t.Error("an output that expired can be read")
	}
	x.spill("sess_a", "out")
	if got, err := x.read(out); got != "out" || err != nil {
		t.Errorf("what was stored again after it expired: %q, %v", got, err)
	}
	kept := x.spill("sess_a", "kept")
	keep(kept)
	keep(kept)
	if n := puts("ref_kept", kept); n != 1 {
		t.Errorf("that content is needed is put %d times, not once", n)
	}
	// Others that come between don't push out for good what comes again.
	for i := range 100 {
		keep(x.spill("sess_a", fmt.Sprint("other ", i)))
	}
	keep(kept)
	x.submit(command.SubmitTurn{SessionID: "sess_b", Create: true})
	x.spill("sess_b", "kept")
	if n := puts("ref_kept", kept); n != 2 {
		t.Errorf("that content is needed is put %d times after many others, not twice", n)
	}
	x.reopen(func(o *session.Options) { o.Clock = x.time })
	keep(kept) // it is put again, but isn't said to be fresh
	if n := puts("ref_kept", kept); n != 3 {
		t.Errorf("that content is needed is put %d times with a restart, not three times", n)
	}
	for _, kind := range []string{"turn", "task", "open", "session", "ref", "ref_kept"} {
		if !slices.ContainsFunc(s.ops, func(op store.IndexOp) bool { return op.Kind == kind && op.Fresh }) {
			t.Errorf("no entry of the kind %s is said to be fresh", kind)
		}
	}
	x.pass(10 * day)
	x.sweep(5)
	if !x.stored(kept) {
		t.Error("what a fact refers to is gone")
	}
	x.verified()
}
