package evidence

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// siblingVersion is the version of the Agent Evidence standard's pack.
const siblingVersion = "0.1.0"

// maxClaims bounds the statements of a sibling pack; the signed pack has them all.
const maxClaims = 1000

// siblingPack is an evidence pack in the shape of the Agent Evidence standard,
// whose names are written with underscores.
type siblingPack struct {
	EvidencePackID      string                     `json:"evidence_pack_id"`
	SchemaVersion       string                     `json:"schema_version"`
	Scope               siblingScope               `json:"scope"`
	Status              string                     `json:"status"`
	CreatedAt           time.Time                  `json:"created_at"`
	UpdatedAt           time.Time                  `json:"updated_at"`
	Producer            siblingProducer            `json:"producer"`
	Claims              []siblingClaim             `json:"claims"`
	Sources             []siblingSource            `json:"sources"`
	SupportEdges        []siblingEdge              `json:"support_edges"`
	VerificationResults []siblingCheck             `json:"verification_results"`
	Redactions          []siblingRedaction         `json:"redactions"`
	Telemetry           []siblingTelemetry         `json:"telemetry"`
	Completeness        map[string]siblingComplete `json:"completeness"`
	Refs                []siblingRef               `json:"refs"`
}

type siblingScope struct {
	RuntimeID string `json:"runtime_id"`
	SessionID string `json:"session_id"`
	ThreadID  string `json:"thread_id,omitempty"`
	TurnID    string `json:"turn_id,omitempty"`
	TaskID    string `json:"task_id,omitempty"`
}

type siblingProducer struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Name string `json:"name"`
}

type siblingClaim struct {
	ClaimID      string   `json:"claim_id"`
	ClaimType    string   `json:"claim_type"`
	Text         string   `json:"text"`
	Status       string   `json:"status"`
	SupportEdges []string `json:"support_edges"`
}

type siblingSource struct {
	SourceID   string `json:"source_id"`
	SourceKind string `json:"source_kind"`
	Ref        string `json:"ref"`
}

type siblingEdge struct {
	EdgeID       string `json:"edge_id"`
	ClaimID      string `json:"claim_id"`
	SourceID     string `json:"source_id"`
	Relationship string `json:"relationship"`
}

type siblingCheck struct {
	VerificationID string    `json:"verification_id"`
	CheckType      string    `json:"check_type"`
	Status         string    `json:"status"`
	CheckedAt      time.Time `json:"checked_at"`
}

type siblingRedaction struct {
	RedactionID   string `json:"redaction_id"`
	TargetRef     string `json:"target_ref"`
	RedactionKind string `json:"redaction_kind"`
	Reason        string `json:"reason"`
}

type siblingTelemetry struct {
	TraceID   string `json:"trace_id"`
	RuntimeID string `json:"runtime_id"`
	SessionID string `json:"session_id"`
}

type siblingComplete struct {
	Status       string           `json:"status"`
	MissingFacts []siblingMissing `json:"missing_facts,omitempty"`
	Notes        string           `json:"notes,omitempty"`
}

type siblingMissing struct {
	Fact    string `json:"fact"`
	Reason  string `json:"reason"`
	Details string `json:"details,omitempty"`
}

type siblingRef struct {
	RefID     string `json:"ref_id"`
	Kind      string `json:"kind"`
	URI       string `json:"uri"`
	Hash      string `json:"hash"`
	MediaType string `json:"media_type"`
}

// WriteSibling writes a pack in the shape of the Agent Evidence standard: what was
// claimed, the facts on which each claim rests, what is complete and what is not.
// The pack is verified first; one that was changed is refused. It stays the proof:
// the result names it by its hash, and has the time of its export.
func WriteSibling(pack io.ReadSeeker, ref string, w io.Writer) error {
	r, err := siblingOf(pack)
	if err != nil {
		return err
	}
	return writePlain(w, r.pack(ref))
}

// siblingOf verifies a pack and reads what the sibling's shape needs of it.
func siblingOf(pack io.ReadSeeker) (*siblingReader, error) {
	v, err := Verify(pack, VerifyOptions{})
	if err != nil {
		return nil, err
	}
	if v.Finding != nil {
		return nil, fmt.Errorf("evidence: the pack was changed: %w", v.Finding)
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	r := &siblingReader{}
	if err := r.read(pack); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	return r, nil
}

// siblingReader takes what it needs out of a pack.
type siblingReader struct {
	evidenceID  string
	exportedAt  time.Time
	scope       Scope
	correlation Correlation
	signals     []Signal
	gaps        []Gap
	items       []Entry
	redactions  []Entry
	left        int
}

// read goes through a pack section by section.
func (r *siblingReader) read(from io.Reader) error {
	dec := json.NewDecoder(from)
	if _, err := dec.Token(); err != nil {
		return err
	}
	small := map[string]any{
		"evidenceId": &r.evidenceID, "exportedAt": &r.exportedAt, "scope": &r.scope, "runtimeCorrelation": &r.correlation,
		"signals": &r.signals, "knownGaps": &r.gaps,
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		if to, ok := small[name]; ok {
			err = dec.Decode(to)
		} else {
			err = r.section(dec, name)
		}
		if err != nil {
			return fmt.Errorf("section %s: %w", name, err)
		}
	}
	return nil
}

// section reads the items of a list, or skips a section.
func (r *siblingReader) section(dec *json.Decoder, name string) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('['):
		return r.list(dec, name)
	case json.Delim('{'):
		return skipObject(dec)
	}
	return nil
}

