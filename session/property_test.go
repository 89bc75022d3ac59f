package session_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"agentd/command"
	"agentd/event"
	"agentd/event/eventtest"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

// TestStateIsAReplayOfItsFacts drives sessions with random commands and random
// facts of every type, with restarts in between, and holds the state in memory
// against a fold from the first fact on.
func TestStateIsAReplayOfItsFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, store: storetest.NewMem()}
		w.start()
		defer w.stop()
		t.Repeat(map[string]func(*rapid.T){
			"submit":    w.submit,
			"interrupt": w.interrupt,
			"queue":     w.queue,
			"answer":    w.answer,
			"fact":      w.appendRandomFact,
			"restart":   func(*rapid.T) { w.stop(); w.start() },
			"":          w.check,
		})
		report, err := session.Verify(context.Background(), w.store, session.VerifyOptions{})
		if err != nil || len(report.Problems) > 0 {
			t.Fatalf("%v %v", err, report.Problems)
		}
	})
}

const worldSession = "sess_world"

// world is a session and what random steps need to know of it.
type world struct {
	*rapid.T
	store *storetest.Mem
	m     *session.Manager
}

func (w *world) start() {
	w.m = session.New(session.Options{Store: w.store, RuntimeID: "runtime_world", SnapshotEvery: 5, MaxQueue: 5, InlineBytes: 40})
}

func (w *world) stop() {
	if err := w.m.Close(context.Background()); err != nil {
		w.Fatal(err)
	}
}

// runCommand carries out a command that may be refused, but not for a defect.
func (w *world) runCommand(t *rapid.T, p command.Params) {
	if _, err := runCommand(w.m, command.Local(), p); fault.KindOf(err) == fault.Internal && err != nil {
		t.Fatalf("%s: %v", p.Command(), err)
	}
}

// known draws an id that the session knows, or one that it doesn't.
func (w *world) known(t *rapid.T, label string, ids func(*state.Session) []string) string {
	list := []string{"x_unknown"}
	err := w.m.View(context.Background(), worldSession, func(s *state.Session) error {
		list = append(list, ids(s)...)
		return nil
	})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		t.Fatal(err)
	}
	return rapid.SampledFrom(list).Draw(t, label)
}

func turnIDs(s *state.Session) []string {
	var out []string
	for _, th := range s.Threads {
		for _, turn := range append(th.Queue, th.Recent...) {
			out = append(out, turn.TurnID)
		}
		if th.Active != nil {
			out = append(out, th.Active.TurnID)
		}
	}
	return out
}

func threadIDs(s *state.Session) []string {
	var out []string
	for _, th := range s.Threads {
		out = append(out, th.ThreadID)
	}
	return out
}

func actionIDs(s *state.Session) []string {
	var out []string
	for _, a := range append(s.Actions.Pending, s.Actions.Recent...) {
		out = append(out, a.ActionID)
	}
	return out
}

func (w *world) submit(t *rapid.T) {
	p := &command.SubmitTurn{
		SessionID: worldSession, Create: true, Input: event.Raw(fmt.Sprintf("%q", rapid.StringN(1, 60, -1).Draw(t, "input"))),
		Options: &event.TurnOptions{QueuePolicy: rapid.SampledFrom([]string{"", "queue", "reject", "interrupt", "steer"}).Draw(t, "policy")},
	}
	if rapid.Bool().Draw(t, "own id") {
		p.TurnID = fmt.Sprintf("turn_%d", rapid.IntRange(0, 9).Draw(t, "turn"))
	}
	w.runCommand(t, p)
}

func (w *world) interrupt(t *rapid.T) {
	w.runCommand(t, &command.InterruptTurn{
		SessionID: worldSession, TurnID: w.known(t, "turn", turnIDs), Queue: rapid.SampledFrom([]string{"keep", "clear"}).Draw(t, "queue"),
	})
}

func (w *world) queue(t *rapid.T) {
	id := w.known(t, "turn", turnIDs)
	if rapid.Bool().Draw(t, "remove") {
		w.runCommand(t, &command.RemoveQueuedTurn{SessionID: worldSession, TurnID: id})
	} else {
		w.runCommand(t, &command.PromoteQueuedTurn{SessionID: worldSession, TurnID: id, Position: rapid.Int64Range(0, 6).Draw(t, "position")})
	}
}

func (w *world) answer(t *rapid.T) {
	w.runCommand(t, &command.RespondAction{
		ActionID: w.known(t, "action", actionIDs), Decision: rapid.SampledFrom([]string{"allow", "deny", "submit", "cancel"}).Draw(t, "decision"),
	})
}

// appendRandomFact appends a random fact of a random type that is about something the
// session knows.
func (w *world) appendRandomFact(t *rapid.T) {
	e := *eventtest.Event(t, eventtest.Type().Draw(t, "type"))
	e.ThreadID, e.TurnID = w.known(t, "thread", threadIDs), w.known(t, "turn", turnIDs)
	if e.ActionID != "" {
		e.ActionID = w.known(t, "action", actionIDs)
	}
	d, _ := event.Lookup(e.Type)
	err := w.m.Emit(context.Background(), worldSession, d.By, func(tx *session.Tx) error {
		tx.Emit(e)
		return nil
	})
	// A fact may delete the session, or set a quota that is used up.
	if kind := fault.KindOf(err); err != nil && kind != fault.NotFound && kind != fault.RateLimited {
		t.Fatalf("%s: %v", e.Type, err)
	}
}

// check compares the state in memory with a fold of the stored facts.
func (w *world) check(t *rapid.T) {
	var live []byte
	err := w.m.View(context.Background(), worldSession, func(s *state.Session) error {
		live = s.Encode()
		return nil
	})
	if fault.KindOf(err) == fault.NotFound {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	fresh := state.New(worldSession)
	for rec, err := range w.store.Read(context.Background(), worldSession, store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fresh.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if want := fresh.Encode(); !bytes.Equal(want, live) {
		t.Fatalf("the state in memory is not what its facts fold to:\n%s\n%s", live, want)
	}
}
