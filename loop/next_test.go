package loop

import (
	"slices"
	"testing"
	"time"

	"agentd/event"
	"agentd/state"
)

// decision is one line of the table: what happened, and what comes next.
type decision struct {
	name  string
	story []step
	want  Effect
	// later is how long after the last fact Next is asked.
	later time.Duration
	// policy changes the default one.
	policy func(*Policy)
}

func appendSteps(base []step, more ...step) []step { return append(slices.Clone(base), more...) }

// TestNext lists what a thread does next in every situation that the loop knows.
// The situations are made of facts.
func TestNext(t *testing.T) {
	for _, table := range [][]decision{
		turnDecisions(), stopDecisions(), modelDecisions(), overflowDecisions(), toolDecisions(), askDecisions(), limitDecisions(), compactionDecisions(), hookDecisions(),
	} {
		for _, c := range table {
			t.Run(c.name, func(t *testing.T) {
				st := newStory(t, c.story...)
				p := DefaultPolicy()
				if c.policy != nil {
					c.policy(&p)
				}
				if got := p.Next(st.s, "th", st.now().Add(c.later)); got != c.want {
					t.Errorf("got %#v, want %#v", got, c.want)
				}
			})
		}
	}
	p := DefaultPolicy()
	if got := p.Next(state.New("sess_a"), "none", epoch); got != (Nothing{}) {
		t.Errorf("a thread that isn't there: %#v", got)
	}
}

// TestNextKnowsEveryEffect checks the table against the closed set of effects: one
// that no line expects is not tested.
func TestNextKnowsEveryEffect(t *testing.T) {
	seen := map[string]bool{}
	for _, table := range [][]decision{
		turnDecisions(), stopDecisions(), modelDecisions(), overflowDecisions(), toolDecisions(), askDecisions(), limitDecisions(), compactionDecisions(), hookDecisions(),
	} {
		for _, c := range table {
			seen[effectName(c.want)] = true
		}
	}
	for _, e := range []Effect{
		Nothing{}, StartTurn{}, Prepare{}, CallModel{}, Fallback{}, RunTools{}, FinishTool{}, Compact{}, CheckOutput{}, TellHooks{}, CompleteTurn{}, FailTurn{}, CancelTurn{}, ExpireAction{},
	} {
		if !seen[effectName(e)] {
			t.Errorf("no line of the table expects %T", e)
		}
	}
}

func turnDecisions() []decision {
	two := []step{submit("q", "queued", nil), submit("r", "queued", nil)}
	call := appendSteps(begun("t", nil), ask("t", 1, 1, "turn"))
	schema := &event.TurnOptions{OutputSchema: event.Raw(`{}`)}
	withSchema := appendSteps(begun("t", schema), ask("t", 1, 1, "turn"))
	return []decision{
		{name: "idle", want: Nothing{}},
		{name: "queued", story: two, want: StartTurn{"q"}},
		{name: "queued, in another order", story: appendSteps(two, newStep(event.TypeQueueChanged, event.Scope{ThreadID: "th"}, &event.QueueChanged{
			Queue: []event.QueueEntry{{TurnID: "r", Position: 1, Source: "user"}, {TurnID: "q", Position: 2, Source: "user"}}, Reason: "promoted",
		})), want: StartTurn{"r"}},
		{name: "accepted", story: []step{submit("t", "accepted", nil)}, want: StartTurn{"t"}},
		{name: "accepted, others wait", story: appendSteps(two, submit("t", "accepted", nil)), want: StartTurn{"t"}},
		{name: "started but not prepared", story: []step{submit("t", "accepted", nil), start("t")}, want: Prepare{"t"}},
		{name: "prepared for the turn before", story: appendSteps(begun("s", nil), ask("s", 1, 1, "turn"), answer("s", "end_turn", 1), ended("s"), submit("t", "accepted", nil), start("t")), want: Prepare{"t"}},
		{name: "prepared", story: begun("t", nil), want: CallModel{TurnID: "t", Step: 1, Attempt: 1}},
		{name: "no model", story: []step{submit("t", "accepted", nil), start("t"), newStep(event.TypeRoutingNotPossible, in("t"), &event.RoutingCandidates{
			Candidates: []event.Candidate{}, Excluded: []event.Exclusion{}, DecisionReason: "none can", CapabilityGap: "vision",
		})}, want: FailTurn{"t", "routing_not_possible", "none can"}},
		{name: "calling", story: call, want: Nothing{}},
		{name: "answered", story: appendSteps(call, answer("t", "end_turn", 1)), want: CompleteTurn{"t", "end_turn"}},
		{name: "cut short", story: appendSteps(call, answer("t", "max_tokens", 1)), want: CompleteTurn{"t", "max_tokens"}},
		{name: "refused", story: appendSteps(call, answer("t", "refusal", 1)), want: CompleteTurn{"t", "refusal"}},
		{name: "tool_use without a call", story: appendSteps(call, answer("t", "tool_use", 1)), want: CallModel{TurnID: "t", Step: 2, Attempt: 1}},
		{name: "steered after the call began", story: appendSteps(call, steer("t"), answer("t", "end_turn", 1)), want: CallModel{TurnID: "t", Step: 2, Attempt: 1}},
		{name: "steered before the call", story: appendSteps(begun("t", nil), steer("t"), ask("t", 1, 1, "turn"), answer("t", "end_turn", 1)), want: CompleteTurn{"t", "end_turn"}},
		{name: "output to check", story: appendSteps(withSchema, answer("t", "end_turn", 1)), want: CheckOutput{TurnID: "t"}},
		{name: "output to check, refused", story: appendSteps(withSchema, answer("t", "refusal", 1)), want: CompleteTurn{"t", "refusal"}},
		{name: "output asked for again", story: appendSteps(withSchema, answer("t", "end_turn", 1), ask("t", 2, 1, "repair"), answer("t", "end_turn", 1)), want: CheckOutput{"t", true}}, //nolint:gocritic // it is said twice
		{name: "asking for output again failed", story: appendSteps(withSchema, answer("t", "end_turn", 1), ask("t", 2, 1, "repair"), fails("t", "overloaded", true)), want: CallModel{"t", 2, 2, true}},
		{name: "output after tools", story: appendSteps(withSchema, answer("t", "tool_use", 1, "look"), starts("t", "look_0", "look", true), done("t", "look_0", "look")), want: CallModel{TurnID: "t", Step: 2, Attempt: 1}},
	}
}

