// Package agentd is the Agent Runtime as a library: open it over a store, give
// it commands, follow its facts.
//
// # Contract
//
// [Open] starts a runtime over a store that the caller opened and takes up what
// an earlier process left unfinished. State changes only through [Runtime.Do];
// what happened is learnt only through its results and [Runtime.Subscribe]. A
// result is returned, and a fact is delivered, only when it is durable.
// [Runtime.Close] lets each running step reach its next durable fact. The store
// stays the caller's to close.
//
// The package imports no adapter: engines and providers are chosen by the program that
// embeds it, and only those that are used are linked.
package agentd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"agentd/admission"
	"agentd/channel"
	"agentd/command"
	"agentd/event"
	"agentd/loop"
	"agentd/model"
	"agentd/proof"
	"agentd/quota"
	"agentd/session"
	"agentd/store"
	"agentd/takeover"
	"agentd/transfer"
	"agentd/trial"
	"agentd/work"
)

// Options configure a [Runtime]. Store is required, and either Provider and Model
// or Loop.Providers and Loop.Models; every other field has a default.
type Options struct {
	// Store keeps the facts.
	Store store.Store
	// Provider answers turns, Model is what it is asked for. They are a shorthand
	// for one model in Loop.
	Provider model.Provider
	Model    string
	// Loop says how turns run: models, tools, policy, limits. Its Store, Recovery,
	// Logger and Clock are set by Open.
	Loop loop.Options
	// RuntimeID is written into every fact. If empty one is made at the first
	// start and kept in the store.
	RuntimeID string
	// Recovery is auto (default), manual, or none: what an earlier process left
	// unfinished is then not looked at, and is there for the next who does.
	Recovery string
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Clock defaults to the time of the node, see [store.Shared], or else to time.Now.
	Clock func() time.Time
	// Work bounds tasks, subagents and jobs that run at once.
	Work work.Limits
	// Observer learns of the facts that this process made durable, after the loop.
	// It is called where they are committed and must return at once. If nil, no one
	// does.
	Observer session.Observer
	// Channels bounds how long remote peers are waited for.
	Channels ChannelLimits
	// Peers speaks to the other agents that work can be given to. If nil, the caller of
	// the commands about the work of peers does.
	Peers work.Peers
	// TakenUp, if not nil, is told of sessions that this node took up, see [Runtime.TakeUp]. It
	// must return at once.
	TakenUp func(sessionID string)
	// Place says which files this node reaches, where several share the store.
	Place NodePlace
	// Quotas bound what each account may use; the zero value bounds nothing.
	Quotas quota.Policy
	// IndexDelay is how long facts may wait until they are in the index, unless a command
	// asks for what is in it; default 2 s.
	IndexDelay time.Duration
	// Host is what the program around the runtime knows and the runtime doesn't; the zero
	// value leaves it out.
	Host Host
	// Session tunes the session layer; its Store, RuntimeID, Clock, Logger,
	// Observer and Quotas are set by Open.
	Session session.Options
}

// ChannelLimits bound how long remote peers are waited for. Zero means the default.
type ChannelLimits struct {
	// Silence is how long a peer without a stream may give no sign of life; default
	// 90 s.
	Silence time.Duration
	// ToolGrace is how long calls of a peer's own tools wait for it when its
	// connection broke; default 30 s, negative not at all.
	ToolGrace time.Duration
}

// Runtime is a running Agent Runtime. Its methods may be called by many goroutines.
type Runtime struct {
	opt     Options
	manager *session.Manager
	loop    *loop.Loop
	work    *work.Work
	// channels are the remote peers.
	channels *channel.Hub
	trials   *trial.Runner
	// proof explains and exports what the runtime did, carrier moves whole sessions.
	proof   *proof.Reporter
	carrier *transfer.Carrier
	// reads answers questions over all sessions.
	reads *ReadSide
	// replays are those under way, and the last that ended.
	replays *replayBook
	// commands has the handlers of all commands.
	commands *command.Table

	background sync.WaitGroup
	stop       context.CancelFunc
	// displacements and gone belong to the goroutine that takes sessions over.
	displacements takeover.Displacements
	gone          goneNodes
	hostNews      *takeover.HostNews
	takes         *takeover.Queue
	// life ends with the runtime. drains guards stopDrain, which ends a drain.
	life      context.Context //nolint:containedctx // it is the runtime's own
	drains    sync.Mutex
	stopDrain context.CancelFunc
}

