package session_test

import (
	"context"
	"sync/atomic"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/store"
	"agentd/store/storetest"
)

// adopting is a node that adopts one session, and is told of nothing that others write.
type adopting struct {
	sharedMem
	id string
}

func (a adopting) Adopt(ctx context.Context, _ *store.Adoption, _ int) ([]string, error) {
	_, err := a.Claim(ctx, a.id)
	return []string{a.id}, err
}

// TestAdoptedSessionIsLoadedAnew: a node adopts a session that it had before and still has in
// memory, and sees what another node wrote in between also if no hint of that came. A look that
// finds nothing to do writes nothing, and so isn't fenced.
func TestAdoptedSessionIsLoadedAnew(t *testing.T) {
	const id = "sess_back"
	mem := storetest.NewMem()
	other := mem.Node()
	open := func(s store.Store) *session.Manager {
		m := session.New(session.Options{Store: s, RuntimeID: "runtime_test"})
		t.Cleanup(func() { _ = m.Close(context.Background()) })
		return m
	}
	node := func(s *storetest.Mem, name string) adopting {
		return adopting{sharedMem{Mem: s, node: name, reads: &atomic.Int64{}}, id}
	}
	here, there := open(node(mem, "self")), open(node(other, "other"))
	if _, err := runCommand(here, admin, &command.CreateSession{SessionID: id}); err != nil {
		t.Fatal(err)
	}
	mem.Expire() // as the clock of a database that jumps does
	if _, err := runCommand(there, admin, &command.SubmitTurn{SessionID: id, Input: event.Raw(`"do it"`)}); err != nil {
		t.Fatal(err)
	}
	other.Expire()
	if ids, err := here.Adopt(t.Context(), 8); err != nil || len(ids) != 1 {
		t.Fatalf("adopted %v, %v", ids, err)
	}
	waits := false
	if err := here.Emit(t.Context(), id, event.ByLoop, func(tx *session.Tx) error {
		waits = tx.State.HasOpenWork()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !waits {
		t.Error("the node that took the session over doesn't see the turn that waits in it")
	}
}