func stopDecisions() []decision {
	call := appendSteps(begun("t", nil), ask("t", 1, 1, "turn"))
	limited := appendSteps(begun("t", &event.TurnOptions{TimeoutMs: 60_000}))
	rolling := newStep(event.TypeHistoryRollbackStarted, event.Scope{ThreadID: "th"}, &event.RollbackStarted{RollbackID: "rollback_a", ToTurnID: "s", RemovedTurns: []string{}, Files: "keep"})
	rolled := newStep(event.TypeHistoryRollbackCompleted, event.Scope{ThreadID: "th"}, &event.RollbackCompleted{RollbackID: "rollback_a", ToTurnID: "s", RemovedTurns: []string{}})
	waiting := appendSteps(call, answer("t", "tool_use", 1, "write"), judged("t", "write_0", "write", "ask"), waitingCall("t", "write_0", "write", "tool_permission", time.Time{}))
	return []decision{
		{name: "blocked, queued", story: []step{submit("q", "queued", nil), block("blocked")}, want: Nothing{}},
		{name: "blocked", story: appendSteps(begun("t", nil), block("blocked")), want: Nothing{}},
		{name: "blocked and resumed", story: appendSteps(begun("t", nil), block("blocked"), block("resumed")), want: CallModel{TurnID: "t", Step: 1, Attempt: 1}},
		{name: "blocked and interrupted", story: appendSteps(begun("t", nil), block("blocked"), interrupt("t")), want: CancelTurn{"t", "enough"}},
		{name: "accepted and interrupted", story: []step{submit("t", "accepted", nil), interrupt("t")}, want: CancelTurn{"t", "enough"}},
		{name: "calling and interrupted", story: appendSteps(call, interrupt("t")), want: CancelTurn{"t", "enough"}},
		{name: "answered and interrupted", story: appendSteps(call, answer("t", "end_turn", 1), interrupt("t")), want: CancelTurn{"t", "enough"}},
		{name: "waiting and interrupted", story: appendSteps(waiting, interrupt("t")), want: CancelTurn{"t", "enough"}},
		{name: "out of time and interrupted", story: appendSteps(limited, interrupt("t")), later: time.Hour, want: CancelTurn{"t", "enough"}},
		{name: "out of time", story: limited, later: time.Minute, want: FailTurn{"t", "timed_out", "the turn's time limit has passed"}},
		{name: "out of time in a call", story: appendSteps(limited, ask("t", 1, 1, "turn")), later: time.Minute, want: FailTurn{"t", "timed_out", "the turn's time limit has passed"}},
		{name: "in time", story: limited, later: 50 * time.Second, want: CallModel{TurnID: "t", Step: 1, Attempt: 1}},
		{name: "a limit that hasn't begun", story: []step{submit("t", "accepted", &event.TurnOptions{TimeoutMs: 1})}, later: time.Hour, want: StartTurn{"t"}},
		{name: "rolling back", story: []step{submit("q", "queued", nil), rolling}, want: Nothing{}},
		{name: "rolled back", story: []step{submit("q", "queued", nil), rolling, rolled}, want: StartTurn{"q"}},
	}
}

