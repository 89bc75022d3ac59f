package trialrun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/evidence/atif"
	"agentd/evidence/harbor"
)

// StepResult is what a step of a task came to.
type StepResult struct {
	Step string `json:"step"`
	// TurnID is the turn in which the agent worked on it; empty if it didn't come to
	// that.
	TurnID string `json:"turnId,omitempty"`
	// Status is completed or failed, as the turn, or not_run.
	Status          string             `json:"status"`
	FailureCategory string             `json:"failureCategory,omitempty"`
	Rewards         map[string]float64 `json:"rewards"`
	// Stopped says why no step follows, if it wasn't the last.
	Stopped string `json:"stopped,omitempty"`
	// Exception is the name of what went wrong outside the agent, Error its words.
	Exception string `json:"exception,omitempty"`
	Error     string `json:"error,omitempty"`
}

// Why a trial has no score, in the words of its failure category.
const (
	failedEnvironment = "environment"
	failedVerifier    = "verifier_error"
)

// step is a step under way.
type step struct {
	t    *trial
	spec *harbor.Step
	at   *harbor.Layout
	out  *harbor.StepResult
	res  *StepResult
	// criteria are those of its score.
	criteria []string
	// category is why there is no score.
	category string
	err      error
}

// runSteps runs a task of several steps: one turn each, in the same session and
// workspace, scored one by one.
func (t *trial) runSteps(ctx context.Context) error {
	if err := t.newSession(ctx); err != nil {
		return err
	}
	var steps []*step
	for i := range t.task.Config.Steps {
		s := &step{t: t, spec: &t.task.Config.Steps[i]}
		s.out, s.res = &harbor.StepResult{StepName: s.spec.Name}, &StepResult{Step: s.spec.Name, Status: "not_run"}
		steps, t.out.StepResults, t.res.Steps = append(steps, s), append(t.out.StepResults, s.out), append(t.res.Steps, s.res)
		s.run(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if s.stops(i == len(t.task.Config.Steps)-1) {
			break
		}
	}
	return t.concludeSteps(ctx, steps)
}

// run runs a step: its files, the agent, its score.
func (s *step) run(ctx context.Context) {
	var err error
	if s.at, err = s.t.at.Step(s.spec.Name); err != nil {
		s.failed(failedEnvironment, err)
		return
	}
	if err := s.prepare(ctx); err != nil {
		s.failed(failedEnvironment, err)
		return
	}
	if err := timed(&s.out.AgentExecution, func() error { return s.runAgent(ctx) }); err != nil {
		s.failed(failedEnvironment, err)
		return
	}
	if err := timed(&s.out.Verifier, func() error { return s.verify(ctx) }); err != nil {
		s.failed(failedVerifier, err)
	}
}

func (s *step) failed(category string, err error) {
	x := exceptionInfo(err)
	s.category, s.err = category, fmt.Errorf("step %s: %w", s.spec.Name, err)
	s.res.Exception, s.res.Error, s.out.ExceptionInfo = x.Type, x.Message, x
}

// stops reports whether no step follows, and notes why.
func (s *step) stops(last bool) bool {
	switch {
	case last:
		return true
	case s.t.ended != nil:
		s.res.Stopped = "the trial's time has passed"
	case s.res.Rewards == nil:
		s.res.Stopped = "the step has no score"
	default:
		s.res.Stopped = s.spec.Misses(s.res.Rewards)
	}
	return s.res.Stopped != ""
}

// prepare puts the step's files into the workspace, runs its setup and waits until
// what it needs is there.
func (s *step) prepare(ctx context.Context) error {
	if err := copyTree(s.spec.Workdir(), s.t.workspace, nil); err != nil {
		return err
	}
	if err := s.setUp(ctx); err != nil {
		return err
	}
	return s.waitHealthy(ctx)
}

// setUp runs setup.sh, which was put into the workspace. The format gives it no
// limit; it has that of the agent.
func (s *step) setUp(ctx context.Context) error {
	if _, err := os.Lstat(filepath.Join(s.spec.Workdir(), harbor.SetupScript)); err != nil {
		return nil //nolint:nilerr // there is none
	}
	path := filepath.Join(s.t.workspace, harbor.SetupScript)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, replacePaths(text, s.t.mappedPaths(s.at, "")), 0o700); err != nil { //nolint:gosec // it is run
		return err
	}
	timeout := s.t.b.scaled(s.spec.AgentTimeout())
	exit, err := s.t.runScript(ctx, &taskScript{id: s.id("setup"), at: s.at, argv: []string{shell(), path}, timeout: timeout})
	if err != nil {
		return fmt.Errorf("%s can't be run: %w", harbor.SetupScript, err)
	}
	if err := os.WriteFile(s.at.File("setup-stdout.txt"), exit.Stdout.Bytes(), 0o600); err != nil {
		return err
	}
	switch {
	case exit.Failure != nil:
		return exit.Failure
	case exit.TimedOut:
		return fmt.Errorf("%s ran longer than %s", harbor.SetupScript, timeout)
	case exit.Code != 0:
		return fmt.Errorf("%s exited with %d: %s", harbor.SetupScript, exit.Code, lastWords(exit.Stdout.Bytes()))
	}
	return nil
}

// lastWords are the end of what a script said, for people.
func lastWords(out []byte) string {
	const most = 500
	out = bytes.TrimSpace(out)
	return string(bytes.ToValidUTF8(out[max(len(out)-most, 0):], nil))
}

