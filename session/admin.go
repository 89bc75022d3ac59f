package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/quota"
	"agentd/store"
)

// This file has what admins do to the runtime as a whole, as far as the session layer
// knows of it: quotas, retention, nodes.

// handleAdmin registers the commands of admins.
func handleAdmin(t *command.Table, m *Manager) {
	handleCommand(t, m, (*request).setQuotas)
	handleCommand(t, m, (*request).getRetention)
	handleCommand(t, m, (*request).runRetention)
	handleCommand(t, m, (*request).listNodes)
	handleCommand(t, m, (*request).readAudit)
}

// CheckAdmin refuses callers that aren't admins. Doors do so by the role of the token;
// a caller of the library has to be asked again.
func CheckAdmin(caller command.Caller, p command.Params) error {
	if caller.Admin {
		return nil
	}
	return fault.New(fault.Forbidden, "%s needs a token with the role admin", p.Command())
}

// kindLimits: "@" and an account → the limits that set_quotas gave it.
const kindLimits = "quota_limits"

// limitBook has the limits of accounts by their origin.
type limitBook struct {
	mu         sync.Mutex
	configured quota.Policy
	set        map[string]quota.Limits
}

// configuredLimits returns the limits of an account as the configuration has them.
func (m *Manager) configuredLimits(account string) quota.Limits {
	m.limits.mu.Lock()
	defer m.limits.mu.Unlock()
	return m.limits.configured.For(account)
}

// applyLimits makes what was set, and what is configured for the rest, the limits. The
// caller holds the lock.
func (m *Manager) applyLimits() {
	p := m.limits.configured
	if len(m.limits.set) > 0 {
		p.Overrides = maps.Clone(p.Overrides)
		if p.Overrides == nil {
			p.Overrides = map[string]quota.Limits{}
		}
		maps.Copy(p.Overrides, m.limits.set)
	}
	m.quotas.SetPolicy(p)
}

// ReadLimits reads the limits that were set, by this node or another. After an error those hold
// that did before.
func (m *Manager) ReadLimits(ctx context.Context) error {
	set := map[string]quota.Limits{}
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindLimits}) {
		var l event.QuotaLimits
		if err == nil {
			err = json.Unmarshal(e.Value, &l)
		}
		if err != nil {
			return storeFault(fmt.Errorf("session: read the quotas that were set: %w", err))
		}
		set[e.Key[1:]] = limitsOf(&l)
	}
	m.limits.mu.Lock()
	defer m.limits.mu.Unlock()
	m.limits.set = set
	m.applyLimits()
	return nil
}

// readLimitsOfOthers reads what was set where several nodes may have: the one that did
// has answered before the others are told.
func (m *Manager) readLimitsOfOthers(ctx context.Context) error {
	if m.shared == nil {
		return nil
	}
	return m.ReadLimits(ctx)
}

func limitsOf(l *event.QuotaLimits) quota.Limits {
	return quota.Limits{
		Sessions: l.Sessions, QueuedTurns: l.QueuedTurns, Subscriptions: l.Subscriptions, StoredBytes: l.StoredBytes,
		Schedules: l.Schedules, Processes: l.Processes, ScheduleMinInterval: time.Duration(l.ScheduleMinIntervalMs) * time.Millisecond,
	}
}

// indexQuotas appends the entry for quotas that were set or taken back.
func indexQuotas(ops []store.IndexOp, p *event.RuntimeChanged) ([]store.IndexOp, error) {
	switch p.Change {
	case "quotas_set":
		v, err := json.Marshal(p.Quotas)
		return append(ops, putOp(kindLimits, "@"+p.Account, v)), err
	case "quotas_reset":
		return append(ops, removeOp(kindLimits, "@"+p.Account)), nil
	}
	return ops, nil
}

// setQuotas changes the limits of an account.
func (r *request) setQuotas(ctx context.Context, p *command.SetQuotas) (*command.GetQuotasResult, error) {
	if err := CheckAdmin(r.caller, p); err != nil {
		return nil, err
	}
	if err := r.m.readLimitsOfOthers(ctx); err != nil {
		return nil, err
	}
	change := &event.RuntimeChanged{Change: "quotas_reset", Account: p.Account, ChangedBy: r.actor()}
	if p.Limits != nil {
		change.Change, change.Quotas = "quotas_set", changedLimits(r.m.Limits(p.Account), p.Limits)
	}
	if err := r.m.loadStandings(ctx); err != nil {
		return nil, err
	}
	usage, err := r.m.usageOf(ctx, p.Account)
	if err != nil {
		return nil, err
	}
	limits := r.m.configuredLimits(p.Account)
	if change.Quotas != nil {
		limits = limitsOf(change.Quotas)
	}
	done, err := recordChange(ctx, r, change, command.GetQuotasResult{Quotas: quotaUses(p.Account, usage, limits)})
	if err == nil {
		r.m.takeLimits(context.WithoutCancel(ctx))
	}
	return done, err
}

