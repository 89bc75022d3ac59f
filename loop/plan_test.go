package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/tool"
)

func namesOf(specs []model.ToolSpec) []string {
	var out []string
	for _, s := range specs {
		out = append(out, s.Name)
	}
	return out
}

// TestPlanIsApproved: in mode plan the agent hands its plan over, and once it is
// approved the turn goes on in the mode that the approver chose.
func TestPlanIsApproved(t *testing.T) {
	for _, tc := range []struct{ where, chosen, then string }{
		{"host", "", "default"}, {"session", "auto", "auto"}, {"turn", "bypass", "bypass"}, {"turn", "", "default"},
	} {
		t.Run(tc.where+" "+tc.then, func(t *testing.T) {
			var heard runtimetest.Listener
			change := runtimetest.ListenedBy(&heard)
			if tc.where == "host" {
				change = runtimetest.AllOf(change, runtimetest.InMode("plan"))
			}
			k := runtimetest.NewWith(t, change, runtimetest.PlanningAnswers()...)
			var o *event.TurnOptions
			switch tc.where {
			case "session":
				runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a", PermissionMode: "plan"})
				runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", Rules: []event.PolicyRule{{RuleID: "mine", Decision: "deny", Tool: "shell"}}})
			case "turn":
				o = &event.TurnOptions{PermissionMode: "plan"}
			}
			r := k.SubmitWith("sess_a", "go", o)
			id, p := k.WaitForAction("sess_a", 1)
			if p.ActionType != "plan_approval" || !slices.Equal(p.Decisions, []string{"allow", "deny", "cancel"}) || p.ToolName != "present_plan" ||
				!strings.Contains(p.Prompt, "1. Write a.txt") || !strings.Contains(string(p.SafeArgs), "Look at it") {
				t.Errorf("asked %+v", p)
			}
			if th := k.Thread(r); th.Status != "blocked" || th.Phase != "waiting_permission" {
				t.Errorf("meanwhile the thread is %s, %s", th.Status, th.Phase)
			}
			k.Approve(id, tc.chosen)
			if tc.then == "default" {
				second, q := k.WaitForAction("sess_a", 2)
				if q.ActionType != "tool_permission" || q.ToolName != "write_file" {
					t.Errorf("then asked %+v", q)
				}
				k.Respond(second, "allow")
			}
			k.Completes(r)
			if got := k.ReadFile("a.txt"); got != "a" {
				t.Errorf("the file has %q", got)
			}
			checkPlanLeft(k, tc.where, tc.then, id)
			requests := heard.Heard()
			if before := namesOf(requests[0].Tools); !slices.Contains(before, "present_plan") || slices.Contains(before, "write_file") {
				t.Errorf("in mode plan the model is offered %v", before)
			}
			if after := namesOf(requests[len(requests)-1].Tools); slices.Contains(after, "present_plan") || !slices.Contains(after, "write_file") {
				t.Errorf("after it the model is offered %v", after)
			}
		})
	}
}

