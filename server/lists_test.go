package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/internal/tourtest"
	"agentd/loop"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/process"
	"agentd/sandbox"
)

// listed says how a list is asked for and what tells its entries apart.
type listed struct {
	// with are the parameters that the list can't do without.
	with string
	// rows is the member that has the entries, and ids what identifies one.
	rows string
	ids  []string
	// least is how many entries the list has when the others were made.
	least int
}

// everyList has each list of the catalogue.
var everyList = map[command.Name]listed{
	"list_sessions":      {rows: "sessions", ids: []string{"sessionId"}, least: 3},
	"list_turns":         {rows: "turns", ids: []string{"turnId"}, least: 3},
	"list_actions":       {rows: "actions", ids: []string{"actionId"}, least: 3},
	"list_tasks":         {rows: "tasks", ids: []string{"taskId"}, least: 3},
	"list_subagents":     {with: `"sessionId":"s0"`, rows: "subagents", ids: []string{"subagentId"}, least: 3},
	"list_jobs":          {rows: "jobs", ids: []string{"jobId"}, least: 3},
	"list_schedules":     {rows: "schedules", ids: []string{"scheduleId"}, least: 3},
	"list_processes":     {rows: "processes", ids: []string{"processId"}, least: 3},
	"list_project_rules": {rows: "rules", ids: []string{"ruleId"}, least: 3},
	"list_channels":      {rows: "channels", ids: []string{"channelId"}, least: 3},
	"list_peer_tasks":    {with: `"nativeProtocol":"a2a"`, rows: "peerTasks", ids: []string{"account", "remoteTaskId"}, least: 3},
	"list_peer_pushes":   {with: `"nativeProtocol":"a2a"`, rows: "pushes", ids: []string{"account", "remoteTaskId", "configId"}, least: 5},
	"list_exports":       {rows: "exports", ids: []string{"evidenceId"}, least: 3},
	"list_trials":        {rows: "trials", ids: []string{"trialId"}, least: 3},
	"list_artifacts":     {rows: "artifacts", ids: []string{"artifactId"}, least: 3},
	"list_models":        {rows: "models", ids: []string{"modelId"}, least: 3},
	"list_tokens":        {rows: "tokens", ids: []string{"tokenId"}, least: 3},
	"list_accounts":      {rows: "accounts", ids: []string{"account"}, least: 3},
	"list_nodes":         {rows: "nodes", ids: []string{"nodeId"}, least: 1},
}

// TestEveryListIsWalked walks every list of the catalogue over HTTP, one entry at a
// time: nothing is left out, nothing comes twice, and what isn't a limit or a cursor of
// that list is refused by name.
func TestEveryListIsWalked(t *testing.T) {
	w := walker{t, runLiveWith(t, func(o *agentd.Options) {
		o.Provider = script.New("script", &script.Script{Answers: []script.Answer{
			{When: &script.When{Contains: "Keep"}, Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "kept/a.txt", "content": "a"}}}},
			{When: &script.When{Contains: "Run"}, Tools: []script.Tool{
				{Name: "shell", Arguments: map[string]any{"command": "true", "background": true}},
				{Name: "shell", Arguments: map[string]any{"command": "true", "background": true}},
				{Name: "shell", Arguments: map[string]any{"command": "true", "background": true}},
			}},
		}})
		processes := sync.OnceValue(func() *process.Manager { return process.New(process.Options{Report: sandbox.Probe()}) })
		o.Loop = loop.Options{Workspace: t.TempDir(), Governance: loop.Governance{Processes: processes}, Models: []model.Info{
			{Provider: "script", Model: "one"}, {Provider: "script", Model: "two"},
		}}
		o.Host = tourtest.Host(t)
	})}
	w.fill()
	cursors := map[command.Name]string{}
	for _, d := range command.Catalog() {
		if !strings.HasPrefix(string(d.Name), "list_") {
			continue
		}
		l, ok := everyList[d.Name]
		if !ok {
			t.Errorf("%s is not in the table of this test", d.Name)
			continue
		}
		w.until(d.Name, l.with, l.least)
		cursors[d.Name] = w.walk(d.Name, l)
	}
	for _, name := range slices.Sorted(maps.Keys(cursors)) {
		w.refuses(name, everyList[name], cursors)
	}
}

