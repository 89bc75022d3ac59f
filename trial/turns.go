package trial

import (
	"context"
	"encoding/json"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/evidence/atif"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// trajectoryScope is what a trial is about: its turn, or all turns of its thread if
// it has several.
func trajectoryScope(sessionID string, t *state.Trial) atif.Scope {
	scope := atif.Scope{SessionID: sessionID, ThreadID: t.ThreadID, TurnID: t.TurnID}
	if t.MultiTurn {
		scope.TurnID = ""
	}
	return scope
}

// judgeTurns decides about a trial of several turns. Their ends don't end it: the
// caller does, or its time, or a call that a restart lost.
func judgeTurns(s *state.Session, t *state.Trial, now time.Time) (v *verdict, until time.Time) {
	v = &verdict{trial: *t}
	thread := s.Thread(t.ThreadID)
	if thread != nil && thread.Block != nil && thread.Block.Code == "tool_lost" {
		v.category, v.reason = "blocked", thread.Block.Reason
		return v, until
	}
	if t.TimeoutMs <= 0 {
		return nil, until
	}
	if until = t.StartedAt.Add(time.Duration(t.TimeoutMs) * time.Millisecond); now.Before(until) {
		return nil, until
	}
	v.category, v.reason = "timed_out", "the trial's time is over"
	return v, time.Time{}
}

// severalOutcome says how a trial of several turns ended, unless that was said
// already: as the first of them that failed, and out of time if one of them was.
func (v *verdict) severalOutcome(p *event.BenchmarkTrialEnded, turns []atif.TurnEnd) {
	if v.category != "" {
		return
	}
	p.Status = "completed"
	for _, t := range turns {
		if t.FailureCategory == "" {
			continue
		}
		if p.Status == "completed" {
			p.Status, p.FailureCategory, p.Error = "failed", t.FailureCategory, &event.Failure{Message: t.Error, Category: t.FailureCategory}
		}
		p.TimedOut = p.TimedOut || t.FailureCategory == "timed_out"
	}
}

// endTrial carries out end_benchmark_trial.
func (r *Runner) endTrial(ctx context.Context, caller command.Caller, p *command.EndBenchmarkTrial) (*command.TrialResult, error) {
	t, err := r.trial(ctx, caller, p.TrialID)
	if err != nil {
		return nil, err
	}
	v, err := r.toldVerdict(t, p)
	if err != nil {
		return nil, err
	}
	if !t.MultiTurn && !t.EndedAt.IsZero() && p.FailureCategory != "" {
		return r.unscored(ctx, caller, p, t.sessionID, v)
	}
	turns, err := r.endable(ctx, t)
	if err != nil {
		return nil, err
	}
	var ended *event.BenchmarkTrialEnded
	var ref string
	if t.EndedAt.IsZero() {
		if ended, ref, err = r.endOf(ctx, t.sessionID, v); err != nil {
			return nil, err
		}
	}
	return session.Write(ctx, r.manager, caller, p, t.sessionID, asBenchmark, func(tx *session.Tx) (*command.TrialResult, error) {
		res := &command.TrialResult{TrialID: p.TrialID}
		now := tx.State.Benchmark.Find(p.TrialID)
		if ended == nil || now == nil || !now.EndedAt.IsZero() {
			return res, nil // it has ended
		}
		n, err := turnsOfTrial(tx.State, now)
		if err == nil && n != turns {
			err = fault.New(fault.Conflict, "trial %s had another turn meanwhile", p.TrialID)
		}
		if err != nil {
			return nil, err
		}
		return res, v.emit(tx, ended, ref)
	})
}

// unscored makes a trial that ended with its turn a failed one: it could not be scored.
// All else that is known of it stays.
func (r *Runner) unscored(ctx context.Context, caller command.Caller, p *command.EndBenchmarkTrial, sessionID string, v *verdict) (*command.TrialResult, error) {
	return session.Write(ctx, r.manager, caller, p, sessionID, asBenchmark, func(tx *session.Tx) (*command.TrialResult, error) {
		res := &command.TrialResult{TrialID: p.TrialID}
		now := tx.State.Benchmark.Find(p.TrialID)
		switch {
		case now == nil:
			return nil, fault.New(fault.Conflict, "trial %s ended too long ago", p.TrialID)
		case now.Reward != nil:
			return nil, fault.New(fault.Conflict, "trial %s has a score", p.TrialID)
		case now.FailureCategory == v.category:
			return res, nil // it is known
		case now.FailureCategory != "":
			return nil, fault.New(fault.Conflict, "trial %s failed already: %s", p.TrialID, now.FailureCategory)
		}
		usage := now.Usage
		v.trial = *now
		return res, v.emit(tx, &event.BenchmarkTrialEnded{
			Status: "failed", FailureCategory: v.category, Error: &event.Failure{Message: v.reason, Category: v.category},
			DurationMs: now.DurationMs, Cleanup: now.Cleanup, TrajectoryRef: now.TrajectoryRef, ArtifactRefs: now.ArtifactRefs, TimedOut: now.TimedOut,
			Usage: &usage, CostUSD: now.CostUSD, ModelCalls: now.ModelCalls, ToolCalls: now.ToolCalls, DeniedSideEffects: now.DeniedSideEffects,
			EvidenceGaps: now.EvidenceGaps,
		}, now.TrajectoryRef)
	})
}

// toldVerdict is what the caller says of a trial's end, without secrets.
func (r *Runner) toldVerdict(t *foundTrial, p *command.EndBenchmarkTrial) (*verdict, error) {
	var told struct {
		Category string `json:"category"`
		Reason   string `json:"reason"`
	}
	raw, err := json.Marshal(map[string]string{"category": p.FailureCategory, "reason": p.Reason})
	if err == nil {
		err = json.Unmarshal(r.manager.Redact(raw), &told)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the end of the trial could not be written down")
	}
	return &verdict{trial: t.Trial, category: told.Category, reason: told.Reason}, nil
}

// endable refuses a trial that ends by itself, or that has an open turn. It returns
// how many turns there were.
func (r *Runner) endable(ctx context.Context, t *foundTrial) (turns int64, err error) {
	if !t.MultiTurn {
		return 0, fault.New(fault.Conflict, "trial %s ends with its turn", t.TrialID)
	}
	if !t.EndedAt.IsZero() {
		return 0, nil
	}
	err = r.manager.View(ctx, t.sessionID, func(s *state.Session) (err error) {
		turns, err = turnsOfTrial(s, &t.Trial)
		return err
	})
	return turns, err
}

// turnsOfTrial counts the turns of a trial's thread, which must be at rest.
func turnsOfTrial(s *state.Session, t *state.Trial) (int64, error) {
	thread := s.Thread(t.ThreadID)
	switch {
	case thread == nil:
		return 0, nil
	case thread.Busy():
		return 0, fault.New(fault.Conflict, "a turn of trial %s has not ended", t.TrialID)
	}
	return thread.TurnCount, nil
}
