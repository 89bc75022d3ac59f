package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"agentd/quota"
	"agentd/store"
)

// Where several nodes share the store, each keeps its own share of what an account uses. For
// sessions and stored bytes it is negative if the node removed more than it added, and holds
// whether or not the node lives: what an account uses is the sum of all shares and of a base,
// which holds the shares of nodes that stopped. Everything else stands for as long as the node
// has its lease: its sessions are counted by the nodes that take them over.

const (
	// kindUsageShare: "@", an account, a line break and a node → that node's share, as
	// [quota.Share]; without a node the base, a [quota.Total].
	kindUsageShare = "usage.share"
	// shareWriter writes shares, baseWriter the bases, in the name of one node at a time.
	shareWriter = "usage.shares"
	baseWriter  = "usage.base"
	// shareEvery is how often a share that changed is stored, if no batch of a session took it
	// along; sharesFor how long those of others are good for, away from a limit.
	shareEvery = 500 * time.Millisecond
	sharesFor  = time.Second
	// baseTries is how often the right to write bases is asked for.
	baseTries = 100
)

func shareKey(account, node string) string { return "@" + account + "\n" + node }

// ownNode returns the name of this node.
func (m *Manager) ownNode(ctx context.Context) (string, error) {
	if name := m.nodeID.Load(); name != nil {
		return *name, nil
	}
	nodes, err := m.shared.Nodes(ctx)
	if err != nil {
		return "", storeFault(err)
	}
	for i := range nodes {
		if nodes[i].Self {
			m.nodeID.Store(&nodes[i].ID)
			return nodes[i].ID, nil
		}
	}
	return "", storeFault(fmt.Errorf("%w: this node isn't listed", store.ErrUnavailable))
}

// shares are what the store has of one account.
type shares struct {
	own, others quota.Share
	// based says that there is a base.
	based bool
}

func (s *shares) addShare(node, self string, share quota.Share) {
	into := &s.others
	if node == self {
		into = &s.own
	}
	into.Plus(share)
	s.based = s.based || node == ""
}

// liveNodes are the nodes whose leases held a moment ago.
type liveNodes struct {
	mu sync.Mutex
	at time.Time
	by map[string]bool
}

// isLive reports whether a node has its lease, which may have begun or ended within the last
// moment.
func (m *Manager) isLive(ctx context.Context, node string) (bool, error) {
	l := &m.live
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := m.Now(); l.by == nil || now.Sub(l.at).Abs() >= sharesFor {
		nodes, err := m.shared.Nodes(ctx)
		if err != nil {
			return false, storeFault(err)
		}
		l.at, l.by = now, map[string]bool{}
		for i := range nodes {
			l.by[nodes[i].ID] = nodes[i].Alive
		}
	}
	return l.by[node], nil
}

// readShares reads the shares of accounts: of one, or of all if prefix is empty.
func (m *Manager) readShares(ctx context.Context, prefix string) (map[string]*shares, error) {
	self, err := m.ownNode(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]*shares{}
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindUsageShare, Prefix: prefix}) {
		if err != nil {
			return nil, storeFault(err)
		}
		account, node, ok := strings.Cut(strings.TrimPrefix(e.Key, "@"), "\n")
		var share quota.Share
		if err := json.Unmarshal(e.Value, &share); err != nil || !ok {
			return nil, storeFault(fmt.Errorf("%w: share of what an account uses: %s", store.ErrCorrupt, e.Key))
		}
		if len(share.Standing) > 0 && node != self {
			live, err := m.isLive(ctx, node)
			if err != nil {
				return nil, err
			}
			if !live {
				share.Standing = nil
			}
		}
		if out[account] == nil {
			out[account] = &shares{}
		}
		out[account].addShare(node, self, share)
	}
	return out, nil
}

// loadShare returns this node's share of what an account uses, and takes in those of others.
func (m *Manager) loadShare(ctx context.Context, a *quota.Account) (quota.Total, error) {
	prefix := shareKey(a.ID(), "")
	all, err := m.readShares(ctx, prefix)
	if err != nil {
		return quota.Total{}, err
	}
	if all[a.ID()] == nil || !all[a.ID()].based {
		if err := m.makeBase(ctx, a.ID()); err != nil {
			return quota.Total{}, err
		}
		if all, err = m.readShares(ctx, prefix); err != nil {
			return quota.Total{}, err
		}
	}
	s := all[a.ID()]
	if s == nil {
		s = &shares{}
	}
	return m.takeShare(a, s), nil
}

// takeShare takes in the shares that the store has of an account, and returns this node's.
func (m *Manager) takeShare(a *quota.Account, s *shares) quota.Total {
	a.SetOthers(s.others, m.Now())
	a.Complete()
	return s.own.Total
}

// makeBase stores what an account used before there were shares, unless that is there. The
// sessions are counted that the total of an earlier version doesn't have.
func (m *Manager) makeBase(ctx context.Context, account string) error {
	return m.changeBases(ctx, func() ([]store.IndexOp, error) {
		_, err := m.opt.Store.Get(ctx, kindUsageShare, shareKey(account, ""))
		if err == nil || !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		t, err := m.storedTotal(ctx, account)
		if err != nil {
			return nil, err
		}
		if _, err := m.scanSessions(ctx, account, timeKey(t.At)+"0", "", -1, &t.Sessions); err != nil {
			return nil, err
		}
		return []store.IndexOp{shareOp(account, "", quota.Share{Total: t})}, nil
	})
}

