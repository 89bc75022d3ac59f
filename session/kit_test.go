package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

// kit is a manager over a store in memory whose events are checked against the
// schemas.
type kit struct {
	*testing.T
	store store.Store
	m     *session.Manager
}

func newKit(t *testing.T, tune func(*session.Options)) *kit {
	t.Helper()
	return newKitOn(t, storetest.NewMem(), tune)
}

func newKitOn(t *testing.T, s store.Store, tune func(*session.Options)) *kit {
	t.Helper()
	k := &kit{T: t, store: storetest.Strict(t, s)}
	opt := session.Options{Store: k.store, RuntimeID: "runtime_test"}
	if tune != nil {
		tune(&opt)
	}
	k.m = session.New(opt)
	t.Cleanup(func() { k.closeManager() })
	return k
}

func (k *kit) closeManager() {
	k.Helper()
	if err := k.m.Close(context.Background()); err != nil {
		k.Error(err)
	}
}

// reopen is a restart: a new manager over the same store.
func (k *kit) reopen(tune func(*session.Options)) {
	k.Helper()
	k.closeManager()
	opt := session.Options{Store: k.store, RuntimeID: "runtime_test"}
	if tune != nil {
		tune(&opt)
	}
	k.m = session.New(opt)
}

var admin = command.Local()

// runCommand carries out a command with the manager's own handlers.
func runCommand(m *session.Manager, c command.Caller, p command.Params) (any, error) {
	t := command.NewTable(command.TableOptions{Repeats: m})
	m.Register(t)
	return t.Do(context.Background(), c, p)
}

// call carries out a command that must succeed.
func call[R any](k *kit, p command.Params) *R {
	k.Helper()
	return callAs[R](k, admin, p)
}

func callAs[R any](k *kit, c command.Caller, p command.Params) *R {
	k.Helper()
	res, err := runCommand(k.m, c, p)
	if err != nil {
		k.Fatalf("%s: %v", p.Command(), err)
	}
	r, ok := res.(*R)
	if !ok {
		k.Fatalf("%s: the result is %T", p.Command(), res)
	}
	return r
}

// refused carries out a command that must fail with that kind.
func (k *kit) refused(c command.Caller, p command.Params, kind fault.Kind) {
	k.Helper()
	_ = k.refusal(c, p, kind)
}

// refusal carries out a command that must fail with that kind, and returns why.
func (k *kit) refusal(c command.Caller, p command.Params, kind fault.Kind) (why *fault.Error) {
	k.Helper()
	_, err := runCommand(k.m, c, p)
	if fault.KindOf(err) != kind || err == nil {
		k.Fatalf("%s: got %v, want a fault of kind %s", p.Command(), err, kind)
	}
	var f *fault.Error
	if !errors.As(err, &f) {
		k.Fatalf("%s: %v is not a fault", p.Command(), err)
	}
	return f
}

func (k *kit) submit(p command.SubmitTurn) *command.SubmitTurnResult {
	k.Helper()
	if p.Input == nil {
		p.Input = event.Raw(`"hello"`)
	}
	return call[command.SubmitTurnResult](k, &p)
}

// events returns a session's events, decoded.
func (k *kit) events(sessionID string) []*event.Event {
	k.Helper()
	return storetest.Facts(k, k.store, sessionID)
}

func (k *kit) types(sessionID string) []event.Type {
	k.Helper()
	var out []event.Type
	for _, e := range k.events(sessionID) {
		out = append(out, e.Type)
	}
	return out
}

func (k *kit) view(sessionID string, f func(*state.Session)) {
	k.Helper()
	if err := k.m.View(context.Background(), sessionID, func(s *state.Session) error {
		f(s)
		return nil
	}); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) emit(sessionID string, events ...event.Event) {
	k.Helper()
	if err := k.m.Emit(context.Background(), sessionID, event.ByLoop, func(tx *session.Tx) error {
		for _, e := range events {
			tx.Emit(e)
		}
		return nil
	}); err != nil {
		k.Fatal(err)
	}
}

// ask has the turn wait for an action and returns its id.
func (k *kit) ask(r *command.SubmitTurnResult, decisions ...string) string {
	k.Helper()
	id := k.m.NewID(event.PrefixAction)
	k.emit(r.SessionID, event.Event{
		Type:    event.TypeActionRequired,
		Scope:   event.Scope{ThreadID: r.ThreadID, TurnID: r.TurnID, TaskID: r.TaskID, ActionID: id},
		Payload: &event.ActionRequired{ActionType: "tool_permission", Prompt: "May I?", Decisions: decisions, ToolName: "shell"},
	})
	return id
}

// finish ends the running turn well.
func (k *kit) finish(r *command.SubmitTurnResult) {
	k.Helper()
	scope := event.Scope{ThreadID: r.ThreadID, TurnID: r.TurnID, TaskID: r.TaskID, RunID: r.RunID}
	k.emit(r.SessionID,
		event.Event{Type: event.TypeTurnStarted, Scope: scope, Payload: &event.TurnStarted{Status: "running"}},
		event.Event{Type: event.TypeTurnCompleted, Scope: scope, Payload: &event.TurnCompleted{Status: "completed", Outcome: "end_turn"}},
		event.Event{Type: event.TypeTaskCompleted, Scope: scope, Payload: &event.TaskCompleted{Status: "completed"}})
}

// verified fails the test unless the store is what its facts say.
func (k *kit) verified() {
	k.Helper()
	report, err := session.Verify(context.Background(), k.store, session.VerifyOptions{})
	if err != nil {
		k.Fatal(err)
	}
	for _, p := range report.Problems {
		k.Error(p)
	}
}

func (k *kit) json(v any) string {
	k.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		k.Fatal(err)
	}
	return string(b)
}

// within fails the test if a channel stays silent; the bound is only there so
// that a broken test ends.
func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(5 * time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}