type walker struct {
	*testing.T
	r *running
}

// send carries out a command as an admin.
func (w walker) send(name command.Name, body string) answer {
	w.Helper()
	req := w.r.request(http.MethodPost, "/v1/commands/"+string(name), body)
	req.Header.Set("Authorization", "Bearer admin-token")
	return w.r.sendRequest(req)
}

func (w walker) do(name command.Name, format string, args ...any) map[string]any {
	w.Helper()
	var out map[string]any
	w.send(name, fmt.Sprintf(format, args...)).decode(w, &out)
	return out
}

// fill makes three of everything that there are lists of.
func (w walker) fill() {
	w.Helper()
	for i := range 3 {
		made := w.do("create_session", `{"sessionId":"s%d","workspace":{"root":%q}}`, i, w.TempDir())
		w.do("submit_turn", `{"sessionId":"s%d","input":"Keep it.","options":{"permissionMode":"default"}}`, i)
		kept := w.until("list_actions", fmt.Sprintf(`"status":"pending","sessionId":"s%d"`, i), 1)
		w.do("respond_action", `{"actionId":%q,"decision":"allow","scope":"project"}`, kept["actions"].([]any)[0].(map[string]any)["actionId"])
		w.do("create_task", `{"taskId":"task_%d","sessionId":"s%d","objective":"Write.","worker":"external","start":true}`, i, i)
		w.do("complete_task", `{"taskId":"task_%d","artifacts":[{"artifactId":"artifact_%d","uri":"https://files.example/%d"}]}`, i, i, i)
		w.do("create_job", `{"jobId":"job_%d","sessionId":"s%d","instruction":"Say it.","items":[{"input":"this"}],"start":false}`, i, i)
		w.do("create_schedule", `{"scheduleId":"schedule_%d","sessionId":"s%d","cron":"@yearly","task":{"objective":"x","worker":"external"}}`, i, i)
		w.do("connect_channel", `{"channelId":"chan_%d","transport":"websocket","peerRole":"client"}`, i)
		w.do("export_review", `{"sessionId":"s%d"}`, i)
		w.do("start_benchmark_trial", `{"benchmark":{"datasetId":"d","datasetVersion":"1","taskId":"say","trialId":"trial_%d","configurationId":"c","role":"baseline"},"configuration":{"agent":"x"}}`, i)
		w.do("create_token", `{"name":"token-%d","account":"account-%d"}`, i, i)
		if i == 0 {
			for n := range 3 {
				w.do("spawn_subagent", `{"subagentId":"sub_%d","sessionId":"s0","threadId":%q,"input":"Look at it."}`, n, made["threadId"])
			}
		}
		w.do("submit_turn", `{"sessionId":"peer%d","create":true,"input":"Look at it.","peer":{"channelId":"chan_peer","nativeProtocol":"a2a","remoteTaskId":"theirs/%d","remoteContextId":"ctx","remoteMessageId":"m","message":{"messageId":"m"}}}`, i, i)
		w.do("set_peer_push", `{"nativeProtocol":"a2a","remoteTaskId":"theirs/%d","configId":"hook","target":"peer.example","sealed":"bm9uZQ=="}`, i)
	}
	// Ids that a peer chose, as long as they may be and alike but for the end.
	for _, end := range []string{"a", "b"} {
		w.do("set_peer_push", `{"nativeProtocol":"a2a","remoteTaskId":"theirs/0","configId":%q,"target":"peer.example","sealed":"bm9uZQ=="}`, strings.Repeat("%", 255)+end)
	}
	w.do("create_session", `{"sessionId":"runs"}`)
	w.do("set_policy", `{"sessionId":"runs","rules":[{"decision":"allow","tool":"shell"}]}`)
	w.do("submit_turn", `{"sessionId":"runs","input":"Run it."}`)
	w.until("list_processes", `"status":"completed"`, 3)
}

