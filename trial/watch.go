package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/evidence/atif"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storefault"
)

const (
	// trialGrace is how long the loop has to end a turn by its own deadline before
	// the trial is ended without waiting for it.
	trialGrace = 5 * time.Second
	// trialRetry is how long a look at trials that failed waits for the next.
	trialRetry = time.Second
	// maxTrialRefs bounds the references in the fact that ends a trial.
	maxTrialRefs = 100
)

// Committed implements [session.Observer]: it says which sessions to look at.
func (r *Runner) Committed(sessionID string, facts []event.Event) {
	began, changed := false, false
	for i := range facts {
		switch facts[i].Type { //nolint:exhaustive // the rest ends no trial
		case event.TypeBenchmarkTrialStarted:
			began = true
		case event.TypeTurnCompleted, event.TypeTurnFailed, event.TypeThreadUpdated:
			changed = true
		}
	}
	if !began && !changed {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if began {
		r.open[sessionID] = true
	}
	if r.open[sessionID] {
		r.wakeFor(sessionID)
	}
}

// wakeFor has a session looked at. The lock is held.
func (r *Runner) wakeFor(sessionID string) {
	r.due[sessionID] = true
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// Recover takes up the open trials of a session after a restart.
func (r *Runner) Recover(ctx context.Context, sessionID string) error {
	open := false
	err := r.manager.View(ctx, sessionID, func(s *state.Session) error {
		open = len(s.Benchmark.Open) > 0
		return nil
	})
	if err != nil || !open {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[sessionID] = true
	r.wakeFor(sessionID)
	return nil
}

// endTrials ends trials that are over, until Close.
func (r *Runner) endTrials() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.woken:
		case <-timer.C:
		}
		for _, id := range r.takeDue() {
			if r.ctx.Err() != nil {
				return
			}
			r.lookAt(id)
		}
		timer.Reset(r.untilDue())
	}
}

// takeDue returns the sessions to look at now.
func (r *Runner) takeDue() []string {
	now := r.manager.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range r.at {
		if !at.After(now) {
			r.due[id] = true
			delete(r.at, id)
		}
	}
	var ids []string
	for id := range r.due {
		ids = append(ids, id)
	}
	clear(r.due)
	return ids
}

// untilDue is how long nothing is due.
func (r *Runner) untilDue() time.Duration {
	now := r.manager.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	rest := time.Hour
	for _, at := range r.at {
		rest = min(rest, max(at.Sub(now), time.Millisecond))
	}
	return rest
}

// lookAt looks at a session's trials and remembers when to look again.
func (r *Runner) lookAt(sessionID string) {
	again, left, err := r.checkTrial(r.ctx, sessionID)
	if session.LostSession(err, sessionID) {
		again, left, err = time.Time{}, false, nil // the node that has the session ends them
	}
	if err != nil {
		if r.ctx.Err() != nil {
			return
		}
		r.opt.Logger.Error("a trial could not be looked at", "sessionId", sessionID, "error", err)
		again, left = r.manager.Now().Add(trialRetry), true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, sessionID)
	switch {
	case left && !again.IsZero():
		r.at[sessionID] = again
	case !left && !r.due[sessionID]:
		delete(r.open, sessionID)
	}
}

// checkTrial ends the trials of a session that are over. Again is when another one may
// be, left says that some are open.
func (r *Runner) checkTrial(ctx context.Context, sessionID string) (again time.Time, left bool, err error) {
	var over []verdict
	err = r.manager.View(ctx, sessionID, func(s *state.Session) error {
		over, again, left = judgeTrials(s, r.manager.Now())
		return nil
	})
	if err != nil {
		if fault.KindOf(err) == fault.NotFound {
			err = nil
		}
		return time.Time{}, false, err
	}
	for i := range over {
		if err := r.finish(ctx, sessionID, &over[i]); err != nil {
			return time.Time{}, true, err
		}
	}
	return again, left, nil
}

// verdict is the end of a trial.
type verdict struct {
	trial state.Trial
	// turn is the trial's turn as it ended; nil if it hasn't, or is only a record.
	turn *state.Turn
	// record says that the turn has ended and is to be read from its record.
	record bool
	// category and reason say why the trial ends without its turn.
	category, reason string
}

// judgeTrials decides, from the state and the time alone, which open trials are
// over, when to look again, and whether any stays open.
func judgeTrials(s *state.Session, now time.Time) (over []verdict, again time.Time, left bool) {
	for _, t := range s.Benchmark.Open {
		v, until := judgeTrial(s, t, now)
		if v != nil {
			over = append(over, *v)
			continue
		}
		left = true
		if !until.IsZero() && (again.IsZero() || until.Before(again)) {
			again = until
		}
	}
	return over, again, left
}

