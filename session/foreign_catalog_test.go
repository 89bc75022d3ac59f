//go:build !race

// Every command is asked about every id of another account, one after the other: no work
// for the race detector.

package session_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
)

// creates names the parameters by which a command gives something new its id; of these
// TestTakenIDSaysNothingOfItsOwner speaks.
var creates = map[command.Name][]string{
	"create_session": {"sessionId"}, "submit_turn": {"turnId"}, "create_task": {"taskId"}, "create_job": {"jobId", "items[].itemId"},
	"create_schedule": {"scheduleId"}, "spawn_subagent": {"subagentId"}, "connect_channel": {"channelId"}, "start_benchmark_trial": {"benchmark.trialId"},
}

// bodies are for parameters that a command's example excludes, or needs others beside.
var bodies = map[string]string{
	"start_replay ref":                            `{"ref":"ID"}`,
	"start_replay evidenceId":                     `{"evidenceId":"ID"}`,
	"archive_sessions sessionIds[]":               `{"sessionIds":["ID"]}`,
	"respond_actions filter.sessionId":            `{"filter":{"sessionId":"ID"},"decision":"deny"}`,
	"interrupt_turns turns[].sessionId":           `{"turns":[{"sessionId":"ID"}]}`,
	"interrupt_turns turns[].threadId":            `{"turns":[{"sessionId":"sess_stranger","threadId":"ID"}]}`,
	"interrupt_turns turns[].turnId":              `{"turns":[{"sessionId":"sess_stranger","turnId":"ID"}]}`,
	"submit_turn options.expectedTurnId":          `{"sessionId":"sess_stranger","input":"x","options":{"queuePolicy":"steer","expectedTurnId":"ID"}}`,
	"submit_turn peer.channelId":                  `{"sessionId":"sess_stranger","input":"x","peer":{"channelId":"ID","nativeProtocol":"x","remoteTaskId":"r"}}`,
	"submit_turn peer.remoteTaskId":               `{"sessionId":"sess_stranger","input":"x","peer":{"channelId":"chan_stranger","nativeProtocol":"x","remoteTaskId":"ID"}}`,
	"interrupt_turn peer.channelId":               `{"sessionId":"sess_stranger","peer":{"channelId":"ID","nativeProtocol":"x","remoteTaskId":"r"}}`,
	"explain itemId":                              `{"sessionId":"sess_stranger","jobId":"job_stranger","itemId":"ID"}`,
	"compare_benchmark_runs candidate.trialIds[]": `{"baseline":{"configurationId":"c","trialIds":["trial_stranger"]},"candidate":{"configurationId":"c","trialIds":["ID"]}}`,
}

// holdings are what an account has: an id for each name that parameters have.
type holdings map[string]string

// TestIDsOfOthersLookUnknown gives every parameter that is an id, of every command of the
// catalogue, the id of a thing of another account and one that nobody has, while all other
// ids are the caller's own: the answers are the same, to the letter.
func TestIDsOfOthersLookUnknown(t *testing.T) {
	k, acme, own := ownerAndStranger(t)
	calls := 0
	for _, d := range command.Catalog() {
		if !d.Available || d.Scope == command.RoleAdmin {
			continue
		}
		for _, path := range idPaths(reflect.TypeOf(d.New()).Elem(), "") {
			name := path[strings.LastIndex(path, ".")+1:]
			theirs := acme[strings.TrimSuffix(name, "[]")]
			if theirs == "" || slices.Contains(creates[d.Name], path) {
				continue
			}
			calls++
			foreign, unknown := askBoth(t, k, d, path, own, theirs)
			if foreign != unknown { // what the first call changed may be the reason
				fresh, _, mine := ownerAndStranger(t)
				unknown, _ = askBoth(t, fresh, d, path, mine, nobodys(theirs))
			}
			if foreign != unknown {
				t.Errorf("%s with %s of another account: %s\n of nobody: %s", d.Name, path, foreign, unknown)
			}
		}
	}
	if calls < 100 {
		t.Errorf("only %d parameters were tried", calls)
	}
	t.Logf("%d parameters, %d calls", calls, 2*calls)
}