// Open starts a runtime. What an earlier process left unfinished is taken up in
// the background.
func Open(ctx context.Context, opt Options) (*Runtime, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	id, err := runtimeID(ctx, opt)
	if err != nil {
		return nil, err
	}
	opt.RuntimeID = id
	r := &Runtime{replays: newReplayBook(), opt: opt}
	r.openTakeover()
	r.trials = trial.New(trial.Options{
		Store: opt.Store, Do: r.Do, Logger: opt.Logger, RuntimeID: id,
		DefaultModel: opt.Loop.DefaultModel, Sandbox: string(opt.Loop.Sandbox.Mode), BudgetUSD: opt.Loop.Budget.SessionCostUSD,
	})
	if r.loop, err = loop.New(opt.Loop); err != nil {
		return nil, fmt.Errorf("agentd: %w", err)
	}
	r.reads = NewReadSide(ReadSideOptions{Store: opt.Store, Sessions: func() *session.Manager { return r.manager }, Delay: opt.IndexDelay, Logger: opt.Logger})
	redact := redaction(opt)
	r.work = work.New(work.Options{
		Limits: opt.Work, Logger: opt.Logger, Clock: opt.Clock, Random: opt.Loop.Random,
		Do: r.Do, Recovery: opt.Recovery, CheckTurn: r.loop.CheckTurn, CheckOutput: CheckDocument, Redact: redact, Narrow: r.loop.Narrow,
		Peers: opt.Peers,
	})
	if err := r.openChannels(ctx, redact); err != nil {
		return nil, err
	}
	so := opt.Session
	so.Store, so.RuntimeID, so.Clock, so.Logger, so.Observer = opt.Store, id, opt.Clock, opt.Logger, r.observers()
	so.Quotas = opt.Quotas
	so.CheckTurn, so.CheckAnswer, so.Redact, so.Place = r.loop.CheckTurn, CheckDocument, redact, r.loop.Place
	so.Locator = &locator{NodePlace: opt.Place, workspace: func() string { return r.loop.Configuration().Workspace }}
	so.ResolveWorkspace, so.Submitting = r.loop.ResolveWorkspace, r.beforeTurn
	r.manager = session.New(so)
	r.proof = proof.New(proof.Options{Sessions: r.manager, Store: opt.Store, Case: r.caseOptions})
	r.carrier = &transfer.Carrier{Sessions: r.manager, Store: opt.Store, RuntimeID: id, Key: r.proof.SigningKey}
	if err := r.registerCommands(); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	if err := r.loop.Start(ctx, r.manager); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	r.work.Start(r.manager)
	r.channels.Start(r.manager)
	r.trials.Start(r.manager, r.proof)
	if err := r.reportRecovery(ctx); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	if shared, ok := opt.Store.(store.Shared); ok {
		shared.Describe(r.describeNode)
	}
	r.reads.Start(ctx)
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop, r.life = stop, run
	if err := r.shareTokens(ctx); err != nil {
		opt.Logger.Warn("the tokens of other nodes could not be taken over; it is tried again until they are", "error", err)
	}
	if r.manager.IsShared() {
		r.hostNews.NoteAll() // also what changed while this node started
	}
	r.background.Go(func() { r.follow(run) })
	r.background.Go(func() { r.hostNews.Follow(run) })
	if opt.Recovery != "none" {
		// Listed before any command can come: what is begun from here on was left
		// unfinished by no earlier process.
		unfinished, err := r.manager.Left(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("agentd: list unfinished sessions: %w", err), r.Close(ctx))
		}
		r.background.Go(func() { r.recover(run, unfinished) })
		r.background.Go(func() { r.finishDeletions(run) })
		if err := r.completeCards(ctx, run); err != nil {
			return nil, errors.Join(err, r.Close(ctx))
		}
	}
	return r, nil
}

// finishDeletions does what an earlier process left to do after sessions were deleted.
func (r *Runtime) finishDeletions(ctx context.Context) {
	if err := r.manager.FinishDeletions(ctx); err != nil && ctx.Err() == nil {
		r.opt.Logger.Warn("what is left of deleted sessions could not be removed", "error", err)
	}
}

