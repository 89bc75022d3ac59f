package command_test

import (
	"path"
	"slices"
	"testing"

	"agentd/command"
	"agentd/event"
)

// TestAdminsAreAudited: whatever an admin alone may change, an audit has the fact that says so,
// without being asked for its type.
func TestAdminsAreAudited(t *testing.T) {
	records := map[command.Name]event.Type{
		"create_token": event.TypeRuntimeChanged, "rotate_token": event.TypeRuntimeChanged, "revoke_token": event.TypeRuntimeChanged,
		"set_quotas": event.TypeRuntimeChanged, "run_retention": event.TypeRuntimeChanged, "drain_node": event.TypeRuntimeChanged,
		"forget_node": event.TypeRuntimeChanged, "move_session": event.TypeSessionUpdated, "set_policy": event.TypePolicyChanged,
	}
	for _, d := range command.Catalog() {
		if d.Scope != command.RoleAdmin || !d.Mutates {
			continue
		}
		typ, known := records[d.Name]
		if !known {
			t.Errorf("%s: say here which fact records it", d.Name)
			continue
		}
		if !slices.ContainsFunc(command.AuditTypes(), func(p string) bool { ok, err := path.Match(p, string(typ)); return ok && err == nil }) {
			t.Errorf("%s records %s, which an audit doesn't have", d.Name, typ)
		}
	}
}