// telling are values that say something about the session, the folder or the store that they
// are compared with, by the type of the parameter.
var telling = map[reflect.Kind][]any{
	reflect.String: {"/etc", "bypass", "x"}, reflect.Int: {1}, reflect.Int64: {1}, reflect.Uint64: {1}, reflect.Bool: {true},
}

// TestIDsOfOthersLookUnknownBesideAnything gives the id of a session of another account, or
// one that nobody has, beside each other parameter of a command: no parameter is judged by
// what it would mean in a session that isn't the caller's.
func TestIDsOfOthersLookUnknownBesideAnything(t *testing.T) {
	k, acme, own := ownerAndStranger(t)
	calls := 0
	for _, d := range command.Catalog() {
		typ := reflect.TypeOf(d.New()).Elem()
		if !d.Available || d.Scope == command.RoleAdmin || !slices.Contains(idPaths(typ, ""), "sessionId") || slices.Contains(creates[d.Name], "sessionId") {
			continue
		}
		for path, kind := range leaves(typ, "") {
			for _, value := range telling[kind] {
				calls++
				ask := func(id string) string {
					var example map[string]any
					if err := json.Unmarshal([]byte(d.Example), &example); err != nil {
						t.Fatal(err)
					}
					delete(example, "create")
					fillOwn(example, own, creates[d.Name])
					setAt(example, []string{"sessionId"}, id)
					setLeaf(example, strings.Split(path, "."), value)
					return answerOf(t, k, d.Name, example, id)
				}
				if foreign, unknown := ask(acme["sessionId"]), ask(nobodys(acme["sessionId"])); foreign != unknown {
					t.Errorf("%s of a session of another account with %s %v: %s\n of nobody's: %s", d.Name, path, value, foreign, unknown)
				}
			}
		}
	}
	if calls < 300 {
		t.Errorf("only %d calls were tried", calls)
	}
	t.Logf("%d calls", 2*calls)
}

// answerOf describes the answer to a command without the id.
func answerOf(t *testing.T, k *runtimetest.Kit, name command.Name, params map[string]any, id string) string {
	t.Helper()
	body, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	p, err := command.Decode(name, body)
	if err != nil {
		return answerTo(err, id)
	}
	res, err := k.Runtime.Do(t.Context(), callerOf("stranger"), p)
	if err != nil {
		return answerTo(err, id)
	}
	said, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(said), id, "ID")
}

// leaves are the parameters that are single values and no ids, by their paths outside of
// lists.
func leaves(typ reflect.Type, prefix string) map[string]reflect.Kind {
	out := map[string]reflect.Kind{}
	ids := idPaths(typ, prefix)
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		t := f.Type
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch {
		case f.Anonymous && name == "":
			maps.Copy(out, leaves(t, prefix))
		case name == "idempotencyKey" || name == "create" || name == "-" || slices.Contains(ids, prefix+name):
		case t.Kind() == reflect.Struct && t.PkgPath() != "time":
			maps.Copy(out, leaves(t, prefix+name+"."))
		default:
			out[prefix+name] = t.Kind()
		}
	}
	return out
}

// setLeaf is setAt where what is on the way may be something else.
func setLeaf(v map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := v[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			v[name] = inner
		}
		v = inner
	}
	v[path[len(path)-1]] = value
}

// nobodys is an id of the same form that nothing has.
func nobodys(id string) string { return strings.ReplaceAll(id[:len(id)-1]+"0", "acme", "none") }