// limitsAgain is when limits that couldn't be read are read again.
const limitsAgain = time.Second

// takeLimits makes the limits hold that this node just stored, as soon as they can be read.
func (m *Manager) takeLimits(ctx context.Context) {
	err := m.ReadLimits(ctx)
	if err == nil {
		return
	}
	m.opt.Logger.Warn("quotas were set that don't hold here yet; they are read again until they do", "error", err)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return // the next start reads them
	}
	m.untilStop(func(ctx context.Context) {
		for err := err; err != nil; err = m.ReadLimits(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(limitsAgain):
			}
		}
	})
}

func changedLimits(l quota.Limits, c *command.QuotaChange) *event.QuotaLimits {
	or := func(given *int64, now int64) int64 {
		if given != nil {
			return *given
		}
		return now
	}
	return &event.QuotaLimits{
		Sessions: or(c.Sessions, l.Sessions), QueuedTurns: or(c.QueuedTurns, l.QueuedTurns), Subscriptions: or(c.Subscriptions, l.Subscriptions),
		StoredBytes: or(c.StoredBytes, l.StoredBytes), Schedules: or(c.Schedules, l.Schedules), Processes: or(c.Processes, l.Processes),
		ScheduleMinIntervalMs: or(c.ScheduleMinIntervalMs, l.ScheduleMinInterval.Milliseconds()),
	}
}

// recordChange writes what an admin changed into the runtime's own session, and keeps the
// result under the idempotency key.
func recordChange[R any](ctx context.Context, r *request, change *event.RuntimeChanged, result R, kept ...store.IndexOp) (*R, error) {
	r.by = event.ByRuntime | event.BySession
	return mutate(ctx, r, event.RuntimeSession, true, func(tx *Tx) (*R, error) {
		if tx.State.Sequence == 0 {
			openRuntime(tx)
		}
		tx.Emit(event.Event{Type: event.TypeRuntimeChanged, Payload: change})
		tx.index = append(tx.index, kept...)
		return &result, nil
	})
}

// RecordChange writes what an admin changed into the runtime's own session, for commands
// that another package carries out. The result is kept under the idempotency key.
func RecordChange[R any](ctx context.Context, m *Manager, caller command.Caller, p command.Params, change *event.RuntimeChanged, result R) (*R, error) {
	r, err := m.request(caller, p)
	if err != nil {
		return nil, err
	}
	change.ChangedBy = r.actor()
	return recordChange(ctx, r, change, result)
}

// Accounts returns the accounts that have stored something or have limits of their own,
// with what they use, the operator's first. It reads what is kept of each account, however
// many sessions that has.
func (m *Manager) Accounts(ctx context.Context) ([]command.AccountRecord, error) {
	ids, err := m.accountsInUse(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.readLimitsOfOthers(ctx); err != nil {
		return nil, err
	}
	m.limits.mu.Lock()
	set := maps.Clone(m.limits.set)
	m.limits.mu.Unlock()
	ids = slices.AppendSeq(ids, maps.Keys(set))
	slices.Sort(ids)
	var out []command.AccountRecord
	for _, id := range slices.Compact(ids) {
		usage, err := m.usageOf(ctx, id)
		if err != nil {
			return nil, err
		}
		_, own := set[id]
		out = append(out, command.AccountRecord{Account: id, Sessions: usage.Used(quota.Sessions), StoredBytes: usage.Used(quota.StoredBytes), OwnQuotas: own})
	}
	return out, nil
}

// retentionBook has the run of retention that was asked for last.
type retentionBook struct {
	mu  sync.Mutex
	run *command.RetentionRun
}

// begin notes a run, unless one is under way.
func (b *retentionBook) begin(run command.RetentionRun) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run != nil && b.run.Status == "running" {
		return false
	}
	b.run = &run
	return true
}

// change changes what is known of the run.
func (b *retentionBook) change(do func(*command.RetentionRun)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do(b.run)
}

