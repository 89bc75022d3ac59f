package work_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/state"
	"agentd/work"
)

func TestChildWorksInAThreadOfItsOwn(t *testing.T) {
	k := newStage(t, when("pages", script.Answer{Text: "All pages are fine."}))
	main := k.session("sess_a")
	child := k.spawn(command.SpawnSubagent{SubagentID: "sub_reader", SessionID: "sess_a", ThreadID: main, Role: "reader", Input: command.Text("Read the pages.")})
	res := k.wait("sub_reader")
	if res.TimedOut || res.Subagents[0].Status != "completed" || res.Subagents[0].LastMessage != "All pages are fine." || res.Subagents[0].ThreadID != child.ThreadID {
		t.Errorf("got %+v", res)
	}
	var types []event.Type
	for _, e := range k.events("sess_a") {
		if e.ThreadID == child.ThreadID && e.SubagentID != "sub_reader" && e.Type != event.TypeQueueChanged {
			t.Errorf("%s of the child's thread says nothing of the child", e.Type)
		}
		if strings.HasPrefix(string(e.Type), "subagent.") {
			types = append(types, e.Type)
		}
	}
	if types[0] != event.TypeSubagentSpawned || types[len(types)-1] != event.TypeSubagentCompleted {
		t.Errorf("facts: %v", types)
	}
	started := k.until("sess_a", func(e *event.Event) bool { return e.Type == event.TypeThreadStarted && e.ThreadID == child.ThreadID }).Payload.(*event.ThreadStarted)
	if started.Role != "subagent" || started.ParentThreadID != main {
		t.Errorf("thread.started: %+v", started)
	}
}

func TestSameIDGivesTheSameChild(t *testing.T) {
	k := newStage(t)
	main := k.session("sess_a")
	p := command.SpawnSubagent{SubagentID: "sub_x", SessionID: "sess_a", ThreadID: main, Role: "reader"}
	first := k.spawn(p)
	k.wait("sub_x")
	if again := k.spawn(p); *again != *first {
		t.Errorf("%+v, then %+v", first, again)
	}
	p.Role, p.Input = "writer", command.Text("hello")
	k.refused(fault.Conflict, &p)
	other := k.session("sess_b")
	k.refused(fault.Conflict, &command.SpawnSubagent{SubagentID: "sub_x", SessionID: "sess_b", ThreadID: other, Input: command.Text("hello")})
}

func TestToolWaitsForTheChildAlsoOverARestart(t *testing.T) {
	k := newStage(t,
		when("delegate", spawns(map[string]any{"role": "counter", "input": "Ask how many."})),
		when("delegate", script.Answer{Text: "Done."}),
		when("how many", script.Answer{Ask: &script.Ask{Prompt: "How many?"}}),
		when("how many", script.Answer{Text: "There are seven of them. " + strings.Repeat("Indeed. ", 60)}),
	)
	turn := k.submit("sess_t", "delegate this")
	asked := k.until("sess_t", ofType(event.TypeActionRequired))
	if asked.SubagentID == "" || asked.ThreadID == turn.ThreadID {
		t.Errorf("the question of a child carries %+v", asked.Scope)
	}
	actions := must[command.ListActionsResult](k, &command.ListActions{SessionID: "sess_t"})
	var question struct {
		SubagentID, SubagentRole, ThreadID, ParentThreadID, ParentTurnID string
	}
	if len(actions.Actions) != 1 || json.Unmarshal(actions.Actions[0], &question) != nil {
		t.Fatalf("actions: %+v", actions)
	}
	if question.SubagentID != asked.SubagentID || question.SubagentRole != "counter" || question.ThreadID != asked.ThreadID ||
		question.ParentThreadID != turn.ThreadID || question.ParentTurnID != turn.TurnID {
		t.Errorf("a person sees %+v", question)
	}
	k.restart()
	k.until("sess_t", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.SubagentStatus)
		return ok && p.Status == "waiting"
	})
	must[command.RespondActionResult](k, &command.RespondAction{ActionID: asked.ActionID, Decision: "submit", Payload: event.Raw(`{"n":7}`)})
	k.until("sess_t", func(e *event.Event) bool { return e.Type == event.TypeTurnCompleted && e.TurnID == turn.TurnID })
	result := k.until("sess_t", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.ToolResult)
		return ok && p.ToolName == "spawn_agent"
	})
	if p := result.Payload.(*event.ToolResult); !strings.HasPrefix(p.Preview, "There are seven") || p.OutputRef == "" || result.ThreadID != turn.ThreadID {
		t.Errorf("tool.result: %+v of thread %s", p, result.ThreadID)
	}
	edge := k.until("sess_t", ofType(event.TypeTaskDependencyUpdated))
	if p := edge.Payload.(*event.TaskDependencyUpdated); p.Kind != "spawned_subagent" || edge.TaskID != turn.TaskID {
		t.Errorf("edge: %+v", p)
	}
	spawned := 0
	for _, e := range k.events("sess_t") {
		if e.Type == event.TypeSubagentSpawned {
			spawned++
		}
	}
	if spawned != 1 {
		t.Errorf("%d children", spawned)
	}
}

