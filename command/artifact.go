package command

import "time"

// ListArtifacts lists deliverables.
type ListArtifacts struct {
	Page
	// SessionID keeps the artifacts of one session.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// TurnID keeps the artifacts that this turn changed last.
	TurnID string `json:"turnId,omitempty" check:"id"`
	// TaskID keeps the artifacts that were last changed for this task.
	TaskID string `json:"taskId,omitempty" check:"id"`
	// Status keeps the artifacts whose last change it is.
	Status string `json:"status,omitempty" enum:"@artifactChange"`
	// Type keeps the artifacts whose kind it is.
	Type string `json:"type,omitempty" max:"256"`
	Narrowing
	// Sort is what the artifacts are ordered by; default id.
	Sort string `json:"sort,omitempty" enum:"id created updated title size"`
}

// Command implements [Params].
func (*ListArtifacts) Command() Name                { return "list_artifacts" }
func (*ListArtifacts) returns(*ListArtifactsResult) {}

// Validate implements [Params].
func (p *ListArtifacts) Validate() error { return checkNarrowing(p, &p.Narrowing) }

// ListArtifactsResult is a page of artifacts.
type ListArtifactsResult struct {
	// Artifacts of this page.
	Artifacts []ArtifactRecord `json:"artifacts"`
	// Total counts the artifacts that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// ArtifactRecord is an artifact in a list.
type ArtifactRecord struct {
	// ArtifactID is the artifact's id in its session.
	ArtifactID string `json:"artifactId"`
	// SessionID of the artifact.
	SessionID string `json:"sessionId"`
	// ThreadID is the thread that changed it last.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that changed it last.
	TurnID string `json:"turnId,omitempty"`
	// TaskID is the task that it was last changed for.
	TaskID string `json:"taskId,omitempty"`
	// ToolCallID is the call that changed it last.
	ToolCallID string `json:"toolCallId,omitempty"`
	// Change is the last change.
	Change string `json:"change" enum:"@artifactChange"`
	// Kind of the artifact.
	Kind string `json:"kind,omitempty"`
	// Title for people.
	Title string `json:"title,omitempty"`
	// URI is where the artifact is.
	URI string `json:"uri,omitempty"`
	// VersionID is its newest version.
	VersionID string `json:"versionId,omitempty"`
	// ReadRef is where its content can be read.
	ReadRef string `json:"readRef,omitempty"`
	// DiffRef is where its last change can be read.
	DiffRef string `json:"diffRef,omitempty"`
	// MediaType of the content.
	MediaType string `json:"mediaType,omitempty"`
	// SizeBytes of the content.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// VersionCount counts the versions that are known.
	VersionCount int64 `json:"versionCount,omitempty"`
	// FirstSeenAt is when it was first seen.
	FirstSeenAt time.Time `json:"firstSeenAt"`
	// UpdatedAt is when it was changed last.
	UpdatedAt time.Time `json:"updatedAt"`
}
