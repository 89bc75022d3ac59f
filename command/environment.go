package command

import (
	"agentd/event"
	"agentd/fault"
)

// GetToolInventory lists the tools that a session, a thread or a mode has.
type GetToolInventory struct {
	// SessionID whose tools are asked for; the host's if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// ThreadID whose tools are asked for; the main thread if absent.
	ThreadID string `json:"threadId,omitempty" check:"id"`
	// PermissionMode to ask under; the session's if absent.
	PermissionMode string `json:"permissionMode,omitempty" enum:"@permissionMode"`
}

// Command implements [Params].
func (*GetToolInventory) Command() Name                   { return "get_tool_inventory" }
func (*GetToolInventory) returns(*GetToolInventoryResult) {}

// Validate implements [Params].
func (p *GetToolInventory) Validate() error { return check(p) }

// GetToolInventoryResult is the inventory.
type GetToolInventoryResult struct {
	// Tools with what is known of each.
	Tools []event.ToolInfo `json:"tools"`
}

// GetExecutionEnvironment says where commands of a session run, and under which
// boundaries.
type GetExecutionEnvironment struct {
	// SessionID whose environment is asked for; the host's if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// ThreadID whose environment is asked for; the main thread if absent.
	ThreadID string `json:"threadId,omitempty" check:"id"`
	// TurnID asks for the environment that a turn of the session was started in.
	TurnID string `json:"turnId,omitempty" check:"id"`
	// PermissionMode to ask under; the session's if absent.
	PermissionMode string `json:"permissionMode,omitempty" enum:"@permissionMode"`
}

// Command implements [Params].
func (*GetExecutionEnvironment) Command() Name            { return "get_execution_environment" }
func (*GetExecutionEnvironment) returns(*EnvironmentRead) {}

// Validate implements [Params].
func (p *GetExecutionEnvironment) Validate() error {
	if err := check(p); err != nil || p.TurnID == "" {
		return err
	}
	switch {
	case p.SessionID == "":
		return fault.Param("turnId", "needs sessionId, the session of the turn")
	case p.PermissionMode != "":
		return fault.Param("permissionMode", "can't be asked for together with turnId: the turn had one")
	}
	return nil
}

// EnvironmentRead is where commands run. This is the part that callers in Go rely on.
type EnvironmentRead struct {
	// Cwd is the folder that commands run in.
	Cwd string `json:"cwd"`
	// WorkspaceRoots are the folders that the session works in.
	WorkspaceRoots []string `json:"workspaceRoots"`
	// Sandbox is the boundary that commands receive, with what the kernel enforces.
	Sandbox *event.SandboxApplied `json:"sandbox,omitempty"`
	// Processes that have not ended.
	Processes []ProcessRecord `json:"processes,omitempty"`
}