func TestToolThatDoesNotWaitGoesOn(t *testing.T) {
	k := newStage(t,
		when("delegate", spawns(map[string]any{"role": "sleeper", "input": "stall", "wait": false})),
		when("delegate", script.Answer{Text: "I went on."}),
		when("stall", script.Answer{Stall: time.Hour}),
	)
	turn := k.submit("sess_n", "delegate this")
	k.until("sess_n", func(e *event.Event) bool { return e.Type == event.TypeTurnCompleted && e.TurnID == turn.TurnID })
	p := k.until("sess_n", ofType(event.TypeToolResult)).Payload.(*event.ToolResult)
	if p.Status != "background" || !strings.Contains(string(p.StructuredContent), "subagentId") {
		t.Errorf("tool.result: %+v", p)
	}
	list := must[command.ListSubagentsResult](k, &command.ListSubagents{SessionID: "sess_n"})
	if len(list.Subagents) != 1 || list.Subagents[0].Role != "sleeper" {
		t.Fatalf("children: %+v", list)
	}
	id := list.Subagents[0].SubagentID
	res := must[command.WaitSubagentsResult](k, &command.WaitSubagents{SubagentIDs: []string{id}, TimeoutMs: 1})
	if !res.TimedOut {
		t.Errorf("waiting for a child at work: %+v", res)
	}
	closed := must[command.SubagentResult](k, &command.CloseSubagent{SubagentID: id, Reason: "enough"})
	if closed.Status != "closed" {
		t.Errorf("closed: %+v", closed)
	}
	k.refused(fault.Conflict, &command.SendSubagentInput{SubagentID: id, Input: command.Text("more")})
	k.until("sess_n", func(e *event.Event) bool { return e.Type == event.TypeTurnFailed && e.SubagentID == id })
	if again := must[command.SubagentResult](k, &command.CloseSubagent{SubagentID: id}); again.Status != "closed" {
		t.Errorf("closed again: %+v", again)
	}
	resumed := must[command.SubagentResult](k, &command.ResumeSubagent{SubagentID: id})
	if resumed.Status != "running" || resumed.TurnID == "" {
		t.Errorf("resumed: %+v", resumed)
	}
	if res := k.wait(id); res.Subagents[0].Status != "completed" {
		t.Errorf("after the resumption: %+v", res)
	}
}

func TestInterruptReachesTheWholeTree(t *testing.T) {
	k := newStage(t,
		when("top", spawns(map[string]any{"role": "middle", "input": "middle work"})),
		when("middle work", spawns(map[string]any{"role": "leaf", "input": "leaf work"})),
		when("leaf work", script.Answer{Stall: time.Hour}),
	)
	turn := k.submit("sess_i", "top")
	k.until("sess_i", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.SubagentSpawned)
		return ok && p.Depth == 2
	})
	must[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_i", ThreadID: turn.ThreadID, Reason: "stop"})
	cancelled := map[string]bool{}
	k.until("sess_i", func(e *event.Event) bool {
		if p, ok := e.Payload.(*event.TurnFailed); ok && p.Status == "cancelled" {
			cancelled[e.ThreadID] = true
		}
		return len(cancelled) == 3
	})
	list := must[command.ListSubagentsResult](k, &command.ListSubagents{SessionID: "sess_i", Descendants: true})
	for _, a := range list.Subagents {
		if res := k.wait(a.SubagentID); res.Subagents[0].Status != "interrupted" {
			t.Errorf("%s is %s", a.Role, res.Subagents[0].Status)
		}
	}
	if len(list.Subagents) != 2 {
		t.Errorf("%d children", len(list.Subagents))
	}
}