func modelDecisions() []decision {
	call := appendSteps(begun("t", nil), ask("t", 1, 1, "turn"))
	chain := []step{submit("t", "accepted", nil), start("t"), prepare("t", 1000, "p/n"), ask("t", 1, 1, "turn")}
	var out []decision
	for _, category := range []string{"rate_limited", "overloaded", "server_error", "timeout", "network", "malformed"} {
		again := CallModel{TurnID: "t", Step: 1, Attempt: 2}
		gaveUp := FailTurn{"t", "model_failed", category + ": m"}
		failOnce := func(base []step) []step { return appendSteps(base, fails("t", category, true), ask("t", 1, 2, "turn")) }
		fourth := appendSteps(failOnce(failOnce(call)), fails("t", category, true))
		out = append(
			out,
			decision{name: category + ", first", story: appendSteps(call, fails("t", category, true)), want: again},
			decision{name: category + ", third", story: fourth, want: CallModel{TurnID: "t", Step: 1, Attempt: 3}},
			decision{name: category + ", fourth", story: appendSteps(fourth, ask("t", 1, 4, "turn"), fails("t", category, true)), want: gaveUp},
			decision{name: category + ", not safe to repeat", story: appendSteps(call, fails("t", category, false)), want: gaveUp},
			decision{name: category + ", another model, first", story: appendSteps(chain, fails("t", category, true)), want: again},
		)
		second := decision{name: category + ", another model, second", story: appendSteps(failOnce(chain), fails("t", category, true))}
		second.want = Fallback{"t", category}
		if category == "network" || category == "malformed" {
			second.want = CallModel{TurnID: "t", Step: 1, Attempt: 3} // not a reason to change the model
		}
		out = append(out, second)
	}
	for _, category := range []string{"auth", "invalid_request", "content_filter"} {
		for name, base := range map[string][]step{"": call, ", another model": chain} {
			out = append(out, decision{name: category + name, story: appendSteps(base, fails("t", category, false)), want: FailTurn{"t", "model_failed", category + ": m"}})
		}
	}
	fallback := newStep(event.TypeRoutingFallbackApplied, in("t"), &event.RoutingDecision{
		Candidates: []event.Candidate{}, Excluded: []event.Exclusion{}, DecisionReason: "d", CapabilityGap: "none",
		SelectedProvider: "p", SelectedModel: "n", DecisionSource: "fallback", FallbackChain: []string{}, FromModel: "p/m",
	})
	failed := appendSteps(chain, fails("t", "overloaded", true))
	fell := appendSteps(failed, ask("t", 1, 2, "turn"), fails("t", "overloaded", true), fallback)
	often := call
	for range 9 {
		often = appendSteps(often, fails("t", "interrupted", true), ask("t", 1, 2, "turn"))
	}
	return append(
		out,
		decision{name: "not safe, another model", story: appendSteps(chain, fails("t", "overloaded", false)), want: Fallback{"t", "overloaded"}},
		decision{name: "fell back", story: fell, want: CallModel{TurnID: "t", Step: 1, Attempt: 3}},
		decision{name: "fell back, failed there too", story: appendSteps(fell, askOf("n", "t", 1, 3, "turn"), fails("t", "overloaded", true)), want: CallModel{TurnID: "t", Step: 1, Attempt: 4}},
		decision{
			name: "fell back, failed there too often", policy: func(p *Policy) { p.MaxTries = 1 },
			story: appendSteps(fell, askOf("n", "t", 1, 3, "turn"), fails("t", "overloaded", true)), want: FailTurn{"t", "model_failed", "overloaded: m"},
		},
		decision{name: "cut off often", story: appendSteps(often, fails("t", "interrupted", true)), want: CallModel{TurnID: "t", Step: 1, Attempt: 3}},
	)
}

