package agentd

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/loop"
	"agentd/session"
	"agentd/state"
)

// A replay has a clock of its own, which is moved where the recording's time passed.
// Each of these is far more than a replay takes, and passes without the ones after it.
const (
	turnTime   = 24 * time.Hour
	actionTime = 100 * time.Hour
	grantTime  = 8_000 * time.Hour
)

// errStuck says that nothing more comes: the replay is not where the recording was.
var errStuck = fmt.Errorf("%w: nothing more comes", errUnanswered)

// acting does again what was done to the session from outside, each at its place in
// the story. Until then it holds back what came later.
type acting struct {
	p *replaying
	// turns are the turns of the replay by those of the recording; started counts them.
	turns   map[string]string
	started int
	// thread is the one of the last turn, threads are those of the replay by those of the
	// recording, as far as they are there; the main one has no name there.
	thread  string
	threads map[string]string
	seen    uint64
	// waiting are decisions that come after an act.
	waiting []laterDecision
	// asked says that a compaction was asked for and has not begun, compacting counts
	// those who wait for the end of one.
	asked      bool
	compacting atomic.Int32
	// ahead is how far the clock was moved, long says that the next wait before asking
	// again doesn't end by itself.
	ahead atomic.Int64
	long  atomic.Bool
	end   chan struct{}
	held  heldBack
	wg    sync.WaitGroup

	mu sync.Mutex
	// done counts the acts, stopped says that the turn was stopped by one; changed is
	// closed when there are more.
	done    int
	stopped bool
	// answering is closed when the answers were given that turns are held for.
	answering chan struct{}
	// closed says that a subagent was stopped.
	closed  bool
	changed chan struct{}
}

type laterDecision struct {
	actionID string
	d        evidence.CaseDecision
}

func newActing(p *replaying) *acting {
	return &acting{p: p, turns: map[string]string{}, threads: map[string]string{}, end: make(chan struct{}), held: newHeldBack(), changed: make(chan struct{})}
}

// close lets go of everything that is held back.
func (x *acting) close() { close(x.end) }

// options give the runtime of a replay a clock and the time limits that it needs.
func (x *acting) options(opt *Options) {
	opt.Clock = func() time.Time { return time.Now().Add(time.Duration(x.ahead.Load())) }
	opt.Loop.Random = func() float64 {
		if x.long.Load() {
			return 1e9 // of a millisecond
		}
		return 0
	}
	held := x.p.c.Parties != nil && len(x.p.c.Parties.Held) > 0 || slices.ContainsFunc(x.p.c.Decisions, x.answersTheStopped)
	if (held || slices.ContainsFunc(x.p.c.Acts, func(a evidence.CaseAct) bool { return a.Before != "" })) && x.faithful() {
		opt.Loop.Pace = x.pace
	}
	if slices.ContainsFunc(x.p.c.Decisions, func(d evidence.CaseDecision) bool { return d.Status == statusExpired }) {
		opt.Loop.ActionTimeout = actionTime
	}
}

// answersTheStopped reports whether an action was answered after its turn was told to
// stop, and before it did.
func (x *acting) answersTheStopped(d evidence.CaseDecision) bool {
	return d.Status == "" && d.Acts > 0 && d.Acts <= len(x.p.c.Acts) && x.p.c.Acts[d.Acts-1].Kind == evidence.ActInterrupt
}

// holdStill keeps turns where they are while one is told to stop whose actions are answered
// then: it would end them itself.
func (x *acting) holdStill(a *evidence.CaseAct) (letGo func()) {
	if a.Kind != evidence.ActInterrupt || len(x.waiting) == 0 {
		return func() {}
	}
	answered := make(chan struct{})
	x.mu.Lock()
	x.answering = answered
	x.mu.Unlock()
	return func() {
		x.mu.Lock()
		x.answering = nil
		x.mu.Unlock()
		close(answered)
	}
}

// pace holds a turn that was interrupted between two steps before what it never did.
func (x *acting) pace(threadID string, next loop.Effect) time.Duration {
	x.mu.Lock()
	answering := x.answering
	x.mu.Unlock()
	if answering != nil {
		<-answering
	}
	if before := stepOf(next); before != "" && x.holdsBefore(x.p.others.turnOf(context.Background(), threadID), before) {
		return turnTime
	}
	return 0
}

