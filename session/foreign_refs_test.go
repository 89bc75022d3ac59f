package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
)

// largeInput is too long to stand in a fact, so it is behind a reference.
var largeInput = strings.Repeat("The secret of acme. ", 1000)

// TestRefsOfOthersLookUnknown gives every command that takes an input a reference to what
// another account stored, in each kind of part, and one to what nobody stored: the
// answers are the same, and nothing is written.
func TestRefsOfOthersLookUnknown(t *testing.T) {
	k := runtimetest.New(t)
	acme, stranger := callerOf("acme"), callerOf("stranger")
	run := func(c command.Caller, p command.Params) error {
		_, err := k.Runtime.Do(t.Context(), c, p)
		return err
	}
	theirs, own := storedInput(t, k, acme, "sess_acme"), storedInput(t, k, stranger, "sess_own")
	nobodys := "sha256:" + strings.Repeat("0", 64)
	mustRun(t, run, stranger, "create_task", `{"sessionId":"sess_own","taskId":"task_own","objective":"x"}`)

	tried := map[command.Name]bool{}
	for _, d := range command.Catalog() {
		for _, kind := range []string{"ref", "file", "image"} {
			ask := func(ref string) (answer string, ok bool) {
				p := withInput(t, d, `[{"type":"text","text":"look"},{"type":"`+kind+`","ref":"`+ref+`"}]`)
				if p == nil {
					return "", false
				}
				return answerTo(run(stranger, p), ref), true
			}
			foreign, ok := ask(theirs)
			if !ok {
				continue
			}
			tried[d.Name] = true
			unknown, _ := ask(nobodys)
			if want := `invalid_params "input[1].ref: there is no output ID"`; foreign != unknown || !strings.HasPrefix(foreign, want) {
				t.Errorf("%s with a %s of another account: %s\n of nobody: %s\n want %s", d.Name, kind, foreign, unknown, want)
			}
			if mine, _ := ask(own); strings.Contains(mine, "there is no output") {
				t.Errorf("%s with a %s of its own: %s", d.Name, kind, mine)
			}
		}
	}
	for _, name := range []command.Name{"submit_turn", "spawn_subagent", "send_subagent_input", "start_benchmark_trial"} {
		if !tried[name] {
			t.Errorf("%s was not tried; its input isn't marked as one", name)
		}
	}
}

// TestExportsByAdminsHaveNothingOfOthers: what an admin exports, the session's account can
// read. A reference to what another account stored stays one that can't be read.
func TestExportsByAdminsHaveNothingOfOthers(t *testing.T) {
	k := runtimetest.New(t)
	theirs := storedInput(t, k, callerOf("acme"), "sess_acme")
	own := storedInput(t, k, callerOf("stranger"), "sess_own")
	run := func(c command.Caller, p command.Params) error {
		_, err := k.Runtime.Do(t.Context(), c, p)
		return err
	}
	mustRun(t, run, callerOf("stranger"), "create_task", `{"sessionId":"sess_own","taskId":"task_own","objective":"x","worker":"external","start":true}`)
	mustRun(t, run, callerOf("stranger"), "complete_task", fmt.Sprintf(`{"taskId":"task_own","evidenceRefs":[%q,%q]}`, theirs, own))
	var pack struct {
		Contents []struct {
			Ref    string `json:"ref"`
			Status string `json:"status"`
		} `json:"contents"`
	}
	res := runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_own"}})
	if err := json.Unmarshal(res.Pack, &pack); err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	for _, c := range pack.Contents {
		status[c.Ref] = c.Status
	}
	if status[own] != "stored" || status[theirs] == "stored" || status[theirs] == "" {
		t.Errorf("in an admin's export the account's own content is %q and that of another account %q", status[own], status[theirs])
	}
}

func callerOf(account string) command.Caller {
	return command.Caller{Account: account, Actor: event.Actor{Kind: "user"}}
}

// storedInput has a caller submit a large input to a session of its own and returns the
// reference that it is stored behind.
func storedInput(t *testing.T, k *runtimetest.Kit, c command.Caller, sessionID string) string {
	t.Helper()
	res, err := k.Runtime.Do(t.Context(), c, &command.SubmitTurn{SessionID: sessionID, Create: true, Input: command.Text(largeInput + c.Account)})
	if err != nil {
		t.Fatal(err)
	}
	k.Completes(res.(*command.SubmitTurnResult))
	for _, e := range k.Facts(sessionID) {
		if p, ok := e.Payload.(*event.TurnSubmitted); ok && p.InputRef != "" {
			return p.InputRef
		}
	}
	t.Fatal("the input is in its fact")
	return ""
}

// withInput returns a command's example with another input; nil if it takes none.
func withInput(t *testing.T, d command.Def, input string) command.Params {
	t.Helper()
	var example map[string]json.RawMessage
	if err := json.Unmarshal([]byte(d.Example), &example); err != nil {
		t.Fatal(err)
	}
	example["input"] = json.RawMessage(input)
	if _, ok := example["sessionId"]; ok {
		example["sessionId"] = json.RawMessage(`"sess_own"`)
	}
	body, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	p, err := command.Decode(d.Name, body)
	if err != nil || p.Validate() != nil {
		return nil
	}
	if used, err := command.UsedRefs(p); err != nil || len(used) == 0 {
		return nil
	}
	return p
}

// answerTo describes an error without the id that it is about.
func answerTo(err error, id string) string {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%s %q retry %v elsewhere %q", f.Kind, strings.ReplaceAll(f.Detail, id, "ID"), f.RetryAfter, f.Elsewhere)
}