func overflowDecisions() []decision {
	call := appendSteps(begun("t", nil), ask("t", 1, 1, "turn"))
	over := appendSteps(call, fails("t", "context_overflow", false))
	failed := func(n int) []step {
		out := over
		for range n {
			out = appendSteps(out, compacting("t", "context_overflow", 1), compactFailed("t", "context_overflow"))
		}
		return out
	}
	compacted := appendSteps(over, compacting("t", "context_overflow", 1), compactDone("t", "context_overflow", 10))
	lost := FailTurn{"t", "model_failed", "context_overflow: m"}
	return []decision{
		{name: "overflow", story: over, want: Compact{TurnID: "t", Trigger: "context_overflow", Attempt: 1}},
		{name: "overflow, compaction failed", story: failed(1), want: Compact{TurnID: "t", Trigger: "context_overflow", Attempt: 2}},
		{name: "overflow, compaction failed too often", story: failed(3), want: lost},
		{name: "overflow, compacted", story: compacted, want: CallModel{TurnID: "t", Step: 1, Attempt: 2}},
		{name: "overflow again after the compaction", story: appendSteps(compacted, ask("t", 1, 2, "turn"), fails("t", "context_overflow", false)), want: lost},
		{name: "overflow in the next step", story: appendSteps(
			compacted, ask("t", 1, 2, "turn"), answer("t", "tool_use", 1, "look"), starts("t", "look_0", "look", true), done("t", "look_0", "look"),
			ask("t", 2, 1, "turn"), fails("t", "context_overflow", false),
		), want: Compact{TurnID: "t", Trigger: "context_overflow", Attempt: 1}},
	}
}

func toolDecisions() []decision {
	call := appendSteps(begun("t", nil), ask("t", 1, 1, "turn"))
	wants := func(tools ...string) []step { return appendSteps(call, answer("t", "tool_use", 1, tools...)) }
	lost := func(readOnly bool, n int) []step { // as older versions recorded it
		out := wants("look")
		for range n {
			out = appendSteps(out, startsAsBefore("t", "look_0", "look", readOnly), broken("t", "look_0", "look", "lost"))
		}
		return out
	}
	runs := appendSteps(wants("look"), starts("t", "look_0", "look", true))
	next := CallModel{TurnID: "t", Step: 2, Attempt: 1}
	first := RunTools{"t", 0, 1}
	return []decision{
		{name: "a tool requested", story: wants("write"), want: first},
		{name: "writes one at a time", story: wants("write", "write"), want: first},
		{name: "the next write", story: appendSteps(wants("write", "write"), starts("t", "write_0", "write", false), done("t", "write_0", "write")), want: RunTools{"t", 1, 2}},
		{name: "the next write, the first failed", story: appendSteps(wants("write", "write"), starts("t", "write_0", "write", false), broken("t", "write_0", "write", "execution")), want: RunTools{"t", 1, 2}},
		{name: "reads side by side", story: wants("look", "find", "look"), want: RunTools{"t", 0, 3}},
		{name: "reads side by side up to a write", story: wants("look", "find", "write", "look"), want: RunTools{"t", 0, 2}},
		{name: "reads that may not run beside each other", story: wants("peek", "peek"), want: first},
		{name: "an unknown tool stands alone", story: wants("nope", "look"), want: first},
		{name: "a write, then reads", story: appendSteps(wants("write", "look", "find"), starts("t", "write_0", "write", false), done("t", "write_0", "write")), want: RunTools{"t", 1, 3}},
		{name: "part of a group ended", story: appendSteps(wants("look", "find"), starts("t", "look_0", "look", true), done("t", "look_0", "look")), want: RunTools{"t", 1, 2}},
		{name: "part of a group runs", story: appendSteps(wants("look", "find"), starts("t", "look_0", "look", true)), want: RunTools{"t", 0, 2}},
		{name: "all of a group run", story: appendSteps(wants("look", "find"), starts("t", "look_0", "look", true), starts("t", "find_1", "find", true)), want: Nothing{}},
		{name: "running", story: appendSteps(wants("write", "look"), starts("t", "write_0", "write", false)), want: Nothing{}},
		{name: "all ended", story: appendSteps(wants("look"), starts("t", "look_0", "look", true), done("t", "look_0", "look")), want: next},
		{name: "all ended, one failed", story: appendSteps(wants("look"), starts("t", "look_0", "look", true), broken("t", "look_0", "look", "not_found")), want: next},
		{name: "refused before it began", story: appendSteps(wants("write"), broken("t", "write_0", "write", "denied")), want: next},
		{name: "tools of an answer that says it ended", story: appendSteps(call, answer("t", "end_turn", 1, "look"), starts("t", "look_0", "look", true), done("t", "look_0", "look")), want: next},
		{name: "asked for", story: appendSteps(wants("write"), newStep(event.TypeToolStarted, inTool("t", "write_0"), &event.ToolStarted{ToolName: "write", Policy: event.PolicyPending})), want: first},
		{name: "a lost read", story: appendSteps(runs, loses("t", "look_0", "look")), want: first},
		{name: "a lost read runs again", story: appendSteps(runs, loses("t", "look_0", "look"), starts("t", "look_0", "look", true)), want: Nothing{}},
		{name: "a failure is the end, also of a lost read", story: appendSteps(runs, broken("t", "look_0", "look", "lost")), want: next},
		{name: "a lost read is run again", story: lost(true, 1), want: first},
		{name: "a lost read is run again, twice", story: lost(true, 2), want: first},
		{name: "a lost read is given up", story: lost(true, 3), want: next},
		{name: "a lost write is not run again", story: lost(false, 1), want: next},
		{name: "a lost write blocks", story: appendSteps(lost(false, 1), block("blocked")), want: Nothing{}},
	}
}

