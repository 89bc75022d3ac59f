package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/cmd/agentd/internal/config"
)

// What the file of a project asks for reaches the sessions of editors and programs, and
// what its user chose goes before it.
func TestProjectFileReachesAllClients(t *testing.T) {
	p := newPerson(t)
	writeFile(t, p.project, config.ProjectFileName, "permissions: {mode: plan}\nrouting: {default: s/m}\n")
	modeOf := func(sessionID string) string {
		t.Helper()
		for line := range strings.SplitSeq(p.output("events", "--json", sessionID), "\n") {
			if strings.Contains(line, `"type":"turn.submitted"`) || strings.Contains(line, `"type":"turn.started"`) {
				if mode, err := between(line, `"permissionMode":"`, `"`); err == nil {
					return mode
				}
			}
		}
		return ""
	}
	program := p.pipe("stdio")
	submit := func(params map[string]any) string {
		t.Helper()
		var turn struct {
			SessionID string `json:"sessionId"`
		}
		params["input"] = "hello"
		program.call("submit_turn", params, &turn)
		return turn.SessionID
	}
	if mode := modeOf(submit(map[string]any{})); mode != "plan" {
		t.Errorf("a turn over stdio runs in mode %q", mode)
	}
	if mode := modeOf(submit(map[string]any{"options": map[string]any{"permissionMode": "untrusted"}})); mode != "untrusted" {
		t.Errorf("a turn that chooses its mode runs in mode %q", mode)
	}
	var opened struct {
		SessionID string `json:"sessionId"`
		Modes     struct {
			CurrentModeID string `json:"currentModeId"`
		} `json:"modes"`
	}
	editor := p.editor()
	editor.call("session/new", map[string]any{"cwd": p.project, "mcpServers": []any{}}, &opened)
	if opened.Modes.CurrentModeID != "plan" {
		t.Errorf("an editor's session is in mode %q", opened.Modes.CurrentModeID)
	}
	editor.call("session/set_mode", map[string]any{"sessionId": opened.SessionID, "modeId": "default"}, nil)
	editor.call("session/prompt", map[string]any{"sessionId": opened.SessionID, "prompt": []any{map[string]any{"type": "text", "text": "hello"}}}, nil)
	if mode := modeOf(opened.SessionID); mode == "plan" {
		t.Error("the mode that was chosen in the editor doesn't count")
	}
	agent := p.pipe("mcp")
	agent.call("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}}, nil)
	agent.send(map[string]any{"method": "notifications/initialized"})
	var res struct {
		Content json.RawMessage `json:"structuredContent"`
	}
	agent.call("tools/call", map[string]any{"name": "run_turn", "arguments": map[string]any{"input": "hello"}}, &res)
	id, err := between(string(res.Content), `"sessionId":"`, `"`)
	if err != nil {
		t.Fatal(err)
	}
	if mode := modeOf(id); mode != "plan" {
		t.Errorf("a turn over MCP runs in mode %q", mode)
	}
	// What a project can't set is refused, wherever it comes from.
	writeFile(t, p.project, config.ProjectFileName, "routing: {default: none/none}\n")
	program.ids++
	program.send(map[string]any{"id": program.ids, "method": "submit_turn", "params": map[string]any{"input": "hello"}})
	if line, err := program.out.ReadString('\n'); err != nil || !strings.Contains(line, "none of your models") || !strings.Contains(line, filepath.Join(p.project, config.ProjectFileName)) {
		t.Errorf("%v: %s", err, line)
	}
}

// The file of a project can't widen what an admin or the session's creator chose, no
// matter who submits the turn.
func TestProjectFileNeverWidensAChosenMode(t *testing.T) {
	p := newPerson(t)
	writeFile(t, p.project, config.ProjectFileName, "permissions: {mode: default}\n")
	program := p.pipe("stdio")
	var opened struct {
		SessionID string `json:"sessionId"`
	}
	program.call("create_session", map[string]any{"permissionMode": "plan"}, &opened)
	p.output("run", "--session", opened.SessionID, "hello")
	if mode := p.startedIn(opened.SessionID); mode != "" {
		t.Errorf("a turn of the command line runs in mode %q in a session that someone made with plan", mode)
	}
	program.call("set_policy", map[string]any{"mode": "untrusted"}, nil)
	var turn struct {
		SessionID string `json:"sessionId"`
	}
	program.call("submit_turn", map[string]any{"input": "hello"}, &turn)
	if mode := p.startedIn(turn.SessionID); mode != "" && mode != "untrusted" {
		t.Errorf("a program's turn runs in mode %q, and the host's is untrusted", mode)
	}
	out := p.output("submit", "--json", "hello")
	id, err := between(out, `"sessionId":"`, `"`)
	if err != nil {
		t.Fatal(err)
	}
	if mode := p.startedIn(id); mode != "" && mode != "untrusted" {
		t.Errorf("a submitted turn runs in mode %q, and the host's is untrusted", mode)
	}
}

// startedIn is the mode that the turn of a session was submitted with; empty for none.
func (p *person) startedIn(sessionID string) string {
	p.Helper()
	for line := range strings.SplitSeq(p.output("events", "--json", sessionID), "\n") {
		if strings.Contains(line, `"type":"turn.submitted"`) {
			if mode, err := between(line, `"permissionMode":"`, `"`); err == nil {
				return mode
			}
		}
	}
	return ""
}

// What a checkout brings in the place of a data directory isn't read, let alone shown.
func TestFolderOfACheckoutIsNotRead(t *testing.T) {
	p := newPerson(t)
	folder := filepath.Join(p.project, folderData)
	for _, place := range []func() error{
		func() error { return os.Symlink("/dev/zero", filepath.Join(folder, databaseFile)) },
		func() error {
			return os.WriteFile(filepath.Join(folder, databaseFile), []byte("x\x1b]0;title\a, run: sudo x"), 0o600)
		},
		func() error { return os.WriteFile(filepath.Join(folder, noteFile), []byte("{"), 0o600) },
	} {
		if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700), place()); err != nil {
			t.Fatal(err)
		}
		out, err := p.command("sessions").CombinedOutput()
		if err != nil || strings.Contains(string(out), "of a server over") || strings.Contains(string(out), "\x1b") {
			t.Errorf("%v: %q", err, out)
		}
	}
}

