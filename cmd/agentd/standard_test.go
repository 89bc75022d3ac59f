package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
)

// standardScript has an answer for each statement of the standard that is tried from
// outside.
const standardScript = `repeat: true
answers:
  - {when: {contains: reason}, reasoning: "First I look.", reasoningSummarised: true, text: "looked"}
  - {when: {contains: write}, tools: [{name: write_file, arguments: {path: a.txt, content: x}}]}
  - {when: {contains: list}, tools: [{name: shell, arguments: {command: "ls"}}]}
  - {when: {contains: print}, tools: [{name: shell, arguments: {command: "seq 1 20000; sleep 1000", background: true}}]}
  - {when: {contains: many}, tools: [{name: shell, arguments: {command: "seq 1 3000"}}]}
  - {when: {contains: question}, ask: {prompt: "Which one?"}}
  - {text: done}
`

// startStandard runs a server on the script, with a hook that rewrites what write_file is
// given and with folders beside the workspace that are named twice.
func startStandard(t *testing.T, more string) (p *process, dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, sub := range []string{"workspace", "beside"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script := writeFile(t, dir, "script.yaml", standardScript)
	hook := writeFile(t, dir, "rewrite.sh", `cat > /dev/null; printf '{"updatedInput":{"path":"b.txt","content":"y"}}'`)
	beside := filepath.Join(dir, "beside")
	config := writeFile(t, dir, "agentd.yaml", `providers:
  - {id: script, kind: script, script: `+script+`, models: [{id: script, capabilities: [tools, reasoning]}]}
workspace: {root: `+filepath.Join(dir, "workspace")+`}
permissions: {mode: bypass}
sandbox: {writeRoots: ["`+beside+`", "`+beside+`", "`+filepath.Join(dir, "workspace")+`"]}
hooks:
  - {point: pre_tool_use, match: {tool: write_file}, command: [sh, `+hook+`]}
`+more)
	return start(t, filepath.Join(dir, "data"), "--config", config), dir
}

// eventsOf reads a session's events over HTTP.
func (p *process) eventsOf(sessionID string) []*event.Event {
	p.t.Helper()
	res := p.getWithToken("/v1/sessions/" + sessionID + "/events?limit=1000")
	defer res.Body.Close()
	var page struct {
		Events []json.RawMessage `json:"events"`
	}
	if err := json.NewDecoder(res.Body).Decode(&page); err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("%d: %v", res.StatusCode, err)
	}
	var out []*event.Event
	for _, raw := range page.Events {
		e, err := event.Decode(raw)
		if err != nil {
			p.t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// turn runs a turn to its end and returns the session's events.
func (p *process) turn(sessionID, text string) []*event.Event {
	p.t.Helper()
	params := submitParams(p.t, text)
	params.SessionID, params.Create = sessionID, true
	p.completed(call[command.SubmitTurnResult](p, params))
	return p.eventsOf(sessionID)
}

func typesOf(events []*event.Event) []event.Type {
	var out []event.Type
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}

// TestTheStandardFromOutside holds statements of the standard against a server that runs
// as a process of its own.
func TestTheStandardFromOutside(t *testing.T) {
	t.Parallel()
	p, dir := startStandard(t, "")

	t.Run("events.md: a summary of reasoning is reasoning.summary", func(t *testing.T) {
		types := typesOf(p.turn("sess_reason", "reason"))
		summary, done := slices.Index(types, event.TypeReasoningSummary), slices.Index(types, event.TypeModelCompleted)
		if summary < 0 || summary > done {
			t.Errorf("%v", types)
		}
	})

	t.Run("events.md: tool.started when the provider asks, tool.args when arguments change", func(t *testing.T) {
		var call []event.Type
		steps := map[string]bool{}
		for _, e := range p.turn("sess_args", "write") {
			if e.ToolCallID != "" && e.ToolCallID != event.NotApplicable {
				call = append(call, e.Type)
				steps[e.StepID] = true
			}
			if args, ok := e.Payload.(*event.ToolArgs); ok && (args.Source != "hook" || !strings.Contains(string(args.SafeArgs), "b.txt")) {
				t.Errorf("%+v", args)
			}
		}
		last := -1
		for _, typ := range []event.Type{event.TypeToolStarted, event.TypeToolArgs, event.TypePermissionEvaluated, event.TypeToolProgress, event.TypeToolResult} {
			at := slices.Index(call, typ)
			if at <= last || slices.Contains(call[at+1:], typ) {
				t.Errorf("%s is at %d, after %d: %v", typ, at, last, call)
			}
			last = at
		}
		if len(steps) != 1 {
			t.Errorf("the facts of one call have the steps %v", steps)
		}
	})

	t.Run("execution-environment.md: additional roots are listed once", func(t *testing.T) {
		beside := []string{filepath.Join(dir, "beside")}
		for _, e := range p.turn("sess_roots", "list") {
			if s, ok := e.Payload.(*event.TurnStarted); ok && !slices.Equal(s.Environment.AdditionalRoots, beside) {
				t.Errorf("%s: %v", e.Type, s.Environment.AdditionalRoots)
			}
			if s, ok := e.Payload.(*event.SandboxApplied); ok && len(s.WriteRoots) != 2 {
				t.Errorf("%s: %v", e.Type, s.WriteRoots)
			}
		}
		var read struct {
			AdditionalRoots []string `json:"additionalRoots"`
		}
		status, answer := p.post("/v1/commands/get_execution_environment", `{"sessionId":"sess_roots"}`)
		if err := json.Unmarshal([]byte(answer), &read); status != http.StatusOK || err != nil || !slices.Equal(read.AdditionalRoots, beside) {
			t.Errorf("%d %s: %v", status, answer, err)
		}
	})

	t.Run("benchmarking.md: a trial says what it measures", func(t *testing.T) {
		for _, body := range []string{
			`{}`, `{"benchmark":null}`, `{"benchmark":{}}`, `{"benchmark":[]}`, `{"benchmark":{"datasetId":"d"}}`, `{"configuration":{}}`, `{"input":"x"}`,
			`{"sessionId":"sess_t"}`, `{"timeoutMs":1}`, `{"benchmark":{"trialId":"trial_t"}}`,
		} {
			status, answer := p.post("/v1/commands/start_benchmark_trial", body)
			if status != http.StatusBadRequest || !strings.Contains(answer, `"code":"invalid_params"`) {
				t.Errorf("%s: %d %s", body, status, answer)
			}
		}
	})

	t.Run("specification.md: what a runtime publishes says whose it is", func(t *testing.T) {
		for _, name := range []string{"event.schema.json", "event.turn.schema.json", "event.tool.schema.json"} {
			status, answer := p.post("/v1/schemas/"+name, "")
			if status != http.StatusOK || !strings.Contains(answer, "agentd's own schema, not the standard's") {
				t.Errorf("%s: %d %.300s", name, status, answer)
			}
		}
	})
}

// TestCursorsWithoutTheirEvents: history.md: snapshot.repaired and the snapshot beside it
// say what is stale, because it was never here, and what is unavailable, because it was
// removed.
func TestCursorsWithoutTheirEvents(t *testing.T) {
	t.Parallel()
	p, _ := startStandard(t, "")
	p.turn("sess_old", "hello")
	token := call[command.ConnectChannelResult](p, &command.ConnectChannel{ChannelID: "chan_old", Transport: "sse", PeerRole: "client", SessionID: "sess_old"}).ResumeToken
	back := func(cursor uint64, want string, stale, truncated bool) {
		t.Helper()
		res := call[command.ReconnectChannelResult](p, &command.ReconnectChannel{ChannelID: "chan_old", SessionID: "sess_old", ResumeToken: token, LastSequence: &cursor})
		var snapshot struct {
			RepairStatus     string
			Stale, Truncated bool
		}
		if err := json.Unmarshal(res.Snapshot, &snapshot); err != nil {
			t.Fatal(err)
		}
		if res.RecoveryMode != "snapshot_repair" || res.Gap == nil || snapshot.RepairStatus != want || snapshot.Stale != stale || snapshot.Truncated != truncated {
			t.Errorf("cursor %d: %s, gap %+v, snapshot %+v", cursor, res.RecoveryMode, res.Gap, snapshot)
		}
		repaired := false
		for _, e := range p.eventsOf("sess_old") {
			r, ok := e.Payload.(*event.SnapshotRepaired)
			repaired = repaired || ok && e.ChannelID == "chan_old" && r.Status == want
		}
		if !repaired {
			t.Errorf("cursor %d: no snapshot.repaired says %s", cursor, want)
		}
	}
	back(10_000, "stale", true, false)
	call[command.ChannelResult](p, &command.DisconnectChannel{ChannelID: "chan_old"})
	for removed := int64(0); removed == 0; { // it is old when a moment has passed
		run := call[command.RetentionRun](p, &command.RunRetention{OlderThanMs: 1})
		for run.Status == "running" {
			run = call[command.GetRetentionResult](p, &command.GetRetention{}).Run
		}
		if removed = run.Sessions; run.Status != "completed" {
			t.Fatalf("%+v", run)
		}
	}
	p.until("sess_old", event.TypeSnapshotRepaired, 1) // retention tells of itself
	back(2, "unavailable", false, true)
}
