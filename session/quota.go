package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/quota"
	"agentd/state"
	"agentd/store"
)

// Every write of a session passes through here, so that no command and no part of
// the runtime can begin something that isn't counted. Room is reserved by the facts
// that a decision emits, before they are folded; how much a session uses afterwards
// is read from its state.

// kindUsage: "@" and an account → what it uses, as [quota.Total].
const kindUsage = "usage"

// usageOf returns the counters of an account.
func (m *Manager) usageOf(ctx context.Context, account string) (*quota.Account, error) {
	return m.quotas.Account(account, func(a *quota.Account) (quota.Total, error) {
		if m.shared != nil {
			return m.loadShare(ctx, a)
		}
		t, err := m.storedTotal(ctx, account)
		if err != nil {
			return t, err
		}
		return t, m.countSessionsSince(ctx, a, t)
	})
}

// storedTotal returns the total of an account that the store has.
func (m *Manager) storedTotal(ctx context.Context, account string) (t quota.Total, err error) {
	v, err := m.opt.Store.Get(ctx, kindUsage, "@"+account)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return t, nil
	case err != nil:
		return t, storeFault(err)
	}
	if err := json.Unmarshal(v, &t); err != nil {
		return t, storeFault(fmt.Errorf("%w: usage of an account: %w", store.ErrCorrupt, err))
	}
	return t, nil
}

// soonCounted is how many sessions are counted at once; more are counted while the
// account goes on.
const soonCounted = 1000

// countSessionsSince counts the sessions of an account that are in the index and not
// in its stored total: those of the last seconds before a crash, and all of a store
// that was written before there were quotas. Those of this process are counted as
// they are created. Only the first of very many are waited for.
func (m *Manager) countSessionsSince(ctx context.Context, a *quota.Account, t quota.Total) error {
	next, err := m.countSessions(ctx, a, timeKey(t.At)+"0", soonCounted)
	if err != nil || next == "" {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.stopped.Go(func() {
		if _, err := m.countSessions(m.counting, a, next, math.MaxInt); err != nil && m.counting.Err() == nil {
			m.opt.Logger.Warn("the sessions of an account could not be counted", "account", a.ID(), "error", err)
		}
	})
	return nil
}

// countSessions counts at most the given number of sessions of an account that are older than
// this process. It returns the key to go on after, or nothing at the end.
func (m *Manager) countSessions(ctx context.Context, a *quota.Account, after string, most int) (next string, err error) {
	var n int64
	if next, err = m.scanSessions(ctx, a.ID(), after, timeKey(m.opened), most, &n); err != nil {
		return "", err
	}
	a.Add(quota.Sessions, n)
	if next == "" {
		a.Complete()
	}
	return next, nil
}

// scanSessions adds to n the sessions of an account between two keys, at most the given number
// if it isn't negative; an empty before is no bound. It returns the key to go on after, or
// nothing at the end.
func (m *Manager) scanSessions(ctx context.Context, account, after, before string, most int, n *int64) (next string, err error) {
	kind := kindSession
	if account != "" {
		kind = accountSessions(account)
	}
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kind, After: after}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return "", storeFault(err)
		}
		if before != "" && e.Key >= before {
			break
		}
		if most == 0 {
			return after, nil
		}
		most--
		after = e.Key
		var s command.SessionSummary
		if account == "" && (json.Unmarshal(e.Value, &s) != nil || s.Account != "" || s.SessionID == event.RuntimeSession) {
			continue
		}
		*n++
	}
	return "", nil
}

// beginning is what a decision begins, by quota.
type beginning struct {
	name quota.Name
	n    int64
}

// begins returns the account whose session a decision opens, if it opens one, and
// what it begins.
func begins(facts []event.Event) (opened *event.SessionCreated, begun [3]beginning) {
	begun = [3]beginning{{name: quota.QueuedTurns}, {name: quota.Schedules}, {name: quota.Processes}}
	for i := range facts {
		switch p := facts[i].Payload.(type) {
		case *event.SessionCreated:
			opened = p
		case *event.TurnSubmitted:
			if p.Status == state.TurnQueued {
				begun[0].n++
			}
		case *event.ScheduleCreated:
			begun[1].n++
		case *event.ProcessStarted:
			begun[2].n++
		}
	}
	return opened, begun
}

