package work_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/state"
	"agentd/store/storetest"
	"agentd/tool"
)

// The reference model: what the machine and the graph come to, without facts,
// sessions, turns or timers. The runtime's own tasks succeed at once, so they are
// never seen running.
type refTask struct {
	status    string
	external  bool
	parent    string
	deps      map[string]bool // → satisfied
	attempts  []string
	max       int
	open      bool // a criterion is
	heartbeat time.Duration
	heard     time.Time
	// lost is when the attempt before was given up, if that is why another begins.
	lost    time.Time
	claimed bool
	asked   bool // cancellation
	why     string
	was     string // before it was archived
}

func (t *refTask) succeeded() bool {
	return t.status == "completed" || t.status == "archived" && t.was == "completed"
}

type reference map[string]*refTask

func refTerminal(status string) bool {
	return slices.Contains([]string{"cancelled", "timed_out", "failed", "lost", "completed", "archived"}, status)
}

func (t *refTask) running() bool {
	return len(t.attempts) > 0 && t.attempts[len(t.attempts)-1] == "running"
}

func (t *refTask) end(attempt, status string) {
	t.attempts[len(t.attempts)-1] = attempt
	t.status = status
}

// tried counts the attempts that nobody stopped.
func (t *refTask) tried() (n int) {
	for _, a := range t.attempts {
		if a != "cancelled" {
			n++
		}
	}
	return n
}

// ambiguous says that a report which names no run could be about another attempt
// than the newest: that is nobody's, and an earlier one was given up.
func (t *refTask) ambiguous() bool {
	return t.external && t.running() && !t.claimed && (slices.Contains(t.attempts, "unknown") || slices.Contains(t.attempts, "cancelled"))
}

// begin is what starting comes to.
func (r reference) begin(t *refTask, claimed bool, now time.Time) {
	for _, done := range t.deps {
		if !done {
			t.status, t.why = "blocked", "dependency"
			return
		}
	}
	if t.external {
		t.status, t.heard, t.claimed, t.lost = "running", now, claimed, time.Time{}
		t.attempts = append(t.attempts, "running")
		return
	}
	t.attempts = append(t.attempts, "completed")
	r.recordEnd(t)
}

// recordEnd is what the end of a task's own work comes to.
func (r reference) recordEnd(t *refTask) {
	t.status = "completed"
	switch {
	case r.hasOpenParts(t):
		t.status, t.why = "blocked", "children"
	case t.open:
		t.status, t.why = "blocked", "acceptance"
	}
}

// hasOpenParts reports whether a part of a task was started and isn't over, and doesn't
// wait for it.
func (r reference) hasOpenParts(t *refTask) bool {
	for id, c := range r {
		if c.parent != "" && r[c.parent] == t && c.status != "accepted" && !refTerminal(c.status) && !r.waitsFor(id, c.parent) {
			return true
		}
	}
	return false
}

// waitsFor reports whether a task waits for another one, also through others.
func (r reference) waitsFor(from, to string) bool {
	for id, done := range r[from].deps {
		if !done && (id == to || r.waitsFor(id, to)) {
			return true
		}
	}
	return false
}

// settle is what follows by itself.
func (r reference) settle(now time.Time) {
	for changed := true; changed; {
		changed = false
		for _, t := range r {
			if !refTerminal(t.status) {
				changed = r.release(t) || changed
			}
			was := t.status
			switch {
			case t.status == "blocked" && t.why == "dependency":
				r.begin(t, false, now)
			case t.status == "blocked" && (t.why == "acceptance" || t.why == "children"):
				r.recordEnd(t)
			case t.status == "retrying":
				r.begin(t, false, later(t.lost, now))
			case t.status == "running" && t.heartbeat > 0 && now.Sub(t.heard) >= t.heartbeat:
				t.lost = t.heard.Add(t.heartbeat) // also if that is looked at later
				t.end("unknown", "lost")
				if t.tried() < t.max {
					t.status = "retrying"
				}
			}
			changed = changed || t.status != was
		}
	}
}

// later is when an attempt that was lost is tried again, or now if none was.
func later(lost, now time.Time) time.Time {
	if lost.IsZero() {
		return now
	}
	return lost
}

// release notes which dependencies are done. One that once was stays so.
func (r reference) release(t *refTask) (changed bool) {
	for id, done := range t.deps {
		if !done && r[id].succeeded() {
			t.deps[id], changed = true, true
		}
	}
	return changed
}

