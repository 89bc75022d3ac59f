package trial

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime/debug"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// asBenchmark is what the facts of trials are emitted as: those of evidence, and
// the turn that a trial submits.
const asBenchmark = event.ByEvidence | event.BySession

// startTrial binds a trial to a session and submits its turn, in one decision.
func (r *Runner) startTrial(ctx context.Context, caller command.Caller, p *command.StartBenchmarkTrial) (*command.StartBenchmarkTrialResult, error) {
	s, err := r.newTrial(p)
	if err != nil {
		return nil, err
	}
	to, err := r.targetOfTrial(ctx, caller, p)
	if err != nil {
		return nil, err
	}
	return session.WriteTo(ctx, r.manager, caller, p, to, asBenchmark, func(tx *session.Tx) (*command.StartBenchmarkTrialResult, error) {
		return s.emit(tx, session.ActorOf(caller))
	})
}

// targetOfTrial returns the session that a trial goes to: the named one, that of
// the trial if it exists already, or a new one.
func (r *Runner) targetOfTrial(ctx context.Context, caller command.Caller, p *command.StartBenchmarkTrial) (session.Target, error) {
	if p.SessionID != "" {
		return session.Target{SessionID: p.SessionID}, nil
	}
	if id := p.Benchmark.TrialID; id != "" {
		if found, err := r.manager.Locate(ctx, session.KindTrial, id); fault.KindOf(err) != fault.NotFound {
			found, err = r.visibleTrial(ctx, caller, id, found, err)
			return session.Target{SessionID: found}, err
		}
	}
	return r.manager.NewTarget("trial of " + p.Benchmark.TaskID), nil
}

// visibleTrial returns the session of a trial that exists. A caller who may not see it
// learns that the id is taken, and not by which session.
func (r *Runner) visibleTrial(ctx context.Context, caller command.Caller, id, sessionID string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	err = r.manager.ViewAs(ctx, caller, sessionID, func(*state.Session) error { return nil })
	if fault.KindOf(err) == fault.NotFound {
		return "", fault.New(fault.Conflict, "trial %s exists with another content", id)
	}
	return sessionID, err
}

// newTrial is a trial that is about to start: what its facts will say.
type newTrial struct {
	r       *Runner
	b       event.Benchmark
	dataset *event.BenchmarkDataset
	config  *event.BenchmarkConfiguration
	started *event.BenchmarkTrialStarted
	input   event.Raw
	options *event.TurnOptions
}

func (r *Runner) newTrial(p *command.StartBenchmarkTrial) (*newTrial, error) {
	s := &newTrial{r: r, b: r.benchmarkOf(p.Benchmark), input: p.Input}
	s.dataset = &event.BenchmarkDataset{Path: s.b.DatasetRef}
	if d := p.Dataset; d != nil {
		s.dataset.SelectionPolicy, s.dataset.FrozenAt, s.dataset.RegistryRef, s.dataset.TaskCount = d.SelectionPolicy, d.FrozenAt.UTC(), d.RegistryRef, d.TaskCount
	}
	if err := s.configure(r.manager.Redact(p.Configuration)); err != nil {
		return nil, err
	}
	if s.options.TimeoutMs == 0 {
		s.options.TimeoutMs = p.TimeoutMs
	}
	s.started = &event.BenchmarkTrialStarted{
		Status: "running", TimeoutMs: p.TimeoutMs, Sandbox: r.opt.Sandbox, Attempt: 1, MultiTurn: p.MultiTurn, RequestDigest: s.digest(p),
	}
	if budget := r.opt.BudgetUSD; budget > 0 {
		s.started.BudgetUSD = &budget
	}
	return s, r.manager.CheckTurn(s.options)
}