// stepOf is the step that an effect is, among those that a turn is held before.
func stepOf(next loop.Effect) string {
	switch e := next.(type) {
	case loop.StartTurn:
		return evidence.BeforeStart
	case loop.RunTools:
		return evidence.BeforeTools
	case loop.CallModel, loop.Compact, loop.Fallback, loop.CheckOutput, loop.CompleteTurn:
		return evidence.BeforeCall
	case loop.FailTurn:
		if e.Category != "timed_out" {
			return evidence.BeforeCall
		}
	}
	return ""
}

// holdsBefore reports whether a turn of the recording never did what it would do next.
func (x *acting) holdsBefore(turnID, before string) bool {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	is := func(turn, step string, calls int) bool {
		return step == before && turn == turnID && (before == evidence.BeforeStart || calls == x.p.asked[turnID])
	}
	return slices.ContainsFunc(x.p.c.Acts, func(a evidence.CaseAct) bool { return is(a.TurnID, a.Before, a.Calls) }) ||
		x.p.c.Parties != nil && slices.ContainsFunc(x.p.c.Parties.Held, func(h evidence.CaseHold) bool { return is(h.TurnID, h.Before, h.Calls) })
}

// timeout is the time limit of a turn: one that the replay's clock alone can reach.
func (x *acting) timeout(turnID string) int64 {
	if slices.ContainsFunc(x.p.c.Acts, func(a evidence.CaseAct) bool { return a.Kind == evidence.ActDeadline && a.TurnID == turnID }) {
		return turnTime.Milliseconds()
	}
	return 0
}

// pass lets time pass.
func (x *acting) pass(d time.Duration) {
	x.ahead.Add(int64(d + time.Hour))
	x.p.r.loop.Ring(x.p.session, x.thread)
}

// faithful reports whether the story is the recorded one: with another policy, or
// live, its places may never come.
func (x *acting) faithful() bool { return x.p.with.Live == nil && x.p.with.Host == nil }

// before holds something back until so many acts were done; false says that the
// replay ends instead.
func (x *acting) before(ctx context.Context, acts int) bool {
	acts = min(acts, len(x.p.c.Acts))
	defer x.held.hold(acts)()
	for x.faithful() {
		x.mu.Lock()
		done, changed := x.done, x.changed
		x.mu.Unlock()
		if done >= acts {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return true // the call is cut off, whatever comes
		case <-x.end:
			return false
		}
	}
	return true
}

// cut waits for the end of a call that was cut off with its turn.
func (x *acting) cut(ctx context.Context, category string) {
	x.mu.Lock()
	stopped, closed := x.stopped, x.closed
	x.mu.Unlock()
	if x.faithful() && (stopped && (category == "interrupted" || category == "timeout" || category == "lost") || closed && category == "interrupted") {
		x.never(ctx)
	}
}

// hold waits until a call is cut off, or the replay ends.
func (x *acting) hold(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-x.end:
	}
}

// never holds back what the recording doesn't have.
func (x *acting) never(ctx context.Context) {
	defer x.held.hold(math.MaxInt)()
	x.hold(ctx)
}

// unended reports whether a turn is one whose end the recording doesn't have.
func (x *acting) unended(turnID string) bool {
	return x.open() != nil || x.faithful() && x.p.others.isOpen(turnID)
}

// open returns the turn that runs if it is one whose end the
// recording doesn't have.
func (x *acting) open() *evidence.CaseTurn {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	for _, t := range x.p.c.Turns {
		if t.Open && t.TurnID == x.p.turn && x.faithful() {
			return t
		}
	}
	return nil
}

// answer holds an answer of a model back until its place; a is nil if the recording
// has none. False says that the call is cut off.
func (x *acting) answer(ctx context.Context, turnID string, a *evidence.CaseAnswer) bool {
	if a == nil {
		if x.unended(turnID) {
			x.never(ctx)
			return false
		}
		return true
	}
	x.long.Store(a.Held && x.faithful())
	if !x.before(ctx, a.Acts) {
		return false
	}
	if !a.Lost {
		x.cut(ctx, a.ErrorCategory)
	}
	return ctx.Err() == nil
}

