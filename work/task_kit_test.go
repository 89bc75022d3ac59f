package work_test

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// crew is the session layer, the loop and the scheduler of tasks over a store in
// memory. Its events are checked against the schemas unless it is told to be quick.
type crew struct {
	testing.TB
	store  store.Store
	script *script.Script
	limits work.Limits
	mode   string
	price  *model.Price
	opt    session.Options
	dir    string
	tools  *tool.Registry
	// dying says that the store may stop to take writes: what fails then is expected.
	dying bool
	// recovery and redact are the options of the same names.
	recovery string
	redact   func(event.Raw) event.Raw

	m        *session.Manager
	l        *loop.Loop
	w        *work.Work
	commands *command.Table
}

// commandsOf returns the commands of all parts. If redact isn't nil it takes secrets out
// of parameters, as the runtime does.
func commandsOf(m *session.Manager, l *loop.Loop, w *work.Work, redact func(event.Raw) event.Raw) *command.Table {
	opt := command.TableOptions{Repeats: m}
	if redact != nil {
		opt.Redact = func(p command.Params) (command.Params, error) {
			return command.Redact(p, command.Redactor{Text: func(s string) string { return string(redact(event.Raw(s))) }, JSON: redact})
		}
	}
	t := command.NewTable(opt)
	m.Register(t)
	l.Register(t)
	w.Register(t)
	return t
}

// each passes facts on to several observers.
type each []session.Observer

func (o each) Committed(sessionID string, facts []event.Event) {
	for _, x := range o {
		x.Committed(sessionID, facts)
	}
}

func newCrew(t testing.TB, answers ...script.Answer) *crew {
	t.Helper()
	return (&crew{TB: t, store: storetest.Strict(t, storetest.NewMem()), script: &script.Script{Answers: answers}}).started()
}

func (k *crew) started() *crew {
	k.Helper()
	if k.mode == "" {
		k.mode = "bypass"
	}
	if k.script == nil {
		k.script = &script.Script{}
	}
	k.open()
	k.Cleanup(func() {
		k.close()
		k.verified()
		runtimetest.DecideAgain(k, k.loopOptions().Store)
	})
	return k
}

// open starts everything and takes up what is there.
func (k *crew) open() {
	k.Helper()
	if k.dir == "" {
		k.dir = k.TempDir()
	}
	var err error
	if k.tools == nil { // compiling their schemas takes most of a start's time
		if k.tools, err = tool.NewRegistry(tool.Builtins(nil)...); err != nil {
			k.Fatal(err)
		}
	}
	if k.l, err = loop.New(k.loopOptions()); err != nil {
		k.Fatal(err)
	}
	k.w = work.New(work.Options{Limits: k.limits, Do: k.runCommand, CheckTurn: k.l.CheckTurn, Recovery: k.recovery, Redact: k.redact})
	opt := k.opt
	opt.Store, opt.RuntimeID, opt.Observer, opt.CheckTurn = k.store, "runtime_test", each{k.l, k.w}, k.l.CheckTurn
	if k.redact != nil {
		opt.Redact = k.redact
	}
	k.m = session.New(opt)
	k.commands = commandsOf(k.m, k.l, k.w, k.redact)
	ctx := context.Background()
	if err := k.l.Start(ctx, k.m); err != nil {
		k.Fatal(err)
	}
	k.w.Start(k.m)
	k.recover()
}

// loopOptions say how the turns of a crew run.
func (k *crew) loopOptions() loop.Options {
	return loop.Options{
		Store: k.store, Providers: []model.Provider{script.New("script", k.script)}, DefaultModel: "script/test",
		Models: []model.Info{{
			Provider: "script", Model: "test", HasCredential: true, Price: k.price, Capabilities: []string{model.CapTools, model.CapStreaming},
		}},
		Host: loop.HostPolicy{Mode: k.mode}, Workspace: k.dir, Tools: k.tools, Subagents: true, Recovery: k.recovery,
	}
}

func (k *crew) recover() {
	k.Helper()
	ctx := context.Background()
	ids, err := k.m.Open(ctx)
	if err == nil {
		err = k.l.Recover(ctx, ids)
	}
	for _, id := range ids {
		err = errors.Join(err, k.w.Recover(ctx, id))
	}
	if err != nil && !k.dying {
		k.Fatal(err)
	}
}

func (k *crew) close() {
	k.Helper()
	k.w.Close()
	if err := errors.Join(k.l.Close(context.Background()), k.m.Close(context.Background())); err != nil && !k.dying {
		k.Error(err)
	}
}

