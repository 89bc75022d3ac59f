package work_test

import (
	"context"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/loop"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/tool"
	"agentd/work"
)

// stage is the session layer, the loop and the scheduler of work over a store in
// memory whose events are checked against the schemas.
type stage struct {
	testing.TB
	store  store.Store
	script *script.Script
	mode   string
	limits work.Limits
	price  *model.Price
	clock  func() time.Time
	// patience is how long a fact is waited for, so that a broken test ends.
	patience time.Duration

	m        *session.Manager
	l        *loop.Loop
	w        *work.Work
	commands *command.Table
}

// tee passes facts on to the loop and to the scheduler.
type tee struct {
	l *loop.Loop
	w *work.Work
}

func (t tee) Committed(sessionID string, facts []event.Event) {
	t.l.Committed(sessionID, facts)
	t.w.Committed(sessionID, facts)
}

func newStage(t testing.TB, answers ...script.Answer) *stage {
	t.Helper()
	return newStageAt(t, nil, answers...)
}

// newStageAt is newStage with a clock.
func newStageAt(t testing.TB, clock func() time.Time, answers ...script.Answer) *stage {
	t.Helper()
	k := &stage{TB: t, store: storetest.Strict(t, storetest.NewMem()), script: &script.Script{Answers: answers}, mode: "bypass", clock: clock}
	k.open()
	t.Cleanup(k.close)
	return k
}

func (k *stage) open() {
	k.Helper()
	var err error
	if k.l, err = loop.New(k.loopOptions()); err != nil {
		k.Fatal(err)
	}
	k.w = work.New(work.Options{Limits: k.limits, Narrow: k.l.Narrow, Clock: k.clock, CheckOutput: tool.ValidateOutput, Do: func(ctx context.Context, c command.Caller, p command.Params) (any, error) {
		return k.commands.Do(ctx, c, p)
	}})
	k.m = session.New(session.Options{
		Store: k.store, RuntimeID: "runtime_test", Observer: tee{k.l, k.w}, CheckTurn: k.l.CheckTurn, Clock: k.clock,
	})
	k.commands = commandsOf(k.m, k.l, k.w, nil)
	ctx := context.Background()
	if err := k.l.Start(ctx, k.m); err != nil {
		k.Fatal(err)
	}
	k.w.Start(k.m)
	open, err := k.m.Open(ctx)
	if err != nil {
		k.Fatal(err)
	}
	if err := k.l.Recover(ctx, open); err != nil {
		k.Fatal(err)
	}
	for _, id := range open {
		if err := k.w.Recover(ctx, id); err != nil {
			k.Fatal(err)
		}
	}
}

// loopOptions say how the turns of a stage run.
func (k *stage) loopOptions() loop.Options {
	info := model.Info{
		Provider: "script", Model: "test", HasCredential: true,
		Capabilities: []string{model.CapTools, model.CapStreaming}, Price: k.price,
	}
	return loop.Options{
		Store: k.store, Models: []model.Info{info}, Providers: []model.Provider{script.New("script", k.script)}, DefaultModel: "script/test",
		Host: loop.HostPolicy{Mode: k.mode}, Subagents: true, Workspace: k.TempDir(),
	}
}

// stop ends all parts, as the end of a process does in good order.
func (k *stage) stop() {
	k.Helper()
	k.w.Close()
	if err := k.l.Close(context.Background()); err != nil {
		k.Error(err)
	}
	if err := k.m.Close(context.Background()); err != nil {
		k.Error(err)
	}
}

func (k *stage) restart() {
	k.Helper()
	k.stop()
	k.open()
}

func (k *stage) close() {
	k.Helper()
	k.stop()
	report, err := session.Verify(context.Background(), k.store, session.VerifyOptions{})
	if err != nil {
		k.Error(err)
	}
	for _, p := range report.Problems {
		k.Error(p)
	}
	runtimetest.DecideAgain(k, k.loopOptions().Store)
}

func (k *stage) runCommand(c command.Caller, p command.Params) (any, error) {
	return k.commands.Do(context.Background(), c, p)
}