func (r reference) cyclic(from, to string) bool {
	if from == to {
		return true
	}
	for id := range r[from].deps {
		if r.cyclic(id, to) {
			return true
		}
	}
	return false
}

func (r reference) stop(id string) {
	t := r[id]
	if refTerminal(t.status) {
		return
	}
	for child, c := range r {
		if c.parent == id {
			r.stop(child)
		}
	}
	if t.running() {
		t.attempts[len(t.attempts)-1] = "cancelled"
	}
	t.status, t.asked = "cancelled", true
}

// modelled is a crew with the reference beside it.
type modelled struct {
	*rapid.T
	k *crew
	r reference
}

// TestTasksAgainstAReferenceModel gives random commands to the scheduler and to
// the model, with restarts and crashes between any two of them, also such that cut
// off what the scheduler was about to do at any of its writes.
func TestTasksAgainstAReferenceModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		tools, err := tool.NewRegistry(tool.Builtins(nil)...)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(bubbled{t}, func(rt *rapid.T) {
			k := &crew{TB: t, dir: dir, tools: tools, store: storetest.NewMem(), mode: "bypass", script: &script.Script{Repeat: true, Answers: []script.Answer{{Text: "ok"}}}}
			k.open()
			defer func() { k.close(); k.verified() }()
			m := &modelled{T: rt, k: k, r: reference{}}
			k.session("sess_model")
			rt.Repeat(map[string]func(*rapid.T){
				"create": m.create, "command": m.command, "complete": m.complete, "fail": m.fail, "link": m.link, "unlink": m.unlink,
				"sleep": m.sleep, "satisfy": m.satisfy, "late": m.late, "": m.check,
			})
		})
	})
}

// bubbled is a test without a deadline: a bubble's time isn't that of the test.
type bubbled struct{ testing.TB }

// checkCommand gives a command and compares whether it is refused with what the model says.
func (m *modelled) checkCommand(ok bool, p command.Params) bool {
	_, err := m.k.runCommand(context.Background(), command.Local(), p)
	if ok != (err == nil) || (err != nil && fault.KindOf(err) != fault.Conflict) {
		m.Fatalf("%s %+v: %v; the model says %v\n%s", p.Command(), p, err, ok, m.r)
	}
	return err == nil
}

// after lets the scheduler react, or cuts it off by a restart.
func (m *modelled) after() {
	if again := rapid.IntRange(0, 5).Draw(m.T, "restart"); again <= 1 {
		if again == 1 {
			m.k.restartDying(rapid.IntRange(0, 6).Draw(m.T, "writes"))
		} else {
			m.k.restart()
		}
		synctest.Wait()
		for _, t := range m.r {
			t.heard = time.Now()
		}
	}
	synctest.Wait()
	m.r.settle(time.Now())
}

// restartDying restarts, crashes after so many writes, and restarts again.
func (k *crew) restartDying(writes int) {
	k.Helper()
	k.close()
	whole := k.store
	k.store, k.dying = &mortal{Store: whole, left: writes, died: make(chan struct{})}, true
	k.open()
	synctest.Wait()
	k.close()
	k.store, k.dying = whole, false
	k.open()
}

func (r reference) String() string {
	out := ""
	for _, id := range slices.Sorted(maps.Keys(r)) {
		out += fmt.Sprintf("%s: %+v\n", id, *r[id])
	}
	return out
}

func (m *modelled) pick(t *rapid.T) string {
	if len(m.r) == 0 {
		t.Skip("no task yet")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.r))).Draw(t, "task")
}

