package trial_test

import (
	"strings"
	"testing"

	"agentd/command"
	"agentd/internal/runtimetest"
)

// TestTrialsAndExportsAreListed with scores and references, for the account whose they
// are alone.
func TestTrialsAndExportsAreListed(t *testing.T) {
	k := runtimetest.New(t)
	var session string
	for _, c := range []struct{ id, task, configuration string }{{"trial_1", "b", "base"}, {"trial_2", "a", "base"}, {"trial_3", "a", "cand"}} {
		res, _ := k.RunTrial(&command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf(c.id, c.task, c.configuration), Input: runtimetest.Quoted("Fix it.")})
		session = res.SessionID
	}
	score(k, "trial_2", 0.5)
	exported := runtimetest.Do[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: "trial_3"})
	evidence := runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: session}})
	for _, c := range []struct {
		p    command.ListTrials
		want string
	}{
		{command.ListTrials{}, "trial_1 trial_2 trial_3"},
		{command.ListTrials{ConfigurationID: "base"}, "trial_1 trial_2"},
		{command.ListTrials{Sort: "title"}, "trial_2 trial_3 trial_1"},
		{command.ListTrials{Sort: "updated", Page: command.Page{Limit: 1}}, "trial_2"},
		{command.ListTrials{Status: "running"}, ""},
		{command.ListTrials{SessionID: session}, "trial_3"},
		{command.ListTrials{DatasetID: "no such set"}, ""},
	} {
		res := runtimetest.Do[command.ListTrialsResult](k, &c.p)
		var ids []string
		for i := range res.Trials {
			x := &res.Trials[i]
			ids = append(ids, x.TrialID)
			if (x.Reward != nil) != (x.TrialID == "trial_2") || x.SessionID == "" || x.Status != "completed" {
				t.Errorf("%+v", x)
			}
		}
		if strings.Join(ids, " ") != c.want {
			t.Errorf("%+v: %v; want %s", c.p, ids, c.want)
		}
	}
	all := runtimetest.Do[command.ListExportsResult](k, &command.ListExports{Sort: "created"})
	if all.Total != 2 || all.Exports[0].EvidenceID != evidence.EvidenceID || all.Exports[0].Ref != evidence.Ref || all.Exports[1].EvidenceID != exported.EvidenceID || all.Exports[1].Ref != exported.Ref {
		t.Errorf("%+v", all)
	}
	if one := runtimetest.Do[command.ListExportsResult](k, &command.ListExports{Type: "evidence", SessionID: session}); one.Total != 1 || one.Exports[0].Type != "evidence" {
		t.Errorf("%+v", one)
	}
	other := command.Caller{Account: "other"}
	if n := runtimetest.DoAs[command.ListTrialsResult](k, other, &command.ListTrials{}).Total; n != 0 {
		t.Errorf("another account counts %d trials", n)
	}
	if n := runtimetest.DoAs[command.ListExportsResult](k, other, &command.ListExports{}).Total; n != 0 {
		t.Errorf("another account counts %d exports", n)
	}
}