// must carries out a command that succeeds.
func must[R any](k *stage, p command.Params) *R {
	k.Helper()
	res, err := k.runCommand(command.Local(), p)
	if err != nil {
		k.Fatalf("%s: %v", p.Command(), err)
	}
	return res.(*R)
}

// refused carries out a command that fails with that kind.
func (k *stage) refused(kind fault.Kind, p command.Params) string {
	k.Helper()
	_, err := k.runCommand(command.Local(), p)
	if err == nil || fault.KindOf(err) != kind {
		k.Errorf("%s %+v: got %v, want %s", p.Command(), p, err, kind)
		return ""
	}
	return err.Error()
}

// refusedAs carries out a command, while nothing else happens, that fails with
// that kind and leaves no fact.
func (k *stage) refusedAs(c command.Caller, kind fault.Kind, p command.Params) string {
	k.Helper()
	before := k.facts()
	_, err := k.runCommand(c, p)
	if err == nil || fault.KindOf(err) != kind {
		k.Errorf("%s %+v: got %v, want %s", p.Command(), p, err, kind)
		return ""
	}
	if after := k.facts(); after != before {
		k.Errorf("%s was refused and left %d facts", p.Command(), after-before)
	}
	return err.Error()
}

// facts counts the facts of all sessions.
func (k *stage) facts() (n uint64) {
	k.Helper()
	for id, err := range k.store.Sessions(context.Background(), "") {
		if err != nil {
			k.Fatal(err)
		}
		head, err := k.store.Head(context.Background(), id)
		if err != nil {
			k.Fatal(err)
		}
		n += head.Sequence
	}
	return n
}

// until follows a session to the first event that the condition accepts.
func (k *stage) until(sessionID string, ok func(*event.Event) bool) *event.Event {
	k.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), max(k.patience, 10*time.Minute))
	defer cancel()
	sub, err := k.m.Subscribe(ctx, sessionID, 0)
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
			e, err := event.Decode(rec.Data)
			if err != nil {
				k.Fatal(err)
			}
			if ok(e) {
				return e
			}
		}
	}
}

func (k *stage) events(sessionID string) []*event.Event {
	k.Helper()
	return storetest.Facts(k, k.store, sessionID)
}

func (k *stage) view(sessionID string, f func(*state.Session)) {
	k.Helper()
	if err := k.m.View(context.Background(), sessionID, func(s *state.Session) error {
		f(s)
		return nil
	}); err != nil {
		k.Fatal(err)
	}
}

func ofType(t event.Type) func(*event.Event) bool {
	return func(e *event.Event) bool { return e.Type == t }
}

func ofChild(t event.Type, id string) func(*event.Event) bool {
	return func(e *event.Event) bool { return e.Type == t && e.SubagentID == id }
}

// session makes a session and returns its main thread.
func (k *stage) session(id string) string {
	k.Helper()
	return must[command.CreateSessionResult](k, &command.CreateSession{SessionID: id}).ThreadID
}

func (k *stage) spawn(p command.SpawnSubagent) *command.SpawnSubagentResult {
	k.Helper()
	if p.Input == nil {
		p.Input = command.Text("hello")
	}
	return must[command.SpawnSubagentResult](k, &p)
}

func (k *stage) submit(sessionID, text string) *command.SubmitTurnResult {
	k.Helper()
	return must[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: sessionID, Create: true, Input: command.Text(text)})
}

func (k *stage) wait(ids ...string) *command.WaitSubagentsResult {
	k.Helper()
	return must[command.WaitSubagentsResult](k, &command.WaitSubagents{SubagentIDs: ids, TimeoutMs: 600_000})
}

func when(contains string, a script.Answer) script.Answer {
	a.When = &script.When{Contains: contains}
	return a
}

// spawns is an answer that calls spawn_agent.
func spawns(args map[string]any) script.Answer {
	return script.Answer{Tools: []script.Tool{{Name: "spawn_agent", Arguments: args}}}
}