func askDecisions() []decision {
	at := epoch.Add(time.Hour)
	call := appendSteps(begun("t", nil), ask("t", 1, 1, "turn"))
	wants := appendSteps(call, answer("t", "tool_use", 1, "write", "look"))
	ask := func(kind string, expires time.Time) []step {
		return appendSteps(wants, judged("t", "write_0", "write", "ask"), waitingCall("t", "write_0", "write", kind, expires))
	}
	waits := ask("tool_permission", time.Time{})
	run := RunTools{"t", 0, 1}
	group := appendSteps(call, answer("t", "tool_use", 1, "look", "find"), judged("t", "look_0", "look", "ask"), waitingCall("t", "look_0", "look", "tool_permission", time.Time{}))
	input := appendSteps(call, answer("t", "tool_use", 1, "request_input"), question("t", "request_input_0", at))
	approved := appendSteps(waits, decided("t", "write_0", "write", "allow"), starts("t", "write_0", "write", false))
	violated := appendSteps(approved, waitingCall("t", "write_0", "write", "sandbox_escape", time.Time{}))
	return []decision{
		{name: "waits for permission", story: waits, want: Nothing{}},
		{name: "allowed", story: appendSteps(waits, decided("t", "write_0", "write", "allow")), want: run},
		{name: "denied", story: appendSteps(waits, decided("t", "write_0", "write", "deny")), want: run},
		{name: "cancelled", story: appendSteps(waits, decided("t", "write_0", "write", "cancel")), want: run},
		{name: "allowed and running", story: approved, want: Nothing{}},
		{name: "allowed and lost", story: appendSteps(approved, broken("t", "write_0", "write", "lost")), want: RunTools{"t", 1, 2}},
		{name: "one of a group waits", story: group, want: RunTools{"t", 0, 2}},
		{name: "the rest of a group ended", story: appendSteps(group, starts("t", "find_1", "find", true), done("t", "find_1", "find")), want: Nothing{}},
		{name: "not yet expired", story: ask("tool_permission", at), want: Nothing{}},
		{name: "expired", story: ask("tool_permission", at), later: time.Hour, want: ExpireAction{"action_write_0"}},
		{name: "expired and blocked", story: appendSteps(ask("tool_permission", at), block("blocked")), later: time.Hour, want: ExpireAction{"action_write_0"}},
		{name: "expired and interrupted", story: appendSteps(ask("tool_permission", at), interrupt("t")), later: time.Hour, want: ExpireAction{"action_write_0"}},
		{name: "hit the sandbox, asks to go outside", story: violated, want: Nothing{}},
		{name: "may go outside", story: appendSteps(violated, decided("t", "write_0", "write", "allow")), want: run},
		{name: "runs outside", story: appendSteps(violated, decided("t", "write_0", "write", "allow"), starts("t", "write_0", "write", false)), want: Nothing{}},
		{name: "a question waits", story: input, want: Nothing{}},
		{name: "a question is answered", story: appendSteps(input, answered("t", "request_input_0")), want: FinishTool{"t", "request_input_0", "action_request_input_0"}},
		{name: "a question expires", story: input, later: time.Hour, want: ExpireAction{"action_request_input_0"}},
	}
}