func (m *modelled) create(t *rapid.T) {
	if len(m.r) >= 7 {
		t.Skip("enough")
	}
	id := fmt.Sprintf("task_%d", len(m.r))
	p := &command.CreateTask{TaskID: id, Objective: "x", Start: rapid.Bool().Draw(t, "start"), SessionID: "sess_model"}
	now := time.Now()
	ref := &refTask{status: "accepted", deps: map[string]bool{}, max: rapid.IntRange(1, 3).Draw(t, "attempts"), heard: now}
	if ref.external = rapid.IntRange(0, 2).Draw(t, "external") > 0; ref.external {
		p.Worker = "external"
		ref.heartbeat = time.Duration(rapid.IntRange(0, 1).Draw(t, "heartbeat")) * time.Minute
		p.HeartbeatTimeoutMs = ref.heartbeat.Milliseconds()
	}
	p.RetryPolicy = &event.RetryPolicy{MaxAttempts: int64(ref.max)}
	if ref.open = rapid.IntRange(0, 3).Draw(t, "criterion") == 0; ref.open {
		p.Acceptance = []command.Criterion{{ID: "c", Description: "good"}}
	}
	ok := true
	switch rapid.IntRange(0, 3).Draw(t, "joined") {
	case 0:
		if len(m.r) > 0 {
			ref.parent = m.pick(t)
			p.ParentTaskID, p.SessionID = ref.parent, ""
			ok = !refTerminal(m.r[ref.parent].status)
			for up := ref.parent; up != ""; up = m.r[up].parent {
				ok = ok && !m.r[up].asked
			}
		}
	case 1:
		if len(m.r) > 0 {
			ref.deps[m.pick(t)] = false
		}
	case 2:
		p.SessionID = "" // one of its own
		if len(m.r) > 0 {
			ref.deps[m.pick(t)] = false
		}
	}
	p.DependsOn = slices.Sorted(maps.Keys(ref.deps))
	if !m.checkCommand(ok, p) {
		return
	}
	m.r[id] = ref
	for dep := range ref.deps {
		ref.deps[dep] = m.r[dep].succeeded()
	}
	if p.Start {
		m.r.begin(ref, true, now)
	}
	m.after()
}

// command gives one of the commands that only need a task.
func (m *modelled) command(t *rapid.T) {
	id := m.pick(t)
	ref, now := m.r[id], time.Now()
	in := func(statuses ...string) bool { return slices.Contains(statuses, ref.status) }
	underStop := false
	for up := ref.parent; up != ""; up = m.r[up].parent {
		underStop = underStop || m.r[up].status == "cancelling"
	}
	switch rapid.SampledFrom([]string{"start", "retry", "pause", "resume", "cancel", "archive", "progress"}).Draw(t, "command") {
	case "start":
		if ref.external && ref.status == "running" && !ref.claimed {
			m.checkCommand(true, &command.StartTask{TaskID: id})
			ref.claimed, ref.heard = true, now
		} else if m.checkCommand(in("accepted") && !underStop, &command.StartTask{TaskID: id}) {
			m.r.begin(ref, true, now)
		}
	case "retry":
		ok := in("cancelled", "failed", "lost", "completed") || in("blocked") && ref.why != "dependency"
		if m.checkCommand(ok, &command.RetryTask{TaskID: id}) {
			ref.asked = false
			m.r.release(ref)
			m.r.begin(ref, true, now)
		}
	case "pause":
		if m.checkCommand(in("running", "blocked"), &command.PauseTask{TaskID: id}) {
			ref.status = "paused"
		}
	case "resume":
		if m.checkCommand(in("paused"), &command.ResumeTask{TaskID: id}) {
			m.resumed(ref, now)
		}
	case "cancel":
		if m.checkCommand(!refTerminal(ref.status), &command.CancelTask{TaskID: id}) {
			m.r.stop(id)
		}
	case "archive":
		if m.checkCommand(refTerminal(ref.status) && !in("archived"), &command.ArchiveTask{TaskID: id}) {
			ref.status, ref.was = "archived", ref.status
		}
	case "progress":
		if m.checkCommand(in("running", "paused") && ref.running() && !ref.ambiguous(), &command.AppendTaskProgress{TaskID: id, Progress: &event.Progress{Phase: "working"}}) {
			ref.heard, ref.claimed = now, true
		}
	}
	m.after()
}

func (m *modelled) resumed(ref *refTask, now time.Time) {
	switch {
	case ref.running():
		ref.status, ref.heard = "running", now
	case len(ref.attempts) > 0 && ref.attempts[len(ref.attempts)-1] == "completed":
		m.r.recordEnd(ref)
	default:
		m.r.begin(ref, true, now)
	}
}

func (m *modelled) complete(t *rapid.T) {
	id := m.pick(t)
	ref := m.r[id]
	p := &command.CompleteTask{TaskID: id}
	if ref.open && rapid.Bool().Draw(t, "waive") {
		p.Acceptance = []command.CriterionResult{{ID: "c", Status: "waived", Reason: "enough"}}
	}
	done := len(ref.attempts) > 0 && ref.attempts[len(ref.attempts)-1] == "completed"
	ok := (ref.running() && !ref.ambiguous() || done && (ref.status == "blocked" || ref.status == "paused")) && !refTerminal(ref.status) && (!ref.open || p.Acceptance != nil) && !m.r.hasOpenParts(ref)
	if m.checkCommand(ok, p) {
		ref.open = false
		ref.end("completed", "completed")
	}
	m.after()
}