// reserveQuota takes room for what a decision begins. The error is a
// [*quota.ReachedError] if there is none.
func (w *writer) reserveQuota(tx *Tx) error {
	if w.id == event.RuntimeSession {
		return nil
	}
	opened, begun := begins(tx.facts)
	if opened != nil {
		usage, err := w.m.usageOf(tx.ctx, opened.Account)
		if err == nil {
			err = w.m.checkQuota(tx.ctx, usage, quota.StoredBytes, func() error { return usage.Room(quota.StoredBytes) })
		}
		if err == nil && w.m.shared != nil && usage.IsNear(quota.Sessions) {
			usage.AwaitKept(tx.ctx) // else the share can't go with the session, and another node admits one more
		}
		if err == nil {
			err = w.m.checkQuota(tx.ctx, usage, quota.Sessions, func() error { return usage.Reserve(quota.Sessions, 1) })
		}
		if err != nil {
			return err
		}
		w.usage, tx.opens = usage, true
	}
	if w.usage == nil {
		return nil
	}
	for _, b := range begun {
		if b.n == 0 {
			continue
		}
		if err := w.m.checkQuota(tx.ctx, w.usage, b.name, func() error { return w.usage.ReserveIn(b.name, w.id, b.n) }); err != nil {
			w.giveBack(tx)
			return err
		}
		tx.tightens = tx.tightens || w.usage.IsNear(b.name)
	}
	return nil
}

// checkStorage refuses a command that adds to a session whose account has used up
// its storage. Work under way goes on to its end, and can be stopped. What a client has
// recorded in the runtime's own session, such as its channels and their messages, counts
// for the client's account: otherwise that session would be storage without a limit.
func (r *request) checkStorage(tx *Tx) error {
	usage := tx.w.usage
	if tx.w.id == event.RuntimeSession && r.caller.Account != "" {
		var err error
		if usage, err = r.m.usageOf(tx.ctx, r.caller.Account); err != nil {
			return err
		}
		tx.payer = usage
	}
	if r.endsWork || usage == nil {
		return nil
	}
	return r.m.checkQuota(tx.ctx, usage, quota.StoredBytes, func() error { return usage.Room(quota.StoredBytes) })
}

// checkQuota makes a check of an account's quota with what other nodes use of it, as far as
// that matters. A limit that is reached is one only if it is so now. What others use of a quota
// that running work needs is as it was last if it can't be read.
func (m *Manager) checkQuota(ctx context.Context, a *quota.Account, n quota.Name, check func() error) error {
	if m.shared == nil || !a.IsLimited(n) {
		return check()
	}
	near := a.IsNear(n)
	if err := m.followShares(ctx, a, n, false); err != nil && n.IsKept() {
		return err
	}
	err := check()
	if _, reached := errors.AsType[*quota.ReachedError](err); !reached || near {
		return err
	}
	if err := m.followShares(ctx, a, n, true); err != nil && n.IsKept() {
		return err
	}
	return check()
}

// giveBack returns the room of a decision that isn't written.
func (w *writer) giveBack(tx *Tx) {
	if w.usage == nil {
		return
	}
	w.recordStanding()
	if tx.opens {
		w.usage.Add(quota.Sessions, -1)
		w.usage, tx.opens = nil, false
	}
}

// recordStanding says how much the session uses of what its state tells.
func (w *writer) recordStanding() {
	if w.usage == nil || w.state == nil || (w.failed && w.m.shared != nil) {
		return // a writer that failed has left the session to the one after it
	}
	queued := 0
	for _, t := range w.state.Threads {
		queued += len(t.Queue)
	}
	w.usage.Set(quota.QueuedTurns, w.id, int64(queued))
	w.usage.Set(quota.Schedules, w.id, int64(len(w.state.Schedules.Open)))
	w.usage.Set(quota.Processes, w.id, int64(len(w.state.Environment.Active)))
}

// leaveStanding forgets what a session uses that another node counts from now on.
func (m *Manager) leaveStanding(sessionID string) {
	if m.shared != nil {
		m.quotas.Leave(sessionID)
	}
}

// changesStanding reports whether facts change what recordStanding tells.
func changesStanding(facts []event.Event) bool {
	for i := range facts {
		switch p := facts[i].Payload.(type) {
		case *event.QueueChanged, *event.ScheduleCreated, *event.ScheduleDeleted, *event.ProcessStarted,
			*event.ProcessCompleted, *event.ProcessFailed, *event.ProcessTerminated, *event.TurnStarted, *event.TurnFailed:
			return true
		case *event.TurnSubmitted:
			if p.Status == state.TurnQueued {
				return true
			}
		}
	}
	return false
}

// chargeBatch makes a batch part of what its account uses, once it is durable.
func (w *writer) chargeBatch(p *pending, tx *Tx, size int) {
	usage := cmp.Or(tx.payer, w.usage)
	if usage == nil {
		return
	}
	if w.usage != nil && changesStanding(tx.facts) {
		w.recordStanding()
	}
	p.charge = charge{usage: usage, bytes: int64(size) + tx.referred, opens: tx.opens}
	for _, blob := range tx.blobs {
		p.charge.bytes += int64(len(blob))
	}
	// A share is stored with a session that is opened, and with what begins near a limit, so that
	// other nodes count it at once.
	if op, due := keptUsage(usage, w.m, (tx.opens || tx.tightens) && w.m.shared != nil); due {
		p.charge.keeps = true
		p.batch.Index = append(p.batch.Index, op)
	}
}