func shareOp(account, node string, s quota.Share) store.IndexOp {
	v, _ := json.Marshal(s) //nolint:errchkjson // numbers and a time always encode
	return putOp(kindUsageShare, shareKey(account, node), v)
}

// changeBases changes bases; what another node changes at the same moment isn't lost.
func (m *Manager) changeBases(ctx context.Context, change func() ([]store.IndexOp, error)) error {
	m.bases.Lock()
	defer m.bases.Unlock()
	var err error
	for range baseTries {
		var claim store.Claim
		// Who claims later fences the one before, who then begins again with what is there.
		if claim, err = m.shared.ClaimAnyway(ctx, baseWriter); err == nil {
			var ops []store.IndexOp
			if ops, err = change(); err == nil && len(ops) > 0 {
				err = m.opt.Store.Append(ctx, []*store.Batch{{SessionID: baseWriter, Epoch: claim.Epoch, Index: ops}})[0]
			}
			_ = m.opt.Store.Release(context.WithoutCancel(ctx), baseWriter, claim.Epoch) // its lease ends anyway
		}
		if !errors.Is(err, store.ErrFenced) {
			break
		}
		select {
		case <-ctx.Done():
			return storeFault(ctx.Err())
		case <-time.After(rand.N(20 * time.Millisecond)): //nolint:gosec // it spreads a load
		}
	}
	if err != nil {
		return storeFault(err)
	}
	return nil
}

// followShares reads what others use of an account's quotas again, if it is due. Away from a limit
// one caller does so, and nothing else waits for a slow database.
func (m *Manager) followShares(ctx context.Context, a *quota.Account, n quota.Name, atOnce bool) error {
	if m.shared == nil || (!atOnce && !a.IsNear(n) && !a.FollowsNow(m.Now(), sharesFor)) {
		return nil
	}
	all, err := m.readShares(ctx, shareKey(a.ID(), ""))
	if err != nil {
		return err
	}
	if s := all[a.ID()]; s != nil {
		a.SetOthers(s.others, m.Now())
	}
	return nil
}

// followAllShares reads what others use of the quotas of all accounts, at once.
func (m *Manager) followAllShares(ctx context.Context) error {
	all, err := m.readShares(ctx, "")
	if err != nil {
		return err
	}
	for account, s := range all {
		a, err := m.usageFrom(ctx, account, s)
		if err != nil {
			return err
		}
		a.SetOthers(s.others, m.Now())
	}
	return nil
}

// usageFrom is usageOf for an account whose shares were just read. Only this process changes its
// own share, and not before it has loaded it.
func (m *Manager) usageFrom(ctx context.Context, account string, s *shares) (*quota.Account, error) {
	return m.quotas.Account(account, func(a *quota.Account) (quota.Total, error) {
		if !s.based {
			return m.loadShare(ctx, a)
		}
		return m.takeShare(a, s), nil
	})
}

// keepShares stores this node's shares that changed, until ctx ends.
func (m *Manager) keepShares(ctx context.Context) {
	tick := time.NewTicker(shareEvery)
	defer tick.Stop()
	failing, begun := false, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var err error
		if !begun {
			err = m.replaceLeftShares(ctx)
			begun = err == nil
		}
		if err == nil {
			err = m.storeShares(ctx)
		}
		if err != nil && !failing && ctx.Err() == nil {
			m.opt.Logger.Warn("what accounts use on this node could not be stored; it is tried again", "error", err)
		}
		failing = err != nil
	}
}

// replaceLeftShares has this node's shares stored again in which an earlier process of its name
// stands, which was killed.
func (m *Manager) replaceLeftShares(ctx context.Context) error {
	all, err := m.readShares(ctx, "")
	if err != nil {
		return err
	}
	for account, s := range all {
		if len(s.own.Standing) > 0 {
			if _, err := m.usageFrom(ctx, account, s); err != nil { // what is loaded is stored next
				return err
			}
		}
	}
	return nil
}

func (m *Manager) storeShares(ctx context.Context) error {
	var ops []store.IndexOp
	var due []*quota.Account
	for _, a := range m.quotas.Accounts() {
		if op, is := keptUsage(a, m, true); is {
			ops, due = append(ops, op), append(due, a)
		}
	}
	if len(ops) == 0 {
		return nil
	}
	err := store.WriteEntries(ctx, m.opt.Store, shareWriter, ops)
	for _, a := range due {
		a.Kept(err == nil)
	}
	return err
}

// foldShares adds this node's shares to the bases when it stops: a node that has no lasting
// name doesn't leave entries behind. What it can't fold stays as it is.
func (m *Manager) foldShares(ctx context.Context) error {
	self, err := m.ownNode(ctx)
	if err != nil {
		return err
	}
	return m.changeBases(ctx, func() ([]store.IndexOp, error) {
		var ops []store.IndexOp
		for _, a := range m.quotas.Accounts() {
			own, loaded := a.Own()
			v, err := m.opt.Store.Get(ctx, kindUsageShare, shareKey(a.ID(), ""))
			if errors.Is(err, store.ErrNotFound) || !loaded {
				continue // it was never used
			}
			var base quota.Total
			if err == nil {
				err = json.Unmarshal(v, &base)
			}
			if err != nil {
				return nil, err
			}
			base.Sessions += own.Sessions
			base.StoredBytes += own.StoredBytes
			ops = append(ops, shareOp(a.ID(), "", quota.Share{Total: base}), store.IndexOp{Entry: store.Entry{Kind: kindUsageShare, Key: shareKey(a.ID(), self)}, Delete: true})
		}
		return ops, nil
	})
}
