package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// This file carries out commands that do the same to several. Each of the several is the
// command for one, with its own write and an idempotency key that follows from the
// whole's, so that a call that was cut off goes on where it was. What was chosen is kept
// before the first is done, and the whole result after the last.

// bulkLanes is how many of several are done at the same time: their writes share syncs.
const bulkLanes = 16

// handleBulk registers the commands that do the same to several.
func handleBulk(t *command.Table, m *Manager) {
	handleSeveral(t, m, (*request).turnsToInterrupt, interruptOne, func(c command.BulkCounts, all []command.InterruptedTurn) *command.InterruptTurnsResult {
		return &command.InterruptTurnsResult{BulkCounts: c, Results: all}
	})
	handleSeveral(t, m, (*request).actionsToAnswer, respondOne, func(c command.BulkCounts, all []command.RespondedAction) *command.RespondActionsResult {
		return &command.RespondActionsResult{BulkCounts: c, Results: all}
	})
	handleSeveral(t, m, (*request).sessionsToArchive, archiveOne, func(c command.BulkCounts, all []command.ArchivedSession) *command.ArchiveSessionsResult {
		return &command.ArchiveSessionsResult{BulkCounts: c, Results: all}
	})
}

// severalOf is what a bulk command chose, and its answer once there is one.
type severalOf[T, R any] struct {
	Chosen    []T   `json:"chosen"`
	Remaining int64 `json:"remaining,omitempty"`
	Answer    *R    `json:"answer,omitempty"`
}

// handleSeveral registers a bulk command: choose says to what it is done, one does it and
// returns what the answer says of it, failed or not, and gather makes the answer.
func handleSeveral[P command.Returning[R], T, I, R any](
	t *command.Table, m *Manager,
	choose func(*request, context.Context, P) ([]T, error),
	one func(context.Context, *request, P, T) (I, error),
	gather func(command.BulkCounts, []I) *R,
) {
	choice := withRequest(m, func(r *request, ctx context.Context, p P) (*severalOf[T, R], error) {
		chosen, err := choose(r, ctx, p)
		if err != nil {
			return nil, err
		}
		s := &severalOf[T, R]{Chosen: chosen[:min(len(chosen), command.MaxBulk)], Remaining: int64(max(len(chosen)-command.MaxBulk, 0))}
		if err := r.keepOutside(ctx, s, true); !errors.Is(err, store.ErrExists) {
			return s, err
		}
		// Another node was first with the same key.
		s = &severalOf[T, R]{}
		_, err = r.readFirst(ctx, s)
		return s, err
	})
	command.HandleKept(t, choice, func(ctx context.Context, caller command.Caller, p P, s *severalOf[T, R]) (*R, error) {
		if s.Answer != nil {
			return s.Answer, nil
		}
		r, err := m.request(caller, p)
		if err != nil {
			return nil, err
		}
		items, failures := make([]I, len(s.Chosen)), make([]error, len(s.Chosen))
		doSeveral(ctx, len(items), func(i int) { items[i], failures[i] = one(ctx, r, p, s.Chosen[i]) })
		if err := ctx.Err(); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "not everything was done in time; repeat the command to go on, with the same idempotency key if it has one")
		}
		counts := command.BulkCounts{Remaining: s.Remaining}
		for _, err := range failures {
			if err != nil {
				counts.Failed++
			} else {
				counts.Done++
			}
		}
		s.Answer = gather(counts, items)
		return s.Answer, r.keepOutside(ctx, s, false)
	})
}

// doSeveral does something n times, some of them at the same time.
func doSeveral(ctx context.Context, n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, bulkLanes) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
}

// partKey is the idempotency key of one of several.
func (r *request) partKey(name string) string {
	if r.key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(r.key + "\n" + r.digest + "\n" + name))
	return "part/" + hex.EncodeToString(sum[:])
}