func (r *siblingReader) list(dec *json.Decoder, name string) error {
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		switch name {
		case "turns", "toolCalls", "permission", "redactions":
			var x Entry
			if err := json.Unmarshal(raw, &x); err != nil {
				return err
			}
			r.addEntry(name, x)
		}
	}
	_, err := dec.Token()
	return err
}

func (r *siblingReader) addEntry(name string, x Entry) {
	switch {
	case name == "redactions" && len(r.redactions) == maxListed:
		r.left++
	case name == "redactions":
		r.redactions = append(r.redactions, x)
	case x.Says == "":
	case len(r.items) == maxClaims:
		r.left++
	default:
		r.items = append(r.items, x)
	}
}

// skipObject passes over the rest of an object.
func skipObject(dec *json.Decoder) error {
	for dec.More() {
		if _, err := dec.Token(); err != nil {
			return err
		}
		var skip json.RawMessage
		if err := dec.Decode(&skip); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// pack puts the sibling's pack together.
func (r *siblingReader) pack(ref string) *siblingPack {
	c := &r.correlation
	p := &siblingPack{
		EvidencePackID: r.evidenceID, SchemaVersion: siblingVersion, Status: "verified", CreatedAt: r.exportedAt, UpdatedAt: r.exportedAt,
		Scope:    siblingScope{RuntimeID: c.RuntimeID, SessionID: c.SessionID, ThreadID: r.scope.ThreadID, TurnID: r.scope.TurnID, TaskID: r.scope.TaskID},
		Producer: siblingProducer{ID: c.RuntimeID, Type: "runtime", Name: "agentd"},
		Claims:   []siblingClaim{}, Sources: []siblingSource{}, SupportEdges: []siblingEdge{}, Redactions: []siblingRedaction{}, Telemetry: []siblingTelemetry{},
		VerificationResults: []siblingCheck{{VerificationID: r.evidenceID + ":integrity", CheckType: "hash_chain_and_signature", Status: "passed", CheckedAt: r.exportedAt}},
		Refs:                []siblingRef{{RefID: r.evidenceID, Kind: Format, URI: "agentd:outputs/" + ref, Hash: ref, MediaType: "application/json"}},
	}
	if len(r.gaps) > 0 {
		p.Status = "partial"
	}
	for i := range r.items {
		p.claim(&r.items[i])
	}
	for i, x := range r.redactions {
		p.Redactions = append(p.Redactions, siblingRedaction{
			RedactionID: fmt.Sprintf("%s:redaction:%d", r.evidenceID, i+1), TargetRef: x.EventID, RedactionKind: "mask", Reason: "a secret was taken out before anything was stored",
		})
	}
	for _, id := range c.TraceIDs {
		p.Telemetry = append(p.Telemetry, siblingTelemetry{TraceID: id, RuntimeID: c.RuntimeID, SessionID: c.SessionID})
	}
	p.Completeness = r.completeness()
	return p
}

// claim adds a statement, the fact that it rests on, and the edge between them.
func (p *siblingPack) claim(x *Entry) {
	claim, edge := x.EventID+":claim", x.EventID+":edge"
	p.Claims = append(p.Claims, siblingClaim{ClaimID: claim, ClaimType: string(x.Type), Text: x.Says, Status: "supported", SupportEdges: []string{edge}})
	p.Sources = append(p.Sources, siblingSource{SourceID: x.EventID, SourceKind: "agentruntime.event", Ref: fmt.Sprintf("sequence:%d", x.Sequence)})
	p.SupportEdges = append(p.SupportEdges, siblingEdge{EdgeID: edge, ClaimID: claim, SourceID: x.EventID, Relationship: "supports"})
}

// completeness says per area what is there, in the sibling's words.
func (r *siblingReader) completeness() map[string]siblingComplete {
	words := map[string]string{
		SignalExported: "complete", SignalNotApplicable: "not_applicable", SignalUnsupported: "not_collected", SignalMissingCorrelation: "partial",
	}
	out := map[string]siblingComplete{
		"verification": {Status: "complete"}, "privacy": {Status: "complete", Notes: "secrets are taken out before anything is stored"},
		"replay": {Status: "not_collected", Notes: "a replay case is an export of its own"},
		"claims": {Status: "complete"}, "sources": {Status: "complete"},
	}
	if r.left > 0 {
		out["claims"] = siblingComplete{Status: "partial", Notes: fmt.Sprintf("%d more are in the signed pack", r.left)}
	}
	for _, s := range r.signals {
		c := siblingComplete{Status: words[s.Status], Notes: s.Reason}
		if c.Status == "" {
			c.Status = "unknown"
		}
		for _, g := range r.gaps {
			if g.Signal == s.Signal {
				c.Status = "partial"
				c.MissingFacts = append(c.MissingFacts, siblingMissing{Fact: s.Signal, Reason: "unavailable", Details: g.Reason})
			}
		}
		out[s.Signal] = c
	}
	for _, g := range r.gaps { // what is missing is said, also of what is no signal of its own
		if c, ok := out[g.Signal]; !ok || c.Notes == unsignalled {
			c.MissingFacts = append(c.MissingFacts, siblingMissing{Fact: g.Signal, Reason: "unavailable", Details: g.Reason})
			c.Status, c.Notes = "partial", unsignalled
			out[g.Signal] = c
		}
	}
	return out
}

// unsignalled is said of an area that is only there because something of it is missing.
const unsignalled = "what is there of it is in other areas"