func (k *crew) restart() {
	k.Helper()
	k.close()
	k.open()
}

// verified fails the test unless the store is what its facts say.
func (k *crew) verified() {
	k.Helper()
	report, err := session.Verify(context.Background(), k.store, session.VerifyOptions{})
	if err != nil {
		k.Error(err)
		return
	}
	for _, p := range report.Problems {
		k.Error(p)
	}
}

func (k *crew) runCommand(ctx context.Context, caller command.Caller, p command.Params) (any, error) {
	return k.commands.Do(ctx, caller, p)
}

// ask carries out a command that must succeed.
func ask[R any](k *crew, p command.Params) *R {
	k.Helper()
	res, err := k.runCommand(context.Background(), command.Local(), p)
	if err != nil {
		k.Fatalf("%s: %v", p.Command(), err)
	}
	r, ok := res.(*R)
	if !ok {
		k.Fatalf("%s: the result is %T", p.Command(), res)
	}
	return r
}

// refuse carries out a command that must fail with a kind and say these words.
func (k *crew) refuse(kind fault.Kind, p command.Params, words ...string) {
	k.Helper()
	k.refuseTo(command.Local(), kind, p, words...)
}

func (k *crew) refuseTo(caller command.Caller, kind fault.Kind, p command.Params, words ...string) {
	k.Helper()
	res, err := k.runCommand(context.Background(), caller, p)
	if err == nil || fault.KindOf(err) != kind {
		k.Fatalf("%s: got %v, %v; want a fault of kind %s", p.Command(), res, err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			k.Errorf("%s: %q doesn't say %q", p.Command(), err, w)
		}
	}
}

func (k *crew) create(p command.CreateTask) *command.TaskResult {
	k.Helper()
	if p.Objective == "" {
		p.Objective = "count the files"
	}
	return ask[command.TaskResult](k, &p)
}

func (k *crew) start(taskID string) *command.TaskRunResult {
	k.Helper()
	return ask[command.TaskRunResult](k, &command.StartTask{TaskID: taskID})
}

func (k *crew) task(taskID string) *state.Task {
	k.Helper()
	return ask[state.Task](k, &command.GetTask{TaskID: taskID})
}

// await follows a task until it has one of these statuses.
func (k *crew) await(taskID string, statuses ...string) *state.Task {
	k.Helper()
	return k.awaitTask(taskID, strings.Join(statuses, " or "), func(t *state.Task) bool { return slices.Contains(statuses, t.Status) })
}

func (k *crew) awaitTask(taskID, what string, ok func(*state.Task) bool) *state.Task {
	k.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // so that a broken test ends, in a bubble at once
	defer cancel()
	sub, err := k.m.Subscribe(ctx, k.task(taskID).SessionID, 0)
	if err != nil {
		k.Fatal(err)
	}
	defer sub.Close()
	for {
		t := k.task(taskID)
		if ok(t) {
			return t
		}
		if _, err := sub.Next(ctx); err != nil {
			k.Fatalf("task %s is %s (%s) and never became %s: %v", taskID, t.Status, t.StatusReason, what, err)
		}
	}
}

// facts are the facts of a session, decoded.
func (k *crew) facts(sessionID string) []*event.Event {
	k.Helper()
	return storetest.Facts(k, k.store, sessionID)
}

// factTypesOf are the types of the facts about a task, without those of edges.
func (k *crew) factTypesOf(t *state.Task) []event.Type {
	k.Helper()
	var out []event.Type
	for _, e := range k.facts(t.SessionID) {
		if e.TaskID == t.TaskID && strings.HasPrefix(string(e.Type), "task.") && e.Type != event.TypeTaskDependencyUpdated && e.Type != event.TypeTaskProfileResolved {
			out = append(out, e.Type)
		}
	}
	return out
}

// sequences are the last sequences of all sessions: nothing changed if they are
// the same.
func (k *crew) sequences() map[string]uint64 {
	k.Helper()
	out := map[string]uint64{}
	for id, err := range k.store.Sessions(context.Background(), "") {
		if err != nil {
			k.Fatal(err)
		}
		if f := k.facts(id); len(f) > 0 {
			out[id] = f[len(f)-1].Sequence
		}
	}
	return out
}

func newCrewStore(t testing.TB) store.Store {
	t.Helper()
	return storetest.Strict(t, storetest.NewMem())
}
