package loop

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentd/event"
	"agentd/event/eventtest"
	"agentd/state"
)

func effectName(e Effect) string { return fmt.Sprintf("%T", e) }

// known are the ids that random facts are about, so that facts meet.
var known = map[string][]string{
	"ThreadID": {"th"}, "TurnID": {"t", "u"}, "TaskID": {"task_t"}, "RunID": {"run_t"}, "ToolCallID": {"look_0", "write_0", "request_input_0"},
	"ActionID": {"action_look_0", "action_write_0"}, "ModelRequestID": {"req_1", "req_2"}, "CompactionID": {"compaction_a"}, "RollbackID": {"rollback_a"},
	"ToolName": {"look", "write"}, "HookRunID": {"hook_a"}, "ToTurnID": {"t"},
}

// anyFact draws a valid fact of any type about the known ids.
func anyFact(t *rapid.T) step {
	e := eventtest.Event(t, eventtest.Type().Draw(t, "type"))
	meet(t, reflect.ValueOf(&e.Scope).Elem())
	meet(t, reflect.ValueOf(e.Payload).Elem())
	return func(st *story) {
		e.SessionID, e.Sequence, e.Time = "sess_a", st.s.Sequence+1, epoch.Add(time.Duration(st.s.Sequence)*time.Second)
		if event.Check(e) != nil {
			return
		}
		if _, err := st.s.Apply(e); err != nil {
			st.t.Fatalf("%v", err)
		}
	}
}

func meet(t *rapid.T, v reflect.Value) {
	for i := range v.NumField() {
		if pool, ok := known[v.Type().Field(i).Name]; ok && v.Field(i).Kind() == reflect.String && v.Field(i).Len() > 0 {
			v.Field(i).SetString(rapid.SampledFrom(pool).Draw(t, v.Type().Field(i).Name))
		}
	}
}

// likely are facts that follow each other in turns, so that random stories reach
// what fully random ones hardly do.
func likely(t *rapid.T) step {
	turn := rapid.SampledFrom([]string{"t", "t", "u"}).Draw(t, "turn")
	name := rapid.SampledFrom([]string{"look", "write", "request_input"}).Draw(t, "tool")
	call := name + "_0"
	n := rapid.Int64Range(1, 4).Draw(t, "n")
	var expires time.Time
	if rapid.Bool().Draw(t, "expires") {
		expires = epoch.Add(time.Duration(n) * time.Minute)
	}
	options := &event.TurnOptions{MaxSteps: n, TimeoutMs: n * 10_000}
	if rapid.Bool().Draw(t, "schema") {
		options.OutputSchema = event.Raw(`{}`)
	}
	category := rapid.SampledFrom([]string{"rate_limited", "overloaded", "auth", "context_overflow", "interrupted", "network"}).Draw(t, "category")
	purpose := rapid.SampledFrom([]string{"turn", "turn", "repair", "compaction"}).Draw(t, "purpose")
	return rapid.SampledFrom([]step{
		submit(turn, "accepted", options), submit(turn, "queued", nil), start(turn), prepare(turn, 1000, "p/n"), prepare(turn, 0),
		ask(turn, n, n, purpose), ask(turn, n, 1, "turn"), answer(turn, "end_turn", 100*n), answer(turn, "tool_use", 300*n, name, "look", "find"),
		fails(turn, category, n > 1), judged(turn, call, name, "ask"), judged(turn, call, name, "allow"), waitingCall(turn, call, name, "tool_permission", expires),
		decided(turn, call, name, "allow"), decided(turn, call, name, "deny"), starts(turn, call, name, n > 2), startsAsBefore(turn, call, name, n > 2), loses(turn, call, name), done(turn, call, name), broken(turn, call, name, "lost"),
		question(turn, call, expires), answered(turn, call), interrupt(turn), steer(turn), block("blocked"), block("resumed"),
		compacting(turn, "requested", n), compacting(turn, "context_fraction", n), compactFailed(turn, "context_fraction"), compactDone(turn, "context_overflow", 900),
		hooked(turn, "post_sampling", "block"), hooked(turn, "stop", "block"), ended(turn),
	}).Draw(t, "step")
}

