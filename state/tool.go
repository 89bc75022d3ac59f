package state

import (
	"time"

	"agentd/event"
)

// keepTools bounds the tools that an inventory lists.
const keepTools = 200

// ToolInventory says which tools a thread's newest turn may use. Schemas and
// descriptions are in the fact at Sequence or behind InventoryRef.
type ToolInventory struct {
	TurnID       string        `json:"turnId,omitempty"`
	ToolCount    int64         `json:"toolCount"`
	Tools        []ToolSummary `json:"tools,omitempty"`
	InventoryRef string        `json:"inventoryRef,omitempty"`
	Digest       string        `json:"digest,omitempty"`
	At           time.Time     `json:"at"`
	Sequence     uint64        `json:"sequence"`
}

// ToolSummary is one tool in short.
type ToolSummary struct {
	ToolName      string `json:"toolName"`
	Policy        string `json:"policy"`
	RuntimeOwner  string `json:"runtimeOwner"`
	IsReadOnly    bool   `json:"isReadOnly,omitempty"`
	IsDestructive bool   `json:"isDestructive,omitempty"`
	Reason        string `json:"reason,omitempty"`
}

func (f *fold) toolCatalogResolved(p *event.ToolCatalogResolved) {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return
	}
	inv := &ToolInventory{
		TurnID: f.e.TurnID, ToolCount: p.ToolCount, InventoryRef: p.InventoryRef, Digest: p.Digest, At: f.e.Time, Sequence: f.e.Sequence,
	}
	for _, x := range first(p.Tools, keepTools) {
		inv.Tools = append(inv.Tools, ToolSummary{
			ToolName: x.ToolName, Policy: x.Policy, RuntimeOwner: x.RuntimeOwner,
			IsReadOnly: x.IsReadOnly, IsDestructive: x.IsDestructive, Reason: x.Reason,
		})
	}
	t.Inventory = inv
}
