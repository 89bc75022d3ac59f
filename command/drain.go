package command

// DrainNode has a node take no new work and hand over what it has.
type DrainNode struct {
	Mutation
	// NodeID is the node; if empty, the one that answers.
	NodeID string `json:"nodeId,omitempty" max:"256"`
	// End lets the node take work again.
	End bool `json:"end,omitempty"`
}

// Command implements [Params].
func (*DrainNode) Command() Name            { return "drain_node" }
func (*DrainNode) returns(*DrainNodeResult) {}

// Validate implements [Params].
func (p *DrainNode) Validate() error { return check(p) }

// DrainNodeResult is the node as it is when the draining began or was ended.
type DrainNodeResult struct {
	// Node is the node.
	Node NodeRecord `json:"node"`
}