// checkPlanLeft looks at the facts of an approved plan.
func checkPlanLeft(k *runtimetest.Kit, where, then, actionID string) {
	k.Helper()
	source := map[string]string{"host": "session", "session": "session", "turn": "turn"}[where]
	changes := runtimetest.Payloads[*event.PolicyChanged](k, "sess_a")
	last := changes[len(changes)-1]
	if last.Source != source || last.Mode != then || last.ApprovalActionID != actionID || last.Reason == "" {
		k.Errorf("the change of policy is %+v", last)
	}
	if where == "session" && (len(last.Rules) != 1 || last.Rules[0].RuleID != "mine") {
		k.Errorf("the session's rules became %+v", last.Rules)
	}
	resolved := runtimetest.Payloads[*event.PermissionResolved](k, "sess_a")[0]
	if resolved.Decision != "allow" || resolved.ActionID != actionID || resolved.PermissionMode != then || resolved.Scope != "once" || resolved.GrantID != "" {
		k.Errorf("the answer is %+v", resolved)
	}
	if got, want := runtimetest.Do[command.PolicyResult](k, &command.GetPolicy{SessionID: "sess_a"}).Mode, map[bool]string{true: "default", false: then}[where == "turn"]; got != want {
		k.Errorf("the session's mode is %s, want %s", got, want)
	}
	judged := runtimetest.Payloads[*event.PermissionEvaluated](k, "sess_a")
	if judged[0].ToolName != "list_files" || judged[0].Decision != "allow" || judged[0].PermissionMode != "plan" {
		k.Errorf("list_files: %+v", judged[0])
	}
	if judged[1].Decision != "ask" || judged[1].DecisionSource != "mode" || judged[1].ApprovalActionID != actionID {
		k.Errorf("present_plan: %+v", judged[1])
	}
	if judged[2].PermissionMode != then {
		k.Errorf("write_file was judged in %s", judged[2].PermissionMode)
	}
}

// TestPlanIsSentBack: the model gets the comment and stays in mode plan.
func TestPlanIsSentBack(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("plan"), runtimetest.ListenedBy(&heard)),
		runtimetest.CallsTool("present_plan", map[string]any{"plan": runtimetest.Plan}), runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "a"}),
		runtimetest.CallsTool("present_plan", map[string]any{"plan": runtimetest.Plan + "\n3. Test it"}), runtimetest.Says("never mind"))
	r := k.Submit("sess_a", "go")
	id, _ := k.WaitForAction("sess_a", 1)
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: id, Decision: "deny", Reason: "a test is missing"})
	second, p := k.WaitForAction("sess_a", 2)
	if !strings.Contains(p.Prompt, "3. Test it") {
		t.Errorf("asked %+v", p)
	}
	k.Respond(second, "cancel")
	k.Completes(r)
	failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
	if len(failed) != 3 || failed[0].Message != "the plan was not approved: a test is missing" || failed[0].ErrorCategory != "denied" || !strings.Contains(failed[0].Advice, "still in plan mode") {
		t.Errorf("%+v", failed)
	}
	if failed[1].ToolName != "write_file" || failed[1].ErrorCategory != "denied" {
		t.Errorf("a write after it: %+v", failed[1])
	}
	if n := k.CountFacts("sess_a", event.TypePolicyChanged); n != 0 {
		t.Errorf("the policy changed %d times", n)
	}
	told := heard.Heard()[1].Messages
	if b, _ := json.Marshal(told[len(told)-1]); !strings.Contains(string(b), "a test is missing") {
		t.Errorf("the model is told %s", b)
	}
}

