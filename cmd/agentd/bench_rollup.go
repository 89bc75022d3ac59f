package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentd/command"
	"agentd/evidence/harbor"
	"agentd/store"
)

// concludeSteps ends the trial, and records and exports what its steps came to.
func (t *benchTrial) concludeSteps(ctx context.Context, steps []*benchStep) error {
	last := steps[len(steps)-1]
	if t.start.TrialID == "" {
		return last.err // nothing was asked of the agent
	}
	reward, scoring := t.rollUp(steps)
	if err := t.end(ctx, last, scoring == nil); err != nil {
		return errors.Join(scoring, err)
	}
	if err := t.keepTrajectory(ctx); err != nil {
		return errors.Join(scoring, err)
	}
	if scoring == nil {
		scoring = t.record(ctx, reward)
	}
	return errors.Join(scoring, t.export(ctx))
}

// rollUp makes the trial's score of those of its steps, as the task says, and writes
// it where that of another trial is. The error says why there is none.
func (t *benchTrial) rollUp(steps []*benchStep) (*harbor.Reward, error) {
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
		details[s.step.Name] = map[string]any{"rewards": s.res.Rewards, "criteria": criteria}
	}
	rewards := t.task.Config.TrialRewards(list)
	if rewards == nil {
		last := steps[len(steps)-1]
		if last.err != nil {
			return nil, last.err
		}
		return nil, &exception{harbor.ErrRewardNotFound.Error(), fmt.Errorf("step %s has no score", last.step.Name)}
	}
	err := errors.Join(harbor.WriteJSON(filepath.Join(t.at.Verifier(), harbor.RewardJSON), rewards),
		harbor.WriteJSON(filepath.Join(t.at.Verifier(), harbor.RewardDetails), details))
	if err != nil {
		return nil, err
	}
	t.out.VerifierResult = &harbor.VerifierResult{Rewards: rewards}
	return harbor.ReadReward(t.at.Verifier())
}

// end ends the trial, if it hasn't by itself, and follows it to its end.
func (t *benchTrial) end(ctx context.Context, last *benchStep, scored bool) error {
	if t.ended != nil {
		return nil
	}
	p := &command.EndBenchmarkTrial{TrialID: t.start.TrialID}
	if !scored {
		p.FailureCategory, p.Reason = last.category, last.res.Error
	}
	var res command.TrialResult
	if err := t.f.do(ctx, p, &res); err != nil {
		return err
	}
	return t.follow(ctx, neverSeen)
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

// printSteps shows the steps of the tasks that have several.
func (b *bench) printSteps(p *printer) {
	rows := [][]string{{"TRIAL", "STEP", "STATUS", "REWARDS"}}
	for _, t := range b.result.Trials {
		for _, s := range t.Steps {
			status := slices.DeleteFunc([]string{s.Status, s.FailureCategory, s.Exception, s.Stopped}, func(x string) bool { return x == "" })
			rows = append(rows, []string{plainText(t.TrialID), plainText(s.Step), plainText(strings.Join(status, ", ")), plainText(scoresText(s.Rewards))})
		}
	}
	if len(rows) > 1 {
		p.linef("")
		p.table(rows)
	}
}

// scoresText shows scores to people: the number alone if it is the only one.
func scoresText(rewards map[string]float64) string {
	if v, ok := rewards[harbor.RewardKey]; ok && len(rewards) == 1 {
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	if len(rewards) == 0 {
		return "none"
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(rewards)) {
		list = append(list, name+"="+strconv.FormatFloat(rewards[name], 'f', 3, 64))
	}
	return strings.Join(list, " ")
}
