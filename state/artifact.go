package state

import (
	"time"

	"agentd/event"
)

const (
	// keepArtifacts bounds the artifacts in the working set.
	keepArtifacts = 50
	// keepVersions bounds the versions that an artifact lists.
	keepVersions = 10
)

// Artifacts are the deliverables that were observed or produced.
type Artifacts struct {
	// Recent holds the artifacts that changed last, the newest change last.
	Recent []*Artifact `json:"recent,omitempty"`
	// Changes counts all changes by kind.
	Changes map[string]int64 `json:"changes,omitempty"`
}

// Artifact is one deliverable.
type Artifact struct {
	// ArtifactID is the artifact's id.
	ArtifactID string `json:"artifactId"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// TaskID is the task that it belongs to.
	TaskID string `json:"taskId,omitempty"`
	// RunID is the task's run that it belongs to.
	RunID string `json:"runId,omitempty"`
	// ToolCallID is the tool call that it belongs to, if it belongs to one.
	ToolCallID string `json:"toolCallId,omitempty"`
	// Change is the last change: created, updated, deleted or observed.
	Change string `json:"change"`
	// Title for people.
	Title string `json:"title,omitempty"`
	// Kind of the artifact.
	Kind string `json:"kind,omitempty"`
	// URI is where the artifact is outside of the runtime.
	URI string `json:"uri,omitempty"`
	// VersionID is the version that the record shows.
	VersionID string `json:"versionId,omitempty"`
	// ReadRef is where the content is.
	ReadRef string `json:"readRef,omitempty"`
	// PreviewRef is where a preview is.
	PreviewRef string `json:"previewRef,omitempty"`
	// DiffRef is where the last change is, as a diff.
	DiffRef string `json:"diffRef,omitempty"`
	// MediaType of the content.
	MediaType string `json:"mediaType,omitempty"`
	// SizeBytes is the size of the content.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// Hash of the content.
	Hash string `json:"hash,omitempty"`
	// ValidationIssues counts known problems; absent means not validated.
	ValidationIssues *int64 `json:"validationIssues,omitempty"`
	// Versions holds the last versions, newest last.
	Versions []ArtifactVersion `json:"versions,omitempty"`
	// VersionCount counts the versions since firstSequence.
	VersionCount int64 `json:"versionCount,omitempty"`
	// FirstSequence is the fact with which this record begins. The record of an
	// artifact that had left the working set begins anew.
	FirstSequence uint64 `json:"firstSequence"`
	// LastSequence is that of the artifact's newest fact.
	LastSequence uint64 `json:"lastSequence"`
	// FirstSeenAt is when this record began.
	FirstSeenAt time.Time `json:"firstSeenAt"`
	// UpdatedAt is when its newest fact happened.
	UpdatedAt time.Time `json:"updatedAt"`
}

// ArtifactVersion is one state of an artifact.
type ArtifactVersion struct {
	// VersionID is the version's id.
	VersionID string `json:"versionId"`
	// DiffRef is where the difference to the version before is.
	DiffRef string `json:"diffRef,omitempty"`
	// ReadRef is where the content is.
	ReadRef string `json:"readRef,omitempty"`
	// Hash of the content.
	Hash string `json:"hash,omitempty"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
	// At is when the version was made.
	At time.Time `json:"at"`
}

// Find returns an artifact of the working set, or nil.
func (a *Artifacts) Find(id string) *Artifact {
	if i := indexWhere(a.Recent, func(x *Artifact) bool { return x.ArtifactID == id }); i >= 0 {
		return a.Recent[i]
	}
	return nil
}

func (f *fold) artifactChanged(p *event.ArtifactChanged) {
	all := &f.s.Artifacts
	all.Changes = addCount(all.Changes, p.Change, 1)
	a := f.takeArtifact()
	a.Change = p.Change
	f.placeArtifact(a)
	setIf(&a.Title, p.Title)
	setIf(&a.Kind, p.Kind)
	setIf(&a.URI, p.URI)
	setIf(&a.ReadRef, p.ReadRef)
	setIf(&a.PreviewRef, p.PreviewRef)
	setIf(&a.DiffRef, p.DiffRef)
	setIf(&a.MediaType, p.MediaType)
	setIf(&a.SizeBytes, p.SizeBytes)
	setIf(&a.Hash, p.Hash)
	setIf(&a.ValidationIssues, p.ValidationIssues)
	if p.VersionID != "" && p.VersionID != a.VersionID {
		a.VersionID = p.VersionID
		a.VersionCount++
		a.Versions = pushed(a.Versions, ArtifactVersion{
			VersionID: p.VersionID, DiffRef: p.DiffRef, ReadRef: p.ReadRef, Hash: p.Hash, Sequence: f.e.Sequence, At: f.e.Time,
		}, keepVersions)
	}
	if len(all.Recent) == keepArtifacts {
		f.evict("artifact/"+all.Recent[0].ArtifactID, all.Recent[0])
	}
	all.Recent = recent(all.Recent, a, keepArtifacts)
	if task := f.s.Tasks.Find(f.e.TaskID); task != nil && (p.Change == "created" || p.Change == "updated") {
		f.linkResults(task, []event.ArtifactLink{{ArtifactID: a.ArtifactID, URI: a.URI, MediaType: a.MediaType}}, nil)
	}
}

// takeArtifact takes the fact's artifact out of the list, or makes a new one.
func (f *fold) takeArtifact() *Artifact {
	all := &f.s.Artifacts
	i := indexWhere(all.Recent, func(x *Artifact) bool { return x.ArtifactID == f.e.ArtifactID })
	if i < 0 {
		return &Artifact{ArtifactID: f.e.ArtifactID, FirstSequence: f.e.Sequence, FirstSeenAt: f.e.Time}
	}
	a := all.Recent[i]
	all.Recent = removed(all.Recent, i)
	return a
}

func (f *fold) placeArtifact(a *Artifact) {
	a.ThreadID, a.TurnID, a.ToolCallID = f.e.ThreadID, f.e.TurnID, f.e.ToolCallID
	a.TaskID, a.RunID = f.e.TaskID, f.e.RunID
	a.UpdatedAt, a.LastSequence = f.e.Time, f.e.Sequence
}
