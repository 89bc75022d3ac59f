// Package tourtest drives the commands about work and proof, for tests that hold
// every answer against a document: the schemas, and the OpenAPI document.
package tourtest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/server"
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
		{When: &script.When{Contains: "Keep it."}, Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "kept/a.txt", "content": "a"}}}},
		{When: &script.When{Contains: "Keep it."}, Text: "It is kept."},
	}
}

// Tour carries out the commands about tasks, subagents, jobs, schedules, evidence, sessions and trials in a
// session that has a finished turn.
func Tour(t *testing.T, sessionID, threadID, turnID string, do Do) {
	t.Helper()
	tourTasks(t, sessionID, do)
	subagents(t, sessionID, threadID, do)
	jobs(t, sessionID, do)
	do("create_schedule", fmt.Sprintf(`{"scheduleId":"schedule_a","sessionId":%q,"cron":"@yearly","task":{"objective":"x","worker":"external"}}`, sessionID))
	do("list_schedules", `{}`)
	do("run_schedule", `{"scheduleId":"schedule_a"}`)
	do("pause_schedule", `{"scheduleId":"schedule_a"}`)
	do("resume_schedule", `{"scheduleId":"schedule_a"}`)
	do("delete_schedule", `{"scheduleId":"schedule_a"}`)
	channels(t, sessionID, do)
	peers(t, do)
	where := fmt.Sprintf(`{"sessionId":%q,"turnId":%q}`, sessionID, turnID)
	do("export_evidence", where)
	exported := resultField(t, do("export_replay", where), "evidenceId")
	do("export_review", where)
	do("record_review", fmt.Sprintf(`{"sessionId":%q,"verificationOutcomes":[{"name":"links","status":"passed"}],"note":"Reads well."}`, sessionID))
	do("get_diff", where)
	do("get_session", fmt.Sprintf(`{"sessionId":%q,"atSequence":2}`, sessionID))
	do("get_thread_read", fmt.Sprintf(`{"sessionId":%q,"threadId":%q,"atSequence":3}`, sessionID, threadID))
	do("test_policy", fmt.Sprintf(`{"sessionId":%q,"mode":"plan","rules":[{"decision":"deny","tool":"shell"}]}`, sessionID))
	projectRules(t, do)
	do("update_session", fmt.Sprintf(`{"sessionId":%q,"title":"Toured","tags":["tour"],"pinned":true,"metadata":{"a":1}}`, sessionID))
	do("update_thread", fmt.Sprintf(`{"sessionId":%q,"threadId":%q,"pinned":true}`, sessionID, threadID))
	do("create_session", `{"sessionId":"sess_passing"}`)
	do("archive_sessions", `{"sessionIds":["sess_passing","sess_nowhere"],"idempotencyKey":"archive-1"}`)
	do("archive_sessions", `{"filter":{"query":"passing"},"archived":false}`)
	do("interrupt_turns", `{"turns":[{"sessionId":"sess_passing"},{"sessionId":"sess_nowhere","turnId":"turn_nowhere"}],"reason":"over"}`)
	do("respond_actions", `{"actionIds":["action_nowhere"],"decision":"deny"}`)
	do("delete_session", `{"sessionId":"sess_passing","reason":"it was only passing"}`)
	do("list_sessions", `{"tags":["tour"],"sort":"updated","pinned":true}`)
	do("list_turns", fmt.Sprintf(`{"sessionId":%q,"sort":"cost","limit":5}`, sessionID))
	do("search", `{"query":"the","limit":5}`)
	do("find_id", fmt.Sprintf(`{"id":%q}`, threadID))
	do("find_id", fmt.Sprintf(`{"id":"tool_nowhere","sessionId":%q}`, sessionID))
	do("usage", `{"groupBy":["model","tool"],"bucket":"day"}`)
	do("list_artifacts", `{"sort":"updated"}`)
	do("list_models", `{"sort":"price"}`)
	administration(t, do)
	replayed := resultField(t, do("start_replay", fmt.Sprintf(`{"sessionId":%q,"with":{"mode":"plan"}}`, sessionID)), "replayId")
	do("get_replay", fmt.Sprintf(`{"replayId":%q}`, replayed))
	do("cancel_replay", fmt.Sprintf(`{"replayId":%q}`, replayed))
	do("start_replay", fmt.Sprintf(`{"evidenceId":%q}`, exported))
	trials(t, do)
}

