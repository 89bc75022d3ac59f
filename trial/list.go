package trial

import (
	"context"

	"agentd/command"
	"agentd/fault"
	"agentd/session"
)

// listTrials lists the trials of the sessions that the caller may see.
func (r *Runner) listTrials(ctx context.Context, caller command.Caller, p *command.ListTrials) (*command.ListTrialsResult, error) {
	page, err := r.manager.ListCards(ctx, caller, &session.CardQuery{
		Kind: session.TrialCards, Page: &p.Page, Narrow: &p.Narrowing, SessionID: p.SessionID, Status: p.Status, Type: p.Type,
		Parent: p.ConfigurationID, Group: p.DatasetID, Sort: p.Sort,
	})
	if err != nil {
		return nil, err
	}
	res := &command.ListTrialsResult{Trials: []command.TrialRecord{}, Total: page.Total, NextCursor: page.Next()}
	for _, c := range page.Things() {
		t, err := r.trial(ctx, caller, c.ID)
		if fault.KindOf(err) == fault.NotFound {
			continue // its session was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		res.Trials = append(res.Trials, trialRecordOf(t))
	}
	return res, nil
}

func trialRecordOf(t *foundTrial) command.TrialRecord {
	out := command.TrialRecord{
		TrialID: t.TrialID, SessionID: t.sessionID, ThreadID: t.ThreadID, TurnID: t.TurnID, TaskID: t.TaskID, Status: t.Status, Benchmark: t.Benchmark,
		EvidenceComplete: t.EvidenceComplete(), FailureCategory: t.FailureCategory, TimedOut: t.TimedOut,
		InputTokens: t.Usage.InputTokens, OutputTokens: t.Usage.OutputTokens, CostUSD: t.CostUSD, ToolCalls: t.ToolCalls,
		DurationMs: t.DurationMs, StartedAt: t.StartedAt, EndedAt: t.EndedAt,
	}
	if t.Reward != nil {
		out.Reward = &t.Reward.Value
	}
	return out
}
