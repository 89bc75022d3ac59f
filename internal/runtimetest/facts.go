package runtimetest

import (
	"context"
	"io"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

// WaitFor follows a session to the first event that the condition accepts.
func (k *Kit) WaitFor(sessionID string, ok func(*event.Event) bool) *event.Event {
	k.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	oldest, err := k.Runtime.Port().Oldest(ctx, command.Local(), sessionID)
	if err != nil {
		k.Fatal(err)
	}
	sub, err := k.Runtime.Subscribe(ctx, command.Local(), sessionID, oldest-1)
	if err != nil {
		k.Fatal(err)
	}
	defer sub.Close()
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			k.Fatalf("waiting in session %s: %v", sessionID, err)
		}
		for _, rec := range records {
			e, err := store.DecodeFact(ctx, k.Store, rec.Data)
			if err != nil {
				k.Fatal(err)
			}
			if ok(e) {
				return e
			}
		}
	}
}

// FactIs returns the condition that a fact has a type and belongs to a turn, to any if
// turnID is empty.
func FactIs(t event.Type, turnID string) func(*event.Event) bool {
	return func(e *event.Event) bool { return e.Type == t && (turnID == "" || e.TurnID == turnID) }
}

// FactTypes returns the types of a turn's facts, in order.
func (k *Kit) FactTypes(sessionID, turnID string) []event.Type {
	k.Helper()
	var out []event.Type
	for rec, err := range k.Store.Read(context.Background(), sessionID, store.Range{}) {
		if err != nil {
			k.Fatal(err)
		}
		e, err := store.DecodeFact(context.Background(), k.Store, rec.Data)
		if err != nil {
			k.Fatal(err)
		}
		if e.TurnID == turnID {
			out = append(out, e.Type)
		}
	}
	return out
}

// WaitForEnd waits for the end of a turn, and of its task.
func (k *Kit) WaitForEnd(sessionID, turnID string) *event.Event {
	k.Helper()
	var last *event.Event
	k.WaitFor(sessionID, func(e *event.Event) bool {
		if e.TurnID == turnID && (e.Type == event.TypeTurnCompleted || e.Type == event.TypeTurnFailed) {
			last = e
		}
		return last != nil && e.TurnID == turnID &&
			(e.Type == event.TypeTaskCompleted || e.Type == event.TypeTaskFailed || e.Type == event.TypeTaskCancelled || e.Type == event.TypeTaskTimedOut)
	})
	return last
}

// Completes waits for a turn that must end well.
func (k *Kit) Completes(r *command.SubmitTurnResult) *event.TurnCompleted {
	k.Helper()
	e := k.WaitForEnd(r.SessionID, r.TurnID)
	p, ok := e.Payload.(*event.TurnCompleted)
	if !ok {
		k.Fatalf("the turn failed: %+v, %+v", e.Payload, e.Payload.(*event.TurnFailed).Error)
	}
	return p
}

// Fails waits for a turn that must fail with a category.
func (k *Kit) Fails(r *command.SubmitTurnResult, category string) *event.TurnFailed {
	k.Helper()
	e := k.WaitForEnd(r.SessionID, r.TurnID)
	p, ok := e.Payload.(*event.TurnFailed)
	if !ok || p.FailureCategory != category {
		k.Fatalf("the turn ended with %+v, want %s", e.Payload, category)
	}
	return p
}

// Facts returns the session's facts.
func (k *Kit) Facts(sessionID string) []*event.Event {
	k.Helper()
	return FactsOf(k, k.Store, sessionID)
}

// FactsOf returns the facts of a session in any store.
func FactsOf(tb testing.TB, s store.Store, sessionID string) []*event.Event {
	tb.Helper()
	return storetest.Facts(tb, s, sessionID)
}

// Payloads returns the payloads of one kind, in order.
func Payloads[P event.Payload](k *Kit, sessionID string) []P {
	k.Helper()
	var out []P
	for _, e := range k.Facts(sessionID) {
		if p, ok := e.Payload.(P); ok {
			out = append(out, p)
		}
	}
	return out
}

// CountFacts counts the facts of a type.
func (k *Kit) CountFacts(sessionID string, typ event.Type) int {
	k.Helper()
	n := 0
	for _, e := range k.Facts(sessionID) {
		if e.Type == typ {
			n++
		}
	}
	return n
}

// WaitForAction waits for the n-th action of a session, from 1.
func (k *Kit) WaitForAction(sessionID string, n int) (string, *event.ActionRequired) {
	k.Helper()
	e := k.WaitFor(sessionID, func(e *event.Event) bool {
		if e.Type == event.TypeActionRequired {
			n--
		}
		return n == 0
	})
	return e.ActionID, e.Payload.(*event.ActionRequired)
}

// Thread returns the read model of a turn's thread.
func (k *Kit) Thread(r *command.SubmitTurnResult) *state.ThreadReadModel {
	k.Helper()
	return Do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: r.SessionID, ThreadID: r.ThreadID})
}

// ReadOutput reads what is behind a reference.
func (k *Kit) ReadOutput(ref string) string {
	k.Helper()
	b, _, err := k.Runtime.Output(context.Background(), command.Local(), ref)
	if err != nil {
		k.Fatal(err)
	}
	defer b.Close()
	all, err := io.ReadAll(b)
	if err != nil {
		k.Fatal(err)
	}
	return string(all)
}

// InTime tries with a time limit, then with longer ones, until what must happen
// before the limit passes did: on a busy machine a short one passes too early. The
// try says whether it did.
func InTime(t *testing.T, limit time.Duration, try func(limit time.Duration) bool) {
	t.Helper()
	for ; limit < 5*time.Minute; limit *= 4 {
		if try(limit) {
			return
		}
	}
	t.Fatal("the limit passed too early, however long it was")
}