// judgeTrial decides about one trial.
func judgeTrial(s *state.Session, t *state.Trial, now time.Time) (v *verdict, until time.Time) {
	if t.MultiTurn {
		return judgeTurns(s, t, now)
	}
	turn, thread := trialTurn(s, t)
	v = &verdict{trial: *t}
	if turn != nil {
		v.trial.ThreadID, v.trial.TurnID, v.trial.RunID = turn.ThreadID, turn.TurnID, turn.RunID
	}
	switch {
	case turn != nil && !turn.EndedAt.IsZero():
		ended := *turn
		v.turn = &ended
		return v, until
	case turn == nil && t.TurnID != "":
		v.record = true
		return v, until
	case turn != nil && thread.Block != nil && thread.Block.Code == "tool_lost":
		v.category, v.reason = "blocked", thread.Block.Reason
		return v, until
	case t.TimeoutMs <= 0:
		return nil, until
	}
	until = t.StartedAt.Add(time.Duration(t.TimeoutMs) * time.Millisecond)
	if turn != nil && !turn.StartedAt.IsZero() && !now.Before(until) {
		until = until.Add(trialGrace) // the loop ends it by itself
	}
	if now.Before(until) {
		return nil, until
	}
	v.category, v.reason = "timed_out", "the trial's time is over"
	if turn == nil {
		v.reason += "; no turn was submitted for it"
	} else if len(turn.Waiting) > 0 {
		v.reason += "; its turn waits for an answer"
	}
	return v, time.Time{}
}

// trialTurn finds the turn of a trial among those that are open or ended lately:
// the trial's own, or the first that was submitted for its task.
func trialTurn(s *state.Session, t *state.Trial) (*state.Turn, *state.Thread) {
	for _, thread := range s.Threads {
		turns := append([]*state.Turn{}, thread.Recent...)
		if thread.Active != nil {
			turns = append(turns, thread.Active)
		}
		for _, turn := range append(turns, thread.Queue...) {
			if turn.TurnID == t.TurnID || t.TurnID == "" && turn.TaskID == t.TaskID {
				return turn, thread
			}
		}
	}
	return nil, nil
}

// finish records the end of a trial.
func (r *Runner) finish(ctx context.Context, sessionID string, v *verdict) error {
	if v.record {
		if err := r.recall(ctx, sessionID, v); err != nil {
			return err
		}
	}
	if v.category == "timed_out" && v.trial.TurnID != "" {
		runtime := command.Caller{Admin: true, Actor: event.Actor{Kind: "runtime"}}
		stop := &command.InterruptTurn{SessionID: sessionID, ThreadID: v.trial.ThreadID, TurnID: v.trial.TurnID, Reason: v.reason}
		if v.trial.MultiTurn {
			stop.TurnID, stop.Queue = "", "clear" // whichever runs, and those that wait
		}
		if _, err := r.opt.Do(ctx, runtime, stop); err != nil && fault.KindOf(err) != fault.NotFound {
			return fmt.Errorf("trial %s: %w", v.trial.TrialID, err)
		}
	}
	ended, ref, err := r.endOf(ctx, sessionID, v)
	if err != nil {
		return err
	}
	err = r.manager.Emit(ctx, sessionID, asBenchmark, func(tx *session.Tx) error {
		now := tx.State.Benchmark.Find(v.trial.TrialID)
		if now == nil || !now.EndedAt.IsZero() {
			return nil // another caller was first
		}
		return v.emit(tx, ended, ref)
	})
	if err != nil {
		return fmt.Errorf("trial %s: %w", v.trial.TrialID, err)
	}
	return nil
}

// recall reads the record of a turn that ended long ago.
func (r *Runner) recall(ctx context.Context, sessionID string, v *verdict) error {
	raw, err := r.manager.Record(ctx, sessionID, "turn/"+v.trial.TurnID)
	if fault.KindOf(err) == fault.NotFound {
		v.category, v.reason = "lost", "nothing is known of the trial's turn"
		return nil
	}
	v.turn = &state.Turn{}
	if err == nil {
		err = json.Unmarshal(raw, v.turn)
	}
	if err != nil {
		return fmt.Errorf("trial %s: %w", v.trial.TrialID, err)
	}
	return nil
}