// late has the worker of an attempt that was given up come back with a result: it
// is refused and changes nothing.
func (m *modelled) late(t *rapid.T) {
	id := m.pick(t)
	for i, a := range m.r[id].attempts {
		if m.r[id].external && (a == "unknown" || a == "cancelled") {
			m.checkCommand(false, &command.CompleteTask{TaskID: id, RunID: m.k.task(id).Attempts[i].RunID, Summary: "late"})
			m.after()
			return
		}
	}
	t.Skip("nobody was given up")
}

func (m *modelled) fail(t *rapid.T) {
	id := m.pick(t)
	ref, retryable := m.r[id], rapid.Bool().Draw(t, "retryable")
	judged := len(ref.attempts) > 0 && (ref.status == "blocked" || ref.status == "paused")
	if m.checkCommand((ref.running() || judged) && !ref.ambiguous(), &command.FailTask{TaskID: id, Error: &event.Failure{Message: "no", Retryable: retryable}}) {
		if !ref.running() {
			ref.status = "failed"
		} else {
			ref.end("failed", "failed")
			if retryable && ref.tried() < ref.max {
				ref.status = "retrying"
			}
		}
	}
	m.after()
}

func (m *modelled) link(t *rapid.T) {
	id, on := m.pick(t), m.pick(t)
	if id == on {
		t.Skip("the same")
	}
	ref := m.r[id]
	_, there := ref.deps[on]
	ok := ref.status != "archived" && (there || !refTerminal(ref.status) && !ref.running() && !m.r.cyclic(on, id))
	if m.checkCommand(ok, &command.LinkTasks{TaskID: id, Kind: "blocked_by", TargetID: on}) && !there {
		ref.deps[on] = false
	}
	m.after()
}

func (m *modelled) unlink(t *rapid.T) {
	id := m.pick(t)
	deps := slices.Sorted(maps.Keys(m.r[id].deps))
	if len(deps) == 0 {
		t.Skip("no edge")
	}
	on := rapid.SampledFrom(deps).Draw(t, "on")
	m.checkCommand(true, &command.UnlinkTasks{TaskID: id, Kind: "blocked_by", TargetID: on})
	delete(m.r[id].deps, on)
	m.after()
}

func (m *modelled) satisfy(t *rapid.T) {
	id := m.pick(t)
	ref := m.r[id]
	if !ref.open {
		t.Skip("nothing open")
	}
	if m.checkCommand(!refTerminal(ref.status), &command.UpdateTask{TaskID: id, TaskFields: command.TaskFields{Acceptance: []command.Criterion{{ID: "c", Description: "good", Status: "satisfied"}}}}) {
		ref.open = false
	}
	m.after()
}

func (m *modelled) sleep(*rapid.T) {
	time.Sleep(25 * time.Second)
	synctest.Wait()
	m.r.settle(time.Now()) // who is silent too long is lost at that moment
	m.after()
}

// check compares every task with the model, and what must hold of any task.
func (m *modelled) check(*rapid.T) {
	synctest.Wait()
	for id, ref := range m.r {
		got := m.k.task(id)
		var attempts []string
		runs := map[string]bool{}
		for _, a := range got.Attempts {
			if a.Reason == state.AttemptAfterCrash { // the same try in another run
				attempts = attempts[:len(attempts)-1]
			}
			attempts = append(attempts, a.Status)
			runs[a.RunID] = true
		}
		if got.Status != ref.status || !slices.Equal(attempts, ref.attempts) || len(runs) != len(got.Attempts) {
			m.Fatalf("%s is %s (%s) %v, the model says %s %v\n%s", id, got.Status, got.StatusReason, attempts, ref.status, ref.attempts, m.r)
		}
		for _, r := range got.Relationships {
			if done, ok := ref.deps[r.TargetID]; r.Kind == "blocked_by" && (!ok || done != (r.Status == "satisfied")) {
				m.Fatalf("%s: edge %+v, the model says %v %v\n%s", id, r, ok, done, m.r)
			}
		}
	}
}