// id names a process of the step.
func (s *step) id(what string) string { return what + "_" + s.t.at.Name + "_" + s.spec.Name }

// waitHealthy runs the step's health check until it succeeds, or failed too often.
func (s *step) waitHealthy(ctx context.Context) error {
	h := s.spec.Healthcheck
	if h == nil {
		return nil
	}
	line := string(replacePaths([]byte(h.Command), s.t.mappedPaths(s.at, "")))
	begun, failures := time.Now(), 0
	for n := 0; ; n++ {
		exit, err := s.t.runScript(ctx, &taskScript{id: fmt.Sprintf("%s_%d", s.id("health"), n), at: s.at, argv: []string{shell(), "-c", line}, timeout: h.Timeout()})
		if err != nil {
			return &exception{"HealthcheckError", err}
		}
		if exit.Failure == nil && !exit.TimedOut && exit.Code == 0 {
			return nil
		}
		since := time.Since(begun)
		if !h.Starting(since) {
			failures++
		}
		if failures >= *h.Retries {
			return &exception{"HealthcheckError", fmt.Errorf("the health check failed %d times: %s", failures, lastWords(exit.Stdout.Bytes()))}
		}
		select {
		case <-time.After(h.Interval(since)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// runAgent tells the agent the step's instruction and waits for the turn's end. How
// it ends doesn't matter here: the script scores what is left.
func (s *step) runAgent(ctx context.Context) error {
	if err := s.submit(ctx); err != nil {
		return err
	}
	s.res.Status = "failed"
	err := s.t.followUntil(ctx, func(e *event.Event) bool {
		if e.TurnID != s.res.TurnID {
			return false
		}
		switch p := e.Payload.(type) {
		case *event.TurnCompleted:
			s.res.Status = "completed"
		case *event.TurnFailed:
			s.res.FailureCategory = p.FailureCategory
		default:
			return false
		}
		return true
	})
	if err != nil {
		return err
	}
	return s.keepTrajectory(ctx)
}

// submit begins the trial with the first step, and submits the others' turns.
func (s *step) submit(ctx context.Context) error {
	t := s.t
	options := &event.TurnOptions{TimeoutMs: max(t.b.scaled(s.spec.AgentTimeout()).Milliseconds(), 1)}
	if t.start.TrialID == "" {
		err := t.startTrial(ctx, s.spec.Instruction, &command.StartBenchmarkTrial{MultiTurn: true, TimeoutMs: t.wholeLimit().Milliseconds()}, options)
		s.res.TurnID = t.start.TurnID
		return err
	}
	input, err := json.Marshal(s.spec.Instruction)
	if err != nil {
		return err
	}
	var res command.SubmitTurnResult
	err = t.rt.Do(ctx, &command.SubmitTurn{SessionID: t.start.SessionID, ThreadID: t.start.ThreadID, Input: input, Options: options}, &res)
	s.res.TurnID = res.TurnID
	return err
}

// longestTrial bounds the limit of a trial.
const longestTrial = 365 * 24 * time.Hour

// wholeLimit is a time within which all steps have ended. It ends a trial that its
// runner left.
func (t *trial) wholeLimit() time.Duration {
	total := time.Hour
	for i := range t.task.Config.Steps {
		s := &t.task.Config.Steps[i]
		total += t.b.scaled(2*s.AgentTimeout() + s.VerifierTimeout())
		if h := s.Healthcheck; h != nil {
			total += time.Duration(*h.Retries)*(h.Timeout()+h.Interval(longestTrial)) + h.Interval(0)
		}
		if total < 0 || total > longestTrial {
			return longestTrial
		}
	}
	return total
}

// keepTrajectory writes what the agent did in the step where its script may look for
// it, and notes what that took.
func (s *step) keepTrajectory(ctx context.Context) error {
	t := s.t
	var doc bytes.Buffer
	sum, err := atif.Export(ctx, t.rt.Store, atif.Scope{SessionID: t.start.SessionID, ThreadID: t.start.ThreadID, TurnID: s.res.TurnID}, atif.Options{
		AgentVersion: t.b.o.Version, TrajectoryID: t.start.TrialID + "/" + s.spec.Name, Contents: storedContents(ctx, t.rt.Store),
	}, &doc)
	if err != nil {
		return err
	}
	s.out.AgentResult = t.agentResult(&sum.Usage, sum.Cost())
	s.out.AgentResult.Metadata["turn_id"], s.out.AgentResult.Metadata["status"] = s.res.TurnID, s.res.Status
	if s.res.FailureCategory != "" {
		s.out.AgentResult.Metadata["failure_category"] = s.res.FailureCategory
	}
	return os.WriteFile(filepath.Join(s.at.Agent(), "trajectory.json"), doc.Bytes(), 0o600)
}

// verify scores the step.
func (s *step) verify(ctx context.Context) error {
	reward, err := s.t.runScoring(ctx, &scoring{
		at: s.at, tests: s.spec.Tests(), timeout: s.spec.VerifierTimeout(), env: s.spec.Verifier.Env, id: s.t.at.Name + "_" + s.spec.Name,
	})
	if err != nil {
		return err
	}
	s.res.Rewards, s.criteria = reward.Values, reward.Criteria
	s.out.VerifierResult = &harbor.VerifierResult{Rewards: reward.Values}
	return nil
}
