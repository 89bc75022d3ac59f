package escapetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"agentd/event"
	"agentd/sandbox"
)

// TestKilledServerLeavesNoProcess: a real server is killed while a process of its
// background runs that detached itself twice and ignores what it can. Nothing of it is
// left, also before a server comes back; the next one says what became of it, keeps
// what it had printed, and says that it can't be reached.
func TestKilledServerLeavesNoProcess(t *testing.T) {
	if !report().PidNamespace.Available && !report().CgroupKill.Available {
		t.Skip("skipped: processes of a killed server; the kernel has neither pid namespaces nor control groups for us")
	}
	a := &agentServer{T: t, s: newSecrets(), dir: room(t), found: map[string][]byte{}}
	a.data = a.dir + "/data"
	a.must(os.MkdirAll(a.dir+"/ws", 0o755))
	line := `setsid sh -c 'trap "" TERM HUP INT; (setsid sleep 71010 &); echo ready; exec sleep 71010' & cat`
	a.writeJSON("script.yaml", map[string]any{"answers": []any{
		map[string]any{"tools": []any{map[string]any{"name": "shell", "arguments": map[string]any{"command": line, "background": true}}}},
		map[string]any{"text": "done"},
	}})
	a.writeJSON("agentd.yaml", map[string]any{
		"listen": "127.0.0.1:0", "data": a.data, "workspace": map[string]any{"root": a.dir + "/ws"},
		"providers":   []any{map[string]any{"id": "script", "kind": "script", "script": a.dir + "/script.yaml"}},
		"permissions": map[string]any{"mode": "bypass"}, "sandbox": map[string]any{"mode": string(sandbox.WorkspaceWrite)},
	})
	a.start()
	id := a.turn("", userTurn{text: "stay"})
	a.until("it is ready", func() bool { return strings.Contains(a.output(id), "ready") && running("71010") })
	a.must(a.cmd.Process.Kill())
	a.logged.Wait()
	_ = a.cmd.Wait() // it was killed
	a.until("the process ended with its server", func() bool { return !running("71010") })
	a.start()
	var processID string
	a.until("its end is a fact", func() bool {
		for _, e := range a.facts(id) {
			if p, ok := e.Payload.(*event.ProcessTerminated); ok && p.Reason == "recovery" {
				processID = p.ProcessID
			}
		}
		return processID != ""
	})
	if !strings.Contains(a.output(id), "ready") {
		t.Error("what it printed is gone")
	}
	listed := fmt.Sprint(a.command("list_processes", map[string]any{"sessionId": id}))
	if !strings.Contains(listed, processID) || strings.Contains(listed, "status:running") {
		t.Error(listed)
	}
	if res := fmt.Sprint(a.command("write_process_stdin", map[string]any{"processId": processID, "data": "x"})); !strings.Contains(res, "can't be reached") {
		t.Error(res)
	}
	a.stop()
	a.replay()
}

func (a *agentServer) writeJSON(name string, content any) {
	a.Helper()
	b, err := json.Marshal(content)
	a.must(err)
	a.must(os.WriteFile(a.dir+"/"+name, b, 0o644))
}

// until waits for what no signal tells.
func (a *agentServer) until(what string, done func() bool) {
	a.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !done(); { // so that a broken test ends
		if time.Now().After(deadline) {
			a.Fatalf("never: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// facts are those of a session.
func (a *agentServer) facts(id string) []*event.Event {
	a.Helper()
	var page struct{ Events []json.RawMessage }
	a.must(json.Unmarshal(a.sendRequest("events", http.MethodGet, "/v1/sessions/"+id+"/events?after=0&limit=1000", nil), &page))
	var all []*event.Event
	for _, raw := range page.Events {
		e, err := event.Decode(raw)
		a.must(err)
		all = append(all, e)
	}
	return all
}

// output is what the processes of a session printed.
func (a *agentServer) output(id string) string {
	a.Helper()
	var text strings.Builder
	for _, e := range a.facts(id) {
		if p, ok := e.Payload.(*event.ProcessOutput); ok {
			text.WriteString(p.Text)
		}
	}
	return text.String()
}