func anyStory(t *rapid.T) *story {
	st := newStory(t)
	first := appendSteps(begun("t", nil), ask("t", 1, 1, "turn"))
	beginnings := [][]step{
		nil,
		appendSteps(first, answer("t", "tool_use", 10, "look", "write")),
		appendSteps(first, answer("t", "end_turn", 10)),
		appendSteps(first, fails("t", "auth", false)),
		appendSteps(first, answer("t", "tool_use", 10, "request_input"), question("t", "request_input_0", time.Time{}), answered("t", "request_input_0")),
		appendSteps(begun("t", &event.TurnOptions{OutputSchema: event.Raw(`{}`)}), ask("t", 1, 1, "turn"), answer("t", "end_turn", 10)),
	}
	for _, s := range rapid.SampledFrom(beginnings).Draw(t, "beginning") {
		s(st)
	}
	for range rapid.IntRange(0, 25).Draw(t, "facts") {
		if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
			anyFact(t)(st)
		} else {
			likely(t)(st)
		}
	}
	return st
}

// TestNextOfAnyFacts: whatever facts there are, Next doesn't panic, says the same
// twice and the same after a restart, changes nothing, and speaks of what is there.
func TestNextOfAnyFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := anyStory(t)
		now := st.now().Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "later")) * time.Second)
		p := DefaultPolicy()
		before := st.s.Encode()
		got := p.Next(st.s, "th", now)
		if again := p.Next(st.s, "th", now); got != again { // != panics for effects that can't be compared
			t.Fatalf("%#v, then %#v", got, again)
		}
		restarted, err := state.Decode(before)
		if err != nil {
			t.Fatal(err)
		}
		if again := p.Next(restarted, "th", now); got != again {
			t.Fatalf("%#v, after a restart %#v", got, again)
		}
		if !slices.Equal(before, st.s.Encode()) {
			t.Fatal("Next changed the state")
		}
		checkEffect(t, st.s, got)
	})
}

// TestAnyStoryReachesManyEffects: the random stories are no empty ones. Their seeds
// are fixed here, so that it doesn't depend on luck.
func TestAnyStoryReachesManyEffects(t *testing.T) {
	stories := rapid.Custom(func(t *rapid.T) Effect {
		st := anyStory(t)
		now := st.now().Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "later")) * time.Second)
		p := DefaultPolicy()
		return p.Next(st.s, "th", now)
	})
	reached := map[string]int{}
	for seed := range 300 {
		reached[effectName(stories.Example(seed))]++
	}
	t.Logf("reached %v", reached)
	if len(reached) < 10 {
		t.Errorf("300 stories reach only %v: they show too little", reached)
	}
}

// checkEffect checks an effect against the state that it speaks of.
func checkEffect(t *rapid.T, s *state.Session, e Effect) {
	th := s.Thread("th")
	if e == (Nothing{}) {
		return
	}
	if th == nil {
		t.Fatalf("%#v in a thread that isn't there", e)
	}
	switch e := e.(type) {
	case ExpireAction:
		if a := s.Actions.Find(e.ActionID); a == nil || a.Status != state.ActionPending {
			t.Fatalf("%#v: the action doesn't wait", e)
		}
		return
	case Compact:
		if e.Attempt < 1 {
			t.Fatalf("%#v", e)
		}
		return
	case StartTurn:
		if th.Turn(e.TurnID) == nil {
			t.Fatalf("%#v: there is no such turn", e)
		}
		return
	case RunTools:
		if e.From < 0 || e.From >= e.To || e.To > len(th.Active.Tools) {
			t.Fatalf("%#v of %d calls", e, len(th.Active.Tools))
		}
	}
	if id := reflect.ValueOf(e).FieldByName("TurnID").String(); th.Active == nil || th.Active.TurnID != id {
		t.Fatalf("%#v is not about the turn that is active", e)
	}
}