// completeCards has what lists need written for sessions of earlier releases, once.
func (r *Runtime) completeCards(ctx, run context.Context) error {
	done, err := r.manager.CardsComplete(ctx)
	if err != nil {
		return fmt.Errorf("agentd: %w", err)
	}
	if done {
		return nil
	}
	r.background.Go(func() {
		r.opt.Logger.Info("lists are extended to the sessions of earlier releases; they are incomplete until then")
		if err := r.manager.WriteCards(run); err != nil && run.Err() == nil {
			r.opt.Logger.Warn("lists lack things of sessions of earlier releases; the next start tries again", "error", err)
		}
	})
	return nil
}

// openChannels makes the hub of remote channels. The key that resume tokens are
// derived from is made once and kept in the store.
func (r *Runtime) openChannels(ctx context.Context, redact func(event.Raw) event.Raw) error {
	made := make([]byte, 32)
	_, _ = rand.Read(made) // it never fails
	key, err := r.opt.Store.SetMeta(ctx, "channelKey", made)
	if err != nil {
		return fmt.Errorf("agentd: key of channels: %w", err)
	}
	r.channels = channel.New(channel.Options{
		Key: key, Silence: r.opt.Channels.Silence, ToolGrace: r.opt.Channels.ToolGrace,
		CheckTool: r.loop.CheckClientTool, Offer: r.loop.OfferClientTools, Redact: redact, NodeID: r.opt.Place.Node, Logger: r.opt.Logger,
	})
	return nil
}

// complete checks the options and fills in what follows from them.
func (opt *Options) complete() error {
	o := &opt.Loop
	if opt.Provider != nil && opt.Model != "" {
		info := model.Info{
			Provider: opt.Provider.Name(), Model: opt.Model, HasCredential: true,
			Capabilities: []string{model.CapTools, model.CapStreaming, model.CapVision, model.CapReasoning},
		}
		o.Providers, o.Models = append(o.Providers, opt.Provider), append(o.Models, info)
		if o.DefaultModel == "" {
			o.DefaultModel = info.ID()
		}
	}
	if opt.Store == nil || len(o.Providers) == 0 || len(o.Models) == 0 {
		return errors.New("agentd: a Store and a model with its provider are required")
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if shared, ok := opt.Store.(store.Shared); ok && opt.Clock == nil {
		opt.Clock = shared.Now
	}
	o.Store, o.Recovery, o.Logger, o.Clock = opt.Store, opt.Recovery, opt.Logger, opt.Clock
	o.Subagents = true
	return nil
}

// redaction returns what takes secrets out of what callers send, or nil.
func redaction(opt Options) func(event.Raw) event.Raw {
	redactor := opt.Loop.Redact
	if redactor == nil {
		return nil
	}
	return func(v event.Raw) event.Raw {
		out, _ := redactor.JSON(v)
		return out
	}
}

// observers learn of facts one after the other.
type observers []session.Observer

func (r *Runtime) observers() observers {
	all := observers{r.loop, r.work, r.channels, r.trials, r.reads.indexer}
	if r.opt.Observer != nil {
		all = append(all, r.opt.Observer)
	}
	return all
}

// Committed implements [session.Observer].
func (o observers) Committed(sessionID string, facts []event.Event) {
	for _, x := range o {
		x.Committed(sessionID, facts)
	}
}

// recover takes up what an earlier process left unfinished, and goes on with what other
// nodes leave.
func (r *Runtime) recover(ctx context.Context, ids []string) {
	if err := r.channels.Recover(ctx); err != nil && ctx.Err() == nil {
		r.opt.Logger.Error("channels of an earlier process could not be recovered", "error", err)
	}
	r.takes.TakeUpSoon(ctx, ids)
	r.takeOver(ctx)
}

// runtimeID returns the configured id, or the one that the store keeps.
func runtimeID(ctx context.Context, opt Options) (string, error) {
	if opt.RuntimeID != "" {
		return opt.RuntimeID, nil
	}
	made := "runtime_" + event.NewIDs(opt.Clock, nil).New("")
	kept, err := opt.Store.SetMeta(ctx, "runtimeId", []byte(made))
	if err != nil {
		return "", fmt.Errorf("agentd: runtime id: %w", err)
	}
	return string(kept), nil
}

// Reconfigure makes another configuration of permissions the host's, with a fact.
func (r *Runtime) Reconfigure(ctx context.Context, host loop.HostPolicy) error {
	return r.loop.Reconfigure(ctx, host)
}

// reportRecovery turns what the store found at its opening into facts of the
// runtime's own session: what was lost is said, not passed over.
func (r *Runtime) reportRecovery(ctx context.Context) error {
	meta, err := r.opt.Store.Meta(ctx)
	if err != nil {
		return fmt.Errorf("agentd: %w", err)
	}
	for _, what := range meta.Recovery {
		r.opt.Logger.Warn("the store was repaired when it was opened", "what", what)
		if err := r.manager.Report(ctx, event.TypeRuntimeWarning, &event.RuntimeNotice{
			Code: "store_recovered", Message: what, Advice: "run agentd verify",
		}); err != nil {
			return fmt.Errorf("agentd: %w", err)
		}
	}
	return nil
}

// follow passes on what other nodes append.
func (r *Runtime) follow(ctx context.Context) {
	for a, err := range r.opt.Store.Follow(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				r.opt.Logger.Error("following other nodes stopped", "error", err)
			}
			return
		}
		r.manager.Hint(a)
		r.hostNews.Note(a)
	}
}

