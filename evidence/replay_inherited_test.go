package evidence_test

import (
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/model/provider/script"
)

// forkOf forks the thread of a session where it ends.
func (k *kit) forkOf(sessionID string) *command.ForkThreadResult {
	k.Helper()
	facts := k.facts(sessionID)
	i := slices.IndexFunc(facts, func(e *event.Event) bool { return e.Type == event.TypeThreadStarted })
	return do[command.ForkThreadResult](k, &command.ForkThread{SessionID: sessionID, ThreadID: facts[i].ThreadID, AtSequence: facts[len(facts)-1].Sequence})
}

// TestReplayTakesInheritedTurnsBack: a fork that goes back behind its beginning, in steps
// and then to nothing, does so again, with the files that it says were changed before.
func TestReplayTakesInheritedTurnsBack(t *testing.T) {
	write := func(path string) script.Answer {
		return wants("write_file", map[string]any{"path": path, "content": "a"})
	}
	k := newKit(
		t, nil, script.Answer{Text: "one"}, write("b.txt"), script.Answer{Text: "two"}, write("c.txt"), script.Answer{Text: "three"}, script.Answer{Text: "four"},
		write("own.txt"), script.Answer{Text: "own"}, script.Answer{Text: "next"}, script.Answer{Text: "anew"},
	)
	var turns []string
	for _, text := range []string{"one", "two", "three", "four"} {
		turns = append(turns, k.turn("sess_origin", text, nil))
	}
	fork := k.forkOf("sess_origin")
	back := func(to string) {
		do[command.RollbackThreadResult](k, &command.RollbackThread{SessionID: fork.SessionID, ThreadID: fork.ThreadID, ToTurnID: to, ToStart: to == ""})
	}
	k.turn(fork.SessionID, "own", nil)
	back(turns[2])
	back(turns[2]) // nothing is left to be taken back
	k.turn(fork.SessionID, "next", nil)
	back(turns[0])
	back("")
	k.turn(fork.SessionID, "anew", nil)

	c := caseOf(k, command.ExportScope{SessionID: fork.SessionID})
	var told []string
	for _, x := range c.Inherited {
		told = append(told, x.TurnID)
	}
	if !slices.Equal(told, turns) {
		t.Errorf("the case has the inherited turns %v, not %v", told, turns)
	}
	finds(k, fork.SessionID, map[string]mutant{
		"no rollback":      {without(evidence.ActRollback), "history.rollback.completed"},
		"another turn":     {func(c *evidence.Case) { c.Acts[2].TurnID = turns[1] }, "history.rollback.completed"},
		"one turn less":    {func(c *evidence.Case) { c.Inherited = c.Inherited[:3] }, "history.rollback.completed: removed was \"2\" and is \"1\""},
		"no files of them": {func(c *evidence.Case) { c.Inherited[2].Changed = nil }, "history.rollback.completed: files was \"b.txt c.txt\" and is \"\""},
	})
}

// TestReplayOfALargePlan: a plan that is behind a reference is in the case as a whole.
func TestReplayOfALargePlan(t *testing.T) {
	long := "# Plan\n" + strings.Repeat("and another step\n", 2000) + "the end"
	k := newKit(t, func(o *agentd.Options) { o.Loop.Host.Mode = "plan" }, wants("present_plan", map[string]any{"plan": long}), script.Answer{Text: "done"})
	r := k.submit("sess_plan", "go", nil)
	q := k.sees(r, event.TypeActionRequired)
	do[command.RespondActionResult](k, &command.RespondAction{ActionID: q.ActionID, Decision: "deny"})
	k.sees(r, event.TypeTurnCompleted)
	c := caseOf(k, command.ExportScope{SessionID: "sess_plan"})
	if got := string(c.Answers[0].Message.ToolCalls[0].Arguments); !strings.Contains(got, "the end") {
		t.Errorf("the case has %d bytes of the plan", len(got))
	}
	finds(k, "sess_plan", map[string]mutant{
		"another answer": {func(c *evidence.Case) { c.Decisions[0].Decision = "allow" }, "action.resolved: decision was"},
		"a short plan": {func(c *evidence.Case) {
			x := &c.Answers[0].Message.ToolCalls[0]
			x.Arguments, x.ArgumentsRef = event.Raw(`{"plan":"none"}`), ""
		}, "call 1 was"},
	})
}