// askBoth asks a command as the stranger, once with an id of another account and once with
// one that nobody has in its place, and describes the answers.
func askBoth(t *testing.T, k *runtimetest.Kit, d command.Def, path string, own holdings, theirs string) (foreign, unknown string) {
	t.Helper()
	ask := func(id string) string {
		t.Helper()
		var example map[string]any
		if err := json.Unmarshal([]byte(d.Example), &example); err != nil {
			t.Fatal(err)
		}
		delete(example, "create") // else an unknown session is made
		fillOwn(example, own, slices.Concat(creates[d.Name], alternatives(example, path)))
		setAt(example, strings.Split(path, "."), id)
		body, err := json.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		if exact := bodies[string(d.Name)+" "+path]; exact != "" {
			body = []byte(strings.ReplaceAll(exact, "ID", id))
		}
		p, err := command.Decode(d.Name, body)
		if err != nil {
			return answerTo(err, id)
		}
		res, err := k.Runtime.Do(t.Context(), callerOf("stranger"), p)
		if err != nil || (d.Mutates && !strings.HasSuffix(string(d.Name), "s")) {
			return answerTo(err, id) // what it made has an id of its own
		}
		said, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(said), id, "ID")
	}
	return ask(theirs), ask(nobodys(theirs))
}

// alternatives are the parameters that exclude the one that is tried: of these commands
// take exactly one.
func alternatives(example map[string]any, path string) []string {
	groups := [][]string{
		{"turnId", "toolCallId", "actionId", "taskId", "subagentId", "jobId", "eventId", "fromSequence", "toSequence"},
		{"sessionId", "ref", "evidenceId"},
	}
	for _, g := range groups {
		if slices.Contains(g, path) {
			for _, name := range g {
				if name != path && name != "sessionId" {
					delete(example, name)
				}
			}
		}
	}
	return nil
}

// idPaths lists the parameters that are ids, and those that hold references.
func idPaths(typ reflect.Type, prefix string) []string {
	var out []string
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			out = append(out, idPaths(f.Type, prefix)...)
			continue
		}
		t, list := f.Type, ""
		for t.Kind() == reflect.Pointer || (t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8) {
			if t.Kind() == reflect.Slice {
				list = "[]"
			}
			t = t.Elem()
		}
		switch {
		case t.Kind() == reflect.Struct && t.PkgPath() != "time":
			out = append(out, idPaths(t, prefix+name+list+".")...)
		case t.Kind() == reflect.String && (slices.Contains(strings.Fields(f.Tag.Get("check")), "id") || strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "Ids") || name == "ref" || name == "dependsOn"):
			out = append(out, prefix+name+list)
		}
	}
	return out
}

// fillOwn puts the caller's own ids in the place of those of an example.
func fillOwn(v map[string]any, own holdings, except []string) {
	for name, x := range v {
		switch x := x.(type) {
		case string:
			if own[name] != "" && !slices.Contains(except, name) {
				v[name] = own[name]
			}
		case map[string]any:
			fillOwn(x, own, nil)
		case []any:
			for i, e := range x {
				if m, ok := e.(map[string]any); ok {
					fillOwn(m, own, []string{"itemId"})
				} else if _, ok := e.(string); ok && own[name] != "" {
					x[i] = own[name]
				}
			}
		}
	}
}

// setAt sets the value at a path, in the first element of lists.
func setAt(v map[string]any, path []string, id string) {
	name, list := strings.CutSuffix(path[0], "[]")
	switch {
	case len(path) == 1 && list:
		v[name] = []any{id}
	case len(path) == 1:
		v[name] = id
	case list:
		items, _ := v[name].([]any)
		if len(items) == 0 {
			items = []any{map[string]any{}}
			v[name] = items
		}
		if first, ok := items[0].(map[string]any); ok {
			setAt(first, path[1:], id)
		}
	default:
		inner, ok := v[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			v[name] = inner
		}
		setAt(inner, path[1:], id)
	}
}

// ownerAndStranger returns a runtime in which acme and a stranger have one of everything.
func ownerAndStranger(t *testing.T) (k *runtimetest.Kit, acme, own holdings) {
	t.Helper()
	k = runtimetest.NewWith(t, runtimetest.InMode("default"),
		script.Answer{When: &script.When{Contains: "write"}, Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "x"}}}},
		script.Answer{When: &script.When{Contains: "write"}, Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "x"}}}},
	)
	return k, holdingsOf(t, k, "acme"), holdingsOf(t, k, "stranger")
}