// ID returns the runtime's id.
func (r *Runtime) ID() string { return r.opt.RuntimeID }

// Events returns a page of a session's events and the session's last sequence.
func (r *Runtime) Events(ctx context.Context, caller command.Caller, sessionID string, after uint64, limit int) ([]store.Record, uint64, error) {
	return r.manager.Events(ctx, caller, sessionID, after, limit)
}

// Subscribe follows a session from the fact after the given sequence on.
func (r *Runtime) Subscribe(ctx context.Context, caller command.Caller, sessionID string, after uint64) (*session.Subscription, error) {
	if err := r.manager.See(ctx, caller, sessionID); err != nil {
		return nil, err
	}
	return r.manager.Subscribe(ctx, sessionID, after)
}

// SubscribeAll follows all sessions that the caller may see, from the fact after the one
// whose cursor is given on, or from now on if that is empty.
func (r *Runtime) SubscribeAll(ctx context.Context, caller command.Caller, after string) (*session.Feed, error) {
	return r.manager.SubscribeAll(ctx, caller, after)
}

// Output opens what is behind a reference and returns its media type.
func (r *Runtime) Output(ctx context.Context, caller command.Caller, ref string) (store.Blob, string, error) {
	return r.manager.Output(ctx, caller, ref)
}

// Figures returns the measurements of the session layer.
func (r *Runtime) Figures() session.Figures { return r.manager.Figures() }

// Threads returns how many threads are worked on, and how many wait until there is room.
func (r *Runtime) Threads() (running, waiting int) { return r.loop.Threads() }

// ThreadsByAccount is [Runtime.Threads] for each account that has some.
func (r *Runtime) ThreadsByAccount() map[string]admission.Load { return r.loop.ThreadsByAccount() }

// QueuedTurns returns how many turns wait in the queues of threads, by account.
func (r *Runtime) QueuedTurns() map[string]int64 { return r.manager.QueuedTurns() }

// Admission returns how fast the store takes writes, and what was refused for it.
func (r *Runtime) Admission() admission.Figures { return r.manager.Admission() }

// SetQuotas replaces the limits of accounts. What is in use already stays.
func (r *Runtime) SetQuotas(p quota.Policy) { r.manager.SetQuotas(p) }

// Report records a fact about the runtime itself in the runtime's own session.
func (r *Runtime) Report(ctx context.Context, t event.Type, n *event.RuntimeNotice) error {
	return r.manager.Report(ctx, t, n)
}

// Err returns why the runtime acknowledges nothing any more, or nil.
func (r *Runtime) Err() error { return r.opt.Store.Err() }

// Close stops the runtime: nothing new is accepted, and each running step reaches
// its next durable fact. It is safe to call it twice.
func (r *Runtime) Close(ctx context.Context) error {
	if r.stop != nil {
		r.stop()
	}
	r.background.Wait()
	r.takes.Wait()
	r.reads.Close()
	r.replays.close()
	r.work.Close()
	r.trials.Close()
	r.channels.Close()
	return errors.Join(r.loop.Close(ctx), r.manager.Close(ctx))
}
