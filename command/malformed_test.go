package command

import (
	"fmt"
	"strings"
	"testing"

	"agentd/event"
	"agentd/fault"
)

// malformed are bodies that must be refused, each with the parameter that the
// answer names.
var malformed = []struct {
	name  Name
	body  string
	param string
}{
	// Not one JSON object.
	{"create_session", `[]`, ""},
	{"create_session", `null`, ""},
	{"create_session", `true`, ""},
	{"create_session", `1`, ""},
	{"create_session", `"x"`, ""},
	{"create_session", `{`, ""},
	{"create_session", `}`, ""},
	{"create_session", `{"title":}`, ""},
	{"create_session", `{"title":"x",}`, ""},
	{"create_session", `{'title':'x'}`, ""},
	{"create_session", `{"title":"x"} {}`, ""},
	{"create_session", `{"title":"x"}]`, ""},
	{"create_session", `{"title":"x"`, ""},
	{"create_session", `{"title":"\ud800"}`, ""},
	{"create_session", "{\"title\":\"\xff\"}", ""},
	{"create_session", "{\"title\":\"a\nb\"}", ""},
	{"create_session", "\xef\xbb\xbf{}", ""},
	{"create_session", `{"title":NaN}`, ""},
	{"create_session", `{title:"x"}`, ""},
	{"create_session", `{"metadata":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, ""},
	{"create_session", strings.Repeat(`{"metadata":`, 100_000), ""},
	{"create_session", `{"workspace":{"root":"a\u0000b"}}`, "workspace.root"},
	// Unknown and repeated parameters.
	{"create_session", `{"nope":1}`, "nope"},
	{"create_session", `{"Title":"x"}`, "Title"},
	{"create_session", `{"session_id":"x"}`, "session_id"},
	{"create_session", `{"title":"a","title":"b"}`, "title"},
	{"create_session", `{"metadata":{"a":1,"a":2}}`, "metadata.a"},
	{"create_session", `{"workspace":{"path":"x"}}`, "workspace.path"},
	{"create_session", `{"workspace":{"root":"x","root":"y"}}`, "workspace.root"},
	{"submit_turn", `{"input":"x","options":{"temperature":1}}`, "options.temperature"},
	{"submit_turn", `{"input":"x","Options":{}}`, "Options"},
	{"submit_turn", `{"input":[{"type":"text","text":"x","colour":"red"}]}`, "input[0].colour"},
	{"create_job", `{"instruction":"x","items":[{"input":1},{"input":2,"extra":3}]}`, "items[1].extra"},
	{"create_task", `{"objective":"x","retryPolicy":{"tries":3}}`, "retryPolicy.tries"},
	{"create_task", `{"objective":"x","acceptance":[{"description":"d","weight":1}]}`, "acceptance[0].weight"},
	{"append_task_progress", `{"taskId":"t","progress":{"done":1}}`, "progress.done"},
	{"append_task_progress", `{"taskId":"t","progress":{},"outputRefs":[{"outputRef":"r","size":1}]}`, "outputRefs[0].size"},
	{"append_task_progress", `{"taskId":"t","progress":{},"deliveryState":{"status":"pending","x":1}}`, "deliveryState.x"},
	{"list_sessions", `{"idempotencyKey":"k"}`, "idempotencyKey"},
	{"set_policy", `{"rules":[{"decision":"deny","tool":"shell","matches":"x"}]}`, "rules[0].matches"},
	{"start_benchmark_trial", `{"benchmark":{"dataset":"x"}}`, "benchmark.dataset"},
	// Wrong types.
	{"create_session", `{"title":1}`, "title"},
	{"create_session", `{"title":["x"]}`, "title"},
	{"create_session", `{"workspace":"docs"}`, "workspace"},
	{"create_session", `{"metadata":[]}`, "metadata"},
	{"create_session", `{"metadata":"x"}`, "metadata"},
	{"submit_turn", `{"input":1}`, "input"},
	{"submit_turn", `{"input":{"text":"x"}}`, "input"},
	{"submit_turn", `{"input":[1]}`, "input[0]"},
	{"submit_turn", `{"input":["x"]}`, "input[0]"},
	{"submit_turn", `{"input":[{"type":"text","text":1}]}`, "input[0].text"},
	{"submit_turn", `{"input":"x","create":"yes"}`, "create"},
	{"submit_turn", `{"input":"x","options":[]}`, "options"},
	{"submit_turn", `{"input":"x","options":{"maxSteps":"3"}}`, "options.maxSteps"},
	{"submit_turn", `{"input":"x","options":{"maxSteps":1.5}}`, "options.maxSteps"},
	{"submit_turn", `{"input":"x","options":{"maxSteps":9223372036854775808}}`, "options.maxSteps"},
	{"submit_turn", `{"input":"x","options":{"tools":"shell"}}`, "options.tools"},
	{"submit_turn", `{"input":"x","options":{"tools":[1]}}`, "options.tools[0]"},
	{"submit_turn", `{"input":"x","options":{"outputSchema":true}}`, "options.outputSchema"},
	{"list_sessions", `{"limit":"10"}`, "limit"},
	{"list_sessions", `{"limit":1e400}`, "limit"},
	{"list_sessions", `{"cursor":5}`, "cursor"},
	{"get_session", `{"sessionId":"s","before":true}`, "before"},
	{"get_session", `{"sessionId":"s","before":[]}`, "before"},
	{"fork_thread", `{"sessionId":"s","threadId":"t","atSequence":-1}`, "atSequence"},
	{"fork_thread", `{"sessionId":"s","threadId":"t","atSequence":"4"}`, "atSequence"},
	{"ack_events", `{"channelId":"c","sequence":18446744073709551616}`, "sequence"},
	{"cancel_task", `{"taskId":"t","propagate":"no"}`, "propagate"},
	{"record_benchmark_reward", `{"trialId":"t","reward":{"value":"1"}}`, "reward.value"},
	{"create_task", `{"objective":"x","acceptance":"done"}`, "acceptance"},
	{"create_task", `{"objective":"x","acceptance":[1]}`, "acceptance[0]"},
	{"create_task", `{"objective":"x","priority":{}}`, "priority"},
	{"append_task_progress", `{"taskId":"t","progress":{"counters":{"a":"b"}}}`, "progress.counters.a"},
	// Missing ones.
	{"submit_turn", `{}`, "input"},
	{"submit_turn", ``, "input"},
	{"submit_turn", "  \n", "input"},
	{"submit_turn", `{"input":null}`, "input"},
	{"get_session", `{}`, "sessionId"},
	{"get_session", `{"sessionId":null}`, "sessionId"},
	{"create_job", `{"instruction":"x","items":[]}`, "items"},
	{"create_job", `{"instruction":"x","items":[{}]}`, "items[0].input"},
	{"create_job", `{"instruction":"x","items":[{"input":null}]}`, "items[0].input"},
	{"fail_task", `{"taskId":"t","error":{}}`, "error.message"},
	{"set_policy", `{"rules":[{"tool":"shell"}]}`, "rules[0].decision"},
	{"set_policy", `{"rules":[{"decision":"deny"}]}`, "rules[0].tool"},
	{"wait_subagents", `{"subagentIds":[]}`, "subagentIds"},
	{"explain", `{"sessionId":"s"}`, "toolCallId"},
	{"write_process_stdin", `{"processId":"p"}`, "data"},
	{"record_benchmark_reward", `{"trialId":"t","reward":{}}`, "reward.value"},
	{"compare_benchmark_runs", `{"baseline":{"configurationId":"a","trialIds":["t"]},"candidate":{"configurationId":"b"}}`, "candidate.trialIds"},
	{"start_benchmark_trial", `{"benchmark":{"datasetId":"d","datasetVersion":"1","taskId":"t","configurationId":"c"}}`, "benchmark.role"},
	{"complete_task", `{"taskId":"t","artifacts":[{"uri":"x"}]}`, "artifacts[0].artifactId"},
	{"complete_task", `{"taskId":"t","acceptance":[{"id":"c","status":"waived"}]}`, "acceptance[0].reason"},
	{"append_task_progress", `{"taskId":"t","progress":{},"deliveryState":{}}`, "deliveryState.status"},
	// Ids.
	{"create_session", `{"sessionId":""}`, "sessionId"},
	{"submit_turn", `{"sessionId":"","input":"x"}`, "sessionId"},
	{"create_session", `{"sessionId":"sess_runtime"}`, "sessionId"},
	{"submit_turn", `{"sessionId":"sess_runtime","input":"x"}`, "sessionId"},
	{"create_job", `{"sessionId":"sess_runtime","instruction":"x","items":[{"input":1}]}`, "sessionId"},
	{"create_job", `{"instruction":"x","items":[{"itemId":"a","input":1},{"itemId":"a","input":2}]}`, "items[1].itemId"},
	{"create_job", `{"instruction":"x","items":[{"itemId":"","input":1}]}`, "items[0].itemId"},
	{"create_task", `{"objective":"x","dependsOn":["ok","not ok"]}`, "dependsOn[1]"},
	{"create_task", `{"objective":"x","dependsOn":[""]}`, "dependsOn[0]"},
	{"link_tasks", `{"taskId":"t","kind":"source_task","targetId":"t"}`, "targetId"},
	{"write_process_stdin", `{"processId":"p","data":"not base64!","base64":true}`, "data"},
	{"write_process_stdin", `{"processId":"p","base64":true}`, "data"},
	{"write_process_stdin", `{"processId":"p","base64":"="}`, "base64"},
	{"write_process_stdin", `{"processId":"p","base64":1}`, "base64"},
	{"wait_subagents", `{"subagentIds":["a b"]}`, "subagentIds[0]"},
	{"start_benchmark_trial", `{"benchmark":{"datasetId":"d","datasetVersion":"1","taskId":"t","configurationId":"c","role":"baseline","trialId":"../x"}}`, "benchmark.trialId"},
	{"submit_turn", `{"input":"x","options":{"queuePolicy":"steer","expectedTurnId":"not an id"}}`, "options.expectedTurnId"},
	{"submit_turn", `{"input":"x","options":{"expectedTurnId":"turn_1"}}`, "options.expectedTurnId"},
	// Choices.
	{"create_session", `{"permissionMode":"yolo"}`, "permissionMode"},
	{"create_session", `{"permissionMode":""}`, "permissionMode"},
	{"submit_turn", `{"input":"x","options":{"permissionMode":"Default"}}`, "options.permissionMode"},
	{"submit_turn", `{"input":"x","options":{"queuePolicy":"drop"}}`, "options.queuePolicy"},
	{"submit_turn", `{"input":"x","options":{"queuePolicy":""}}`, "options.queuePolicy"},
	{"interrupt_turn", `{"sessionId":"s","queue":"drop"}`, "queue"},
	{"respond_action", `{"actionId":"a","decision":"maybe"}`, "decision"},
	{"respond_action", `{"actionId":"a","decision":"allow","scope":"always"}`, "scope"},
	{"resolve_permission", `{"actionId":"a","decision":"submit"}`, "decision"},
	{"list_actions", `{"status":"open"}`, "status"},
	{"list_tasks", `{"status":"done"}`, "status"},
	{"link_tasks", `{"taskId":"t","kind":"loves","targetId":"u"}`, "kind"},
	{"connect_channel", `{"transport":"pigeon","peerRole":"client"}`, "transport"},
	{"terminate_process", `{"processId":"p","signal":"9"}`, "signal"},
	{"rollback_thread", `{"sessionId":"s","threadId":"t","toTurnId":"u","files":"burn"}`, "files"},
	{"append_task_progress", `{"taskId":"t","progress":{},"deliveryState":"sent"}`, "deliveryState.status"},
	{"spawn_subagent", `{"sessionId":"s","threadId":"t","input":"x","isolation":{"permissionMode":"free"}}`, "isolation.permissionMode"},
	{"create_task", `{"objective":"x","owner":{"kind":"robot"}}`, "owner.kind"},
	// Bounds.
	{"list_sessions", `{"limit":1001}`, "limit"},
	{"list_sessions", `{"limit":-1}`, "limit"},
	{"get_session", `{"sessionId":"s","limit":1001}`, "limit"},
	{"get_session", `{"sessionId":"s","limit":-1}`, "limit"},
	{"get_session", `{"sessionId":"s","before":"0"}`, "before"},
	{"get_session", `{"sessionId":"s","before":"abc"}`, "before"},
	{"get_session", `{"sessionId":"s","before":1.5}`, "before"},
	{"promote_queued_turn", `{"sessionId":"s","turnId":"t","position":-1}`, "position"},
	{"submit_turn", `{"input":"x","options":{"maxSteps":-1}}`, "options.maxSteps"},
	{"submit_turn", `{"input":"x","options":{"timeoutMs":-5}}`, "options.timeoutMs"},
	{"fork_thread", `{"sessionId":"s","threadId":"t","atSequence":0}`, "atSequence"},
	{"resize_process", `{"processId":"p","rows":0,"cols":80}`, "rows"},
	{"resize_process", `{"processId":"p","rows":24,"cols":10001}`, "cols"},
	{"append_task_progress", `{"taskId":"t","progress":{"percent":101}}`, "progress.percent"},
	{"append_task_progress", `{"taskId":"t","progress":{"percent":-1}}`, "progress.percent"},
	{"wait_subagents", `{"subagentIds":["a"],"timeoutMs":600001}`, "timeoutMs"},
	{"create_task", `{"objective":"x","constraints":{"maxCostUSD":-1}}`, "constraints.maxCostUSD"},
	{"create_job", `{"instruction":"x","items":[{"input":1}],"concurrency":257}`, "concurrency"},
	{"create_session", `{"idempotencyKey":"` + strings.Repeat("k", 257) + `"}`, "idempotencyKey"},
	{"create_session", `{"title":"` + strings.Repeat("t", 1001) + `"}`, "title"},
	{"create_session", `{"metadata":{"a":"` + strings.Repeat("m", 16<<10) + `"}}`, "metadata"},
	{"submit_turn", `{"input":"x","metadata":{"a":"` + strings.Repeat("m", 16<<10) + `"}}`, "metadata"},
	{"create_task", `{"objective":"x","metadata":{"a":"` + strings.Repeat("m", 16<<10) + `"}}`, "metadata"},
	{"create_job", `{"instruction":"x","items":[{"input":1}],"metadata":{"a":"` + strings.Repeat("m", 16<<10) + `"}}`, "metadata"},
	{"spawn_subagent", `{"sessionId":"s","threadId":"t","input":"x","metadata":{"a":"` + strings.Repeat("m", 16<<10) + `"}}`, "metadata"},
	{"create_task", `{"objective":"` + strings.Repeat("o", 1<<20+1) + `"}`, "objective"},
	{"create_task", `{"objective":"x","acceptance":[` + strings.Repeat(`"c",`, 100) + `"c"]}`, "acceptance"},
	{"create_job", `{"instruction":"x","items":[` + strings.Repeat(`{"input":1},`, 100_000) + `{"input":1}]}`, "items"},
	{"submit_turn", `{"input":[` + strings.Repeat(`{"type":"text","text":"x"},`, 1000) + `{"type":"text","text":"x"}]}`, "input"},
	// What belongs together.
	{"submit_turn", `{"input":""}`, "input"},
	{"submit_turn", `{"input":[]}`, "input"},
	{"submit_turn", `{"input":[{"type":"text"}]}`, "input[0].text"},
	{"submit_turn", `{"input":[{"text":"x"}]}`, "input[0].type"},
	{"submit_turn", `{"input":[{"type":"image"}]}`, "input[0]"},
	{"submit_turn", `{"input":[{"type":"ref"}]}`, "input[0].ref"},
	{"submit_turn", `{"input":[{"type":"video","url":"x"}]}`, "input[0].type"},
	{"send_subagent_input", `{"subagentId":"a","input":[]}`, "input"},
	{"write_process_stdin", `{"processId":"p","data":"x","base64":"eA=="}`, "base64"},
	{"write_process_stdin", `{"processId":"p","base64":"not base64!"}`, "base64"},
	{"explain", `{"sessionId":"s","turnId":"t","taskId":"u"}`, "toolCallId"},
	{"compare_benchmark_runs", `{"baseline":{"configurationId":"a","trialIds":["t"]},"candidate":{"configurationId":"a","trialIds":["u"]}}`, "candidate.configurationId"},
}

func TestMalformedBodiesAreRefusedByName(t *testing.T) {
	if len(malformed) < 100 {
		t.Fatalf("only %d cases", len(malformed))
	}
	for _, c := range malformed {
		wantFault(t, c.name, c.body, c.param)
	}
}

// TestEveryCommandRefusesWhatItDoesNotKnow holds for all, whatever they take.
func TestEveryCommandRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, d := range Catalog() {
		rest := strings.TrimPrefix(d.Example, "{")
		wantFault(t, d.Name, `{"noSuchParameter":1,`+rest, "noSuchParameter")
		wantFault(t, d.Name, d.Example+"x", "")
		wantFault(t, d.Name, "["+d.Example+"]", "")
		wantFault(t, d.Name, strings.TrimSuffix(d.Example, "}"), "")
	}
}

func TestIDs(t *testing.T) {
	good := []string{"a", "0", "sess_1", "A.b:c-d_e", strings.Repeat("x", 128), "1-2"}
	bad := []string{
		" ", "_a", "-a", ".", "..", ":a", "a b", "a/b", "../x", "a\\b", "a%2fb", "ä", "a\u0000", "a\n", "a?b", "a#b",
		strings.Repeat("x", 129), "\u202e", "a\"b",
	}
	for _, id := range good {
		p := &GetSession{SessionID: id}
		if err := p.Validate(); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range bad {
		p := &GetSession{SessionID: id}
		if err := p.Validate(); err == nil {
			t.Errorf("%q was taken", id)
		}
		if event.ValidID(id) {
			t.Errorf("%q is an id for package event", id)
		}
	}
}

func TestShortFormsAndNormalForms(t *testing.T) {
	decode := func(name Name, body string) Params {
		t.Helper()
		p, err := Decode(name, []byte(body))
		if err == nil {
			err = p.Validate()
		}
		if err != nil {
			t.Fatalf("%s %s: %v", name, body, err)
		}
		return p
	}
	task := decode("create_task", `{"objective":"o","acceptance":["first",{"id":"mine","description":"second"},{"description":"third"}],"priority":7}`).(*CreateTask)
	got := fmt.Sprintf("%v %s", task.Criteria(), task.Priority)
	if want := `[{criterion_1 first open <nil>  []} {mine second open <nil>  []} {criterion_3 third open <nil>  []}] 7`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	progress := decode("append_task_progress", `{"taskId":"t","progress":{"percent":0},"outputRefs":["out_1",{"outputRef":"out_2","offset":4}],"deliveryState":"queued"}`).(*AppendTaskProgress)
	if progress.OutputRefs[0].OutputRef != "out_1" || progress.OutputRefs[1].Offset != 4 || progress.DeliveryState.Status != "queued" {
		t.Errorf("got %+v", progress)
	}
	turn := decode("submit_turn", `{"input":"hi \"there\""}`).(*SubmitTurn)
	if want := `[{"type":"text","text":"hi \"there\""}]`; string(turn.Input) != want {
		t.Errorf("got %s, want %s", turn.Input, want)
	}
	session := decode("get_session", `{"sessionId":"s","before":12,"limit":0}`).(*GetSession)
	if session.Before != "12" || session.Limit == nil || *session.Limit != 0 {
		t.Errorf("got %+v", session)
	}
	if p := decode("get_session", `{"sessionId":"s","before":"12"}`).(*GetSession); p.Before != "12" || p.Limit != nil {
		t.Errorf("got %+v", p)
	}
	if p := decode("list_sessions", ``).(*ListSessions); p.Size() != 100 {
		t.Errorf("default page %d", p.Size())
	}
	if p := decode("set_policy", `{"sessionId":"s","rules":[]}`).(*SetPolicy); p.Rules == nil {
		t.Error("an empty list of rules looks like none")
	}
	stdin := decode("write_process_stdin", `{"processId":"p","base64":"AP8="}`).(*WriteProcessStdin)
	if b, err := stdin.Bytes(); err != nil || string(b) != "\x00\xff" {
		t.Errorf("got %q, %v", b, err)
	}
	stdin = decode("write_process_stdin", `{"processId":"p","data":"AP8=","base64":true}`).(*WriteProcessStdin)
	if b, err := stdin.Bytes(); err != nil || string(b) != "\x00\xff" {
		t.Errorf("got %q, %v", b, err)
	}
	stdin = decode("write_process_stdin", `{"processId":"p","data":"AP8=","base64":false}`).(*WriteProcessStdin)
	if b, err := stdin.Bytes(); err != nil || string(b) != "AP8=" {
		t.Errorf("got %q, %v", b, err)
	}
	if string(Text("a\"\xff")) != `"a\"\ufffd"` {
		t.Errorf("got %s", Text("a\"\xff"))
	}
}

// TestTheSmallestCircleIsAConflict: a task can't come before itself, whichever
// command says so.
func TestTheSmallestCircleIsAConflict(t *testing.T) {
	for name, body := range map[Name]string{
		"create_task": `{"objective":"x","taskId":"t","dependsOn":["u","t"]}`,
		"update_task": `{"taskId":"t","parentTaskId":"t"}`,
		"link_tasks":  `{"taskId":"t","kind":"blocked_by","targetId":"t"}`,
	} {
		p, err := Decode(name, []byte(body))
		if err == nil {
			err = p.Validate()
		}
		if fault.KindOf(err) != fault.Conflict {
			t.Errorf("%s %s: %v", name, body, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, d := range Catalog() {
		f.Add(string(d.Name), []byte(d.Example))
	}
	for _, c := range malformed {
		if len(c.body) < 1000 {
			f.Add(string(c.name), []byte(c.body))
		}
	}
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		p, err := Decode(Name(name), body)
		if err != nil {
			return
		}
		if p.Validate() != nil {
			return
		}
		first, err := Digest(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("what was valid isn't any more: %v", err)
		}
		second, err := Digest(p)
		if err != nil || first != second {
			t.Fatalf("validating again changed the parameters: %v", err)
		}
	})
}
