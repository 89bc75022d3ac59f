package session

import (
	"context"
	"errors"
	"sync"

	"agentd/event"
	"agentd/store"
)

// forkGuard keeps forks and removals apart. A removal looks through all sessions for
// forks before it begins, which takes a while, and a fork looks at its origin before
// it is stored: without a word between them a fork could be made in the meantime
// whose history is gone.
//
// A fork registers first, and only then reads the origin, through its
// writer: there it finds a removal that was decided before. A removal asks
// under the writer's lock, and finds a fork that was announced before.
//
// The guard is one process's. Nodes that share a store have the origin's claim between
// them: a fork announces itself with an index entry that is written under it, and by then
// has the claim of its own session; see [Manager.announceFork] and [Tx.hasForks].
type forkGuard struct {
	mu       sync.Mutex
	removals int             // under way
	under    map[string]int  // forks under way, by their origin
	made     map[string]bool // origins of forks that were made while removals were under way
}

// beginRemoval is called before forks are looked for, end when nothing is removed any
// more.
func (g *forkGuard) beginRemoval() (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removals++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.removals--; g.removals == 0 {
			clear(g.made) // who looks from now on finds them
		}
	}
}

// beginFork is called before a session is looked at that is to be forked, end when
// the fork is stored, or won't be.
func (g *forkGuard) beginFork(origin string) (end func(made bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.under == nil {
		g.under, g.made = map[string]int{}, map[string]bool{}
	}
	g.under[origin]++
	return func(made bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.under[origin]--; g.under[origin] == 0 {
			delete(g.under, origin)
		}
		if made && g.removals > 0 {
			g.made[origin] = true
		}
	}
}

// refers reports whether a fork of a session is under way, or was made since removals
// began.
func (g *forkGuard) refers(origin string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.under[origin] > 0 || g.made[origin]
}

// announceFork tells the other nodes of a shared store that a session refers to the facts
// of another from now on. The caller has the claim of the fork. A removal that another node
// decided before is found here; one that comes later finds the entry.
func (m *Manager) announceFork(ctx context.Context, origin, fork string) error {
	if m.shared == nil {
		return nil
	}
	return m.writeDecision(Anywhere(ctx), origin, event.ByRuntime, false, func(tx *Tx) error {
		if err := m.checkWhole(ctx, origin); err != nil {
			return err
		}
		tx.index = append(tx.index, putOp(kindFork, origin+"/"+fork, nil))
		return nil
	})
}

// hasForks reports whether a fork refers to the session's facts that was made, or is being
// made, since forks were looked for.
func (tx *Tx) hasForks() (bool, error) {
	m, id := tx.w.m, tx.w.id
	if m.forks.refers(id) {
		return true, nil
	}
	if m.shared == nil {
		return false, nil
	}
	for e, err := range m.opt.Store.Scan(tx.ctx, store.Scan{Kind: kindFork, Prefix: id + "/"}) {
		if err != nil {
			return false, storeFault(err)
		}
		if made, err := m.comesFork(tx.ctx, e.Key[len(id)+1:]); err != nil || made {
			return made, err
		}
		tx.index = append(tx.index, removeOp(kindFork, e.Key))
	}
	return false, nil
}

// comesFork reports whether a fork that was announced is there or may still come. One that
// is neither never comes: the node that announced it lost its claim.
func (m *Manager) comesFork(ctx context.Context, fork string) (bool, error) {
	if head, err := m.opt.Store.Head(ctx, fork); err != nil {
		return false, storeFault(err)
	} else if head.Sequence > 0 {
		return true, nil
	}
	claim, err := m.opt.Store.Claim(ctx, fork)
	var owned *store.OwnedError
	switch {
	case errors.As(err, &owned):
		return true, nil
	case err != nil:
		return false, storeFault(err)
	}
	if err := m.opt.Store.Release(ctx, fork, claim.Epoch); err != nil {
		return false, storeFault(err)
	}
	return claim.Head.Sequence > 0, nil
}