// holdingsOf makes one of everything for an account.
func holdingsOf(t *testing.T, k *runtimetest.Kit, account string) holdings {
	t.Helper()
	w := holdings{}
	do := func(name command.Name, body string) map[string]any {
		t.Helper()
		res, err := k.Runtime.Do(t.Context(), callerOf(account), mustDecode(t, name, strings.ReplaceAll(body, "$", account)))
		if err != nil {
			t.Fatalf("%s %s: %v", name, body, err)
		}
		b, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	keep := func(from map[string]any, names ...string) {
		t.Helper()
		for _, name := range names {
			if w[name], _ = from[name].(string); w[name] == "" {
				t.Fatalf("there is no %s in %v", name, from)
			}
		}
	}
	do("create_session", fmt.Sprintf(`{"sessionId":"sess_$","workspace":{"root":%q}}`, t.TempDir())) // another one for each account
	turn := do("submit_turn", `{"sessionId":"sess_$","turnId":"turn_$","input":"hello"}`)
	k.Completes(&command.SubmitTurnResult{SessionID: "sess_" + account, TurnID: "turn_" + account})
	keep(turn, "sessionId", "threadId", "turnId")
	w["toTurnId"], w["expectedTurnId"], w["parentThreadId"] = w["turnId"], w["turnId"], w["threadId"]
	do("create_task", `{"sessionId":"sess_$","taskId":"task_$","objective":"x","worker":"external"}`)
	keep(do("start_task", `{"taskId":"task_$"}`), "taskId", "runId")
	do("create_task", `{"sessionId":"sess_$","taskId":"other_$","objective":"x","worker":"external"}`)
	w["targetId"], w["parentTaskId"], w["dependsOn"] = "other_"+account, "other_"+account, "other_"+account
	keep(do("create_job", `{"sessionId":"sess_$","jobId":"job_$","instruction":"x","items":[{"itemId":"item_$","input":"x"}],"start":false}`), "jobId")
	w["itemId"] = "item_" + account
	keep(do("create_schedule", `{"sessionId":"sess_$","scheduleId":"schedule_$","everyMs":3600000,"task":{"objective":"x"}}`), "scheduleId")
	keep(do("connect_channel", `{"sessionId":"sess_$","channelId":"chan_$","transport":"sse","peerRole":"client"}`), "channelId")
	keep(do("spawn_subagent", fmt.Sprintf(`{"sessionId":"sess_$","threadId":%q,"subagentId":"sub_$","input":"hello"}`, w["threadId"])), "subagentId")
	w["subagentIds"] = w["subagentId"]
	k.WaitFor("sess_"+account, runtimetest.FactIs(event.TypeSubagentCompleted, ""))
	keep(do("start_benchmark_trial", `{"benchmark":{"datasetId":"d","datasetVersion":"1","taskId":"x","trialId":"trial_$","configurationId":"c","role":"baseline"}}`), "trialId")
	w["trialIds"] = w["trialId"]
	keep(do("export_evidence", `{"sessionId":"sess_$"}`), "evidenceId")
	keep(do("export_replay", `{"sessionId":"sess_$"}`), "ref")
	w["evidenceIds"] = w["evidenceId"]
	keep(do("start_replay", `{"sessionId":"sess_$"}`), "replayId")
	do("submit_turn", `{"sessionId":"asks_$","create":true,"input":"write it"}`)
	asked := k.WaitFor("asks_"+account, runtimetest.FactIs(event.TypeActionRequired, ""))
	w["actionId"], w["actionIds"], w["toolCallId"], w["stepId"], w["eventId"] = asked.ActionID, asked.ActionID, asked.ToolCallID, asked.StepID, asked.ID
	w["artifactId"], w["processId"], w["remoteTaskId"] = "artifact_"+account, "proc_"+account, "remote_"+account
	w["sessionIds"] = w["sessionId"]
	return w
}
