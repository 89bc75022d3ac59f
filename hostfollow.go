package agentd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// This file takes over what other nodes record in the session that belongs to all nodes: what
// the host's policy is, who may come in. What can't be read stays due until it was.

const (
	// followedFacts is how many facts are read one by one. Of more than that the session's
	// state says the same for less.
	followedFacts = 1000
	// hostFirstPause and hostLastPause bound the pauses between two tries to read what
	// couldn't be read. The last is short: until then a call may be allowed here that is
	// denied elsewhere.
	hostFirstPause = 50 * time.Millisecond
	hostLastPause  = 400 * time.Millisecond
)

// hostNews is what is known to be in the runtime's own session and wasn't taken over yet.
type hostNews struct {
	mu sync.Mutex
	// first and last are the facts that have to be read; last is 0 if there are none. all says
	// that the state and the tokens have to be, whatever facts there are.
	first, last uint64
	all         bool
	due         chan struct{}
}

// noteFacts says that another node recorded facts.
func (n *hostNews) noteFacts(first, last uint64) {
	n.mu.Lock()
	if n.last == 0 {
		n.first = first
	}
	n.first, n.last = min(n.first, first), max(n.last, last)
	n.mu.Unlock()
	n.ring()
}

// noteAll says that all has to be read.
func (n *hostNews) noteAll() {
	n.mu.Lock()
	n.all = true
	n.mu.Unlock()
	n.ring()
}

func (n *hostNews) ring() {
	select {
	case n.due <- struct{}{}:
	default:
	}
}

// take returns what has to be read, which is the caller's from then on.
func (n *hostNews) take() (first, last uint64, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	first, last, all = n.first, n.last, n.all
	n.first, n.last, n.all = 0, 0, false
	return first, last, all
}

// followRuntime notes what another node recorded in the runtime's own session.
func (r *Runtime) followRuntime(a store.Appended) {
	if a.SessionID != event.RuntimeSession {
		return
	}
	first := a.First
	if first == 0 {
		first = a.Sequence
	}
	r.hostNews.noteFacts(first, a.Sequence)
}

// takeHostNews takes over what other nodes recorded there, until ctx ends. What it can't read
// it tries again, in the state of the session, until it could: that has what was recorded
// meanwhile too, and the order of facts doesn't matter for it.
func (r *Runtime) takeHostNews(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hostNews.due:
		}
		failed := false
		for pause := hostFirstPause; ; pause = min(2*pause, hostLastPause) {
			err := r.takeOverHost(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			if !failed {
				r.opt.Logger.Warn("what another node changed could not be taken over; it is tried again until it is", "error", err)
			}
			failed = true
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
		if failed && ctx.Err() == nil {
			r.opt.Logger.Info("what another node changed was taken over")
		}
	}
}

// takeOverHost takes over what is due. After an error all is.
func (r *Runtime) takeOverHost(ctx context.Context) error {
	first, last, all := r.hostNews.take()
	tokens := all || last-first >= followedFacts
	var err error
	switch {
	case tokens:
		err = r.followHostState(ctx)
	case last > 0:
		tokens, err = r.followHostFacts(ctx, first, last)
	}
	if err == nil && tokens {
		err = r.shareTokens(ctx)
	}
	if err != nil {
		r.hostNews.noteAll()
	}
	return err
}

func (r *Runtime) followHostState(ctx context.Context) error {
	err := r.manager.Read(ctx, event.RuntimeSession, func(s *state.Session) error {
		r.loop.FollowState(s)
		return nil
	})
	if fault.KindOf(err) == fault.NotFound {
		return nil // nothing was recorded there yet
	}
	return err
}

// followHostFacts reports whether one of the facts is about a token.
func (r *Runtime) followHostFacts(ctx context.Context, first, last uint64) (tokens bool, err error) {
	facts, err := r.manager.Facts(ctx, event.RuntimeSession, first, last)
	if err != nil {
		return false, err
	}
	if len(facts) == 0 || facts[len(facts)-1].Sequence < last {
		return false, errors.New("the facts that another node recorded aren't there yet")
	}
	r.loop.Follow(facts)
	for i := range facts {
		if p, ok := facts[i].Payload.(*event.RuntimeChanged); ok && p.TokenID != "" {
			return true, nil
		}
	}
	return false, nil
}

// shareTokens takes over the tokens that other nodes made, changed or revoked.
func (r *Runtime) shareTokens(ctx context.Context) error {
	sharer, ok := r.opt.Host.Tokens.(TokenSharer)
	if !ok {
		return nil
	}
	entries, err := r.manager.Tokens(ctx)
	if err == nil && len(entries) > 0 {
		err = sharer.TakeTokens(entries)
	}
	if err != nil {
		return fmt.Errorf("agentd: the tokens of other nodes: %w", err)
	}
	return nil
}
