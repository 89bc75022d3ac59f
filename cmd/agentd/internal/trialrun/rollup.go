package trialrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"agentd/command"
	"agentd/evidence/harbor"
	"agentd/store"
)

// concludeSteps ends the trial, and records and exports what its steps came to.
func (t *trial) concludeSteps(ctx context.Context, steps []*step) error {
	last := steps[len(steps)-1]
	if t.start.TrialID == "" {
		return last.err // nothing was asked of the agent
	}
	reward, scoring := t.rollUp(steps)
	if err := t.endTrial(ctx, last, scoring == nil); err != nil {
		return errors.Join(scoring, err)
	}
	if err := t.keepTrajectory(ctx); err != nil {
		return errors.Join(scoring, err)
	}
	if scoring == nil {
		scoring = t.recordReward(ctx, reward)
	}
	return errors.Join(scoring, t.exportPack(ctx))
}

// rollUp makes the trial's score of those of its steps, as the task says, and writes
// it where that of another trial is. The error says why there is none.
func (t *trial) rollUp(steps []*step) (*harbor.Reward, error) {
	var list []map[string]float64
	details := map[string]any{}
	for _, s := range steps {
		list = append(list, s.res.Rewards)
		if s.res.Rewards == nil {
			continue
		}
		var criteria []map[string]string
		for _, name := range s.criteria {
			criteria = append(criteria, map[string]string{"name": name})
		}
		details[s.spec.Name] = map[string]any{"rewards": s.res.Rewards, "criteria": criteria}
	}
	rewards := t.task.Config.TrialRewards(list)
	if rewards == nil {
		last := steps[len(steps)-1]
		if last.err != nil {
			return nil, last.err
		}
		return nil, &exception{harbor.ErrRewardNotFound.Error(), fmt.Errorf("step %s has no score", last.spec.Name)}
	}
	err := errors.Join(harbor.WriteJSON(filepath.Join(t.at.Verifier(), harbor.RewardJSON), rewards),
		harbor.WriteJSON(filepath.Join(t.at.Verifier(), harbor.RewardDetails), details))
	if err != nil {
		return nil, err
	}
	t.out.VerifierResult = &harbor.VerifierResult{Rewards: rewards}
	return harbor.ReadReward(t.at.Verifier())
}

// endTrial ends the trial, if it hasn't by itself, and follows it to its end.
func (t *trial) endTrial(ctx context.Context, last *step, scored bool) error {
	if t.ended != nil {
		return nil
	}
	p := &command.EndBenchmarkTrial{TrialID: t.start.TrialID}
	if !scored {
		p.FailureCategory, p.Reason = last.category, last.res.Error
	}
	var res command.TrialResult
	if err := t.rt.Do(ctx, p, &res); err != nil {
		return err
	}
	return t.followUntil(ctx, neverSeen)
}

// storedContents reads what facts refer to.
func storedContents(ctx context.Context, s store.Store) func(ref string, limit int64) ([]byte, error) {
	return func(ref string, limit int64) ([]byte, error) {
		b, err := s.OpenBlob(ctx, ref)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		_, err = io.Copy(&out, io.LimitReader(b, limit))
		return out.Bytes(), errors.Join(err, b.Close())
	}
}