// TestPlanAnswers: what can't be an answer is refused, and of several clients the
// first one wins.
func TestPlanAnswers(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("plan"), runtimetest.PlanningAnswers()...)
	r := k.Submit("sess_a", "go")
	id, _ := k.WaitForAction("sess_a", 1)
	for _, bad := range []command.RespondAction{
		{Decision: "allow", Payload: event.Raw(`{"permissionMode":"plan"}`)},
		{Decision: "allow", Payload: event.Raw(`{"permissionMode":"anything"}`)},
		{Decision: "allow", Payload: event.Raw(`{"mode":"auto"}`)},
		{Decision: "submit", Payload: event.Raw(`{}`)},
	} {
		bad.ActionID = id
		runtimetest.Refused(k, &bad, fault.InvalidParams)
	}
	modes := []string{"auto", "bypass", "on_request", "never"}
	won := make(chan string, len(modes))
	var wg sync.WaitGroup
	for _, m := range modes {
		wg.Go(func() {
			_, err := k.Runtime.Do(context.Background(), command.Local(), &command.RespondAction{ActionID: id, Decision: "allow", Payload: event.Raw(`{"permissionMode":"` + m + `"}`)})
			switch {
			case err == nil:
				won <- m
			case fault.KindOf(err) != fault.Conflict:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(won)
	first := <-won
	if _, more := <-won; more || first == "" {
		t.Fatalf("%q won, and another one", first)
	}
	k.Completes(r)
	if p := runtimetest.Payloads[*event.PolicyChanged](k, "sess_a"); len(p) != 1 || p[0].Mode != first {
		t.Errorf("%s was first, and it became %+v", first, p)
	}
}

// TestPlanWaitsOverARestart: the question is still there, and its answer counts.
func TestPlanWaitsOverARestart(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("plan"), runtimetest.PlanningAnswers()...)
	r := k.Submit("sess_a", "go")
	id, _ := k.WaitForAction("sess_a", 1)
	k.Close()
	k.Open()
	k.Approve(id, "auto")
	k.Close() // between the answer and what follows it, as it happens
	k.Open()
	k.Completes(r)
	if got := k.ReadFile("a.txt"); got != "a" {
		t.Errorf("the file has %q", got)
	}
}

func TestCrashAtEveryWriteOfAPlan(t *testing.T) {
	crashEverywhere(t, &scene{
		name: "a plan", turns: 1, change: runtimetest.InMode("plan"), answers: runtimetest.PlanningAnswers(),
		check: func(c *crashCase) {
			if b, err := os.ReadFile(filepath.Join(c.dir, "a.txt")); !c.lost && (err != nil || string(b) != "a") {
				c.Errorf("the file has %q: %v", b, err)
			}
			n := 0
			for _, e := range runtimetest.FactsOf(c, c.mem.Node(), "sess_a") {
				if e.Type == event.TypePolicyChanged {
					n++
				}
			}
			if n != 1 {
				c.Errorf("the mode was left %d times", n)
			}
		},
	})
}

// TestPlanExpires: a plan that nobody decides on is not approved.
func TestPlanExpires(t *testing.T) {
	soon := func(o *agentd.Options) { o.Loop.ActionTimeout = time.Millisecond }
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("plan"), soon), runtimetest.CallsTool("present_plan", map[string]any{"plan": runtimetest.Plan}), runtimetest.Says("never mind"))
	k.Completes(k.Submit("sess_a", "go"))
	failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
	if len(failed) != 1 || failed[0].Message != "the plan was not decided on in time" {
		t.Errorf("%+v", failed)
	}
	if p := runtimetest.Payloads[*event.PermissionResolved](k, "sess_a"); len(p) != 1 || p[0].Decision != "timeout" {
		t.Errorf("%+v", p)
	}
	if runtimetest.Do[command.PolicyResult](k, &command.GetPolicy{SessionID: "sess_a"}).Mode != "plan" {
		t.Error("the mode was left")
	}
}

// TestPlanIsForPlanModeAlone: elsewhere there is nothing to hand over, and where
// nobody can be asked nothing waits.
func TestPlanIsForPlanModeAlone(t *testing.T) {
	present := runtimetest.CallsTool("present_plan", map[string]any{"plan": runtimetest.Plan})
	for _, m := range []string{"default", "untrusted", "on_request", "on_failure", "never", "bypass", "auto"} {
		k := runtimetest.NewWith(t, runtimetest.InMode(m), present, runtimetest.Says("done"))
		k.Completes(k.Submit("sess_a", "go"))
		if p := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "not_found" {
			t.Errorf("%s: %+v", m, p)
		}
	}
	nobody := func(o *agentd.Options) { o.Loop.NobodyToAsk = true }
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("plan"), nobody), present, runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	if p := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "not_found" {
		t.Errorf("nobody to ask: %+v", p)
	}
}

// TestPlanAfterTheModeWasChanged: who changed the mode while the plan waited was
// first, and the approval changes nothing more.
func TestPlanAfterTheModeWasChanged(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("plan"), runtimetest.PlanningAnswers()...)
	r := k.Submit("sess_a", "go")
	id, _ := k.WaitForAction("sess_a", 1)
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", Mode: "auto"})
	k.Approve(id, "bypass")
	k.Completes(r)
	if p := runtimetest.Payloads[*event.PolicyChanged](k, "sess_a"); len(p) != 1 || p[0].Mode != "auto" {
		t.Errorf("%+v", p)
	}
}

