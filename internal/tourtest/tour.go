// Package tourtest drives the commands about work and proof, for tests that hold
// every answer against a document: the schemas, and the OpenAPI document.
package tourtest

import (
	"encoding/json"
	"fmt"
	"testing"

	"agentd/command"
	"agentd/model/provider/script"
)

// Do carries out a command and returns its result. It fails the test if the
// command fails or its answer doesn't fit.
type Do func(name command.Name, body string) json.RawMessage

// Answers are what the script provider needs for [Tour].
func Answers() []script.Answer {
	return []script.Answer{
		{When: &script.When{Contains: "fail this"}, Error: &script.Error{Category: "invalid_request", Message: "no"}},
		{When: &script.When{Contains: "Look"}, Text: "It is fine."},
		{When: &script.When{Contains: "Say it."}, Text: "It is said."},
	}
}

// Tour carries out the commands about tasks, subagents, jobs, schedules and evidence in a
// session that has a finished turn.
func Tour(t *testing.T, sessionID, threadID, turnID string, do Do) {
	t.Helper()
	tasks(t, sessionID, do)
	subagents(t, sessionID, threadID, do)
	jobs(t, sessionID, do)
	do("create_schedule", fmt.Sprintf(`{"scheduleId":"schedule_a","sessionId":%q,"cron":"@yearly","task":{"objective":"x"}}`, sessionID))
	do("list_schedules", `{}`)
	do("delete_schedule", `{"scheduleId":"schedule_a"}`)
	where := fmt.Sprintf(`{"sessionId":%q,"turnId":%q}`, sessionID, turnID)
	do("export_evidence", where)
	do("export_replay", where)
	do("export_review", where)
}

func tasks(t *testing.T, sessionID string, do Do) {
	t.Helper()
	do("create_task", fmt.Sprintf(`{"taskId":"task_a","sessionId":%q,"objective":"Write it down.","worker":"external","heartbeatTimeoutMs":60000}`, sessionID))
	do("update_task", `{"taskId":"task_a","title":"Writing"}`)
	run := field(t, do("start_task", `{"taskId":"task_a"}`), "runId")
	do("append_task_progress", fmt.Sprintf(`{"taskId":"task_a","runId":%q,"progress":{"phase":"working","percent":50}}`, run))
	do("pause_task", `{"taskId":"task_a"}`)
	do("resume_task", `{"taskId":"task_a"}`)
	do("create_task", fmt.Sprintf(`{"taskId":"task_b","sessionId":%q,"objective":"Read it.","worker":"external","heartbeatTimeoutMs":60000,"retryPolicy":{"maxAttempts":1}}`, sessionID))
	do("link_tasks", `{"taskId":"task_b","kind":"source_task","targetId":"task_a"}`)
	do("unlink_tasks", `{"taskId":"task_b","kind":"source_task","targetId":"task_a"}`)
	do("complete_task", `{"taskId":"task_a","summary":"It is written."}`)
	do("get_task", `{"taskId":"task_a"}`)
	do("list_tasks", fmt.Sprintf(`{"sessionId":%q}`, sessionID))
	do("start_task", `{"taskId":"task_b"}`)
	do("fail_task", `{"taskId":"task_b","error":{"message":"it is not there","category":"not_found"}}`)
	do("retry_task", `{"taskId":"task_b","reason":"it is there now"}`)
	do("cancel_task", `{"taskId":"task_b"}`)
	do("archive_task", `{"taskId":"task_a"}`)
}

func subagents(t *testing.T, sessionID, threadID string, do Do) {
	t.Helper()
	do("spawn_subagent", fmt.Sprintf(`{"subagentId":"sub_a","sessionId":%q,"threadId":%q,"role":"reviewer","input":"Look at it."}`, sessionID, threadID))
	do("wait_subagents", `{"subagentIds":["sub_a"],"timeoutMs":60000}`)
	do("send_subagent_input", `{"subagentId":"sub_a","input":"Look again."}`)
	do("wait_subagents", `{"subagentIds":["sub_a"],"timeoutMs":60000}`)
	do("resume_subagent", `{"subagentId":"sub_a"}`)
	do("list_subagents", fmt.Sprintf(`{"sessionId":%q,"descendants":true}`, sessionID))
	do("close_subagent", `{"subagentId":"sub_a"}`)
}

func jobs(t *testing.T, sessionID string, do Do) {
	t.Helper()
	do("create_job", fmt.Sprintf(`{"jobId":"job_a","sessionId":%q,"instruction":"Say it.","items":[{"itemId":"a","input":"this"},{"itemId":"b","input":"fail this"}],"start":false}`, sessionID))
	do("start_job", `{"jobId":"job_a"}`)
	waitForJob(t, "job_a", do)
	do("retry_job_item", `{"jobId":"job_a","itemId":"b"}`)
	waitForJob(t, "job_a", do)
	do("list_jobs", fmt.Sprintf(`{"sessionId":%q}`, sessionID))
	do("create_job", fmt.Sprintf(`{"jobId":"job_b","sessionId":%q,"instruction":"Say it.","items":[{"input":"this"}],"start":false}`, sessionID))
	do("cancel_job", `{"jobId":"job_b"}`)
}

// waitForJob asks until nothing of the job is pending or running.
func waitForJob(t *testing.T, jobID string, do Do) {
	t.Helper()
	for t.Context().Err() == nil {
		var job struct {
			Progress struct {
				Pending int64 `json:"pending"`
				Running int64 `json:"running"`
			} `json:"progress"`
		}
		if err := json.Unmarshal(do("get_job", fmt.Sprintf(`{"jobId":%q}`, jobID)), &job); err != nil {
			t.Fatal(err)
		}
		if job.Progress.Pending == 0 && job.Progress.Running == 0 {
			return
		}
	}
}

func field(t *testing.T, result json.RawMessage, name string) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(result, &all); err != nil {
		t.Fatal(err)
	}
	v, _ := all[name].(string)
	if v == "" {
		t.Fatalf("the result has no %s: %s", name, result)
	}
	return v
}