// result does the same for the result of a tool; cancels says that an interrupt stops
// the tool. An error says that the call is cut off.
func (x *acting) result(ctx context.Context, turnID string, r *evidence.CaseResult, found, cancels bool) error {
	switch {
	case !found && x.unended(turnID):
		x.never(ctx)
		return context.Canceled
	case !found:
		return nil
	case !x.before(ctx, r.Acts):
		return context.Canceled
	case cancels && !r.Lost:
		x.cut(ctx, r.ErrorCategory)
	}
	return nil
}

// hook does the same for the answer of a hook.
func (x *acting) hook(ctx context.Context, h *evidence.CaseHook, found bool) error {
	if !found {
		return nil
	}
	if !x.before(ctx, h.Acts) {
		return context.Canceled
	}
	x.cut(ctx, h.ErrorCategory)
	return ctx.Err()
}

// statusExpired is that of an action that nobody answered in time.
const statusExpired = "expired"

// respond gives the answer to an action, now or after the acts before it.
func (x *acting) respond(ctx context.Context, actionID string, d evidence.CaseDecision) error {
	x.mu.Lock()
	later := x.faithful() && min(d.Acts, len(x.p.c.Acts)) > x.done
	x.mu.Unlock()
	switch {
	case later:
		x.waiting = append(x.waiting, laterDecision{actionID, d})
		return nil
	case d.Status == statusExpired && x.faithful():
		x.pass(actionTime)
		return nil
	case d.Status != "" && x.faithful():
		return nil // nobody answered
	}
	return x.p.respond(ctx, actionID, d)
}

// holds is how long an approval holds, in milliseconds; 0 is for ever.
func (x *acting) holds(d *evidence.CaseDecision) int64 {
	if d.Expires {
		return grantTime.Milliseconds()
	}
	return 0
}

// turn notes that a turn of the recording was submitted.
func (x *acting) turn(recorded string, res *command.SubmitTurnResult) {
	x.turns[recorded], x.thread = res.TurnID, res.ThreadID
	x.started++
	x.mu.Lock()
	x.stopped = false
	x.mu.Unlock()
}

// has reports whether there were so many acts, or all.
func (x *acting) has(acts int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.done >= min(acts, len(x.p.c.Acts))
}

// next is the act that is to be done next; nil if there is none.
func (x *acting) next() *evidence.CaseAct {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done >= len(x.p.c.Acts) {
		return nil
	}
	return &x.p.c.Acts[x.done]
}