func limitDecisions() []decision {
	two := &event.TurnOptions{MaxSteps: 2}
	second := func(o *event.TurnOptions) []step {
		return appendSteps(
			begun("t", o), ask("t", 1, 1, "turn"), answer("t", "tool_use", 1, "look"), starts("t", "look_0", "look", true), done("t", "look_0", "look"),
			ask("t", 2, 1, "turn"), answer("t", "tool_use", 1, "find"), starts("t", "find_0", "find", true), done("t", "find_0", "find"),
		)
	}
	repeat := func(n int) []step {
		out := begun("t", nil)
		for i := range n {
			out = appendSteps(out, ask("t", int64(i+1), 1, "turn"), answer("t", "tool_use", 1, "look"), starts("t", "look_0", "look", true), done("t", "look_0", "look"))
		}
		return out
	}
	quota := newStep(event.TypeQuotaBlocked, in("t"), &event.QuotaState{QuotaName: "session_cost", Reason: "spent"})
	call := appendSteps(begun("t", nil), ask("t", 1, 1, "turn"), answer("t", "end_turn", 1))
	used := FailTurn{"t", "step_limit", "the turn has used its model calls"}
	return []decision{
		{name: "no steps left", story: second(two), want: used},
		{name: "no steps left, the policy's", story: second(nil), policy: func(p *Policy) { p.MaxSteps = 2 }, want: used},
		{name: "a step left", story: second(&event.TurnOptions{MaxSteps: 3}), want: CallModel{TurnID: "t", Step: 3, Attempt: 1}},
		{name: "the last step ends the turn", story: appendSteps(second(&event.TurnOptions{MaxSteps: 3}), ask("t", 3, 1, "turn"), answer("t", "end_turn", 1)), want: CompleteTurn{"t", "end_turn"}},
		{name: "repeats itself", story: repeat(5), want: CallModel{TurnID: "t", Step: 6, Attempt: 1}},
		{name: "repeats itself too often", story: appendSteps(repeat(7)), want: FailTurn{"t", "step_limit", "the model repeats the same calls and gets the same results"}},
		{name: "quota", story: appendSteps(begun("t", nil), quota), want: FailTurn{"t", "quota_blocked", "session_cost: spent"}},
		{name: "a hook blocked the prompt", story: []step{submit("t", "accepted", nil), hooked("t", "user_prompt_submit", "block"), start("t")}, want: FailTurn{"t", "hook_blocked", "the hook h blocked the turn: no"}},
		{name: "a hook blocked the session's start", story: []step{submit("t", "accepted", nil), hooked("t", "session_start", "deny"), start("t")}, want: FailTurn{"t", "hook_blocked", "the hook h blocked the turn: no"}},
		{name: "a hook blocked the answer", story: appendSteps(call, hooked("t", "post_sampling", "block")), want: FailTurn{"t", "hook_blocked", "the hook h blocked the turn: no"}},
		{name: "a hook let the answer pass", story: appendSteps(call, hooked("t", "post_sampling", "continue")), want: CompleteTurn{"t", "end_turn"}},
		{name: "a hook keeps the turn going", story: appendSteps(call, hooked("t", "stop", "block")), want: CallModel{TurnID: "t", Step: 2, Attempt: 1}},
		{name: "a hook that fails closed blocks", story: []step{submit("t", "accepted", nil), newStep(event.TypeHookFailed, in("t"), &event.HookFailed{
			HookRunID: "hook_a", Point: "user_prompt_submit", HandlerRef: "h", ErrorCategory: "timeout", Message: "slow", FailureBehavior: "closed",
		}), start("t")}, want: FailTurn{"t", "hook_blocked", "the hook h blocked the turn: slow"}},
		{name: "a hook that was cut off blocks nothing", story: []step{submit("t", "accepted", nil), newStep(event.TypeHookFailed, in("t"), &event.HookFailed{
			HookRunID: "hook_a", Point: "user_prompt_submit", HandlerRef: "h", ErrorCategory: "lost", Message: "gone", FailureBehavior: "closed",
		})}, want: StartTurn{"t"}},
	}
}