// keptUsage returns the index entry of an account's total, if one is due.
func keptUsage(a *quota.Account, m *Manager, atOnce bool) (store.IndexOp, bool) {
	share, due := a.Due(m.Now(), atOnce)
	if !due {
		return store.IndexOp{}, false
	}
	if m.shared != nil {
		if self := m.nodeID.Load(); self != nil { // it is known since the account was loaded
			return shareOp(a.ID(), *self, share), true
		}
	}
	v, _ := json.Marshal(share.Total) //nolint:errchkjson // numbers and a time always encode
	return putOp(kindUsage, "@"+a.ID(), v), true
}

// charge is what a batch adds to the use of an account.
type charge struct {
	usage *quota.Account
	bytes int64
	// opens says that the batch opens a session, keeps that it stores a total.
	opens, keeps bool
}

// settle counts a batch whose outcome is known.
func (c *charge) settle(err error) {
	if c.usage == nil {
		return
	}
	if c.keeps {
		c.usage.Kept(err == nil)
	}
	switch {
	case err == nil:
		c.usage.Add(quota.StoredBytes, c.bytes)
	case c.opens:
		c.usage.Add(quota.Sessions, -1)
	}
}

// freeBytes counts stored bytes of a session that are gone.
func (m *Manager) freeBytes(ctx context.Context, sessionID string, n int64) {
	account, err := m.Account(ctx, sessionID)
	if err != nil || sessionID == event.RuntimeSession {
		return
	}
	if usage, err := m.usageOf(ctx, account); err == nil {
		usage.Add(quota.StoredBytes, -n)
	}
}

// refuseAtQuota makes the error of a quota that is reached one for callers, and
// records the fact.
func (m *Manager) refuseAtQuota(ctx context.Context, sessionID string, err error) error {
	reached, ok := errors.AsType[*quota.ReachedError](err)
	if !ok {
		return err
	}
	m.recordQuotaReached(ctx, sessionID, reached)
	f := fault.New(fault.RateLimited, "%s; %s", reached.Error(), quotaAdvice(reached.Quota))
	f.RetryAfter = reached.RetryAfter()
	return f
}

func quotaAdvice(n quota.Name) string {
	switch n {
	case quota.QueuedTurns:
		return "wait for turns to end, or take some out of the queue"
	case quota.Subscriptions:
		return "close a stream first"
	case quota.Processes:
		return "wait for a process to end, or terminate one"
	case quota.Schedules:
		return "delete a schedule, or ask the operator to raise quotas.schedules"
	case quota.Sessions, quota.StoredBytes:
	}
	return fmt.Sprintf("ask the operator to raise quotas.%s", n)
}

// recordQuotaReached writes quota.blocked to the session where it happened, or to
// the runtime's own. A caller that keeps asking causes at most one per minute.
func (m *Manager) recordQuotaReached(ctx context.Context, sessionID string, r *quota.ReachedError) {
	usage, err := m.usageOf(ctx, r.Account)
	if err != nil || !usage.Tell(r.Quota, m.Now()) {
		return
	}
	limit, used, left := float64(r.Limit), float64(r.Used), float64(max(0, r.Limit-r.Used))
	fact := event.Event{
		Type: event.TypeQuotaBlocked, Scope: event.Scope{ThreadID: event.NotApplicable, TurnID: event.NotApplicable},
		Payload: &event.QuotaState{
			Limit: &limit, Used: &used, Remaining: &left, QuotaName: string(r.Quota), Account: r.Account, Reason: r.Error(),
		},
	}
	ctx = context.WithoutCancel(ctx)
	emit := func(tx *Tx) error {
		if tx.State.Sequence == 0 {
			openRuntime(tx)
		}
		tx.Emit(fact)
		return nil
	}
	err = noSession(sessionID)
	if sessionID != "" {
		err = m.writeDecision(ctx, sessionID, event.BySession, false, emit)
	}
	if fault.KindOf(err) == fault.NotFound {
		err = m.writeDecision(ctx, event.RuntimeSession, event.BySession, true, emit)
	}
	if err != nil {
		m.opt.Logger.Warn("a quota that was reached could not be recorded", "account", r.Account, "quota", string(r.Quota), "error", err)
	}
}

// SetQuotas replaces the configured limits of accounts. What set_quotas set wins over
// them.
func (m *Manager) SetQuotas(p quota.Policy) {
	m.limits.mu.Lock()
	defer m.limits.mu.Unlock()
	m.limits.configured = p
	m.applyLimits()
}

// Limits returns the limits of an account.
func (m *Manager) Limits(account string) quota.Limits { return m.quotas.Limits(account) }

// countSubscription takes room for a stream.
func (m *Manager) countSubscription(ctx context.Context, caller command.Caller, sessionID string) (*quota.Account, error) {
	usage, err := m.usageOf(ctx, caller.Account)
	if err != nil {
		return nil, err
	}
	if err := m.checkQuota(ctx, usage, quota.Subscriptions, func() error { return usage.Reserve(quota.Subscriptions, 1) }); err != nil {
		return nil, m.refuseAtQuota(ctx, sessionID, err)
	}
	return usage, nil
}
