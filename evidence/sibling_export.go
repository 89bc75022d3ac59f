package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"agentd/event"
)

// Names in an export in the sibling standard's shape.
const (
	siblingPackFile   = "evidence-pack.json"
	siblingSignedFile = "agentd-evidence.json"
	siblingManifest   = "export-manifest.json"
)

// siblingExport is the sibling standard's manifest of an export.
type siblingExport struct {
	ExportID       string                     `json:"export_id"`
	EvidencePackID string                     `json:"evidence_pack_id"`
	SchemaVersion  string                     `json:"schema_version"`
	CreatedAt      time.Time                  `json:"created_at"`
	Producer       siblingProducer            `json:"producer"`
	Files          []siblingFile              `json:"files"`
	Completeness   map[string]siblingComplete `json:"completeness"`
}

type siblingFile struct {
	Path      string `json:"path"`
	Role      string `json:"role"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`
	Hash      string `json:"hash"`
}

// WriteSiblingBundle writes a pack in the sibling standard's shape, the signed pack
// that proves it, and that standard's manifest of both. All of it, times too, follows
// from the signed pack: what didn't could be changed.
func WriteSiblingBundle(pack io.ReadSeeker, ref string, to Bundle) error {
	r, err := siblingOf(pack)
	if err != nil {
		return err
	}
	p := r.pack(ref)
	b := &bundling{to: to}
	if err := b.write(siblingPackFile, "evidence_pack", "application/json", func(w io.Writer) error { return writePlain(w, p) }); err != nil {
		return err
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("evidence: bundle: %w", err)
	}
	if err := b.file(siblingSignedFile, "signed_pack", "application/json", pack); err != nil {
		return err
	}
	m := &siblingExport{
		ExportID: r.evidenceID + ":export", EvidencePackID: r.evidenceID, SchemaVersion: siblingVersion, CreatedAt: r.exportedAt, Producer: p.Producer,
		Completeness: p.Completeness,
	}
	for _, f := range b.files {
		m.Files = append(m.Files, siblingFile{Path: f.Path, Role: f.Role, MediaType: f.MediaType, Size: f.Size, Hash: "sha256:" + f.SHA256})
	}
	w, err := to.Create(siblingManifest)
	if err == nil {
		err = writePlain(w, m)
	}
	if err != nil {
		return fmt.Errorf("evidence: bundle: %w", err)
	}
	return nil
}

func writePlain(w io.Writer, v any) error {
	b, err := plainJSON(v)
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	return err
}

// siblingReplay is a replay case in the sibling standard's shape.
type siblingReplay struct {
	ReplayID        string             `json:"replay_id"`
	SchemaVersion   string             `json:"schema_version"`
	Scope           siblingScope       `json:"scope"`
	Determinism     string             `json:"determinism"`
	CreatedAt       time.Time          `json:"created_at"`
	UpdatedAt       time.Time          `json:"updated_at"`
	Producer        siblingProducer    `json:"producer"`
	InputRefs       []siblingRef       `json:"input_refs"`
	SnapshotRefs    []siblingRef       `json:"snapshot_refs"`
	TraceRefs       []siblingTelemetry `json:"trace_refs"`
	MissingFacts    []siblingMissing   `json:"missing_facts"`
	ReplaySteps     []siblingStep      `json:"replay_steps"`
	ExpectedOutputs []Entry            `json:"expected_outputs"`
}

// siblingStep is a turn that is run again.
type siblingStep struct {
	StepID string `json:"step_id"`
	TurnID string `json:"turn_id"`
	Action string `json:"action"`
}

// WriteSiblingReplay writes a replay case in the sibling standard's shape: which
// turns are decided again, what must come out, and what can't be read any more. The
// case must verify. It stays what is walked: the result names it by its hash.
func WriteSiblingReplay(doc io.ReadSeeker, ref string, w io.Writer) error {
	v, err := Verify(doc, VerifyOptions{})
	if err != nil {
		return err
	}
	if v.Finding != nil {
		return fmt.Errorf("evidence: the case was changed: %w", v.Finding)
	}
	if _, err := doc.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	var c Case
	if err := json.NewDecoder(doc).Decode(&c); err != nil || c.Format != ReplayFormat {
		return errors.Join(errors.New("evidence: it is not a replay case"), err)
	}
	r, err := c.sibling(ref)
	if err != nil {
		return err
	}
	return writePlain(w, r)
}

func (c *Case) sibling(ref string) (*siblingReplay, error) {
	events, err := c.Events()
	if err != nil {
		return nil, err
	}
	turns, err := c.Submitted()
	if err != nil {
		return nil, err
	}
	ids := &c.RuntimeCorrelation
	r := &siblingReplay{
		ReplayID: c.EvidenceID, SchemaVersion: siblingVersion, Determinism: c.Determinism, CreatedAt: c.ExportedAt, UpdatedAt: c.ExportedAt,
		Scope:        siblingScope{RuntimeID: ids.RuntimeID, SessionID: ids.SessionID, ThreadID: c.Scope.ThreadID, TurnID: c.Scope.TurnID, TaskID: c.Scope.TaskID},
		Producer:     siblingProducer{ID: ids.RuntimeID, Type: "runtime", Name: "agentd"},
		InputRefs:    []siblingRef{{RefID: c.EvidenceID, Kind: ReplayFormat, URI: "agentd:outputs/" + ref, Hash: ref, MediaType: "application/json"}},
		SnapshotRefs: []siblingRef{}, TraceRefs: []siblingTelemetry{}, MissingFacts: []siblingMissing{}, ReplaySteps: []siblingStep{}, ExpectedOutputs: []Entry{},
	}
	for n, x := range slices.Sorted(maps.Keys(c.Contents)) {
		r.SnapshotRefs = append(r.SnapshotRefs, siblingRef{
			RefID: fmt.Sprintf("%s:content:%d", c.EvidenceID, n+1), Kind: "content", URI: "agentd:outputs/" + x, Hash: x, MediaType: "application/json",
		})
	}
	for _, e := range events {
		if c.Scope.has(e) && decides(e) {
			r.ExpectedOutputs = append(r.ExpectedOutputs, entryOf(e))
		}
	}
	for _, id := range ids.TraceIDs {
		r.TraceRefs = append(r.TraceRefs, siblingTelemetry{TraceID: id, RuntimeID: ids.RuntimeID, SessionID: ids.SessionID})
	}
	for _, l := range c.Limits {
		r.MissingFacts = append(r.MissingFacts, siblingMissing{Fact: "replay", Reason: "not_collected", Details: l})
	}
	for i, t := range turns {
		r.ReplaySteps = append(r.ReplaySteps, siblingStep{StepID: fmt.Sprintf("%s:step:%d", c.EvidenceID, i+1), TurnID: t.TurnID, Action: "decide_turn_again"})
	}
	return r, nil
}

// decides reports whether a fact tells of a decision or an outcome.
func decides(e *event.Event) bool {
	switch p := e.Payload.(type) {
	case *event.TurnStarted, *event.TurnCompleted, *event.TurnFailed, *event.ModelRequested, *event.RoutingDecision, *event.PermissionEvaluated,
		*event.ToolStarted, *event.ToolResult, *event.ToolFailed:
		return true
	case *event.ToolProgress:
		return p.Phase != ""
	}
	return false
}
