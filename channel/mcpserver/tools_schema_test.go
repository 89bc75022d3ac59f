//go:build !race

// Every command's schemas are compiled and held against its results, one after the other:
// no work for the race detector.

package mcpserver_test

import (
	"testing"

	"agentd/command"
)

func TestEveryRoleSeesTheCommandsThatItMayCall(t *testing.T) {
	k := newKit(t).start()
	for token, role := range map[string]command.Role{"eve": command.RoleObserver, "ann": command.RoleClient, "admin": command.RoleAdmin} {
		for _, version := range []string{older, newer} {
			tools := k.listTools(k.client(token, version, nil))
			for _, d := range command.Catalog() {
				_, there := tools[string(d.Name)]
				secret := d.ShowsSecret && d.Scope == command.RoleAdmin // tokens of the server
				if want := d.Available && role.Allows(d.Scope) && !secret; there != want {
					t.Errorf("%s in %s: %s is listed: %v, want %v", role, version, d.Name, there, want)
				}
			}
			if _, there := tools["run_turn"]; there != role.Allows(command.RoleClient) {
				t.Errorf("%s: run_turn is listed: %v", role, there)
			}
			if _, there := tools["test_simple_text"]; there {
				t.Errorf("%s: fixtures are listed without being asked for", role)
			}
		}
	}
}

func TestToolsSayWhatTheyTakeReturnAndDo(t *testing.T) {
	k := newKit(t).start()
	tools := k.listTools(k.client("admin", newer, nil))
	for name, tool := range tools {
		k.compile(name+"-in", tool.InputSchema)
		k.compile(name+"-out", tool.OutputSchema)
		if root, _ := tool.OutputSchema.(map[string]any); root["type"] != "object" {
			t.Errorf("%s: the output schema's root is no object: %v", name, root["type"])
		}
		if tool.Description == "" || tool.Annotations == nil {
			t.Errorf("%s says too little of itself", name)
		}
		if d, ok := command.Lookup(command.Name(name)); ok && tool.Annotations.ReadOnlyHint == d.Mutates {
			t.Errorf("%s: readOnlyHint is %v", name, tool.Annotations.ReadOnlyHint)
		}
		if tool.Annotations.ReadOnlyHint && *tool.Annotations.DestructiveHint {
			t.Errorf("%s reads and destroys", name)
		}
	}
	for _, name := range []string{"rollback_thread", "run_turn", "submit_turn"} {
		if !*tools[name].Annotations.DestructiveHint {
			t.Errorf("%s is called harmless", name)
		}
	}
}