func compactionDecisions() []decision {
	full := appendSteps(begun("t", nil), ask("t", 1, 1, "turn"), answer("t", "tool_use", 800, "look"), starts("t", "look_0", "look", true), done("t", "look_0", "look"))
	part := func(n int) []step {
		out := full
		for range n {
			out = appendSteps(out, compacting("t", "context_fraction", 1), compactFailed("t", "context_fraction"))
		}
		return out
	}
	next := CallModel{TurnID: "t", Step: 2, Attempt: 1}
	fraction := func(n int64) Compact { return Compact{TurnID: "t", Trigger: "context_fraction", Attempt: n} }
	wanted := Compact{TurnID: "t", CompactionID: "compaction_a", Trigger: "requested", Attempt: 1}
	call := appendSteps(begun("t", nil), ask("t", 1, 1, "turn"))
	idle := appendSteps(call, answer("t", "end_turn", 1), ended("t"))
	before := appendSteps(begun("s", nil), ask("s", 1, 1, "turn"), answer("s", "end_turn", 900), ended("s"), submit("t", "accepted", nil), start("t"), prepare("t", 1000))
	return []decision{
		{name: "full", story: full, want: fraction(1)},
		{name: "full before the turn's first call", story: before, want: fraction(1)},
		{name: "not full", story: full, policy: func(p *Policy) { p.CompactAt = 0.9 }, want: next},
		{name: "never compacted", story: full, policy: func(p *Policy) { p.CompactAt = 0 }, want: next},
		{name: "window unknown", story: appendSteps([]step{submit("t", "accepted", nil), start("t"), prepare("t", 0)}, ask("t", 1, 1, "turn"), answer("t", "tool_use", 800, "look"), starts("t", "look_0", "look", true), done("t", "look_0", "look")), want: next},
		{name: "full, not again for a retry", story: appendSteps(before, compacting("t", "context_fraction", 1), compactDone("t", "context_fraction", 900), ask("t", 1, 1, "turn"), fails("t", "overloaded", true)), want: CallModel{TurnID: "t", Step: 1, Attempt: 2}},
		{name: "compaction failed", story: part(1), want: fraction(2)},
		{name: "compaction failed twice", story: part(2), want: fraction(3)},
		{name: "compaction failed too often", story: part(3), want: next},
		{name: "compaction failed too often, grown a little", story: appendSteps(part(3), ask("t", 2, 1, "turn"), answer("t", "tool_use", 849, "look"), starts("t", "look_0", "look", true), done("t", "look_0", "look")), want: CallModel{TurnID: "t", Step: 3, Attempt: 1}},
		{name: "compaction failed too often, grown enough", story: appendSteps(part(3), ask("t", 2, 1, "turn"), answer("t", "tool_use", 850, "look"), starts("t", "look_0", "look", true), done("t", "look_0", "look")), want: fraction(4)},
		{name: "compaction failed again after growing", story: appendSteps(part(3), ask("t", 2, 1, "turn"), answer("t", "tool_use", 850, "look"), starts("t", "look_0", "look", true), done("t", "look_0", "look"), compacting("t", "context_fraction", 4), compactFailed("t", "context_fraction")), want: CallModel{TurnID: "t", Step: 3, Attempt: 1}},
		{name: "compaction failed too often, too long in the same turn", story: appendSteps(part(3), ask("t", 2, 1, "turn"), fails("t", "context_overflow", false)), want: FailTurn{"t", "model_failed", "context_overflow: m"}},
		{name: "compaction failed too often, too long in another turn", story: appendSteps(part(3), ask("t", 2, 1, "turn"), answer("t", "end_turn", 800), ended("t"), submit("u", "accepted", nil), start("u"), prepare("u", 1000), ask("u", 1, 1, "turn"), fails("u", "context_overflow", false)), want: Compact{TurnID: "u", Trigger: "context_overflow", Attempt: 4}},
		{name: "compacted", story: appendSteps(full, compacting("t", "context_fraction", 1), compactDone("t", "context_fraction", 10)), want: next},
		{name: "still full after the compaction", story: appendSteps(full, compacting("t", "context_fraction", 1), compactDone("t", "context_fraction", 900)), want: next},
		{name: "no steps left, full", story: full, policy: func(p *Policy) { p.MaxSteps = 1 }, want: FailTurn{"t", "step_limit", "the turn has used its model calls"}},
		{name: "requested in an idle thread", story: appendSteps(idle, compacting("t", "requested", 1)), want: wanted},
		{name: "requested, a turn waits", story: appendSteps(idle, compacting("t", "requested", 1), submit("u", "queued", nil)), want: wanted},
		{name: "requested in a call", story: appendSteps(call, compacting("t", "requested", 1)), want: Nothing{}},
		{name: "requested in a tool call", story: appendSteps(call, answer("t", "tool_use", 1, "write"), starts("t", "write_0", "write", false), compacting("t", "requested", 1)), want: Nothing{}},
		{name: "requested between two steps", story: appendSteps(call, answer("t", "tool_use", 1, "write"), starts("t", "write_0", "write", false), done("t", "write_0", "write"), compacting("t", "requested", 0)), want: wanted},
		{name: "requested, failed", story: appendSteps(idle, compacting("t", "requested", 1), compactFailed("t", "requested")), want: Nothing{}},
		{name: "requested, interrupted", story: appendSteps(begun("t", nil), compacting("t", "requested", 1), interrupt("t")), want: CancelTurn{"t", "enough"}},
	}
}