// benchmarkOf is what the caller says of a trial, without secrets.
func (r *Runner) benchmarkOf(p *command.TrialBenchmark) event.Benchmark {
	b := event.Benchmark{
		DatasetID: p.DatasetID, DatasetVersion: p.DatasetVersion, DatasetRef: p.DatasetRef, TaskID: p.TaskID, TrialID: p.TrialID,
		ConfigurationID: p.ConfigurationID, Role: p.Role, HarborJobRef: p.HarborJobRef, HarborTrialRef: p.HarborTrialRef,
		TaskTomlRef: p.TaskTomlRef, SingleChangedVariable: p.SingleChangedVariable,
		HarborTrialResultRef: p.HarborTrialResultRef, HarborVerifierStdoutRef: p.HarborVerifierStdoutRef,
	}
	clean := event.Benchmark{}
	raw, err := json.Marshal(b)
	if err != nil || json.Unmarshal(r.manager.Redact(raw), &clean) != nil {
		return b // texts always encode, and stay texts
	}
	clean.TrialID, clean.Role = b.TrialID, b.Role
	return clean
}

// configure takes a configuration apart: what a turn can be told it is told, and
// all of it is recorded. A model that isn't known here is a description of
// something else: it is recorded as not applied.
func (s *newTrial) configure(raw event.Raw) error {
	s.options = &event.TurnOptions{}
	s.config = &event.BenchmarkConfiguration{Runtime: "agentd " + buildVersion(), Model: s.r.opt.DefaultModel}
	if len(raw) == 0 {
		return nil
	}
	var all map[string]event.Raw
	if err := json.Unmarshal(raw, &all); err != nil {
		return fault.Param("configuration", "is not a JSON object")
	}
	if given, ok := all["options"]; ok {
		if err := json.Unmarshal(given, s.options); err != nil {
			return fault.Param("configuration.options", "are not the options of a turn")
		}
		if err := (&command.SubmitTurn{Input: event.Raw(`"x"`), Options: s.options}).Validate(); err != nil {
			return err
		}
	}
	text := func(name string, to *string) {
		var v string
		if given, ok := all[name]; ok && json.Unmarshal(given, &v) == nil && v != "" {
			*to = v
		}
	}
	model := ""
	text("model", &model)
	text("runtime", &s.config.Runtime)
	text("agent", &s.config.Agent)
	text("promptRef", &s.config.Prompt)
	s.config.Tools, s.config.Context, s.config.Routing = all["tools"], all["context"], all["routing"]
	for _, name := range []string{"model", "runtime", "agent", "promptRef", "tools", "context", "routing"} {
		delete(all, name)
	}
	s.choose(model, all)
	if len(all) == 0 {
		return nil
	}
	details, err := json.Marshal(all)
	s.config.Details = details
	return err
}

// choose applies the model of a configuration.
func (s *newTrial) choose(model string, details map[string]event.Raw) {
	if s.options.Model != "" {
		s.config.Model = s.options.Model
		return
	}
	if model == "" {
		return
	}
	s.config.Model = model
	if s.r.manager.CheckTurn(&event.TurnOptions{Model: model}) == nil {
		s.options.Model = model
		return
	}
	details["notApplied"] = event.Raw(`["model"]`)
}

