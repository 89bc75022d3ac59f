package state

import (
	"time"

	"agentd/event"
)

// Evidence is what was exported or observed to prove what happened.
type Evidence struct {
	// Recent holds the last entries, oldest first.
	Recent []EvidenceEntry `json:"recent,omitempty"`
	// Outcomes holds the last verdicts, ReplayRefs, ReviewRefs and TraceRefs the
	// last references of their kind, Notes the last notes; each oldest first.
	Outcomes   []Outcome   `json:"outcomes,omitempty"`
	ReplayRefs []string    `json:"replayRefs,omitempty"`
	ReviewRefs []string    `json:"reviewRefs,omitempty"`
	TraceRefs  []string    `json:"traceRefs,omitempty"`
	Notes      []AuditNote `json:"notes,omitempty"`
	// Counts counts all entries by kind, OutcomeCounts all verdicts by status.
	Counts        map[string]int64 `json:"counts,omitempty"`
	OutcomeCounts map[string]int64 `json:"outcomeCounts,omitempty"`
}

// EvidenceEntry is one piece of evidence.
type EvidenceEntry struct {
	// EvidenceID is the evidence's id.
	EvidenceID string `json:"evidenceId"`
	// Kind of the evidence.
	Kind string `json:"kind"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// TaskID is the task that it belongs to.
	TaskID string `json:"taskId,omitempty"`
	// PackRef is where the pack is.
	PackRef string `json:"packRef,omitempty"`
	// ReplayRef is where the replay case is.
	ReplayRef string `json:"replayRef,omitempty"`
	// ReviewRef is where the review is.
	ReviewRef string `json:"reviewRef,omitempty"`
	// TraceRef is where the trace is.
	TraceRef string `json:"traceRef,omitempty"`
	// ChainSequence is the last fact that the evidence covers.
	ChainSequence uint64 `json:"chainSequence,omitempty"`
	// ChainHash is the hash of the chain that the evidence covers.
	ChainHash string `json:"chainHash,omitempty"`
	// At is when it happened.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// Outcome is one verdict of an evidence system.
type Outcome struct {
	// Name of what was verified.
	Name string `json:"name"`
	// Status is the verdict.
	Status string `json:"status"`
	// Ref is where more is said of it.
	Ref string `json:"ref,omitempty"`
	// EvidenceID is the evidence that the verdict is part of.
	EvidenceID string `json:"evidenceId"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// At is when it happened.
	At time.Time `json:"at"`
}

// AuditNote is a remark that was recorded as evidence.
type AuditNote struct {
	// EvidenceID is the evidence that the note is part of.
	EvidenceID string `json:"evidenceId"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// Note is the text.
	Note string `json:"note"`
	// At is when it happened.
	At time.Time `json:"at"`
}

func (f *fold) evidenceChanged(p *event.EvidenceChanged) {
	ev := &f.s.Evidence
	ev.Counts = addCount(ev.Counts, p.Kind, 1)
	ev.Recent = recent(ev.Recent, EvidenceEntry{
		EvidenceID: f.e.EvidenceID, Kind: p.Kind, ThreadID: f.e.ThreadID, TurnID: f.e.TurnID, TaskID: f.e.TaskID,
		PackRef: p.PackRef, ReplayRef: p.ReplayRef, ReviewRef: p.ReviewRef, TraceRef: p.TraceRef,
		ChainSequence: p.ChainSequence, ChainHash: p.ChainHash, At: f.e.Time, Sequence: f.e.Sequence,
	}, keepRecent)
	for _, o := range p.VerificationOutcomes {
		ev.OutcomeCounts = countWord(ev.OutcomeCounts, o.Status)
		ev.Outcomes = recent(ev.Outcomes, Outcome{
			Name: o.Name, Status: o.Status, Ref: o.Ref, EvidenceID: f.e.EvidenceID, ThreadID: f.e.ThreadID, At: f.e.Time,
		}, keepRecent)
	}
	ev.ReplayRefs = recentRef(ev.ReplayRefs, p.ReplayRef)
	ev.ReviewRefs = recentRef(ev.ReviewRefs, p.ReviewRef)
	ev.TraceRefs = recentRef(ev.TraceRefs, p.TraceRef)
	if p.Note != "" {
		ev.Notes = recent(ev.Notes, AuditNote{EvidenceID: f.e.EvidenceID, ThreadID: f.e.ThreadID, Note: preview(p.Note), At: f.e.Time}, keepRecent)
	}
	if task := f.s.Tasks.Find(f.e.TaskID); task != nil {
		f.linkResults(task, nil, []string{f.e.EvidenceID})
	}
}

// recentRef adds a reference, if there is one and it isn't the newest already.
func recentRef(list []string, ref string) []string {
	if ref == "" || len(list) > 0 && list[len(list)-1] == ref {
		return list
	}
	return recent(list, ref, keepRecent)
}

// keepWords bounds counters whose keys are the producer's own words.
const keepWords = 32

// countWord counts a word of a producer's own. Beyond the bound new words are
// counted together.
func countWord(counts map[string]int64, word string) map[string]int64 {
	if _, ok := counts[word]; !ok && len(counts) >= keepWords {
		word = "other"
	}
	return addCount(counts, word, 1)
}
