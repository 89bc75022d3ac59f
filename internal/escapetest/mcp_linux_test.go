package escapetest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/event"
	"agentd/model/provider/script"
	"agentd/sandbox"
)

// TestServerEscapes runs the table as an MCP server that was started by a real
// "agentd serve", in the profile that servers get if the configuration says nothing:
// the workspace and the caches can be written, the network is allowed, the limits are
// wide.
func TestServerEscapes(t *testing.T) {
	w := newWorld(t, sandbox.WorkspaceWrite)
	base := filepath.Dir(w.outside)
	home := filepath.Dir(w.private)
	w.must(os.MkdirAll(home+"/.cache", 0o755))
	w.profile.Network, w.profile.Limits, w.profile.WriteRoots = sandbox.NetworkAllow, sandbox.Limits{MemoryMB: 8192, Processes: 2048, OpenFiles: 16384}, []string{home + "/.cache"}
	w.prepare()
	all := lines(writesOutside(), readsOfTheStore(), privateReads(), rulesOfTheWorkspace(), networks(), kernels(), strangers(), cleverWrites(), cleverCalls())
	a := &agentServer{T: t, s: newSecrets(), dir: base + "/bin", data: w.hidden, found: map[string][]byte{}}
	w.configure(a, all)
	a.start("HOME="+home, serverVariable+"=run")
	a.ready()
	made := 0
	var skipped []string
	for i, x := range all {
		if !x.claims(w) || selfish[x.name] {
			skipped = append(skipped, x.name)
			continue
		}
		if strings.Contains(x.name, "child") {
			x.escaped = func(*world, *call) bool { return false } // it may stay as long as its server
		}
		made++
		w.restore()
		a.judge(w, x, a.turn("", userTurn{text: mark(i) + " " + x.name}))
	}
	if made < 60 && len(w.plan.NotEnforced) == 0 {
		t.Errorf("only %d attempts were made", made)
	}
	t.Logf("%d attempts by an MCP server; enforced: %+v\nallowed or not enforced here: %s", made, w.plan.Enforcement, strings.Join(skipped, ", "))
	a.stop()
	for _, left := range []string{"71001", "71002", "71003"} {
		if running(left) {
			t.Errorf("a child of the server outlived agentd: %s", left)
		}
	}
	a.replay()
}

// selfish attempts would only end the server that makes them.
var selfish = map[string]bool{"signal everybody": true}

// configure writes a configuration that says of the server only how it is started.
func (w *world) configure(a *agentServer, all []attempt) {
	w.Helper()
	var answers []script.Answer
	for i, x := range all {
		answers = append(answers, wants(mark(i), script.Tool{Name: "mcp__planted__run", Arguments: map[string]any{"line": w.fill(x.line)}})...)
	}
	var play []any
	for _, x := range answers {
		one := map[string]any{"when": map[string]any{"contains": x.When.Contains}, "text": x.Text}
		for _, tool := range x.Tools {
			one["tools"] = []any{map[string]any{"name": tool.Name, "arguments": tool.Arguments}}
		}
		play = append(play, one)
	}
	for path, content := range map[string]any{
		"/script.yaml": map[string]any{"answers": play},
		"/agentd.yaml": map[string]any{
			"listen": "127.0.0.1:0", "data": w.hidden, "workspace": map[string]any{"root": w.workspace},
			"providers":   []any{map[string]any{"id": "script", "kind": "script", "script": a.dir + "/script.yaml"}},
			"permissions": map[string]any{"mode": "bypass"},
			"sandbox":     map[string]any{"hidden": []string{"~/.ssh", w.nested}, "protected": []string{"scripts/guard.sh", "guard.sh"}},
			"mcp":         []any{map[string]any{"id": "planted", "command": []string{w.attacker}, "env": []string{serverVariable}}},
		},
	} {
		b, err := json.Marshal(content)
		w.must(err)
		w.must(os.WriteFile(a.dir+path, b, 0o644))
	}
}

// judge looks at what an attempt left.
func (a *agentServer) judge(w *world, x attempt, sessionID string) {
	a.Helper()
	c := a.call(sessionID)
	through := c.result != nil && strings.HasPrefix(c.result.Preview, "exit 0:")
	if x.escaped != nil {
		through = x.escaped(w, c)
	}
	if through {
		a.Errorf("ESCAPED: %s: %v", x.name, c.order)
	}
	for _, wrong := range wrongBoundary(c.applied, w.plan) {
		a.Errorf("%s: %s", x.name, wrong)
	}
	if (c.result == nil) == (c.failed == nil) || !c.runs {
		a.Errorf("%s: the call was not made or has no end: %v", x.name, c.order)
	}
}

// call reads the one tool call of a session from the server.
func (a *agentServer) call(sessionID string) *call {
	a.Helper()
	var page struct{ Events []json.RawMessage }
	a.must(json.Unmarshal(a.sendRequest("events", http.MethodGet, "/v1/sessions/"+sessionID+"/events?after=0&limit=1000", nil), &page))
	c := &call{}
	for _, raw := range page.Events {
		e, err := event.Decode(raw)
		a.must(err)
		if e.ToolCallID == "" || e.ToolCallID == event.NotApplicable {
			continue
		}
		c.order = append(c.order, e.Type)
		c.text += string(raw)
		for _, ref := range c.foldFact(e) {
			if ref != "" {
				c.text += string(a.sendRequest("outputs", http.MethodGet, "/v1/outputs/"+url.PathEscape(ref), nil))
			}
		}
	}
	if len(c.order) == 0 {
		a.Fatalf("session %s has no tool call", sessionID)
	}
	return c
}