// doPart carries out one of several as the command for one does, here or on the node that
// owns its session.
func doPart[P interface {
	command.Returning[R]
	command.Mutating
}, R any](ctx context.Context, whole *request, p P, do func(*request, context.Context, P) (*R, error)) (*R, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	r, err := whole.m.request(whole.caller, p)
	if err != nil {
		return nil, err
	}
	first := new(R)
	if found, err := r.readFirst(ctx, first); err != nil || found {
		return first, err
	}
	res, err := do(r, ctx, p)
	if err == nil {
		return res, nil
	}
	there := new(R)
	if err := command.Forward(ctx, p, err, there); err != nil {
		return nil, err
	}
	return there, nil
}

// keepOutside keeps a result under the call's idempotency key that belongs to no one
// session. first says that nothing may be kept there yet.
func (r *request) keepOutside(ctx context.Context, result any, first bool) error {
	if r.key == "" {
		return nil
	}
	v, err := json.Marshal(result)
	if err == nil {
		v, err = json.Marshal(firstResult{Digest: r.digest, Result: v})
	}
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the result could not be stored")
	}
	op := store.IndexOp{Entry: store.Entry{Kind: kindKey, Key: r.key, Value: v}, IfAbsent: first}
	if err := r.m.writeOutside(ctx, op); err != nil {
		return storeFault(err)
	}
	return nil
}

// outsideClaims is how many names there are under which something is written that belongs to
// no session. The store keeps each name that was ever claimed, so there are only so many.
const outsideClaims = 64

// writeOutside writes an index entry that belongs to no session. A write needs a claim; its
// name is one that no session can have, and it is given back at once. A name that another node has at
// the moment, or had when it died, is passed over.
func (m *Manager) writeOutside(ctx context.Context, op store.IndexOp) error {
	sum := sha256.Sum256([]byte(op.Key))
	var err error
	for i := range outsideClaims {
		err = m.writeClaimed(ctx, fmt.Sprintf("part/%02d", (int(sum[0])+i)%outsideClaims), op)
		if _, owned := errors.AsType[*store.OwnedError](err); !owned {
			return err
		}
	}
	return err
}

// writeClaimed is writeOutside under a name.
func (m *Manager) writeClaimed(ctx context.Context, name string, op store.IndexOp) error {
	// A second claim of this process would fence the first.
	leave, err := m.repeats.enter(ctx, []string{"claim/" + name})
	if err != nil {
		return err
	}
	defer leave()
	s := m.opt.Store
	claim, err := s.Claim(ctx, name)
	if err != nil {
		return err
	}
	err = s.Append(ctx, []*store.Batch{{SessionID: name, Epoch: claim.Epoch, Index: []store.IndexOp{op}}})[0]
	return errors.Join(err, s.Release(context.WithoutCancel(ctx), name, claim.Epoch))
}

// turnsToInterrupt chooses turns.
func (r *request) turnsToInterrupt(ctx context.Context, p *command.InterruptTurns) ([]command.TurnTarget, error) {
	if len(p.Turns) > 0 {
		return eachOnce(p.Turns), nil
	}
	ids := p.SessionIDs
	if p.Filter != nil {
		open, err := r.m.Open(ctx)
		if err != nil {
			return nil, err
		}
		if ids, err = r.filterSessions(ctx, p.Filter.List()); err != nil {
			return nil, err
		}
		slices.Sort(open)
		ids = slices.DeleteFunc(ids, func(id string) bool {
			_, found := slices.BinarySearch(open, id)
			return !found
		})
	}
	out := []command.TurnTarget{}
	for _, id := range eachOnce(ids) {
		out = append(out, command.TurnTarget{SessionID: id})
	}
	return out, nil
}

func interruptOne(ctx context.Context, r *request, p *command.InterruptTurns, t command.TurnTarget) (command.InterruptedTurn, error) {
	one := &command.InterruptTurn{SessionID: t.SessionID, ThreadID: t.ThreadID, TurnID: t.TurnID, Reason: p.Reason, Queue: p.Queue}
	one.IdempotencyKey = r.partKey(t.SessionID + "\n" + t.ThreadID + "\n" + t.TurnID)
	res, err := doPart(ctx, r, one, (*request).interruptTurn)
	out := command.InterruptedTurn{SessionID: t.SessionID, TurnID: t.TurnID, Error: command.BulkErrorOf(err)}
	if err == nil {
		out.Interrupted, out.TurnID = res.Interrupted, reasonOr(res.TurnID, t.TurnID)
	}
	return out, err
}

