package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
)

// tokenFor makes a token for an account.
func (p *process) tokenFor(role, account string) string {
	p.t.Helper()
	made, err := client.Call[command.NewTokenResult](p.t.Context(), p.client(), &command.CreateToken{Name: role + "-" + account, Role: role, Account: account})
	if err != nil {
		p.t.Fatal(err)
	}
	return made.Token
}

// sendAs sends a request with a token and returns the status and the body of the answer.
func (p *process) sendAs(token, method, path, body string, headers ...string) (int, string) {
	p.t.Helper()
	status, _, text := p.exchange(token, method, path, body, headers...)
	return status, text
}

// exchange sends a request with a token and returns the status, the headers and the body of
// the answer.
func (p *process) exchange(token, method, path, body string, headers ...string) (status int, header http.Header, answer string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// TestStatusOfTheMachineIsForAdmins: others learn that the server is ready, and nothing
// about its processes, addresses and folders.
func TestStatusOfTheMachineIsForAdmins(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	members := func(token string) map[string]any {
		t.Helper()
		var said struct{ Runtime map[string]any }
		code, body := p.sendAs(token, http.MethodGet, "/v1/status", "")
		if err := json.Unmarshal([]byte(body), &said); err != nil || code != http.StatusOK || said.Runtime["ready"] != true || said.Runtime["runtimeId"] == "" {
			t.Fatalf("%d %s, %v", code, body, err)
		}
		if said.Runtime["data"] == nil && strings.Contains(body, p.data) {
			t.Errorf("the data is in %s", body)
		}
		return said.Runtime
	}
	machine := []string{"pid", "listen", "engine", "data", "dataVersion", "recovered", "problem", "removedEvents", "removedFromSessions", "mcpServers"}
	admin := members(p.token())
	for _, name := range machine {
		if admin[name] == nil && name != "problem" && name != "mcpServers" {
			t.Errorf("an admin doesn't see %s", name)
		}
	}
	for _, role := range []string{"observer", "client"} {
		seen := members(p.tokenFor(role, "acme"))
		for _, name := range machine {
			if seen[name] != nil {
				t.Errorf("the role %s sees %s: %v", role, name, seen[name])
			}
		}
	}
	p.stop(syscall.SIGTERM)
}
