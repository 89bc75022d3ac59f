package escapetest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// doorWord is in what users say at the doors of protocols.
const doorWord = "word-door"

// serveCollector is a collector of telemetry that keeps what it gets.
func (a *agentServer) serveCollector() {
	a.collector = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.asked.Lock()
		a.asked.telemetry.Write(body)
		a.asked.telemetry.WriteByte('\n')
		a.asked.Unlock()
		w.WriteHeader(http.StatusOK)
	}))
	a.Cleanup(a.collector.Close)
}

// doors says secrets at every door that isn't the commands', and keeps what comes out.
func (a *agentServer) doors(id string) {
	a.Helper()
	said := doorWord + " " + a.s.carry("", "github", "provider key", "slack")
	a.http("A2A", "/a2a/rest/message:send", map[string]any{"message": map[string]any{"messageId": "m-1", "role": "ROLE_USER", "parts": []any{map[string]any{"text": said}}}})
	a.http("A2A", "/a2a/rpc", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": map[string]any{}})
	a.http("AG-UI", "/agui", map[string]any{
		"threadId": "sess_agui", "runId": "turn_agui", "state": map[string]any{}, "tools": []any{}, "forwardedProps": map[string]any{},
		"context": []any{map[string]any{"description": "d", "value": said}}, "messages": []any{map[string]any{"id": "1", "role": "user", "content": said}},
	})
	chat := []any{map[string]any{"role": "system", "content": said}, map[string]any{"role": "user", "content": said}}
	for _, stream := range []bool{false, true} {
		a.http("OpenAI", "/v1/chat/completions", map[string]any{"model": "agentd", "stream": stream, "messages": chat})
		a.http("OpenAI", "/v1/responses", map[string]any{"model": "agentd", "stream": stream, "input": said})
	}
	a.stdio("MCP", []string{"mcp"},
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		rpc(2, "tools/call", map[string]any{"name": "run_turn", "arguments": map[string]any{"input": said}}),
		rpc(3, "tools/call", map[string]any{"name": "get_session", "arguments": map[string]any{"sessionId": id}}),
		rpc(4, "resources/list", map[string]any{}))
	acp := a.stdio("ACP", []string{"acp"},
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`,
		rpc(2, "session/load", map[string]any{"sessionId": id, "cwd": a.dir + "/ws", "mcpServers": []any{}}),
		rpc(3, "session/new", map[string]any{"cwd": a.dir + "/ws", "mcpServers": []any{}}))
	a.editor(acp, said)
}

func rpc(id int, method string, params map[string]any) string {
	b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}) // plain values
	return string(b)
}

// http posts to a protocol's address.
func (a *agentServer) http(place, path string, body any) {
	a.Helper()
	if out := a.sendRequest(place, http.MethodPost, path, body); len(out) == 0 {
		a.Errorf("%s %s: nothing came back", place, path)
	}
}

// stdio speaks lines to a command and keeps what it says, until each request has its
// answer.
func (a *agentServer) stdio(place string, args []string, lines ...string) []byte {
	a.Helper()
	cmd := a.cli(args...)
	in, err := cmd.StdinPipe()
	a.must(err)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	a.must(err)
	a.must(cmd.Start())
	dec := json.NewDecoder(out)
	var all []byte
	for _, line := range lines {
		_, err := io.WriteString(in, line+"\n")
		a.must(err)
		var ask struct{ ID json.RawMessage }
		a.must(json.Unmarshal([]byte(line), &ask))
		for answered := ask.ID == nil; !answered; {
			var raw json.RawMessage
			if err := dec.Decode(&raw); err != nil {
				a.Fatalf("%s: %s: %v\n%s", place, line, err, &errs)
			}
			all = append(append(all, raw...), '\n')
			var m struct {
				ID     json.RawMessage
				Method string
			}
			a.must(json.Unmarshal(raw, &m))
			answered = m.Method == "" && bytes.Equal(m.ID, ask.ID)
		}
	}
	a.must(in.Close())
	rest, _ := io.ReadAll(out)
	all = append(all, rest...)
	_ = cmd.Wait() // what it said counts, not how it ended
	a.found[place] = append(append(a.found[place], all...), errs.Bytes()...)
	return all
}

// editor prompts in the session that was opened last.
func (a *agentServer) editor(opened []byte, said string) {
	a.Helper()
	ids := regexp.MustCompile(`"result":\{[^}]*"sessionId":"([^"]+)"`).FindAllSubmatch(opened, -1)
	if len(ids) == 0 {
		a.Fatalf("no session for the editor: %.500s", opened)
	}
	id := string(ids[len(ids)-1][1])
	a.stdio("ACP", []string{"acp"},
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`,
		rpc(2, "session/load", map[string]any{"sessionId": id, "cwd": a.dir + "/ws", "mcpServers": []any{}}),
		rpc(3, "session/prompt", map[string]any{"sessionId": id, "prompt": []any{map[string]any{"type": "text", "text": said}}}))
}

// cli is a command line of agentd's beside the server.
func (a *agentServer) cli(args ...string) *exec.Cmd {
	cmd := exec.Command(a.dir+"/agentd", append(args, "--config", a.dir+"/agentd.yaml", "--log-level", "debug")...)
	cmd.Dir, cmd.Env = a.dir, a.cmd.Env
	return cmd
}

// trial runs a benchmark trial with secrets in it and returns its id.
func (a *agentServer) trial() string {
	a.Helper()
	carry := func(word string) string { return a.s.carry(word, "aws", "provider key") }
	res := a.command("start_benchmark_trial", map[string]any{
		"benchmark": map[string]any{
			"datasetId": "d", "datasetVersion": "1", "taskId": "t", "configurationId": "c", "role": "baseline", "singleChangedVariable": carry("word-variable"),
		},
		"configuration": map[string]any{"note": carry("word-configuration")}, "input": doorWord + carry(" word-trial"),
	})
	id, _ := res["trialId"].(string)
	turn, _ := res["turnId"].(string)
	sess, _ := res["sessionId"].(string)
	if id == "" || turn == "" {
		a.Fatalf("start_benchmark_trial: %v", res)
	}
	a.followTo(sess, func(e streamed) bool {
		return e.TurnID == turn && (e.Type == "turn.completed" || e.Type == "turn.failed")
	})
	for name, params := range map[string]map[string]any{
		"record_benchmark_reward": {"trialId": id, "reward": map[string]any{"value": 1, "criteria": []string{carry("word-reward")}}},
		"export_benchmark_trial":  {"trialId": id},
	} {
		if res := a.command(name, params); res["code"] != nil {
			a.Errorf("%s: %v", name, res)
		}
	}
	return id
}

// commandLines are what the command line is asked.
const commandLines = `sessions
sessions --json
events $ID
events $ID --json
actions
tasks
status
policy show
jobs
channels
subagents $ID
diff --session $ID --all
undo --session $ID --preview
config show
config show --json
doctor
tokens list
call get_session {"sessionId":"$ID"}
verify
sessions export $ID --out $OUT/session.jsonl
sessions export $ID --format cloudevents --out $OUT/cloud.jsonl
backup $OUT/backup.tar
export evidence $ID --out $OUT/evidence.zip
export evidence $ID --json
export replay $ID --out $OUT/replay.json
export replay $ID --format agent-evidence --out $OUT/sibling.json
export review $ID
export review $ID --out $OUT/review.html
export review $ID --out $OUT/review.json
telemetry export $ID
telemetry export $ID --format otlp --out $OUT/spans.pb
telemetry export $ID --signal metrics
bench export $TRIAL
bench export $TRIAL --trajectory
bench export $TRIAL --trajectory --atif-version 1.4`

// lines has the command line say and write all that it can of a session.
func (a *agentServer) lines(id, trial string) {
	a.Helper()
	out := a.dir + "/exports"
	a.must(os.MkdirAll(out, 0o755))
	var lines [][]string
	for line := range strings.Lines(strings.NewReplacer("$ID", id, "$TRIAL", trial, "$OUT", out).Replace(commandLines)) {
		lines = append(lines, strings.Fields(line))
	}
	if m := regexp.MustCompile(`"toolCallId":"(tool_[0-9a-z]+)"`).FindStringSubmatch(string(a.found["the stream"])); m != nil {
		lines = append(lines, []string{"why", m[1]}, []string{"why", m[1], "--json"}) // the others are asked by command
	}
	for _, line := range lines {
		said, err := a.cli(line...).CombinedOutput()
		if err != nil && !slices.Contains([]string{"doctor", "undo"}, line[0]) { // these say by it what they found
			a.Errorf("agentd %s: %v\n%.600s", strings.Join(line, " "), err, said)
		}
		a.found["the command line"] = append(append(a.found["the command line"], said...), '\n')
	}
	files, err := filepath.Glob(out + "/*")
	a.must(err)
	for _, path := range files {
		b, err := os.ReadFile(path)
		a.must(err)
		a.found["the file "+filepath.Base(path)] = b
	}
}

// sent waits until the collector has got the end of the session, and keeps all that it
// got.
func (a *agentServer) sent(word string) {
	a.Helper()
	deadline := time.Now().Add(5 * time.Minute) // so that a broken test ends
	for time.Now().Before(deadline) {
		a.asked.Lock()
		got := bytes.Clone(a.asked.telemetry.Bytes())
		a.asked.Unlock()
		if a.found["the telemetry"] = got; bytes.Contains(got, []byte(word)) {
			return
		}
		time.Sleep(20 * time.Millisecond) // spans go out when the exporter thinks fit
	}
	a.Errorf("%s never reached the collector (%d bytes)", word, len(a.found["the telemetry"]))
}