// actionsToAnswer chooses actions.
func (r *request) actionsToAnswer(ctx context.Context, p *command.RespondActions) ([]string, error) {
	if len(p.ActionIDs) > 0 {
		return eachOnce(p.ActionIDs), nil
	}
	if p.Filter.SessionID != "" {
		if err := r.m.See(ctx, r.caller, p.Filter.SessionID); err != nil {
			return nil, err
		}
	}
	out := []string{}
	for entry, err := range r.m.opt.Store.Scan(ctx, store.Scan{Kind: kindPending}) {
		if err != nil {
			return nil, storeFault(err)
		}
		if p.Filter.SessionID != "" && string(entry.Value) != p.Filter.SessionID {
			continue
		}
		rec, err := r.findAction(ctx, entry.Key)
		if fault.KindOf(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		if keepsAction(p, rec.Action) {
			out = append(out, entry.Key)
		}
	}
	return out, nil
}

// keepsAction reports whether a filter keeps a pending action.
func keepsAction(p *command.RespondActions, a *state.Action) bool {
	f := p.Filter
	return a.Status == state.ActionPending &&
		(f.ActionType == "" || f.ActionType == a.ActionType) &&
		(f.ToolName == "" || f.ToolName == a.ToolName) &&
		(len(a.Decisions) == 0 || slices.Contains(a.Decisions, p.Decision))
}

func respondOne(ctx context.Context, r *request, p *command.RespondActions, id string) (command.RespondedAction, error) {
	one := &command.RespondAction{ActionID: id, Decision: p.Decision, Scope: p.Scope, ExpiresInMs: p.ExpiresInMs, Reason: p.Reason}
	one.IdempotencyKey = r.partKey(id)
	res, err := doPart(ctx, r, one, (*request).respondAction)
	out := command.RespondedAction{ActionID: id, Error: command.BulkErrorOf(err)}
	if err == nil {
		out.Status = res.Status
	}
	return out, err
}

// sessionsToArchive chooses sessions.
func (r *request) sessionsToArchive(ctx context.Context, p *command.ArchiveSessions) ([]string, error) {
	if p.Filter == nil {
		return eachOnce(p.SessionIDs), nil
	}
	list := p.Filter.List()
	list.Archived = p.Archived != nil && !*p.Archived
	return r.filterSessions(ctx, list)
}

func archiveOne(ctx context.Context, r *request, p *command.ArchiveSessions, id string) (command.ArchivedSession, error) {
	archived := p.Archived == nil || *p.Archived
	one := &command.UpdateSession{SessionID: id, Archived: &archived}
	one.IdempotencyKey = r.partKey(id)
	res, err := doPart(ctx, r, one, (*request).updateSession)
	out := command.ArchivedSession{SessionID: id, Error: command.BulkErrorOf(err)}
	if err == nil {
		out.Archived = &res.Archived
	}
	return out, err
}

// filterSessions returns the ids of all sessions that a list keeps, newest first, but for
// the runtime's own.
func (r *request) filterSessions(ctx context.Context, list *command.ListSessions) ([]string, error) {
	keeps := sessionFilter(list)
	out := []string{}
	for s, err := range r.visibleSessions(ctx) {
		if err != nil {
			return nil, err
		}
		if s.SessionID != event.RuntimeSession && keeps(s) {
			out = append(out, s.SessionID)
		}
	}
	return out, nil
}

// eachOnce returns a list without repetitions, in its order.
func eachOnce[T comparable](list []T) []T {
	seen := make(map[T]bool, len(list))
	out := make([]T, 0, len(list))
	for _, v := range list {
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}
