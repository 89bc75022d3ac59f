package state

import (
	"slices"
	"time"

	"agentd/event"
)

// History is what happened to the session's record of itself.
type History struct {
	// Window is the last part of the history that was loaded for recovery.
	Window *HistoryWindow `json:"window,omitempty"`
	// Reconstruction is the last rebuilding from facts.
	Reconstruction  *Reconstruction `json:"reconstruction,omitempty"`
	Reconstructions int64           `json:"reconstructions,omitempty"`
	// Rollbacks holds the last completed ones, oldest first; RunningRollbacks
	// those that were started and not completed.
	Rollbacks        []Rollback `json:"rollbacks,omitempty"`
	RunningRollbacks []Rollback `json:"runningRollbacks,omitempty"`
	RollbackCount    int64      `json:"rollbackCount,omitempty"`
	// Repairs holds the last gaps that a snapshot bridged; RepairCount counts all.
	Repairs     []Repair `json:"repairs,omitempty"`
	RepairCount int64    `json:"repairCount,omitempty"`
	// Snapshot is the last read model that was written or that a stream went on from.
	Snapshot *SnapshotMark `json:"snapshot,omitempty"`
}

// HistoryWindow is a loaded part of the history.
type HistoryWindow struct {
	// FromSequence is the first fact of the window.
	FromSequence uint64 `json:"fromSequence"`
	// ToSequence is the last fact of the window.
	ToSequence uint64 `json:"toSequence"`
	// Truncated says that there are older facts.
	Truncated bool `json:"truncated"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// At is when it was loaded.
	At time.Time `json:"at"`
}

// Reconstruction says how the session was rebuilt from its facts.
type Reconstruction struct {
	// FromSnapshot is the sequence of the snapshot that it began with; 0 is none.
	FromSnapshot uint64 `json:"fromSnapshot"`
	// ReplayedEvents counts the events that were folded.
	ReplayedEvents int64 `json:"replayedEvents"`
	// Degraded says that it was partial.
	Degraded bool `json:"degraded"`
	// Missing says what could not be found.
	Missing []string `json:"missing,omitempty"`
	// Recovered says what was taken up again.
	Recovered []string `json:"recovered,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// At is when it happened.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// Rollback takes turns of a thread back; nothing is deleted.
type Rollback struct {
	// RollbackID is the rollback's id.
	RollbackID string `json:"rollbackId"`
	// ThreadID is the thread that went back.
	ThreadID string `json:"threadId"`
	// ToTurnID is the last turn that stays.
	ToTurnID string `json:"toTurnId"`
	// RemovedTurns are the turns that went, as many as are kept.
	RemovedTurns []string `json:"removedTurns,omitempty"`
	// RemovedCount counts all removed turns; the list is bounded.
	RemovedCount int64 `json:"removedCount"`
	// BaselineSequence is where the thread goes on from.
	BaselineSequence uint64 `json:"baselineSequence,omitempty"`
	// Origin is where in another session the history of the fork ends now, if it went back
	// behind its beginning.
	Origin *event.ForkPoint `json:"origin,omitempty"`
	// InheritedTurns counts the removed turns of the session that this one was forked from.
	InheritedTurns int64 `json:"inheritedTurns,omitempty"`
	// AffectedTools are the tool calls of the removed turns.
	AffectedTools []string `json:"affectedTools,omitempty"`
	// AffectedArtifacts are the artifacts of the removed turns.
	AffectedArtifacts []string `json:"affectedArtifacts,omitempty"`
	// AffectedSubagents are the children of the removed turns.
	AffectedSubagents []string `json:"affectedSubagents,omitempty"`
	// AffectedJobs are the jobs of the removed turns.
	AffectedJobs []string `json:"affectedJobs,omitempty"`
	// FilesPolicy says whether files are restored or kept.
	FilesPolicy string `json:"filesPolicy,omitempty"`
	// Force says that changes since are overwritten.
	Force bool `json:"force,omitempty"`
	// Files are what became of files.
	Files []event.RollbackFile `json:"files,omitempty"`
	// FileCount counts all files; the list is bounded.
	FileCount int64 `json:"fileCount,omitempty"`
	// ReadModelRepaired says that the read models show it.
	ReadModelRepaired bool `json:"readModelRepaired,omitempty"`
	// RequestedBy asked for it.
	RequestedBy *event.Actor `json:"requestedBy,omitempty"`
	// StartedAt is when it began; absent until then.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// CompletedAt is when it was completed.
	CompletedAt time.Time `json:"completedAt,omitzero"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// Repair is a gap that could not be redelivered and was bridged by a snapshot.
type Repair struct {
	// Reason says why, for people.
	Reason string `json:"reason"`
	// GapFrom is the first sequence that is missing.
	GapFrom uint64 `json:"gapFrom"`
	// GapTo is the last sequence that is missing.
	GapTo uint64 `json:"gapTo"`
	// RecoveryMode says how the reader goes on.
	RecoveryMode string `json:"recoveryMode"`
	// SnapshotSequence is that of the snapshot that stands for them.
	SnapshotSequence uint64 `json:"snapshotSequence"`
	// Status of what is missing: stale or unavailable.
	Status string `json:"status"`
	// ChannelID is the peer's channel; absent if the gap is everyone's.
	ChannelID string `json:"channelId,omitempty"`
	// At is when it happened.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// SnapshotMark says that a read model was written.
type SnapshotMark struct {
	// Snapshot says which read model it is.
	Snapshot string `json:"snapshot"`
	// AtSequence is the newest fact that it covers.
	AtSequence uint64 `json:"atSequence"`
	// RecoveryMode says how a reader went on from it.
	RecoveryMode string `json:"recoveryMode,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// At is when it was written.
	At time.Time `json:"at"`
}

// RollingBack returns the thread's rollback that is under way, or nil.
func (h *History) RollingBack(threadID string) *Rollback {
	for i := range h.RunningRollbacks {
		if h.RunningRollbacks[i].ThreadID == threadID {
			return &h.RunningRollbacks[i]
		}
	}
	return nil
}

// history folds the facts of the record itself.
func (f *fold) history() {
	h := &f.s.History
	switch p := f.e.Payload.(type) {
	case *event.HistoryWindowLoaded:
		h.Window = &HistoryWindow{FromSequence: p.FromSequence, ToSequence: p.ToSequence, Truncated: p.Truncated, Reason: p.Reason, At: f.e.Time}
		f.inherit(p)
	case *event.HistoryReconstructed:
		h.Reconstructions++
		h.Reconstruction = &Reconstruction{
			FromSnapshot: p.FromSnapshot, ReplayedEvents: p.ReplayedEvents, Degraded: p.Degraded, Missing: firstN(p.Missing, keepItems),
			Recovered: firstN(p.Recovered, keepItems), Reason: p.Reason, At: f.e.Time, Sequence: f.e.Sequence,
		}
	case *event.RollbackStarted:
		f.rollbackStarted(p)
	case *event.RollbackCompleted:
		f.rollbackCompleted(p)
	case *event.SnapshotRepaired:
		h.RepairCount++
		h.Repairs = recent(h.Repairs, Repair{
			Reason: p.Reason, GapFrom: p.GapFrom, GapTo: p.GapTo, RecoveryMode: p.RecoveryMode, SnapshotSequence: p.SnapshotSequence,
			Status: p.Status, ChannelID: f.e.ChannelID, At: f.e.Time, Sequence: f.e.Sequence,
		}, keepRecent)
	case *event.SnapshotUpdated:
		h.Snapshot = &SnapshotMark{Snapshot: p.Snapshot, AtSequence: p.AtSequence, RecoveryMode: p.RecoveryMode, Reason: p.Reason, At: f.e.Time}
	}
}

func (f *fold) rollbackStarted(p *event.RollbackStarted) {
	r := f.takeRollback(p.RollbackID)
	r.ThreadID, r.ToTurnID, r.FilesPolicy, r.RequestedBy = f.e.ThreadID, p.ToTurnID, p.Files, p.RequestedBy
	r.Force, r.BaselineSequence = p.Force, p.BaselineSequence
	r.Origin, r.InheritedTurns = p.Origin, p.InheritedTurns
	r.RemovedTurns, r.RemovedCount = firstN(p.RemovedTurns, keepItems), int64(len(p.RemovedTurns))
	r.StartedAt, r.Sequence = f.e.Time, f.e.Sequence
	f.s.History.RunningRollbacks = append(f.s.History.RunningRollbacks, r)
}

// takeRollback takes a rollback out of those under way, or makes it known.
func (f *fold) takeRollback(id string) Rollback {
	h := &f.s.History
	for i, r := range h.RunningRollbacks {
		if r.RollbackID == id {
			h.RunningRollbacks = removed(h.RunningRollbacks, i)
			return r
		}
	}
	return Rollback{RollbackID: id}
}

func (f *fold) rollbackCompleted(p *event.RollbackCompleted) {
	r := f.takeRollback(p.RollbackID)
	r.ThreadID, r.ToTurnID, r.BaselineSequence = f.e.ThreadID, p.ToTurnID, p.BaselineSequence
	r.Origin, r.InheritedTurns = p.Origin, p.InheritedTurns
	r.RemovedTurns, r.RemovedCount = firstN(p.RemovedTurns, keepItems), int64(len(p.RemovedTurns))
	r.AffectedTools, r.AffectedArtifacts = firstN(p.AffectedTools, keepItems), firstN(p.AffectedArtifacts, keepItems)
	r.AffectedSubagents, r.AffectedJobs = firstN(p.AffectedSubagents, keepItems), firstN(p.AffectedJobs, keepItems)
	r.Files, r.FileCount = firstN(p.Files, keepItems), int64(len(p.Files))
	r.ReadModelRepaired, r.CompletedAt, r.Sequence = p.ReadModelRepaired, f.e.Time, f.e.Sequence
	f.s.History.RollbackCount++
	f.s.History.Rollbacks = recent(f.s.History.Rollbacks, r, keepRecent)
	f.removeTurns(p)
}

// removeTurns takes the removed turns out of the thread; they stay readable as
// records of their own.
func (f *fold) removeTurns(p *event.RollbackCompleted) {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return
	}
	t.UpdatedAt = f.e.Time
	t.staleBoundary(p.BaselineSequence)
	if p.Origin != nil {
		t.leave(p)
	}
	var kept []*Turn
	for _, turn := range t.Recent {
		if slices.Contains(p.RemovedTurns, turn.TurnID) {
			f.evict("turn/"+turn.TurnID, turn)
			continue
		}
		kept = append(kept, turn)
	}
	t.Recent = kept
	t.ContextTokens = 0 // not known, until a model answers
	if n := len(kept); n > 0 && kept[n-1].TurnID == p.ToTurnID {
		t.ContextTokens = kept[n-1].ContextTokens
	}
}
