package loop_test

import (
	"context"
	"encoding/json"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/state"
	"agentd/telemetry"
)

// silent gives no answer to a conversation with a word in it, until it goes on.
type silent struct {
	model.Provider
	word   string
	goesOn atomic.Bool
	asked  chan struct{}
}

func silentAt(word string) *silent { return &silent{word: word, asked: make(chan struct{}, 10)} }

func (s *silent) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	if s.goesOn.Load() || !strings.Contains(runtimetest.Conversation(r), s.word) {
		return s.Provider.Stream(ctx, r)
	}
	return func(yield func(model.Chunk, error) bool) {
		s.asked <- struct{}{}
		<-ctx.Done()
		yield(model.Chunk{}, ctx.Err())
	}
}

// wrapProvider puts it in front of the kit's own provider.
func (s *silent) wrapProvider(o *agentd.Options) {
	s.Provider = o.Provider
	o.Provider = s
}

// newMortal returns a kit whose runtime can die: dies has it do so, without a word.
func newMortal(t *testing.T, change func(*agentd.Options), answers ...script.Answer) (k *runtimetest.Kit, dies func()) {
	t.Helper()
	var d *runtimetest.DyingStore
	k = runtimetest.NewWith(t, func(o *agentd.Options) {
		d = &runtimetest.DyingStore{}
		runtimetest.AllOf(change, runtimetest.OnDyingStore(d))(o)
	}, answers...)
	return k, func() {
		t.Helper()
		k.Crash(d)
	}
}

// silence waits until the model is asked in a run that is none of the given ones,
// and returns the run.
func (s *silent) silence(k *runtimetest.Kit, but ...string) string {
	k.Helper()
	run := k.WaitFor("sess_a", func(e *event.Event) bool {
		return e.Type == event.TypeModelRequested && !slices.Contains(but, e.RunID)
	}).RunID
	<-s.asked
	return run
}

// recovered holds the facts against the rule for attempts and returns how many
// attempts crashes made.
func recovered(k *runtimetest.Kit) int {
	k.Helper()
	return (&crashCase{T: k.T}).verifyAttempts(k.Facts("sess_a"))
}

// attempts returns the attempts of a task as get_task shows them, in words.
func attempts(k *runtimetest.Kit, taskID string) (words, runs []string) {
	k.Helper()
	for _, a := range runtimetest.Do[state.Task](k, &command.GetTask{TaskID: taskID}).Attempts {
		why := ""
		if a.LastError != nil {
			why = " " + a.LastError.Category
		}
		words, runs = append(words, a.Reason+" "+a.Status+why), append(runs, a.RunID)
	}
	return words, runs
}

// runOf returns the run that a thread's newest turn is shown in.
func runOf(k *runtimetest.Kit, r *command.SubmitTurnResult) string {
	k.Helper()
	turns := k.Thread(r).Turns
	return turns[len(turns)-1].RunID
}

// TestACrashBeginsAnotherAttempt: a turn that was cut off twice has three attempts,
// and all that is told of it agrees about them.
func TestACrashBeginsAnotherAttempt(t *testing.T) {
	s := silentAt("go")
	k, dies := newMortal(t, s.wrapProvider, runtimetest.Says("done"))
	submit := &command.SubmitTurn{SessionID: "sess_a", Create: true, TurnID: "turn_1", Input: runtimetest.Quoted("go")}
	r := runtimetest.Do[command.SubmitTurnResult](k, submit)
	if run := s.silence(k); run != r.RunID {
		t.Fatalf("run %s, told %s", run, r.RunID)
	}
	dies()
	k.Open()
	second := s.silence(k, r.RunID)
	words, runs := attempts(k, r.TaskID)
	if want := []string{"first unknown lost", "crash_recovery running"}; !reflect.DeepEqual(words, want) || !reflect.DeepEqual(runs, []string{r.RunID, second}) {
		t.Errorf("after one crash: %q %q", words, runs)
	}
	if run, task := runOf(k, r), runtimetest.Do[state.Task](k, &command.GetTask{TaskID: r.TaskID}); run != second || task.CurrentRunID != second || task.Status != state.TaskRunning {
		t.Errorf("the turn is shown in run %s, its task %s in %s", run, task.Status, task.CurrentRunID)
	}
	dies()
	s.goesOn.Store(true)
	k.Open()
	k.Completes(r)
	words, runs = attempts(k, r.TaskID)
	if want := []string{"first unknown lost", "crash_recovery unknown lost", "crash_recovery completed"}; !reflect.DeepEqual(words, want) || runs[0] != r.RunID || runs[1] != second {
		t.Errorf("at the end: %q %q", words, runs)
	}
	if n := recovered(k); n != 2 {
		t.Errorf("two crashes made %d attempts", n)
	}
	if again := runtimetest.Do[command.SubmitTurnResult](k, submit); !reflect.DeepEqual(again, r) {
		t.Errorf("the submission again: %+v, at first %+v", again, r)
	}
	if run := runOf(k, r); run != runs[2] {
		t.Errorf("the turn is shown in run %s", run)
	}
	k.ExpectStatements(k.Why(&command.Explain{SessionID: "sess_a", TaskID: r.TaskID}), "task.attempt.failed", "", "task.attempt.started", "", "task.attempt.completed", "")
	k.Why(&command.Explain{SessionID: "sess_a", TurnID: r.TurnID})
	exportsRuns(k, r, runs)
	showsRuns(k, runs)
}

