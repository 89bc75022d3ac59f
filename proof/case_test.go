package proof_test

import (
	"encoding/json"
	"testing"

	"agentd/command"
	"agentd/evidence"
	"agentd/internal/runtimetest"
)

// Evidence and replay, "Replay case": a case has evidence links, and instructions for
// graders when there are some.
func TestReplayCasesLinkEvidenceAndInstructGraders(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("Done."), runtimetest.Says("Done again."))
	first := k.Submit("", "Do it.")
	k.Completes(first)
	second := k.Submit(first.SessionID, "Once more.")
	k.Completes(second)
	scope := command.ExportScope{SessionID: first.SessionID, TurnID: first.TurnID}
	export := func(p *command.ExportReplay) *evidence.Case {
		t.Helper()
		c := &evidence.Case{}
		if err := json.Unmarshal(runtimetest.Do[command.ExportResult](k, p).Pack, c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := export(&command.ExportReplay{ExportScope: scope}); c.EvidenceLinks == nil || len(c.EvidenceLinks) != 0 || c.GraderInstructions != "" {
		t.Errorf("nothing was exported, but the case links %v and says %q", c.EvidenceLinks, c.GraderInstructions)
	}
	pack := runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: scope})
	review := runtimetest.Do[command.ExportResult](k, &command.ExportReview{ExportScope: scope})
	other := command.ExportScope{SessionID: first.SessionID, TurnID: second.TurnID}
	runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: other})
	c := export(&command.ExportReplay{ExportScope: scope, GraderInstructions: "The answer must be one sentence."})
	if l := c.EvidenceLinks; len(l) != 2 || l[0].Ref != pack.Ref || l[0].EvidenceID != pack.EvidenceID || l[1].Ref != review.Ref || l[1].Kind != "review" {
		t.Errorf("the case links %+v", l)
	}
	if c.GraderInstructions != "The answer must be one sentence." {
		t.Errorf("the case says %q", c.GraderInstructions)
	}
}