func hookDecisions() []decision {
	told := func(p *Policy) { p.PostSampling = true }
	call := appendSteps(begun("t", nil), ask("t", 1, 1, "turn"))
	answered, called := appendSteps(call, answer("t", "end_turn", 1)), appendSteps(call, answer("t", "tool_use", 1, "look"))
	heard := func(point string, last bool) step {
		return newStep(event.TypeHookCompleted, in("t"), &event.HookCompleted{HookRunID: "hook_a", Point: point, HandlerRef: "h", Decision: "continue", Last: last})
	}
	lost := newStep(event.TypeHookFailed, in("t"), &event.HookFailed{
		HookRunID: "hook_a", Point: "post_sampling", HandlerRef: "h", ErrorCategory: "lost", Message: "m", FailureBehavior: "open", Last: true,
	})
	tell := TellHooks{"t", "req_1"}
	return []decision{
		{name: "nobody is told of answers", story: answered, want: CompleteTurn{"t", "end_turn"}},
		{name: "hooks are told of an answer", story: answered, policy: told, want: tell},
		{name: "hooks are told before tools run", story: called, policy: told, want: tell},
		{name: "not all hooks were told", story: appendSteps(answered, heard("post_sampling", false)), policy: told, want: tell},
		{name: "hooks of another point were told", story: appendSteps(answered, heard("stop", true)), policy: told, want: tell},
		{name: "the last hook was lost", story: appendSteps(answered, lost), policy: told, want: tell},
		{name: "all hooks were told", story: appendSteps(answered, heard("post_sampling", true)), policy: told, want: CompleteTurn{"t", "end_turn"}},
		{name: "all hooks were told, tools to run", story: appendSteps(called, heard("post_sampling", true)), policy: told, want: RunTools{"t", 0, 1}},
		{name: "hooks are told of each answer", story: appendSteps(called, heard("post_sampling", true), starts("t", "look_0", "look", true), done("t", "look_0", "look"), ask("t", 2, 1, "turn"), answer("t", "end_turn", 1)), policy: told, want: TellHooks{"t", "req_2"}},
		{name: "answered and interrupted, hooks", story: appendSteps(answered, interrupt("t")), policy: told, want: CancelTurn{"t", "enough"}},
	}
}

func TestWakeAt(t *testing.T) {
	at := epoch.Add(time.Hour)
	call := appendSteps(begun("t", &event.TurnOptions{TimeoutMs: 60_000}), ask("t", 1, 1, "turn"), answer("t", "tool_use", 1, "write"), judged("t", "write_0", "write", "ask"))
	end := newStory(t, call...).s.Thread("th").Active.StartedAt.Add(time.Minute)
	for _, c := range []struct {
		name  string
		story []step
		want  time.Time
	}{
		{"nothing", nil, time.Time{}},
		{"a deadline", call, end},
		{"a deadline before an expiry", appendSteps(call, waitingCall("t", "write_0", "write", "tool_permission", at)), end},
		{"an expiry before a deadline", appendSteps(call, waitingCall("t", "write_0", "write", "tool_permission", epoch.Add(time.Second))), epoch.Add(time.Second)},
		{"an expiry alone", appendSteps(begun("t", nil), ask("t", 1, 1, "turn"), answer("t", "tool_use", 1, "write"), waitingCall("t", "write_0", "write", "tool_permission", at)), at},
	} {
		if got := wakeAt(newStory(t, c.story...).s, "th"); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := wakeAt(state.New("sess_a"), "none"); !got.IsZero() {
		t.Errorf("a thread that isn't there: %v", got)
	}
}