// last returns a copy of the last run, or nil.
func (b *retentionBook) last() *command.RetentionRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run == nil {
		return nil
	}
	run := *b.run
	return &run
}

func (r *request) getRetention(_ context.Context, p *command.GetRetention) (*command.GetRetentionResult, error) {
	if err := CheckAdmin(r.caller, p); err != nil {
		return nil, err
	}
	f := r.m.Figures()
	return &command.GetRetentionResult{
		EventsMs: r.m.opt.RetainEvents.Milliseconds(), OutputsMs: r.m.opt.ExpireAfter.Milliseconds(),
		RemovedSessions: f.TrimmedSessions, RemovedEvents: f.TrimmedEvents, RemovedBytes: f.TrimmedBytes, Run: r.m.retention.last(),
	}, nil
}

// runRetention begins to remove old events.
func (r *request) runRetention(ctx context.Context, p *command.RunRetention) (*command.RetentionRun, error) {
	if err := CheckAdmin(r.caller, p); err != nil {
		return nil, err
	}
	age := r.m.opt.RetainEvents
	if p.OlderThanMs > 0 {
		age = time.Duration(p.OlderThanMs) * time.Millisecond
	}
	if age <= 0 {
		return nil, fault.Param("olderThanMs", "is needed: retention.events isn't configured, so everything is kept")
	}
	now := r.m.Now()
	run := command.RetentionRun{Status: "running", StartedAt: now, EventsBefore: now.Add(-age)}
	if p.DryRun {
		old, damaged, err := r.m.oldSessions(ctx, run.EventsBefore)
		run.Status, run.EndedAt, run.Total, run.Kept = "completed", now, int64(len(old)+damaged), int64(damaged)
		if err != nil || p.Key() == "" {
			return &run, err
		}
		return mutate(ctx, r, event.RuntimeSession, true, func(tx *Tx) (*command.RetentionRun, error) { // a repeat gets the same answer
			if tx.State.Sequence == 0 {
				openRuntime(tx)
			}
			return &run, nil
		})
	}
	if !r.m.retention.begin(run) {
		return nil, fault.New(fault.Conflict, "retention runs already; get_retention shows how far it is")
	}
	res, err := recordChange(ctx, r, &event.RuntimeChanged{Change: "retention_started", EventsBefore: run.EventsBefore, ChangedBy: r.actor()}, run)
	if err != nil {
		r.m.retention.change(func(run *command.RetentionRun) {
			run.Status, run.EndedAt, run.Error = "failed", r.m.Now(), "it was not begun"
		})
		return nil, err
	}
	r.m.untilStop(func(ctx context.Context) { r.m.removeOld(ctx, run.EventsBefore) })
	return res, nil
}

// removeOld carries out the run that was asked for.
func (m *Manager) removeOld(ctx context.Context, before time.Time) {
	_, err := m.retainWithProgress(ctx, before, func(total int, sum Retained) {
		m.retention.change(func(run *command.RetentionRun) {
			run.Total, run.Sessions, run.Events, run.Kept = int64(total), int64(sum.Sessions), int64(sum.Events), int64(sum.Kept)
		})
	})
	m.retention.change(func(run *command.RetentionRun) {
		run.Status, run.EndedAt = "completed", m.Now()
		if err != nil {
			run.Status, run.Error = "failed", m.redactText(faultText(err))
		}
	})
}

// faultText is what an error says to callers.
func faultText(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Detail
	}
	return "it was interrupted or failed; the log has more"
}

// listNodes lists the nodes that share the store.
func (r *request) listNodes(ctx context.Context, p *command.ListNodes) (*command.ListNodesResult, error) {
	if err := CheckAdmin(r.caller, p); err != nil {
		return nil, err
	}
	page, err := command.NewOrderedPage(&p.Page, "name", "", nodeOrders, nodeName)
	if err != nil {
		return nil, err
	}
	records, err := r.m.nodeRecords(ctx, func(*store.Node) bool { return true })
	if err != nil {
		return nil, err
	}
	for _, record := range records {
		page.Offer(record)
	}
	return &command.ListNodesResult{Nodes: page.Things(), Total: page.Total, NextCursor: page.Next()}, nil
}

// nodeOrders are the orders of the list of nodes. It is the same whichever node answers:
// the next page may come from another one.
var nodeOrders = command.Orders[command.NodeRecord]{"name": nodeName}

func nodeName(n command.NodeRecord) string { return n.NodeID }