// endOf makes the payload of a trial's end, and stores its trajectory.
func (r *Runner) endOf(ctx context.Context, sessionID string, v *verdict) (*event.BenchmarkTrialEnded, string, error) {
	p := v.outcome(r.manager.Now())
	if v.trial.TurnID == "" {
		p.EvidenceGaps = append(p.EvidenceGaps, "no turn was run")
		return p, "", nil
	}
	ref, sum, err := r.storeTrajectory(ctx, trajectoryScope(sessionID, &v.trial), &v.trial)
	if storefault.Passes(err) {
		return nil, "", fmt.Errorf("trial %s: the trajectory: %w", v.trial.TrialID, err)
	}
	if err != nil {
		r.opt.Logger.Error("a trial has no trajectory", "trialId", v.trial.TrialID, "error", err)
		p.EvidenceGaps = append(p.EvidenceGaps, "the trajectory could not be written: "+err.Error())
		return p, "", nil
	}
	if v.trial.MultiTurn {
		v.severalOutcome(p, sum.Turns)
	}
	p.TrajectoryRef = ref
	describe(p, sum)
	return p, ref, nil
}

// outcome says how a trial ended.
func (v *verdict) outcome(now time.Time) *event.BenchmarkTrialEnded {
	end := now
	p := &event.BenchmarkTrialEnded{Status: "failed", FailureCategory: v.category, Cleanup: "not_applicable"}
	if v.category != "" {
		p.Error = &event.Failure{Message: v.reason, Category: v.category}
	}
	if turn := v.turn; turn != nil {
		end = turn.EndedAt
		if turn.Status == state.TurnCompleted {
			p.Status = "completed"
		} else {
			p.FailureCategory, p.Error = turn.FailureCategory, turn.Error
		}
	}
	p.TimedOut = p.FailureCategory == "timed_out"
	p.DurationMs = max(end.Sub(v.trial.StartedAt).Milliseconds(), 0)
	return p
}

// describe adds what a trajectory says of a trial.
func describe(p *event.BenchmarkTrialEnded, sum *atif.Summary) {
	usage := sum.Usage
	p.Usage, p.ModelCalls, p.ToolCalls, p.DeniedSideEffects = &usage, sum.ModelCalls, sum.ToolCalls, sum.DeniedEffects
	p.CostUSD = sum.Cost()
	if sum.Unanswered > 0 {
		p.EvidenceGaps = append(p.EvidenceGaps, fmt.Sprintf("%d tool calls have no result", sum.Unanswered))
	}
	for _, o := range sum.Outputs[:min(len(sum.Outputs), maxTrialRefs)] {
		p.ArtifactRefs = append(p.ArtifactRefs, o.Ref)
	}
}

func (v *verdict) emit(tx *session.Tx, p *event.BenchmarkTrialEnded, ref string) error {
	about := v.trial.Benchmark
	refs := trialRefs(&about)
	if ref != "" {
		tx.Refer(ref, atifType)
		refs["trajectoryRef"] = ref
	}
	typ := event.TypeBenchmarkTrialCompleted
	if p.Status != "completed" {
		typ = event.TypeBenchmarkTrialFailed
	}
	tx.Emit(event.Event{Type: typ, Scope: trialScope(&v.trial), Benchmark: &about, Refs: refs, Payload: p})
	return nil
}

// atifType is the media type of a trajectory.
const atifType = "application/json"

// storeTrajectory writes the trajectory of a trial and stores it. No one can read
// it until a decision refers to it.
func (r *Runner) storeTrajectory(ctx context.Context, scope atif.Scope, t *state.Trial) (ref string, sum *atif.Summary, err error) {
	f, err := os.CreateTemp("", "agentd-trial-*")
	if err != nil {
		return "", nil, err
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }()
	contents := storefault.Watch(r.manager.Contents(scope.SessionID))
	sum, err = atif.Export(ctx, r.opt.Store, scope, atif.Options{
		AgentVersion: buildVersion(), TrajectoryID: t.TrialID, Contents: readFrom(ctx, contents),
	}, f)
	if err == nil {
		err = contents.Err()
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", nil, err
	}
	ref, err = r.manager.PutOutput(ctx, f)
	return ref, sum, err
}

// readFrom reads the beginning of what is behind a reference.
func readFrom(ctx context.Context, c store.Contents) func(string, int64) ([]byte, error) {
	return func(ref string, limit int64) ([]byte, error) {
		b, err := c.OpenBlob(ctx, ref)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		_, err = io.Copy(&out, io.LimitReader(b, limit))
		return out.Bytes(), errors.Join(err, b.Close())
	}
}
