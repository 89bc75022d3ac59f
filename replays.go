package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/fault"
	"agentd/loop"
	"agentd/model"
	"agentd/permission"
	"agentd/replay"
	"agentd/store"
	"agentd/store/storefault"
)

// Bounds of replays.
const (
	// maxReplays run at a time, accountReplays of them for one account.
	maxReplays     = 4
	accountReplays = maxReplays / 2
	// keptReplays of an account are kept, keptInAll of all accounts.
	keptReplays     = 100
	keptInAll       = 10 * keptReplays
	shownDifference = 100
	maxCaseBytes    = 256 << 20
)

// replayBook has the replays of this process. They end with it.
type replayBook struct {
	ctx  context.Context //nolint:containedctx // it ends with the runtime, which waits
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	running map[string]int // by account; "" is one, too
	order   []*replayRun   // the oldest first
	byID    map[string]*replayRun
}

// replayRun is one replay. Its record is guarded by the book's lock.
type replayRun struct {
	account string
	record  command.ReplayRecord
	cancel  context.CancelFunc
}

func newReplayBook() *replayBook {
	b := &replayBook{running: map[string]int{}, byID: map[string]*replayRun{}}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

// close ends all replays and waits for them.
func (b *replayBook) close() {
	b.stop()
	b.wg.Wait()
}

func (r *Runtime) registerReplays(t *command.Table) {
	command.Handle(t, r.startReplay)
	command.Handle(t, r.getReplay)
	command.Handle(t, r.cancelReplay)
}

// recordedFacts is what a replay walks over.
type recordedFacts struct {
	*replay.Recording
	total     int64
	integrity string
}

func (r *Runtime) startReplay(ctx context.Context, caller command.Caller, p *command.StartReplay) (*command.ReplayRecord, error) {
	opt, err := replayOptions(p.With)
	if err != nil {
		return nil, err
	}
	b := r.replays
	run, err := b.begin(caller.Account, command.ReplayRecord{
		ReplayID: r.manager.NewID("replay_"), Status: "running", StartedAt: r.manager.Now(), Differences: []command.ReplayDifference{}, Missing: []string{},
	})
	if err != nil {
		return nil, err
	}
	runCtx, cancel := context.WithCancel(b.ctx)
	facts, err := r.recordedFacts(ctx, runCtx, caller, p)
	if err != nil {
		cancel()
		b.forget(run)
		return nil, err
	}
	b.mu.Lock()
	run.cancel = cancel
	run.record.EvidenceID = p.EvidenceID
	run.record.SessionID, run.record.Total, run.record.Integrity = facts.SessionID, facts.total, facts.integrity
	started := run.record
	b.mu.Unlock()
	b.wg.Go(func() {
		defer cancel()
		r.walkReplay(runCtx, run, facts, opt)
	})
	return &started, nil
}

// replaysBusy is the refusal of a replay while too many run.
func replaysBusy(format string, most int) error {
	f := fault.New(fault.RateLimited, format, most)
	f.RetryAfter = 5 * time.Second
	return f
}

// begin takes a place for a replay.
func (b *replayBook) begin(account string, record command.ReplayRecord) (*replayRun, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := 0
	for _, n := range b.running {
		all += n
	}
	switch {
	case b.running[account] >= accountReplays:
		return nil, replaysBusy("%d replays of this account run already; wait for one to end, or cancel one", accountReplays)
	case all >= maxReplays:
		return nil, replaysBusy("%d replays run already; wait for one to end", maxReplays)
	}
	b.running[account]++
	run := &replayRun{account: account, record: record, cancel: func() {}}
	b.byID[record.ReplayID] = run
	b.order = append(b.order, run)
	b.dropOldest(account)
	return run, nil
}

// dropOldest forgets the oldest replay of an account that has too many, or of all if
// there are too many.
func (b *replayBook) dropOldest(account string) {
	own := 0
	for _, run := range b.order {
		if run.account == account {
			own++
		}
	}
	for i, run := range b.order {
		if (own > keptReplays && run.account == account) || len(b.order) > keptInAll {
			delete(b.byID, run.record.ReplayID)
			b.order = slices.Delete(b.order, i, i+1)
			return
		}
	}
}

// release gives the place of a replay back. The book is locked.
func (b *replayBook) release(run *replayRun) {
	if b.running[run.account]--; b.running[run.account] == 0 {
		delete(b.running, run.account)
	}
}

// forget gives the place of a replay back that could not begin.
func (b *replayBook) forget(run *replayRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(run)
	delete(b.byID, run.record.ReplayID)
	b.order = slices.DeleteFunc(b.order, func(x *replayRun) bool { return x == run })
}

// recordedFacts finds what is replayed, if the caller may see it. What is read later is
// read with the replay's own context.
func (r *Runtime) recordedFacts(ctx, runCtx context.Context, caller command.Caller, p *command.StartReplay) (*recordedFacts, error) {
	switch {
	case p.Ref != "":
		return r.recordedCase(ctx, caller, p.Ref, p.Edited)
	case p.EvidenceID != "":
		return r.recordedExport(ctx, runCtx, caller, p)
	default:
		return r.recordedSession(ctx, runCtx, caller, p.SessionID)
	}
}

// recordedExport finds what was exported under an id.
func (r *Runtime) recordedExport(ctx, runCtx context.Context, caller command.Caller, p *command.StartReplay) (*recordedFacts, error) {
	x, err := r.proof.Export(ctx, caller, p.EvidenceID)
	if err != nil {
		return nil, err
	}
	switch x.Type {
	case "replay":
		return r.recordedCase(ctx, caller, x.Ref, p.Edited)
	case "review":
		return nil, fault.Param("evidenceId", "%s is a review, which has nothing to decide again; name an export of export_replay or export_evidence", p.EvidenceID)
	}
	facts, err := r.recordedSession(ctx, runCtx, caller, x.SessionID)
	if err != nil {
		return nil, err
	}
	scope := &evidence.Scope{SessionID: x.SessionID, ThreadID: x.ThreadID, TurnID: x.TurnID, TaskID: x.TaskID}
	facts.Has = scope.Has
	if x.ThroughSequence > 0 {
		facts.through(x.ThroughSequence)
	}
	return facts, nil
}

// through leaves out the facts after a sequence.
func (f *recordedFacts) through(last uint64) {
	all, begin := f.Facts, uint64(0)
	if f.Base != nil {
		begin = f.Base.Sequence
	}
	f.total = min(f.total, int64(last-min(last, begin)))
	f.Facts = func(yield func(*event.Event, error) bool) {
		for e, err := range all {
			if err == nil && e.Sequence > last || !yield(e, err) {
				return
			}
		}
	}
}

// recordedSession has the facts of a session that are still there.
func (r *Runtime) recordedSession(ctx, runCtx context.Context, caller command.Caller, sessionID string) (*recordedFacts, error) {
	_, last, err := r.manager.Events(ctx, caller, sessionID, 0, 1)
	if removed, ok := errors.AsType[*store.TrimmedError](err); ok {
		_, last, err = r.manager.Events(ctx, caller, sessionID, removed.Through, 1)
	}
	if err != nil {
		return nil, err
	}
	rec, err := replay.Stored(runCtx, r.opt.Store, sessionID)
	if err != nil {
		return nil, storefault.Read(err, "session %s can't be read", sessionID)
	}
	if rec.Base != nil {
		last -= min(last, rec.Base.Sequence)
	}
	return &recordedFacts{Recording: rec, total: int64(last)}, nil
}

func (r *Runtime) recordedCase(ctx context.Context, caller command.Caller, ref string, edited bool) (*recordedFacts, error) {
	blob, _, err := r.manager.Output(ctx, caller, ref)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(blob, maxCaseBytes))
	if err = errors.Join(err, blob.Close()); err != nil {
		return nil, storefault.Read(err, "the case can't be read")
	}
	var c evidence.Case
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fault.Param("ref", "is not a replay case; export_replay makes one")
	}
	integrity, finding := evidence.CaseIntegrity(data, &c)
	if integrity != "verified" && !edited {
		return nil, fault.New(fault.Conflict, "the case is not as it was exported: %s; edited: true accepts it as a what-if", finding)
	}
	rec, err := replay.OfCase(&c)
	if err != nil {
		return nil, fault.Param("ref", "%s", err)
	}
	events, err := c.Events()
	if err != nil {
		return nil, fault.Param("ref", "%s", err)
	}
	return &recordedFacts{Recording: rec, total: int64(len(events)), integrity: integrity}, nil
}

