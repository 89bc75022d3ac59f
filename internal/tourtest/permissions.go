package tourtest

import (
	"encoding/json"
	"fmt"
	"testing"

	"agentd/command"
)

// projectRules answers a question for the project, lists what was kept and forgets it.
func projectRules(t *testing.T, do Do) {
	t.Helper()
	do("create_session", `{"sessionId":"sess_kept"}`)
	do("submit_turn", `{"sessionId":"sess_kept","input":"Keep it.","options":{"permissionMode":"default"}}`)
	var list struct {
		Actions []struct {
			ActionID string `json:"actionId"`
		} `json:"actions"`
	}
	for len(list.Actions) == 0 && t.Context().Err() == nil && !t.Failed() {
		if err := json.Unmarshal(do("list_actions", `{"status":"pending","sessionId":"sess_kept"}`), &list); err != nil {
			t.Fatal(err)
		}
	}
	var answered command.RespondActionResult
	if err := json.Unmarshal(do("respond_action", fmt.Sprintf(`{"actionId":%q,"decision":"allow","scope":"project"}`, list.Actions[0].ActionID)), &answered); err != nil {
		t.Fatal(err)
	}
	if len(answered.KeptRules) != 1 {
		t.Fatalf("kept %+v", answered.KeptRules)
	}
	do("suggest_policy", `{"sessionId":"sess_kept","limit":3}`)
	var models command.ListModelsResult
	if err := json.Unmarshal(do("list_models", `{}`), &models); err != nil || len(models.Models) == 0 {
		t.Fatalf("no models: %v", err)
	}
	do("test_reviewer", fmt.Sprintf(`{"sessionId":"sess_kept","model":%q,"limit":1}`, models.Models[0].Provider+"/"+models.Models[0].Model))
	do("list_project_rules", fmt.Sprintf(`{"workspace":%q,"limit":1}`, answered.KeptRules[0].Workspace))
	do("forget_project_rule", fmt.Sprintf(`{"ruleId":%q,"reason":"it was a tour"}`, answered.KeptRules[0].RuleID))
}