// reached does the acts whose place in the turn that runs was reached.
func (x *acting) reached(ctx context.Context) error {
	for a := x.next(); a != nil && !x.asked && a.Turns == x.started && a.After != nil && x.p.got.Reaches(a); a = x.next() {
		if !x.faithful() && a.Kind != evidence.ActSteer && a.Kind != evidence.ActInterrupt {
			x.skip()
			continue
		}
		if err := x.do(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// idle does the acts that came when no turn ran, and passes over those of the last
// turn that it never came to.
func (x *acting) idle(ctx context.Context, sub *session.Subscription) error {
	return x.idleUntil(ctx, sub, len(x.p.c.Acts))
}

// idleUntil does so until there were so many acts.
func (x *acting) idleUntil(ctx context.Context, sub *session.Subscription, acts int) error {
	for a := x.next(); a != nil && a.Turns <= x.started && !x.has(acts); a = x.next() {
		if a.SubagentID != "" && x.faithful() {
			if err := x.untilDone(ctx, sub); err != nil {
				return err
			}
			continue
		}
		if a.After != nil || !x.repeats(a) {
			x.skip()
			continue
		}
		for x.faithful() && !x.p.got.Reaches(&evidence.CaseAct{After: a.Agents}) {
			if err := x.p.takeMore(ctx, sub); err != nil {
				return err
			}
		}
		x.p.begin(event.NotApplicable)
		if err := x.do(ctx, a); err != nil {
			return err
		}
		if a.Kind == evidence.ActCompact {
			if err := x.compacted(ctx, sub); err != nil {
				return err
			}
		}
	}
	return nil
}

// untilDone takes facts until the next act was done, which is one to a subagent: it works
// on when no turn runs.
func (x *acting) untilDone(ctx context.Context, sub *session.Subscription) error {
	x.mu.Lock()
	done := x.done
	x.mu.Unlock()
	for err := x.reached(ctx); ; {
		x.mu.Lock()
		moved := x.done > done
		x.mu.Unlock()
		if err != nil || moved {
			return err
		}
		err = x.p.takeMore(ctx, sub)
	}
}

// repeats reports whether an act is done again when no turn runs: where a policy is
// tried, another isn't set, and what is live isn't taken back.
func (x *acting) repeats(a *evidence.CaseAct) bool {
	switch {
	case x.p.with.Host != nil:
		return x.p.with.Live == nil && a.Kind != evidence.ActPolicy
	case x.p.with.Live != nil:
		return a.Kind == evidence.ActPolicy
	}
	return true
}

// compacted takes facts until a compaction has ended.
func (x *acting) compacted(ctx context.Context, sub *session.Subscription) error {
	for {
		events, err := x.more(ctx, sub)
		if err != nil {
			return err
		}
		ended := false
		for _, e := range events {
			x.p.got.Take(e)
			if err := x.began(ctx, e); err != nil {
				return err
			}
			ended = ended || e.Type == event.TypeContextCompactionCompleted || e.Type == event.TypeContextCompactionFailed
		}
		if ended {
			return nil
		}
	}
}

// complete reports whether all was seen that the recording has of a turn which it has
// no end of.
func (x *acting) complete() bool {
	t := x.open()
	if t == nil || x.next() != nil {
		return false
	}
	of := fmt.Sprintf("turn %d", 1+slices.Index(x.p.c.Turns, t))
	all := evidence.CaseAct{After: map[string]int{}}
	for _, f := range x.p.c.Expected {
		if f.Of == of || strings.HasPrefix(f.Of, of+",") {
			all.After[f.Of]++
		}
	}
	return x.p.got.Reaches(&all)
}

// finish does the acts after the last turn and takes what is left of the facts. One that
// doesn't say how far subagents had come is done when all have ended.
func (x *acting) finish(ctx context.Context, sub *session.Subscription) error {
	if a := x.next(); a != nil && a.Agents == nil && a.SubagentID == "" {
		if err := x.p.others.settle(ctx, sub); err != nil {
			return err
		}
	}
	if err := x.idle(ctx, sub); err != nil {
		return err
	}
	if err := x.p.others.settle(ctx, sub); err != nil {
		return err
	}
	var head uint64
	if err := x.p.r.View(ctx, x.p.session, func(s *state.Session) error {
		head = s.Sequence
		return nil
	}); err != nil {
		return err
	}
	for x.seen < head {
		events, err := x.more(ctx, sub)
		if err != nil {
			return err
		}
		for _, e := range events {
			x.p.got.Take(e)
		}
	}
	return nil
}

// skip counts an act that isn't done.
func (x *acting) skip() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done++
	close(x.changed)
	x.changed = make(chan struct{})
}

// do does an act.
func (x *acting) do(ctx context.Context, a *evidence.CaseAct) error {
	defer x.holdStill(a)()
	if err := x.act(ctx, a); err != nil {
		return fmt.Errorf("%s: %w", a.Kind, err)
	}
	if a.Kind == evidence.ActCompact {
		x.asked = true // it is done when the fact says so
		return nil
	}
	x.mu.Lock()
	x.stopped = x.stopped || (a.Kind == evidence.ActInterrupt || a.Kind == evidence.ActDeadline) && a.SubagentID == ""
	x.closed = x.closed || a.SubagentID != "" && (a.Kind == evidence.ActInterrupt || a.Kind == evidence.ActClose)
	x.mu.Unlock()
	return x.did(ctx)
}

// began takes the fact of a compaction that was asked for.
func (x *acting) began(ctx context.Context, e *event.Event) error {
	if p, ok := e.Payload.(*event.CompactionStarted); !ok || !x.asked || p.Trigger != "requested" {
		return nil
	}
	x.asked = false
	return x.did(ctx)
}

// did counts an act, and lets come what came after it.
func (x *acting) did(ctx context.Context) error {
	x.skip()
	later := x.waiting
	x.waiting = nil
	for _, w := range later {
		if err := x.respond(ctx, w.actionID, w.d); err != nil {
			return err
		}
	}
	return nil
}
