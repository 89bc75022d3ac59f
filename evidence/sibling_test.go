package evidence_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/model/provider/script"
)

// TestSibling checks a pack in the sibling standard's shape against what that
// standard requires, and against the facts.
func TestSibling(t *testing.T) {
	k, _ := busy(t, nil)
	res := runCommand[command.ExportResult](k, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_busy"}})
	pack := k.output(res.Ref)
	var out bytes.Buffer
	if err := evidence.WriteSibling(bytes.NewReader(pack), res.Ref, &out); err != nil {
		t.Fatal(err)
	}
	var p struct {
		EvidencePackID string         `json:"evidence_pack_id"`
		SchemaVersion  string         `json:"schema_version"`
		Scope          map[string]any `json:"scope"`
		Status         string         `json:"status"`
		Producer       map[string]string
		CreatedAt      time.Time `json:"created_at"`
		Claims         []struct {
			ClaimID      string `json:"claim_id"`
			Text, Status string
			SupportEdges []string `json:"support_edges"`
		}
		Sources []struct {
			SourceID   string `json:"source_id"`
			SourceKind string `json:"source_kind"`
		}
		SupportEdges []struct {
			EdgeID       string `json:"edge_id"`
			ClaimID      string `json:"claim_id"`
			SourceID     string `json:"source_id"`
			Relationship string
		} `json:"support_edges"`
		Completeness map[string]struct{ Status string }
	}
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,255}$`)
	if p.SchemaVersion != "0.1.0" || p.EvidencePackID != res.EvidenceID || p.Scope["session_id"] != "sess_busy" || p.Producer["id"] == "" || p.CreatedAt.IsZero() {
		t.Fatalf("the head is %+v", p)
	}
	if !slices.Contains([]string{"draft", "collecting", "ready", "partial", "verified", "reviewed", "exported", "redacted", "expired", "invalid"}, p.Status) {
		t.Errorf("status %q", p.Status)
	}
	known := map[string]bool{}
	for _, e := range k.facts("sess_busy") {
		known[e.ID] = true
	}
	sources, edges := map[string]bool{}, map[string]bool{}
	for _, s := range p.Sources {
		sources[s.SourceID] = true
		if !known[s.SourceID] || s.SourceKind == "" {
			t.Errorf("the source %+v is no fact", s)
		}
	}
	for _, e := range p.SupportEdges {
		edges[e.EdgeID] = true
		if !id.MatchString(e.EdgeID) || !sources[e.SourceID] || e.Relationship != "supports" {
			t.Errorf("the edge %+v leads nowhere", e)
		}
	}
	for _, c := range p.Claims {
		if !id.MatchString(c.ClaimID) || c.Text == "" || c.Status != "supported" || len(c.SupportEdges) != 1 || !edges[c.SupportEdges[0]] {
			t.Errorf("the claim %+v has no support", c)
		}
	}
	if len(p.Claims) < 3 {
		t.Errorf("%d claims", len(p.Claims))
	}
	for area, c := range p.Completeness {
		if !slices.Contains([]string{"complete", "partial", "missing", "unknown", "not_applicable", "not_collected"}, c.Status) {
			t.Errorf("%s: status %q", area, c.Status)
		}
	}
	if p.Completeness["runtime"].Status != "complete" || p.Completeness["jobs"].Status != "not_applicable" {
		t.Errorf("completeness %+v", p.Completeness)
	}

	changed := bytes.Replace(pack, []byte("write_file"), []byte("write_fool"), 1)
	if err := evidence.WriteSibling(bytes.NewReader(changed), res.Ref, &out); err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("a changed pack: %v", err)
	}
}

// TestSiblingSaysWhatIsMissing: a gap that is no signal of its own is said all the same.
func TestSiblingSaysWhatIsMissing(t *testing.T) {
	k := newKit(t, nil, script.Answer{Text: "late", Stall: time.Hour})
	runCommand[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_slow", Create: true, Input: event.Raw(`"wait"`)})
	asked := k.until("sess_slow", func(e *event.Event) bool { return e.Type == event.TypeModelRequested })
	pack := k.evidenceOf(command.ExportScope{SessionID: "sess_slow"})
	if !bytes.Contains(pack, []byte(asked.ID)) {
		t.Fatal("the call is not in the pack")
	}
	var out bytes.Buffer
	if err := evidence.WriteSibling(bytes.NewReader(pack), "sha256:00", &out); err != nil {
		t.Fatal(err)
	}
	var p struct {
		Status       string
		Completeness map[string]struct {
			Status       string
			MissingFacts []struct{ Details string } `json:"missing_facts"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if c := p.Completeness["calls"]; p.Status != "partial" || c.Status != "partial" || len(c.MissingFacts) != 1 || c.MissingFacts[0].Details == "" {
		t.Errorf("%s, %+v", p.Status, c)
	}
}