// replayOptions says what is tried.
func replayOptions(with *command.ReplayChange) (replay.Options, error) {
	if with == nil {
		return replay.Options{}, nil
	}
	var rules []event.PolicyRule
	if with.Rules != nil {
		var err error
		if rules, err = permission.ParseRules("host", with.Rules); err != nil {
			return replay.Options{}, fault.Param("with.rules", "%s", err)
		}
	}
	return replay.Options{All: true, Mode: with.Mode, Change: func(c *loop.Configuration) {
		if with.Rules != nil {
			c.Rules = loop.HostRules(rules)
		}
		if with.MaxSteps > 0 {
			c.Limits.MaxSteps = with.MaxSteps
		}
		if with.Models != nil {
			c.Models = slices.DeleteFunc(slices.Clone(c.Models), func(m model.Info) bool { return !slices.Contains(with.Models, m.ID()) })
		}
	}}, nil
}

// walkReplay carries a replay out.
func (r *Runtime) walkReplay(ctx context.Context, run *replayRun, facts *recordedFacts, opt replay.Options) {
	b := r.replays
	facts.Facts = b.counting(ctx, run, facts.Facts)
	report, err := replay.Walk(facts.Recording, opt)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(run)
	rec := &run.record
	rec.EndedAt = r.manager.Now()
	switch {
	case ctx.Err() != nil:
		rec.Status = "cancelled"
		return
	case err != nil:
		rec.Status, rec.Error = "failed", err.Error()
		return
	}
	rec.Status, rec.Decisions, rec.DifferenceCount = "completed", int64(report.Decisions), int64(len(report.Differences))
	rec.Missing = append(rec.Missing, report.Missing...)
	same := len(report.Differences) == 0
	rec.Same = &same
	for _, d := range report.Differences[:min(len(report.Differences), shownDifference)] {
		rec.Differences = append(rec.Differences, command.ReplayDifference{
			Sequence: d.Sequence, EventID: d.EventID, Type: string(d.Type), Of: d.Of, Expected: d.Expected, Found: d.Found, Says: d.Says,
		})
	}
}

