package command

// ForgetNode removes a node that is gone for good from the list of nodes.
type ForgetNode struct {
	Mutation
	// NodeID is the node.
	NodeID string `json:"nodeId" check:"nonempty" max:"256"`
	// Preview changes nothing and only says which sessions have their files there, also of a
	// node that is alive.
	Preview bool `json:"preview,omitempty"`
}

// Command implements [Params].
func (*ForgetNode) Command() Name             { return "forget_node" }
func (*ForgetNode) returns(*ForgetNodeResult) {}

// Validate implements [Params].
func (p *ForgetNode) Validate() error { return check(p) }

// ForgetNodeResult says what was on a node.
type ForgetNodeResult struct {
	// NodeID is the node.
	NodeID string `json:"nodeId"`
	// Listed says that it was on the list of nodes.
	Listed bool `json:"listed"`
	// Alive says that its lease holds, so that it can't be forgotten.
	Alive bool `json:"alive"`
	// Placed counts the sessions whose files are there, and in no pool with a live node.
	// They are blocked until the node is back, or until move_session gives them another
	// place.
	Placed int64 `json:"placed"`
	// SessionIDs are the first 100 of them.
	SessionIDs []string `json:"sessionIds"`
	// Forgotten says that the node was removed from the list.
	Forgotten bool `json:"forgotten"`
}

// MoveSession gives a session another place to work in.
type MoveSession struct {
	Mutation
	// SessionID is the session.
	SessionID string `json:"sessionId" check:"id"`
	// NodeID is the node that the session goes on at; if empty, the one that answers.
	NodeID string `json:"nodeId,omitempty" max:"256"`
	// Root is the folder there. If empty, it is the folder of the same path, or the node's own
	// for a session that names none.
	Root string `json:"root,omitempty" max:"4096" secret:"refuse"`
}

// Command implements [Params].
func (*MoveSession) Command() Name              { return "move_session" }
func (*MoveSession) returns(*MoveSessionResult) {}

// Validate implements [Params].
func (p *MoveSession) Validate() error { return check(p) }

// MoveSessionResult says where a session worked and where it works from now on.
type MoveSessionResult struct {
	// SessionID is the session.
	SessionID string `json:"sessionId"`
	// Sequence is that of the fact which says so: what turns changed before it is not taken
	// for files of the new place.
	Sequence uint64 `json:"sequence"`
	// From is where the session worked.
	From SessionPlace `json:"from"`
	// To is where it works from now on.
	To SessionPlace `json:"to"`
}

// SessionPlace is a folder on a node.
type SessionPlace struct {
	// NodeID is the node.
	NodeID string `json:"nodeId"`
	// Pool names the nodes that reach the folder too.
	Pool string `json:"pool,omitempty"`
	// Root is the folder's path.
	Root string `json:"root"`
}
