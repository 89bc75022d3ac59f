package main

import (
	"cmp"
	"context"
	"os"
	"time"

	"agentd"
	"agentd/command"
	"agentd/fault"
	"agentd/server"
	"agentd/store"
	"agentd/tool/mcp"
)

// backend is the runtime as the server wants it.
type backend struct {
	agentd.Port
	store  store.Store
	listen string
	// nodeName is the node's name among those that share its store; empty without others.
	nodeName string
	// projects, if not nil, adds what the files of projects say.
	projects *projectFiles
	// servers says how the MCP servers stand; nil without any.
	servers func() []mcp.Status
}

// Do implements [command.Runtime].
func (b *backend) Do(ctx context.Context, c command.Caller, p command.Params) (any, error) {
	if b.projects != nil {
		if err := b.projects.fill(ctx, c, p); err != nil {
			return nil, err
		}
	}
	return b.Port.Do(ctx, c, p)
}

var (
	_ server.Backend          = (*backend)(nil)
	_ command.ChannelFollower = (*backend)(nil)
)

// Ready implements [server.Backend].
func (b *backend) Ready(context.Context) error {
	if err := refusesWrites(b, b.store); err != nil {
		return err
	}
	switch b.NodeState() {
	case "draining":
		return fault.New(fault.Unavailable, "the node is being drained")
	case "drained":
		return fault.New(fault.Unavailable, "the node is drained")
	}
	return nil
}

// refusesWrites says why no command can write, or returns nil. Over a database that is the
// node's lease: it outlasts a database that is away for a moment, and without it other nodes may
// have what this one had.
func refusesWrites(runtime interface{ Err() error }, s store.Store) error {
	if err := runtime.Err(); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the store acknowledges no writes")
	}
	if shared, ok := s.(store.Shared); ok {
		if _, held := shared.Term(); !held {
			return fault.New(fault.Unavailable, "the node has no lease: its database can't be reached, or another process has the node's name; its log says which")
		}
	}
	return nil
}

// runtimeStatus is what operators see of the runtime.
type runtimeStatus struct {
	RuntimeID string `json:"runtimeId"`
	// NodeID and NodeState are what list_nodes says of this node.
	NodeID    string   `json:"nodeId,omitempty"`
	NodeState string   `json:"nodeState,omitempty"`
	PID       int      `json:"pid"`
	Listen    string   `json:"listen"`
	Engine    string   `json:"engine"`
	Data      string   `json:"data"`
	Format    int      `json:"dataVersion"`
	Recovery  []string `json:"recovered"`
	Ready     bool     `json:"ready"`
	Problem   string   `json:"problem,omitempty"`
	// Retention is how long the events of a session at rest are kept, absent for
	// ever; RemovedEvents and RemovedFrom count what was removed since the start, and
	// from how many sessions.
	Retention     string `json:"retention,omitempty"`
	RemovedEvents uint64 `json:"removedEvents"`
	RemovedFrom   uint64 `json:"removedFromSessions"`
	// EvidenceKeyID names the key that exports are signed with.
	EvidenceKeyID string `json:"evidenceKeyId,omitempty"`
	// Blobs says how the object storage stands; absent without one.
	Blobs *blobStatus `json:"blobs,omitempty"`
	// MCPServers are those of the configuration.
	MCPServers []mcpServerStatus `json:"mcpServers,omitempty"`
}

// mcpServerStatus is how an MCP server stands.
type mcpServerStatus struct {
	ID    string    `json:"id"`
	State mcp.State `json:"state"`
	// Reason says why it can't be used.
	Reason string `json:"reason,omitempty"`
	Tools  int    `json:"tools"`
	// Skipped are tools that were left out, each with why.
	Skipped []string `json:"skipped,omitempty"`
}

// publicStatus is what everybody who has a token sees of the runtime: nothing about the
// machine, and nothing that sums up what other accounts do.
type publicStatus struct {
	RuntimeID     string `json:"runtimeId"`
	Ready         bool   `json:"ready"`
	Retention     string `json:"retention,omitempty"`
	EvidenceKeyID string `json:"evidenceKeyId,omitempty"`
}

// Status implements [server.Backend].
func (b *backend) Status(ctx context.Context, c command.Caller) any {
	s := b.status(ctx)
	if c.Admin {
		return s
	}
	return publicStatus{RuntimeID: s.RuntimeID, Ready: s.Ready, Retention: s.Retention, EvidenceKeyID: s.EvidenceKeyID}
}

// statusWithin is how long the store may take to answer what a status asks.
const statusWithin = 5 * time.Second

func (b *backend) status(ctx context.Context) runtimeStatus {
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	s := runtimeStatus{
		RuntimeID: b.ID(), NodeID: cmp.Or(b.nodeName, b.ID()), NodeState: b.NodeState(),
		PID: os.Getpid(), Listen: b.listen, Ready: true, Recovery: []string{},
	}
	f := b.Figures()
	if s.RemovedEvents, s.RemovedFrom = f.TrimmedEvents, f.TrimmedSessions; f.RetainEvents > 0 {
		s.Retention = f.RetainEvents.String()
	}
	s.Blobs = statusOfBlobs(b.store)
	if b.servers != nil {
		for _, m := range b.servers() {
			s.MCPServers = append(s.MCPServers, mcpServerStatus{ID: m.ID, State: m.State, Reason: m.Reason, Tools: m.Tools, Skipped: m.Skipped})
		}
	}
	meta, err := b.store.Meta(ctx)
	if err == nil {
		s.Engine, s.Data, s.Format = meta.Engine, meta.Location, meta.Version
		s.Recovery = append(s.Recovery, meta.Recovery...)
		s.EvidenceKeyID, err = b.EvidenceKeyID(ctx)
	}
	if err = cmp.Or(b.Ready(ctx), err); err != nil {
		s.Ready, s.Problem = false, errorText(err)
	}
	return s
}