// until asks for a list until it has enough entries.
func (w walker) until(name command.Name, with string, least int) map[string]any {
	w.Helper()
	for {
		res := w.do(name, "{%s}", with)
		for _, rows := range res {
			if list, ok := rows.([]any); ok && len(list) >= least {
				return res
			}
		}
		if w.Context().Err() != nil {
			w.Fatalf("%s has less than %d entries: %v", name, least, res)
		}
	}
}

// walk compares a walk of single steps with the list as a whole, and returns a cursor.
func (w walker) walk(name command.Name, l listed) (cursor string) {
	w.Helper()
	whole := w.do(name, "{%s}", joined(l.with, `"limit":1000`))
	want := idsOf(whole, l)
	if different := slices.Compact(slices.Sorted(slices.Values(want))); len(different) != len(want) || len(want) < l.least || whole["nextCursor"] != nil {
		w.Errorf("%s: %d entries, %d different, next %v", name, len(want), len(different), whole["nextCursor"])
	}
	var got []string
	for page := ""; ; {
		res := w.do(name, "{%s}", joined(l.with, `"limit":1`, page))
		if res["total"] != whole["total"] {
			w.Errorf("%s: the total is %v on a page and %v on the whole", name, res["total"], whole["total"])
		}
		got = append(got, idsOf(res, l)...)
		next, more := res["nextCursor"].(string)
		if !more {
			break
		}
		if len(got) > len(want) {
			w.Fatalf("%s doesn't end: %q", name, got)
		}
		cursor, page = next, fmt.Sprintf(`"cursor":%q`, next)
	}
	if !slices.Equal(got, want) {
		w.Errorf("%s, one at a time: %q\nas a whole: %q", name, got, want)
	}
	if total, counted := whole["total"].(float64); counted && int(total) != len(want) {
		w.Errorf("%s: total %v of %d", name, total, len(want))
	}
	return cursor
}

// refuses checks that a list takes no limit and no cursor but its own.
func (w walker) refuses(name command.Name, l listed, cursors map[command.Name]string) {
	w.Helper()
	wrong := map[string][]string{
		"limit":  {`-1`, `1001`, `1e9`, `1.5`, `"5"`, `true`, `[]`, `{}`},
		"cursor": {`"x"`, `"AAAA"`, `"` + strings.Repeat("A", 3000) + `"`, `5`, `true`, `{}`, `[]`},
	}
	for other, cursor := range cursors {
		if other != name && cursor != "" {
			wrong["cursor"] = append(wrong["cursor"], fmt.Sprintf("%q", cursor))
		}
	}
	if own := cursors[name]; own != "" {
		wrong["cursor"] = append(wrong["cursor"], fmt.Sprintf("%q", own+"A"), fmt.Sprintf("%q", own[1:]))
	}
	for param, values := range wrong {
		for _, v := range values {
			a := w.send(name, "{"+joined(l.with, fmt.Sprintf("%q:%s", param, v))+"}")
			if p := a.problem(w); a.status != http.StatusBadRequest || p.Code != "invalid_params" || p.Param != param {
				w.Errorf("%s with %s %s: %d %s", name, param, v, a.status, a.body)
			}
		}
		for _, v := range []string{`null`, map[string]string{"limit": `0`, "cursor": `""`}[param]} {
			if a := w.send(name, "{"+joined(l.with, fmt.Sprintf("%q:%s", param, v))+"}"); a.status != http.StatusOK {
				w.Errorf("%s with %s %s: %d %s", name, param, v, a.status, a.body)
			}
		}
	}
}

// idsOf returns what identifies the entries of a page.
func idsOf(page map[string]any, l listed) []string {
	var out []string
	rows, _ := page[l.rows].([]any)
	for _, row := range rows {
		var id []any
		for _, name := range l.ids {
			id = append(id, row.(map[string]any)[name])
		}
		text, _ := json.Marshal(id)
		out = append(out, string(text))
	}
	return out
}

func joined(members ...string) string {
	return strings.Join(slices.DeleteFunc(members, func(s string) bool { return s == "" }), ",")
}
