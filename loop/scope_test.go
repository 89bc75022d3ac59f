package loop_test

import (
	"encoding/json"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
)

// TestFactsOfATurnNameItsTask: what happens to a turn's process, its requests, its
// child and its summary after the turn itself was written down names the same task
// and run, and in a child's thread the child. So evidence of a task has them.
func TestFactsOfATurnNameItsTask(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	work := &script.When{Contains: "child work"}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("default"), runtimetest.WithShell),
		script.Answer{When: work, Tools: []script.Tool{{Name: "shell", Arguments: map[string]any{"command": "tee copy", "background": true}}}},
		script.Answer{When: work, Text: "it runs"})
	parent := k.Submit("sess_a", "hello")
	k.Completes(parent)
	child := runtimetest.Do[command.SpawnSubagentResult](k, &command.SpawnSubagent{SessionID: "sess_a", ThreadID: parent.ThreadID, Input: runtimetest.Quoted("child work")})
	actionID, _ := k.WaitForAction("sess_a", 1)
	k.Respond(actionID, "allow")
	wait := &command.WaitSubagents{SubagentIDs: []string{child.SubagentID}, TimeoutMs: 600_000}
	runtimetest.Do[command.WaitSubagentsResult](k, wait)

	started := k.WaitFor("sess_a", runtimetest.FactIs(event.TypeProcessStarted, ""))
	runtimetest.Do[command.WriteProcessStdinResult](k, &command.WriteProcessStdin{ProcessID: started.ProcessID, Data: "hello\n", EOF: true})
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeProcessCompleted, ""))
	runtimetest.Refused(k, &command.WriteProcessStdin{ProcessID: started.ProcessID, Data: "x"}, "unavailable")
	runtimetest.Do[command.SubagentResult](k, &command.SendSubagentInput{SubagentID: child.SubagentID, Input: runtimetest.Quoted("more")})
	runtimetest.Do[command.WaitSubagentsResult](k, wait)
	runtimetest.Do[command.RollbackThreadResult](k, &command.RollbackThread{SessionID: "sess_a", ThreadID: child.ThreadID, ToTurnID: started.TurnID})
	runtimetest.Do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: child.ThreadID})

	seen := map[event.Type]bool{}
	for _, e := range k.Facts("sess_a") {
		seen[e.Type] = true
		if e.TurnID != "" && e.TurnID != event.NotApplicable && (e.TaskID == "" || e.RunID == "") {
			t.Errorf("%s is of turn %s, task %q, run %q", e.Type, e.TurnID, e.TaskID, e.RunID)
		}
		if e.ThreadID == child.ThreadID && e.SubagentID != child.SubagentID {
			t.Errorf("%s is of the child's thread and names the child %q", e.Type, e.SubagentID)
		}
	}
	for _, typ := range []event.Type{
		event.TypeActionResolved, event.TypePermissionResolved, event.TypeProcessInput, event.TypeRuntimeWarning,
		event.TypeSubagentInput, event.TypeSubagentCompleted, event.TypeHistoryRollbackCompleted, event.TypeContextCompactionCompleted,
	} {
		if !seen[typ] {
			t.Errorf("the story has no %s", typ)
		}
	}
	packHas(k, started.TaskID, event.TypeProcessInput)
}

// packHas holds that the evidence of a task has a fact of the type.
func packHas(k *runtimetest.Kit, taskID string, typ event.Type) {
	k.Helper()
	res := runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_a", TaskID: taskID}})
	var pack struct {
		Events []struct{ Data string }
	}
	if err := json.Unmarshal(res.Pack, &pack); err != nil {
		k.Fatal(err)
	}
	for _, e := range pack.Events {
		if fact, err := event.Decode([]byte(e.Data)); err != nil {
			k.Fatal(err)
		} else if fact.Type == typ {
			return
		}
	}
	k.Errorf("of %d facts in the evidence of the task none is %s", len(pack.Events), typ)
}