// digest is a fingerprint of what was asked for under a trial's id.
func (s *newTrial) digest(p *command.StartBenchmarkTrial) string {
	h := sha256.New()
	b := s.b
	b.TrialID = ""
	parts := []any{b, s.dataset, s.r.manager.Redact(p.Configuration), s.r.manager.Redact(p.Input), p.TimeoutMs}
	if p.MultiTurn {
		parts = append(parts, "multiTurn")
	}
	for _, part := range parts {
		raw, _ := json.Marshal(part) //nolint:errchkjson // these types always encode
		h.Write(append(raw, '\n'))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// emit emits a trial's first facts.
func (s *newTrial) emit(tx *session.Tx, by *event.Actor) (*command.StartBenchmarkTrialResult, error) {
	if s.b.TrialID == "" {
		s.b.TrialID = tx.NewID(event.PrefixTrial)
	} else if exists, same, err := tx.Identity(session.KindTrial, s.b.TrialID, s.started); exists || err != nil {
		return s.r.repeatedTrial(tx, s.b.TrialID, same, err)
	}
	t := tx.State.MainThread()
	if t == nil {
		return nil, fault.New(fault.Conflict, "session %s has no open thread", tx.State.SessionID)
	}
	about := s.b
	tx.Emit(event.Event{Type: event.TypeBenchmarkDatasetResolved, Benchmark: &about, Payload: s.dataset})
	tx.Emit(event.Event{Type: event.TypeBenchmarkConfigurationResolved, Benchmark: &about, Payload: s.config})
	scope, err := s.submit(tx, t, by)
	if err != nil {
		return nil, err
	}
	tx.Emit(event.Event{Type: event.TypeBenchmarkTrialStarted, Scope: scope, Benchmark: &about, Refs: trialRefs(&about), Payload: s.started})
	return &command.StartBenchmarkTrialResult{
		TrialID: about.TrialID, SessionID: tx.State.SessionID, ThreadID: scope.ThreadID, TurnID: applicable(scope.TurnID), TaskID: scope.TaskID, RunID: scope.RunID,
	}, nil
}

// submit submits the trial's turn. Without input the caller does that itself, for
// the task that is made here.
func (s *newTrial) submit(tx *session.Tx, t *state.Thread, by *event.Actor) (event.Scope, error) {
	if len(s.input) > 0 {
		res, err := tx.Submit(by, t, "benchmark", &command.SubmitTurn{Input: s.input, Options: s.options})
		if err != nil {
			return event.Scope{}, err
		}
		return event.Scope{ThreadID: res.ThreadID, TurnID: res.TurnID, TaskID: res.TaskID, RunID: res.RunID}, nil
	}
	scope := event.Scope{ThreadID: t.ThreadID, TurnID: event.NotApplicable, TaskID: tx.NewID(event.PrefixTask), RunID: tx.NewID(event.PrefixRun)}
	tx.Emit(event.Event{Type: event.TypeTaskCreated, Scope: event.Scope{ThreadID: scope.ThreadID, TaskID: scope.TaskID, RunID: scope.RunID}, Payload: &event.TaskCreated{
		TaskKind: state.TaskKindTurn, Visibility: "internal", Status: "accepted", Objective: "trial of " + s.b.TaskID, WorkerKind: "runtime", RequestedBy: by,
	}})
	return scope, nil
}

// repeatedTrial answers a trial that exists already.
func (r *Runner) repeatedTrial(tx *session.Tx, id string, same bool, err error) (*command.StartBenchmarkTrialResult, error) {
	if err != nil {
		return nil, err
	}
	if !same {
		return nil, fault.New(fault.Conflict, "trial %s exists with another content", id)
	}
	t, err := r.trialIn(tx, id)
	if err != nil {
		return nil, err
	}
	return &command.StartBenchmarkTrialResult{
		TrialID: id, SessionID: tx.State.SessionID, ThreadID: t.ThreadID, TurnID: t.TurnID, TaskID: t.TaskID, RunID: t.RunID,
	}, nil
}

// trialRefs are the references that a trial was given.
func trialRefs(b *event.Benchmark) map[string]string {
	refs := map[string]string{}
	for name, ref := range map[string]string{
		"datasetRef": b.DatasetRef, "harborJobRef": b.HarborJobRef, "harborTrialRef": b.HarborTrialRef, "taskTomlRef": b.TaskTomlRef,
		"harborTrialResultRef": b.HarborTrialResultRef, "harborVerifierStdoutRef": b.HarborVerifierStdoutRef,
	} {
		if ref != "" {
			refs[name] = ref
		}
	}
	return refs
}

func applicable(id string) string {
	if id == event.NotApplicable {
		return ""
	}
	return id
}

// buildVersion is the version of the module that this program was built from.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// foundTrial is a copy of a trial, with its session.
type foundTrial struct {
	state.Trial
	sessionID string
	// head is the session's last fact when it was looked at.
	head uint64
}

// trial returns a trial that the caller may see, also when it ended long ago.
func (r *Runner) trial(ctx context.Context, caller command.Caller, id string) (*foundTrial, error) {
	sessionID, err := r.manager.Locate(ctx, session.KindTrial, id)
	if err != nil {
		return nil, err
	}
	out := &foundTrial{sessionID: sessionID}
	found := false
	err = r.manager.ViewAs(ctx, caller, sessionID, func(s *state.Session) error {
		out.head = s.Sequence
		if t := s.Benchmark.Find(id); t != nil {
			out.Trial, found = *t, true
			out.Refs = nil
		}
		return nil
	})
	if err == nil && !found {
		err = r.trialRecord(ctx, sessionID, id, &out.Trial)
	}
	if fault.KindOf(err) == fault.NotFound {
		return nil, fault.New(fault.NotFound, "there is no trial %s", id)
	}
	return out, err
}

// trialIn returns a trial of the session that a decision is about.
func (r *Runner) trialIn(tx *session.Tx, id string) (*state.Trial, error) {
	if t := tx.State.Benchmark.Find(id); t != nil {
		kept := *t
		return &kept, nil
	}
	t := &state.Trial{}
	return t, r.trialRecord(tx.Context(), tx.State.SessionID, id, t)
}

// trialRecord reads a trial that left its session's working set, and the reward
// that it got since.
func (r *Runner) trialRecord(ctx context.Context, sessionID, id string, into *state.Trial) error {
	raw, err := r.manager.Record(ctx, sessionID, "trial/"+id)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fault.Wrap(fault.Internal, err, "the record of trial %s can't be read", id)
	}
	raw, err = r.manager.Record(ctx, sessionID, "trial_reward/"+id)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err == nil {
		into.Reward = &state.Reward{}
		err = json.Unmarshal(raw, into.Reward)
	}
	return err
}

// trialScope is what the facts of a trial belong to.
func trialScope(t *state.Trial) event.Scope {
	return event.Scope{ThreadID: t.ThreadID, TurnID: t.TurnID, TaskID: t.TaskID, RunID: t.RunID}
}

// recordReward attaches a score to a trial. A trial has one: the same again is
// fine, another one is a conflict.
func (r *Runner) recordReward(ctx context.Context, caller command.Caller, p *command.RecordBenchmarkReward) (*command.TrialResult, error) {
	t, err := r.trial(ctx, caller, p.TrialID)
	if err != nil {
		return nil, err
	}
	reward, err := r.rewardOf(p)
	if err != nil {
		return nil, err
	}
	return session.Write(ctx, r.manager, caller, p, t.sessionID, asBenchmark, func(tx *session.Tx) (*command.TrialResult, error) {
		now, err := r.trialIn(tx, p.TrialID)
		if err != nil {
			return nil, err
		}
		res := &command.TrialResult{TrialID: p.TrialID}
		if now.Reward != nil {
			if !now.Reward.Same(reward) {
				return nil, fault.New(fault.Conflict, "trial %s has the reward %v already; another score needs another trial", p.TrialID, now.Reward.Value)
			}
			return res, nil
		}
		refs := map[string]string{}
		for name, ref := range map[string]string{"rewardRef": reward.Ref, "rewardDetailsRef": reward.DetailsRef} {
			if ref != "" {
				refs[name] = ref
			}
		}
		about := now.Benchmark
		tx.Emit(event.Event{Type: event.TypeBenchmarkRewardRecorded, Scope: trialScope(now), Benchmark: &about, Refs: refs, Payload: reward, Reward: &event.Reward{
			Value: reward.Value, Ref: reward.Ref, DetailsRef: reward.DetailsRef, Criteria: reward.Criteria, FailureCategory: reward.FailureCategory,
		}})
		return res, nil
	})
}

// rewardOf is a score as the fact has it, without secrets.
func (r *Runner) rewardOf(p *command.RecordBenchmarkReward) (*event.BenchmarkRewardRecorded, error) {
	w := p.Reward
	out := &event.BenchmarkRewardRecorded{
		Value: *w.Value, Ref: w.Ref, DetailsRef: w.DetailsRef, Criteria: w.Criteria, FailureCategory: w.FailureCategory,
		Drift: w.Drift, OracleSanity: w.OracleSanity, Verifier: p.Verifier,
	}
	raw, err := json.Marshal(out)
	clean := &event.BenchmarkRewardRecorded{}
	if err == nil {
		err = json.Unmarshal(r.manager.Redact(raw), clean)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the reward could not be written down")
	}
	return clean, nil
}