func TestLimitsOfTheTree(t *testing.T) {
	k := newStage(t, when("stall", script.Answer{Stall: time.Hour}),
		when("too deep", spawns(map[string]any{"role": "leaf", "input": "x"})),
		when("too deep", script.Answer{Text: "I do it myself."}))
	k.limits = work.Limits{Depth: 1, Width: 2}
	k.restart()
	main := k.session("sess_l")
	a := k.spawn(command.SpawnSubagent{SessionID: "sess_l", ThreadID: main, Input: command.Text("stall")})
	k.spawn(command.SpawnSubagent{SessionID: "sess_l", ThreadID: main, Input: command.Text("stall")})
	if why := k.refused(fault.PolicyRejected, &command.SpawnSubagent{SessionID: "sess_l", ThreadID: main, Input: command.Text("stall")}); !strings.Contains(why, "width") {
		t.Errorf("refused with %q", why)
	}
	if why := k.refused(fault.PolicyRejected, &command.SpawnSubagent{SessionID: "sess_l", ThreadID: a.ThreadID, Input: command.Text("stall")}); !strings.Contains(why, "depth") {
		t.Errorf("refused with %q", why)
	}
	must[command.SubagentResult](k, &command.CloseSubagent{SubagentID: a.SubagentID})
	deep := k.spawn(command.SpawnSubagent{SessionID: "sess_l", ThreadID: main, Input: command.Text("too deep")})
	failed := k.until("sess_l", func(e *event.Event) bool { return e.Type == event.TypeToolFailed && e.SubagentID == deep.SubagentID }).Payload.(*event.ToolFailed)
	if failed.ErrorCategory != "denied" || !strings.Contains(failed.Message, "depth") {
		t.Errorf("tool.failed: %+v", failed)
	}
	if res := k.wait(deep.SubagentID); res.Subagents[0].LastMessage != "I do it myself." {
		t.Errorf("got %+v", res)
	}
}

func TestIsolationOnlyNarrows(t *testing.T) {
	k := newStage(t, when("stall", script.Answer{Stall: time.Hour}))
	k.mode = "default"
	k.restart()
	main := k.session("sess_n")
	narrow := &event.Isolation{Tools: []string{"read_file", "list_files"}, PermissionMode: "plan", Cwd: "docs"}
	a := k.spawn(command.SpawnSubagent{SessionID: "sess_n", ThreadID: main, Input: command.Text("stall"), Isolation: narrow})
	for _, iso := range []*event.Isolation{{Tools: []string{"shell"}}, {PermissionMode: "auto"}, {Tools: []string{"read_*"}}} {
		k.refused(fault.PolicyRejected, &command.SpawnSubagent{SessionID: "sess_n", ThreadID: a.ThreadID, Input: command.Text("x"), Isolation: iso})
	}
	k.refused(fault.PolicyRejected, &command.SpawnSubagent{SessionID: "sess_n", ThreadID: main, Input: command.Text("x"), Isolation: &event.Isolation{PermissionMode: "bypass"}})
	for _, iso := range []*event.Isolation{{Cwd: "../.."}, {Cwd: "/etc"}, {BudgetUSD: -1}, {Tools: []string{"no_such_tool"}}} {
		k.refused(fault.InvalidParams, &command.SpawnSubagent{SessionID: "sess_n", ThreadID: main, Input: command.Text("x"), Isolation: iso})
	}
	b := k.spawn(command.SpawnSubagent{SessionID: "sess_n", ThreadID: a.ThreadID, Input: command.Text("stall")})
	k.view("sess_n", func(s *state.Session) {
		sub, th := s.Subagents.Find(b.SubagentID), s.Thread(b.ThreadID)
		if strings.Join(sub.Isolation.Tools, " ") != "read_file list_files" || th.PermissionMode != "plan" || th.Cwd != "docs" {
			t.Errorf("the grandchild has %+v, mode %s, cwd %s", sub.Isolation, th.PermissionMode, th.Cwd)
		}
	})
	inventory := k.until("sess_n", func(e *event.Event) bool {
		return e.Type == event.TypeToolCatalogResolved && e.SubagentID == b.SubagentID
	})
	if p := inventory.Payload.(*event.ToolCatalogResolved); p.ToolCount != 2 {
		t.Errorf("the grandchild has %d tools", p.ToolCount)
	}
}

