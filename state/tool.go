package state

import (
	"slices"
	"time"

	"agentd/event"
)

// keepTools bounds the tools that an inventory lists.
const keepTools = 200

// ToolInventory says which tools a thread's newest turn may use. Schemas and
// descriptions are in the fact at Sequence or behind InventoryRef.
type ToolInventory struct {
	// TurnID is the turn that the inventory is for.
	TurnID string `json:"turnId,omitempty"`
	// ToolCount counts the tools.
	ToolCount int64 `json:"toolCount"`
	// Tools that the turn may use, in short.
	Tools []ToolSummary `json:"tools,omitempty"`
	// InventoryRef is where the tools are described whole.
	InventoryRef string `json:"inventoryRef,omitempty"`
	// Digest identifies the inventory.
	Digest string `json:"digest,omitempty"`
	// At is when it was resolved.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// ToolSummary is one tool in short.
type ToolSummary struct {
	// ToolName is the tool's name.
	ToolName string `json:"toolName"`
	// Policy says what becomes of a call before its arguments are known.
	Policy string `json:"policy"`
	// RuntimeOwner says who carries the tool out.
	RuntimeOwner string `json:"runtimeOwner"`
	// IsReadOnly says that the tool changes nothing.
	IsReadOnly bool `json:"isReadOnly,omitempty"`
	// SideBySide says that calls of the tool may run beside each other.
	SideBySide bool `json:"isConcurrencySafe,omitempty"`
	// IsDestructive says that a call may lose something that nothing brings back.
	IsDestructive bool `json:"isDestructive,omitempty"`
	// InterruptBehavior says what an interrupt does to a running call.
	InterruptBehavior string `json:"interruptBehavior,omitempty"`
	// Reason says why the tool can't be used.
	Reason string `json:"reason,omitempty"`
	// Escalates says that a call may ask to run outside of the sandbox.
	Escalates bool `json:"escalates,omitempty"`
}

// SideBySide reports whether calls of a tool may run beside each other: it only
// reads, and says that it is safe.
func (inv *ToolInventory) SideBySide(name string) bool {
	t := inv.Find(name)
	return t.IsReadOnly && t.SideBySide
}

// Find returns what the inventory says of a tool; the zero value if it isn't listed.
func (inv *ToolInventory) Find(name string) ToolSummary {
	if inv != nil {
		for i := range inv.Tools {
			if inv.Tools[i].ToolName == name {
				return inv.Tools[i]
			}
		}
	}
	return ToolSummary{}
}

func (f *fold) toolCatalogResolved(p *event.ToolCatalogResolved) {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return
	}
	inv := &ToolInventory{
		TurnID: f.e.TurnID, ToolCount: p.ToolCount, InventoryRef: p.InventoryRef, Digest: p.Digest, At: f.e.Time, Sequence: f.e.Sequence,
	}
	for _, x := range firstN(p.Tools, keepTools) {
		inv.Tools = append(inv.Tools, ToolSummary{
			ToolName: x.ToolName, Policy: x.Policy, RuntimeOwner: x.RuntimeOwner,
			IsReadOnly: x.IsReadOnly, SideBySide: x.IsConcurrencySafe, IsDestructive: x.IsDestructive, InterruptBehavior: x.InterruptBehavior, Reason: x.Reason,
			Escalates: slices.Contains(x.Capabilities, "sandbox.escalate"),
		})
	}
	if inv.Tools == nil && t.Inventory != nil && inv.Digest != "" && inv.Digest == t.Inventory.Digest {
		inv.Tools = t.Inventory.Tools // the same tools as before are not listed again
	}
	t.Inventory = inv
}