// An editor can allow something in the project, for good.
func TestEditorAllowsForTheProject(t *testing.T) {
	p := newPerson(t)
	editor := p.editor()
	prompt := func() (asked int) {
		t.Helper()
		var opened struct {
			SessionID string `json:"sessionId"`
		}
		editor.call("session/new", map[string]any{"cwd": p.project, "mcpServers": []any{}}, &opened)
		editor.ids++
		id := editor.ids
		editor.send(map[string]any{"id": id, "method": "session/prompt", "params": map[string]any{"sessionId": opened.SessionID, "prompt": []any{map[string]any{"type": "text", "text": "please build"}}}})
		for {
			line, err := editor.out.ReadBytes('\n')
			if err != nil {
				t.Fatal(err)
			}
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
				Params json.RawMessage `json:"params"`
				Error  json.RawMessage `json:"error"`
			}
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			switch {
			case m.Method == "session/request_permission":
				asked++
				if !strings.Contains(string(m.Params), `"optionId":"allow_project"`) {
					t.Fatalf("%s", m.Params)
				}
				editor.send(map[string]any{"id": m.ID, "result": map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "allow_project"}}})
			case m.Method == "" && m.Error != nil:
				t.Fatalf("%s", m.Error)
			case m.Method == "":
				return asked
			}
		}
	}
	if asked := prompt(); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	if asked := prompt(); asked != 0 {
		t.Errorf("asked %d times after it was allowed for good", asked)
	}
	if out := p.output("policy", "rules"); !strings.Contains(out, "write_file") {
		t.Error(out)
	}
}