// counting yields facts until the replay ends, and counts them.
func (b *replayBook) counting(ctx context.Context, run *replayRun, facts iter.Seq2[*event.Event, error]) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range facts {
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			b.mu.Lock()
			run.record.Facts++
			b.mu.Unlock()
			if !yield(e, err) {
				return
			}
		}
	}
}

// find returns a replay that the caller may see.
func (b *replayBook) find(caller command.Caller, id string) (*replayRun, error) {
	run := b.byID[id]
	if run == nil || !caller.Sees(run.account) {
		return nil, fault.New(fault.NotFound, "there is no replay %s", id)
	}
	return run, nil
}

func (r *Runtime) getReplay(_ context.Context, caller command.Caller, p *command.GetReplay) (*command.ReplayRecord, error) {
	r.replays.mu.Lock()
	defer r.replays.mu.Unlock()
	run, err := r.replays.find(caller, p.ReplayID)
	if err != nil {
		return nil, err
	}
	record := run.record
	return &record, nil
}

func (r *Runtime) cancelReplay(_ context.Context, caller command.Caller, p *command.CancelReplay) (*command.ReplayRecord, error) {
	r.replays.mu.Lock()
	defer r.replays.mu.Unlock()
	run, err := r.replays.find(caller, p.ReplayID)
	if err != nil {
		return nil, err
	}
	run.cancel()
	record := run.record
	return &record, nil
}