// TestAPlanOfManyWordsIsBehindAReference: the question shows its beginning, the whole of it
// is to be had.
func TestAPlanOfManyWordsIsBehindAReference(t *testing.T) {
	long := "# Plan\n" + strings.Repeat("and another step\n", 2000) + "the end"
	k := runtimetest.NewWith(t, runtimetest.InMode("plan"), runtimetest.CallsTool("present_plan", map[string]any{"plan": long}), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	id, p := k.WaitForAction("sess_a", 1)
	if len(p.Prompt) > 6000 || !strings.Contains(p.Prompt, "another step") || p.InputRef == "" || p.SafeArgs != nil {
		t.Errorf("the question has %d bytes, reference %q", len(p.Prompt), p.InputRef)
	}
	if whole := k.ReadOutput(p.InputRef); tool.PlanText(event.Raw(whole)) != long {
		t.Errorf("behind the reference are %d bytes", len(whole))
	}
	k.Respond(id, "deny")
	k.Completes(r)
}

// TestNothingWaitsWhereNobodyIsAsked: in modes that can't ask a question is denied
// with that reason, and isn't offered.
func TestNothingWaitsWhereNobodyIsAsked(t *testing.T) {
	for _, m := range []string{"never", "plan"} {
		var heard runtimetest.Listener
		k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode(m), runtimetest.ListenedBy(&heard)), runtimetest.CallsTool("request_input", map[string]any{"prompt": "Which colour?"}), runtimetest.Says("done"))
		k.Completes(k.Submit("sess_a", "go"))
		failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
		if len(failed) != 1 || failed[0].ErrorCategory != "denied" || !strings.Contains(failed[0].Message, fmt.Sprintf("mode %s", m)) {
			t.Errorf("%s: %+v", m, failed)
		}
		if n := k.CountFacts("sess_a", event.TypeActionRequired); n != 0 {
			t.Errorf("%s: %d actions", m, n)
		}
		if slices.Contains(namesOf(heard.Heard()[0].Tools), "request_input") {
			t.Errorf("%s: the model is offered what it can't use", m)
		}
	}
}

// TestGrantExpires: an approval for the session holds for as long as it says.
func TestGrantExpires(t *testing.T) {
	write := runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "a"})
	for _, tc := range []struct {
		holds   int64
		expired bool
	}{{3_600_000, false}, {1, true}} {
		k := runtimetest.New(t, write, runtimetest.Says("done"), write, runtimetest.Says("done"))
		r := k.Submit("sess_a", "go")
		id, _ := k.WaitForAction("sess_a", 1)
		runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: id, Decision: "allow", Scope: "session", ExpiresInMs: tc.holds})
		k.Completes(r)
		given := runtimetest.Payloads[*event.PermissionResolved](k, "sess_a")[0]
		if given.GrantID == "" || given.ExpiresAt.IsZero() {
			t.Errorf("given %+v", given)
		}
		if tc.expired {
			time.Sleep(time.Until(given.ExpiresAt) + time.Millisecond) // the time is the subject
		}
		second := k.Submit("sess_a", "again")
		if tc.expired {
			again, _ := k.WaitForAction("sess_a", 2)
			k.Respond(again, "deny")
		}
		k.Completes(second)
		judged := runtimetest.Payloads[*event.PermissionEvaluated](k, "sess_a")[1]
		if tc.expired != (judged.Decision == "ask") || tc.expired == (judged.GrantID == given.GrantID) || tc.expired != judged.ExpiresAt.IsZero() {
			t.Errorf("after %d ms: %+v", tc.holds, judged)
		}
	}
}