// exportsRuns holds that the evidence of a turn's task names its runs.
func exportsRuns(k *runtimetest.Kit, r *command.SubmitTurnResult, runs []string) {
	k.Helper()
	scope := command.ExportScope{SessionID: r.SessionID, TaskID: r.TaskID}
	var pack struct {
		RuntimeCorrelation struct{ RunIDs []string }
		Turns              []struct{ TurnID, RunID, Status string }
	}
	if err := json.Unmarshal([]byte(k.ReadOutput(runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: scope}).Ref)), &pack); err != nil {
		k.Fatal(err)
	}
	if !reflect.DeepEqual(pack.RuntimeCorrelation.RunIDs, runs) {
		k.Errorf("the pack is about %+v", pack.RuntimeCorrelation)
	}
	if len(pack.Turns) != 1 || pack.Turns[0].RunID != runs[len(runs)-1] || pack.Turns[0].Status != "completed" {
		k.Errorf("the pack's turns: %+v", pack.Turns)
	}
	if review := k.ReadOutput(runtimetest.Do[command.ExportResult](k, &command.ExportReview{ExportScope: scope}).Ref); !strings.Contains(review, r.TurnID) {
		k.Errorf("the review says nothing of the turn: %s", review)
	}
}

// showsRuns holds that each run is a span of its own under the turn, and that each
// call is below the run that made it.
func showsRuns(k *runtimetest.Kit, runs []string) {
	k.Helper()
	var got []string
	turn, calls, span := "", map[string]int{}, map[string]string{}
	p := telemetry.New("sess_a")
	for _, e := range k.Facts("sess_a") {
		for _, s := range p.Apply(e).Spans {
			run, _ := s.Get(telemetry.AttrRunID).(string)
			switch {
			case s.Name == telemetry.OpTaskRun:
				got, span[s.SpanID] = append(got, run), run
				if turn == "" {
					turn = s.ParentID
				}
				if s.ParentID != turn || s.Failed != (run != runs[len(runs)-1]) {
					k.Errorf("run %s: %+v", run, s)
				}
			case strings.HasPrefix(s.Name, "chat"):
				calls[s.ParentID]++
			}
		}
	}
	if !reflect.DeepEqual(got, runs) || p.Open() != 0 {
		k.Errorf("spans of runs %q, want %q; %d are open", got, runs, p.Open())
	}
	for parent, n := range calls {
		if n != 1 || span[parent] == "" {
			k.Errorf("%d calls below %q", n, span[parent])
		}
	}
}

// TestACrashThatCutsNothingOff makes no attempt: the turn waited for an answer.
func TestACrashThatCutsNothingOff(t *testing.T) {
	k, dies := newMortal(t, runtimetest.InMode("default"), runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "a"}), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	id, _ := k.WaitForAction("sess_a", 1)
	dies()
	k.Open()
	k.Respond(id, "allow")
	k.Completes(r)
	oneRun(k, r.TaskID, r.RunID, "first completed")
}