func TestShareOfTheBudgetIsAllThatAChildSpends(t *testing.T) {
	k := newStage(t, when("spend", script.Answer{Text: "first", Usage: &script.Usage{InputTokens: 1_000_000}}))
	k.price = &model.Price{Rates: model.Rates{InputPerMTok: 2}}
	k.restart()
	main := k.session("sess_b")
	a := k.spawn(command.SpawnSubagent{SessionID: "sess_b", ThreadID: main, Input: command.Text("spend"), Isolation: &event.Isolation{BudgetUSD: 1}})
	k.wait(a.SubagentID)
	must[command.SubagentResult](k, &command.SendSubagentInput{SubagentID: a.SubagentID, Input: command.Text("spend more")})
	res := k.wait(a.SubagentID)
	if res.Subagents[0].Status != "failed" {
		t.Errorf("after its share was spent the child is %s", res.Subagents[0].Status)
	}
	quota := k.until("sess_b", ofChild(event.TypeQuotaBlocked, a.SubagentID)).Payload.(*event.QuotaState)
	if quota.QuotaName != "subagent_cost" || *quota.Limit != 1 {
		t.Errorf("quota.blocked: %+v", quota)
	}
	k.refused(fault.PolicyRejected, &command.SpawnSubagent{SessionID: "sess_b", ThreadID: a.ThreadID, Input: command.Text("x"), Isolation: &event.Isolation{BudgetUSD: 0.5}})
}

func TestTreeOverARestart(t *testing.T) {
	k := newStage(t, when("stall", script.Answer{Stall: time.Hour}))
	main := k.session("sess_r")
	a := k.spawn(command.SpawnSubagent{SessionID: "sess_r", ThreadID: main, Input: command.Text("stall")})
	b := k.spawn(command.SpawnSubagent{SessionID: "sess_r", ThreadID: a.ThreadID, Input: command.Text("stall")})
	c := k.spawn(command.SpawnSubagent{SessionID: "sess_r", ThreadID: main})
	k.wait(c.SubagentID)
	k.restart()
	count := func(p command.ListSubagents) int {
		p.SessionID = "sess_r"
		return len(must[command.ListSubagentsResult](k, &p).Subagents)
	}
	if n := count(command.ListSubagents{}); n != 2 {
		t.Errorf("%d children of the session's own threads", n)
	}
	if n := count(command.ListSubagents{Descendants: true}); n != 3 {
		t.Errorf("%d descendants", n)
	}
	if n := count(command.ListSubagents{ParentThreadID: a.ThreadID}); n != 1 {
		t.Errorf("%d children of the child", n)
	}
	if n := count(command.ListSubagents{ParentThreadID: main, Descendants: true}); n != 3 {
		t.Errorf("%d below the main thread", n)
	}
	page := must[command.ListSubagentsResult](k, &command.ListSubagents{SessionID: "sess_r", Descendants: true, Page: command.Page{Limit: 2}})
	rest := must[command.ListSubagentsResult](k, &command.ListSubagents{SessionID: "sess_r", Descendants: true, Page: command.Page{Limit: 2, Cursor: page.NextCursor}})
	if len(page.Subagents) != 2 || len(rest.Subagents) != 1 || rest.NextCursor != "" {
		t.Errorf("pages of %d and %d", len(page.Subagents), len(rest.Subagents))
	}
	must[command.SubagentResult](k, &command.CloseSubagent{SubagentID: a.SubagentID})
	if res := k.wait(b.SubagentID); res.Subagents[0].Status != "closed" {
		t.Errorf("the child of a closed child is %s", res.Subagents[0].Status)
	}
}

func TestInputSteersAChildAtWorkAndWakesOneThatIsDone(t *testing.T) {
	k := newStage(t, when("ask", script.Answer{Ask: &script.Ask{Prompt: "Well?"}}))
	main := k.session("sess_s")
	a := k.spawn(command.SpawnSubagent{SessionID: "sess_s", ThreadID: main, Input: command.Text("ask me")})
	asked := k.until("sess_s", ofChild(event.TypeActionRequired, a.SubagentID))
	steered := must[command.SubagentResult](k, &command.SendSubagentInput{SubagentID: a.SubagentID, Input: command.Text("and hurry")})
	if steered.TurnID != asked.TurnID {
		t.Errorf("the input of a child at work went to turn %s, it works on %s", steered.TurnID, asked.TurnID)
	}
	must[command.RespondActionResult](k, &command.RespondAction{ActionID: asked.ActionID, Decision: "submit", Payload: event.Raw(`{}`)})
	first := k.wait(a.SubagentID).Subagents[0]
	if first.Status != "completed" {
		t.Fatalf("the child is %s", first.Status)
	}
	more := must[command.SubagentResult](k, &command.SendSubagentInput{SubagentID: a.SubagentID, Input: command.Text("again")})
	if more.TurnID == steered.TurnID || more.Status != "running" {
		t.Errorf("the input of a child that is done: %+v", more)
	}
	if last := k.wait(a.SubagentID).Subagents[0]; last.LastMessage != "You said: again" {
		t.Errorf("the last word is %q", last.LastMessage)
	}
}

