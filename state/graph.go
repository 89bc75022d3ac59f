package state

import (
	"slices"
	"time"

	"agentd/event"
)

const (
	// keepEdges bounds the edges of a task. Beyond it settled edges go first; an
	// active dependency never goes.
	keepEdges = 200
	// keepDelegations bounds the delegations that a task lists.
	keepDelegations = 20
)

// Relationship is an edge of the task graph, seen from the task that has it.
type Relationship struct {
	// Kind of the edge.
	Kind string `json:"kind"`
	// TargetID is the edge's other end.
	TargetID string `json:"targetId"`
	// Status of the edge: a satisfied dependency no longer blocks.
	Status string `json:"status"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// CreatedAt is when the edge was drawn.
	CreatedAt time.Time `json:"createdAt"`
	// UpdatedAt is when its status last changed.
	UpdatedAt time.Time `json:"updatedAt"`
}

// Delegation says that a task was delegated.
type Delegation struct {
	// To says what that is: subagent, job, task, worker, peer or thread.
	To string `json:"to"`
	// TargetID is what it was delegated to.
	TargetID string `json:"targetId"`
	// NativeProtocol is the protocol of the peer that it was delegated to.
	NativeProtocol string `json:"nativeProtocol,omitempty"`
	// RemoteTaskID is the peer's own task.
	RemoteTaskID string `json:"remoteTaskId,omitempty"`
	// RemoteMessageID is the message that was about to be sent to a peer.
	RemoteMessageID string `json:"remoteMessageId,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// At is when it was delegated.
	At time.Time `json:"at"`
}

// linkTask adds or changes an edge.
func (f *fold) linkTask(t *Task, kind, target, status, reason string) {
	edge := Relationship{Kind: kind, TargetID: target, Status: status, Reason: reason, CreatedAt: f.e.Time, UpdatedAt: f.e.Time}
	out := slices.Clone(t.Relationships)
	if i := findEdge(out, kind, target); i >= 0 {
		edge.CreatedAt = out[i].CreatedAt
		out[i] = edge
		t.Relationships = out
		return
	}
	out = append(out, edge)
	if len(out) > keepEdges {
		if i := droppable(out); i >= 0 {
			out = slices.Delete(out, i, i+1)
			t.OlderRelationships++
		}
	}
	t.Relationships = out
}

func findEdge(edges []Relationship, kind, target string) int {
	return slices.IndexFunc(edges, func(r Relationship) bool { return r.Kind == kind && r.TargetID == target })
}

// droppable returns the edge that goes when there are too many, or -1.
func droppable(edges []Relationship) int {
	if i := slices.IndexFunc(edges, func(r Relationship) bool { return r.Status != "active" }); i >= 0 {
		return i
	}
	return slices.IndexFunc(edges, func(r Relationship) bool { return r.Kind != "blocked_by" && r.Kind != "parent" })
}

// taskDependency changes one edge; a removed edge is no longer in the graph.
func (f *fold) taskDependency(t *Task, p *event.TaskDependencyUpdated) {
	if p.Change != "removed" {
		f.linkTask(t, p.Kind, p.TargetID, p.Status, p.Reason)
		if p.Kind == "parent" {
			t.ParentTaskID = p.TargetID
		}
		return
	}
	if p.Kind == "parent" && t.ParentTaskID == p.TargetID {
		t.ParentTaskID = ""
	}
	i := findEdge(t.Relationships, p.Kind, p.TargetID)
	if i < 0 {
		return
	}
	t.Relationships = slices.Delete(slices.Clone(t.Relationships), i, i+1)
}

func (f *fold) taskDelegated(t *Task, p *event.TaskDelegated) {
	t.Delegations = pushed(t.Delegations, Delegation{
		To: p.To, TargetID: p.TargetID, NativeProtocol: p.NativeProtocol, RemoteTaskID: p.RemoteTaskID, RemoteMessageID: p.RemoteMessageID,
		Reason: p.Reason, At: f.e.Time,
	}, keepDelegations)
	switch p.To {
	case "subagent":
		f.linkTask(t, "spawned_subagent", p.TargetID, "active", p.Reason)
	case "thread":
		f.linkTask(t, "assigned_thread", p.TargetID, "active", p.Reason)
	}
}

// linkResults joins what a task produced to it.
func (f *fold) linkResults(t *Task, artifacts []event.ArtifactLink, evidence []string) {
	for _, a := range artifacts {
		i := slices.IndexFunc(t.Artifacts, func(x event.ArtifactLink) bool { return x.ArtifactID == a.ArtifactID })
		if i >= 0 {
			t.Artifacts = slices.Clone(t.Artifacts)
			t.Artifacts[i] = a
		} else {
			t.Artifacts = pushed(t.Artifacts, a, keepRefs)
		}
		f.linkTask(t, "produced_artifact", a.ArtifactID, "active", "")
	}
	for _, ref := range evidence {
		if !slices.Contains(t.EvidenceRefs, ref) {
			t.EvidenceRefs = pushed(t.EvidenceRefs, ref, keepRefs)
		}
		f.linkTask(t, "evidence", ref, "active", "")
	}
}