// TestAStopMakesNoAttempt: a runtime that is stopped says itself what it gives up,
// and nothing is lost.
func TestAStopMakesNoAttempt(t *testing.T) {
	s := silentAt("go")
	k := runtimetest.NewWith(t, s.wrapProvider, runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	s.silence(k)
	k.Close()
	s.goesOn.Store(true)
	k.Open()
	k.Completes(r)
	if n := k.CountFacts("sess_a", event.TypeModelFailed); n != 1 {
		t.Errorf("%d calls were given up: the test shows nothing", n)
	}
	oneRun(k, r.TaskID, r.RunID, "first completed")
}

// oneRun holds that a task has one attempt, and the facts none that a crash made.
func oneRun(k *runtimetest.Kit, taskID, run, want string) {
	k.Helper()
	if words, runs := attempts(k, taskID); len(words) != 1 || words[0] != want || runs[0] != run {
		k.Errorf("%q %q, want %s in run %s", words, runs, want, run)
	}
	for _, p := range runtimetest.Payloads[*event.TaskAttemptStarted](k, "sess_a") {
		if p.Reason == state.AttemptAfterCrash {
			k.Errorf("%+v", p)
		}
	}
}

// TestACrashOfATurnThatIsToEnd makes no attempt either: the turn is cancelled in the
// run that it is in.
func TestACrashOfATurnThatIsToEnd(t *testing.T) {
	s, d := silentAt("go"), &runtimetest.DyingStore{}
	k := runtimetest.NewWith(t, runtimetest.AllOf(s.wrapProvider, runtimetest.OnDyingStore(d)), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	s.silence(k)
	d.DieAfterNext() // the wish is durable, and nothing after it
	if res, err := k.Runtime.Do(context.Background(), command.Local(), &command.InterruptTurn{SessionID: "sess_a", TurnID: r.TurnID}); err == nil {
		t.Fatalf("the runtime lives: %+v", res)
	}
	k.Crash(d)
	k.Change = nil
	k.Open()
	k.Fails(r, "interrupted")
	oneRun(k, r.TaskID, r.RunID, "first cancelled interrupted")
	if n := k.CountFacts("sess_a", event.TypeModelFailed); n != 1 {
		t.Errorf("%d calls were cut off: the test shows nothing", n)
	}
}

// TestACrashOfAScheduledTask: the turn goes on in another run, and the task that it
// belongs to has both.
func TestACrashOfAScheduledTask(t *testing.T) {
	s := silentAt("paint")
	k, dies := newMortal(t, s.wrapProvider, runtimetest.Says("done"))
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	runtimetest.Do[command.TaskResult](k, &command.CreateTask{TaskID: "task_a", SessionID: "sess_a", Objective: "paint", Start: true})
	run := s.silence(k)
	dies()
	s.goesOn.Store(true)
	k.Open()
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeTaskCompleted, ""))
	words, runs := attempts(k, "task_a")
	if want := []string{"first unknown lost", "crash_recovery completed"}; !reflect.DeepEqual(words, want) || runs[0] != run {
		t.Errorf("%q %q, want %q, the first in run %s", words, runs, want, run)
	}
	if n := k.CountFacts("sess_a", event.TypeModelFailed); n != 1 {
		t.Errorf("%d calls were cut off: the test shows nothing", n)
	}
}

// TestACrashOfASubagent: the child's turn was cut off, that of its parent wasn't.
func TestACrashOfASubagent(t *testing.T) {
	s := silentAt("look")
	k, dies := newMortal(t, runtimetest.AllOf(runtimetest.InMode("bypass"), s.wrapProvider),
		script.Answer{When: &script.When{Contains: "look"}, Text: "seen"}, runtimetest.CallsTool("spawn_agent", map[string]any{"role": "reviewer", "input": "look"}), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	child := s.silence(k, r.RunID)
	dies()
	s.goesOn.Store(true)
	k.Open()
	k.Completes(r)
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeSubagentCompleted, ""))
	if n := recovered(k); n != 1 {
		t.Errorf("%d attempts", n)
	}
	if words, _ := attempts(k, r.TaskID); len(words) != 1 {
		t.Errorf("the parent's: %q", words)
	}
	for _, e := range k.Facts("sess_a") {
		if p, ok := e.Payload.(*event.TaskAttemptFailed); ok && e.RunID != child {
			t.Errorf("run %s ended: %+v; the child's was %s", e.RunID, p, child)
		}
	}
}

// TestAChildGoesOnWithItsThread: what blocks the thread of a child, and what lets it go
// on, is told of the child too, whichever command was used.
func TestAChildGoesOnWithItsThread(t *testing.T) {
	s := silentAt("look")
	k, dies := newMortal(t, runtimetest.AllOf(runtimetest.InMode("bypass"), s.wrapProvider, func(o *agentd.Options) { o.Recovery = "manual" }),
		script.Answer{When: &script.When{Contains: "look"}, Text: "seen"}, runtimetest.CallsTool("spawn_agent", map[string]any{"role": "reviewer", "input": "look"}), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	run := s.silence(k, r.RunID)
	dies()
	k.Open()
	stands := func(status string) *event.Event {
		t.Helper()
		return k.WaitFor("sess_a", func(e *event.Event) bool {
			p, ok := e.Payload.(*event.SubagentStatus)
			return ok && p.Status == status && e.RunID != run
		})
	}
	child := stands("blocked")
	queued := runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", ThreadID: child.ThreadID, Input: runtimetest.Quoted("later")})
	runtimetest.Do[command.QueueResult](k, &command.RemoveQueuedTurn{SessionID: "sess_a", TurnID: queued.TurnID})
	runtimetest.Do[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_a", ThreadID: child.ThreadID})
	s.silence(k, r.RunID, run)
	for _, e := range k.Facts("sess_a") {
		if e.ThreadID == child.ThreadID && e.SubagentID != child.SubagentID {
			t.Errorf("%s is of the child's thread and names the child %q", e.Type, e.SubagentID)
		}
	}
	if t.Failed() {
		return
	}
	if e := stands("running"); e.Sequence < child.Sequence {
		t.Errorf("the child is said to run at %d and to be blocked at %d", e.Sequence, child.Sequence)
	}
}