func TestEndedChildrenLeaveTheState(t *testing.T) {
	k := newStage(t)
	main := k.session("sess_m")
	var first *command.SpawnSubagentResult
	for range state.KeepSubagents + 5 {
		a := k.spawn(command.SpawnSubagent{SessionID: "sess_m", ThreadID: main})
		k.wait(a.SubagentID)
		if first == nil {
			first = a
		}
	}
	k.view("sess_m", func(s *state.Session) {
		if len(s.Threads) > state.KeepSubagents+1 {
			t.Errorf("%d threads are kept", len(s.Threads))
		}
	})
	if res := k.wait(first.SubagentID); res.Subagents[0].Status != "closed" || res.Subagents[0].LastMessage != "You said: hello" {
		t.Errorf("the first child: %+v", res.Subagents[0])
	}
	k.refused(fault.Conflict, &command.SendSubagentInput{SubagentID: first.SubagentID, Input: command.Text("x")})
	list := must[command.ListSubagentsResult](k, &command.ListSubagents{SessionID: "sess_m"})
	if len(list.Subagents) != state.KeepSubagents+5 {
		t.Errorf("%d children are listed", len(list.Subagents))
	}
}

func TestBadInputOfSubagentCommands(t *testing.T) {
	k := newStage(t)
	main := k.session("sess_x")
	a := k.spawn(command.SpawnSubagent{SessionID: "sess_x", ThreadID: main})
	k.wait(a.SubagentID)
	hello := command.Text("hello")
	for _, p := range []command.Params{
		&command.SpawnSubagent{SessionID: "sess_none", ThreadID: "thread_x", Input: hello},
		&command.SpawnSubagent{SessionID: "sess_x", ThreadID: "thread_none", Input: hello},
		&command.SpawnSubagent{SessionID: "sess_x", ThreadID: main, TurnID: "turn_none", Input: hello},
		&command.SendSubagentInput{SubagentID: "sub_none", Input: hello},
		&command.WaitSubagents{SubagentIDs: []string{a.SubagentID, "sub_none"}},
		&command.ResumeSubagent{SubagentID: "sub_none"},
		&command.CloseSubagent{SubagentID: "sub_none"},
		&command.ListSubagents{SessionID: "sess_none"},
	} {
		k.refusedAs(command.Local(), fault.NotFound, p)
	}
	for _, p := range []command.Params{
		&command.SpawnSubagent{SessionID: "sess_x", ThreadID: main},
		&command.SpawnSubagent{SessionID: "sess_x", ThreadID: main, Input: hello, Model: "nobody/knows"},
		&command.SpawnSubagent{SessionID: event.RuntimeSession, ThreadID: main, Input: hello},
		&command.SendSubagentInput{SubagentID: a.SubagentID},
		&command.WaitSubagents{},
		&command.ResumeSubagent{SubagentID: "not an id"},
	} {
		k.refusedAs(command.Local(), fault.InvalidParams, p)
	}
	stranger := command.Caller{Account: "acct_other", Actor: event.Actor{Kind: "user"}}
	for _, p := range []command.Params{
		&command.SpawnSubagent{SessionID: "sess_x", ThreadID: main, Input: hello},
		&command.SendSubagentInput{SubagentID: a.SubagentID, Input: hello},
		&command.WaitSubagents{SubagentIDs: []string{a.SubagentID}},
		&command.ResumeSubagent{SubagentID: a.SubagentID},
		&command.CloseSubagent{SubagentID: a.SubagentID},
		&command.ListSubagents{SessionID: "sess_x"},
	} {
		if why := k.refusedAs(stranger, fault.NotFound, p); strings.Contains(why, "sess_x") && p.Command() != "spawn_subagent" && p.Command() != "list_subagents" {
			t.Errorf("%s tells a stranger of the session: %s", p.Command(), why)
		}
	}
}