// Host is what [Tour] needs of the program around the runtime.
func Host(t *testing.T) agentd.Host {
	t.Helper()
	tokens, err := server.OpenTokens(filepath.Join(t.TempDir(), "tokens.json"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return agentd.Host{Tokens: tokens, Configuration: func() ([]command.ConfigurationValue, error) {
		return []command.ConfigurationValue{{Name: "listen", Value: event.Raw(`"127.0.0.1:8700"`), Origin: "default"}}, nil
	}}
}

// administration carries out the commands of admins.
func administration(t *testing.T, do Do) {
	t.Helper()
	do("create_token", `{"name":"laptop","account":"alice","expiresInMs":3600000,"idempotencyKey":"laptop-1"}`)
	do("rotate_token", `{"tokenId":"laptop"}`)
	do("list_tokens", `{}`)
	do("revoke_token", `{"tokenId":"laptop"}`)
	do("set_quotas", `{"account":"alice","limits":{"sessions":100}}`)
	do("list_accounts", `{}`)
	do("set_quotas", `{"account":"alice","reset":true}`)
	do("get_configuration", `{}`)
	do("run_retention", `{"olderThanMs":31536000000,"dryRun":true}`)
	do("run_retention", `{"olderThanMs":31536000000}`)
	do("get_retention", `{}`)
	do("list_nodes", `{}`)
	do("read_audit", `{"limit":20}`)
	do("drain_node", `{}`)
	do("drain_node", `{"end":true}`)
	do("forget_node", `{"nodeId":"node-a","preview":true}`)
	do("create_session", `{"sessionId":"sess_moved"}`)
	do("move_session", fmt.Sprintf(`{"sessionId":"sess_moved","root":%q}`, t.TempDir()))
}

// peers gives work as a peer would, and deals with what becomes of it.
func peers(t *testing.T, do Do) {
	t.Helper()
	const peer = `"nativeProtocol":"a2a","remoteTaskId":"theirs"`
	do("submit_turn", `{"sessionId":"sess_peer","create":true,"input":"Look at it.","peer":{"channelId":"chan_peer",`+peer+`,"remoteContextId":"ctx","remoteMessageId":"m1","message":{"messageId":"m1"}}}`)
	for t.Context().Err() == nil && resultField(t, do("get_peer_task", `{`+peer+`}`), "status") != "completed" {
		continue
	}
	do("list_peer_tasks", `{"nativeProtocol":"a2a"}`)
	do("set_peer_push", `{`+peer+`,"configId":"hook","target":"peer.example","sealed":"bm9uZQ=="}`)
	do("report_peer_push", `{`+peer+`,"configId":"hook","outcome":"delivered","through":3,"attempts":1,"httpStatus":200,"final":true}`)
	do("list_peer_pushes", `{"nativeProtocol":"a2a"}`)
	do("remove_peer_push", `{`+peer+`,"configId":"hook"}`)
	do("settle_peer_task", `{`+peer+`,"remoteStatus":"TASK_STATE_COMPLETED","artifacts":[{"artifactId":"artifact_peer","mediaType":"text/plain"}]}`)
	delegated(t, do)
}

// delegated gives work to a peer as its client would.
func delegated(t *testing.T, do Do) {
	t.Helper()
	do("create_task", `{"taskId":"task_peer","objective":"Look at it.","peer":"https://agent.example/card.json","start":true}`)
	run := resultField(t, do("get_peer_work", `{"taskId":"task_peer"}`), "runId")
	to := fmt.Sprintf(`"taskId":"task_peer","runId":%q,"channelId":"chan_out"`, run)
	sent := fmt.Sprintf(`{%s,"nativeProtocol":"a2a","remoteMessageId":"agentd-%s"`, to, run)
	do("link_peer_task", sent+`}`)
	do("link_peer_task", sent+`,"remoteTaskId":"out","remoteContextId":"ctx","deliveryMechanism":"polling","card":{"name":"theirs"}}`)
	do("update_peer_task", `{`+to+`,"remoteTaskId":"out","status":"waiting_input","remoteStatus":"TASK_STATE_INPUT_REQUIRED","question":{"prompt":"Which one?"}}`)
	do("get_peer_work", `{"taskId":"task_peer"}`)
	do("update_peer_task", `{`+to+`,"remoteTaskId":"out","status":"completed","remoteStatus":"TASK_STATE_COMPLETED","summary":"Seen.",
		"artifacts":[{"artifactId":"artifact_out","remoteArtifactId":"a","title":"report","mediaType":"text/plain","content":"U2Vlbi4="}]}`)
}

func tourTasks(t *testing.T, sessionID string, do Do) {
	t.Helper()
	do("create_task", fmt.Sprintf(`{"taskId":"task_a","sessionId":%q,"objective":"Write it down.","worker":"external","heartbeatTimeoutMs":60000}`, sessionID))
	do("update_task", `{"taskId":"task_a","title":"Writing"}`)
	run := resultField(t, do("start_task", `{"taskId":"task_a"}`), "runId")
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
	do("report_job_item", `{"jobId":"job_a","itemId":"b","output":"that"}`)
	waitForJob(t, "job_a", do)
	do("list_jobs", fmt.Sprintf(`{"sessionId":%q}`, sessionID))
	do("create_job", fmt.Sprintf(`{"jobId":"job_b","sessionId":%q,"instruction":"Say it.","items":[{"input":"this"}],"start":false}`, sessionID))
	do("cancel_job", `{"jobId":"job_b"}`)
}

func channels(t *testing.T, sessionID string, do Do) {
	t.Helper()
	token := resultField(t, do("connect_channel", fmt.Sprintf(`{"channelId":"chan_a","transport":"websocket","peerRole":"client","capabilities":["permissions"],
		"sessionId":%q,"tools":[{"toolName":"open_editor","description":"Opens a file.","inputSchema":{"type":"object"}}]}`, sessionID)), "resumeToken")
	do("ack_events", `{"channelId":"chan_a","sequence":2}`)
	do("send_channel_message", `{"channelId":"chan_a","kind":"status","text":"still here"}`)
	do("list_channels", fmt.Sprintf(`{"sessionId":%q}`, sessionID))
	do("disconnect_channel", `{"channelId":"chan_a","reason":"the laptop is closed"}`)
	do("reconnect_channel", fmt.Sprintf(`{"channelId":"chan_a","resumeToken":%q}`, token))
	do("reconnect_channel", fmt.Sprintf(`{"channelId":"chan_a","resumeToken":%q,"lastSequence":100000}`, token))
	do("disconnect_channel", `{"channelId":"chan_a"}`)
	do("list_channels", `{}`)
}

func trials(t *testing.T, do Do) {
	t.Helper()
	for _, c := range []string{"baseline", "candidate"} {
		session := resultField(t, do("start_benchmark_trial", fmt.Sprintf(`{"benchmark":{"datasetId":"tour","datasetVersion":"1","taskId":"say","trialId":"trial_%s","configurationId":%q,"role":%q},"dataset":{"selectionPolicy":"all","taskCount":1},"configuration":{"agent":"tour"},"input":"Say it.","timeoutMs":600000}`, c, c, c)), "sessionId")
		waitForTrial(t, session, do)
		do("record_benchmark_reward", fmt.Sprintf(`{"trialId":"trial_%s","reward":{"value":0.5,"criteria":["said"]},"verifier":{"name":"ears","version":"1","status":"completed"}}`, c))
		do("export_benchmark_trial", fmt.Sprintf(`{"trialId":"trial_%s"}`, c))
	}
	session := resultField(t, do("start_benchmark_trial", `{"benchmark":{"datasetId":"tour","datasetVersion":"1","taskId":"say","trialId":"trial_turns","configurationId":"baseline","role":"baseline"},"input":"Say it.","multiTurn":true}`), "sessionId")
	waitForTurn(t, session, do)
	do("end_benchmark_trial", `{"trialId":"trial_turns"}`)
	do("list_trials", `{"datasetId":"tour","sort":"created"}`)
	do("list_exports", `{"type":"benchmark_trial"}`)
	do("compare_benchmark_runs", `{"baseline":{"configurationId":"baseline","trialIds":["trial_baseline"]},"candidate":{"configurationId":"candidate","trialIds":["trial_candidate"]},"decision":"keep"}`)
}

// waitForTurn asks until the session's turn has ended.
func waitForTurn(t *testing.T, sessionID string, do Do) {
	t.Helper()
	for t.Context().Err() == nil {
		var s struct {
			Threads []struct {
				Status string `json:"status"`
			} `json:"threads"`
		}
		if err := json.Unmarshal(do("get_session", fmt.Sprintf(`{"sessionId":%q,"limit":1}`, sessionID)), &s); err != nil {
			t.Fatal(err)
		}
		if len(s.Threads) > 0 && s.Threads[0].Status == "completed" {
			return
		}
	}
}

// waitForTrial asks until the session's trial has ended.
func waitForTrial(t *testing.T, sessionID string, do Do) {
	t.Helper()
	for t.Context().Err() == nil {
		var s struct {
			BenchmarkSummary struct {
				Completed int64 `json:"completed"`
			} `json:"benchmarkSummary"`
		}
		if err := json.Unmarshal(do("get_session", fmt.Sprintf(`{"sessionId":%q,"limit":1}`, sessionID)), &s); err != nil {
			t.Fatal(err)
		}
		if s.BenchmarkSummary.Completed > 0 {
			return
		}
	}
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

func resultField(t *testing.T, result json.RawMessage, name string) string {
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
