package session

import "sync"

// forkGuard keeps forks and removals apart. A removal looks through all sessions for
// forks before it begins, which takes a while, and a fork looks at its origin before
// it is stored: without a word between them a fork could be made in the meantime
// whose history is gone.
//
// A fork registers first, and only then reads the origin, through its
// writer: there it finds a removal that was decided before. A removal asks
// under the writer's lock, and finds a fork that was announced before.
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
