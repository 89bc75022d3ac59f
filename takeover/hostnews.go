package takeover

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/loop"
	"agentd/session"
	"agentd/state"
	"agentd/store"
)

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

// HostNews takes over what other nodes record in the session that belongs to all nodes: what
// the host's policy is, who may come in. What can't be read stays due until it was.
type HostNews struct {
	opt HostNewsOptions

	mu sync.Mutex
	// first and last are the facts that have to be read; last is 0 if there are none. all says
	// that the state and the tokens have to be, whatever facts there are.
	first, last uint64
	all         bool
	due         chan struct{}
}

// HostNewsOptions say what takes the news in; all are required.
type HostNewsOptions struct {
	// Sessions and Loop are called when there is news.
	Sessions func() *session.Manager
	Loop     func() *loop.Loop
	// ShareTokens takes over the tokens that other nodes made, changed or revoked.
	ShareTokens func(context.Context) error
	Logger      *slog.Logger
}

// NewHostNews returns news of which none is due.
func NewHostNews(opt HostNewsOptions) *HostNews {
	return &HostNews{opt: opt, due: make(chan struct{}, 1)}
}

// noteFacts says that another node recorded facts.
func (n *HostNews) noteFacts(first, last uint64) {
	n.mu.Lock()
	if n.last == 0 {
		n.first = first
	}
	n.first, n.last = min(n.first, first), max(n.last, last)
	n.mu.Unlock()
	n.ring()
}

// NoteAll says that all has to be read.
func (n *HostNews) NoteAll() {
	n.mu.Lock()
	n.all = true
	n.mu.Unlock()
	n.ring()
}

func (n *HostNews) ring() {
	select {
	case n.due <- struct{}{}:
	default:
	}
}

// takeDue returns what has to be read, which is the caller's from then on.
func (n *HostNews) takeDue() (first, last uint64, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	first, last, all = n.first, n.last, n.all
	n.first, n.last, n.all = 0, 0, false
	return first, last, all
}

// Note notes what another node recorded in the runtime's own session.
func (n *HostNews) Note(a store.Appended) {
	if a.SessionID != event.RuntimeSession {
		return
	}
	first := a.First
	if first == 0 {
		first = a.Sequence
	}
	n.noteFacts(first, a.Sequence)
}

// Follow takes over what other nodes recorded there, until ctx ends. What it can't read
// it tries again, in the state of the session, until it could: that has what was recorded
// meanwhile too, and the order of facts doesn't matter for it.
func (n *HostNews) Follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.due:
		}
		failed := false
		for pause := hostFirstPause; ; pause = min(2*pause, hostLastPause) {
			err := n.takeOverDue(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			if !failed {
				n.opt.Logger.Warn("what another node changed could not be taken over; it is tried again until it is", "error", err)
			}
			failed = true
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
		if failed && ctx.Err() == nil {
			n.opt.Logger.Info("what another node changed was taken over")
		}
	}
}

// takeOverDue takes over what is due. After an error all is.
func (n *HostNews) takeOverDue(ctx context.Context) error {
	first, last, all := n.takeDue()
	tokens := all || last-first >= followedFacts
	var err error
	switch {
	case tokens:
		err = n.followState(ctx)
	case last > 0:
		tokens, err = n.followFacts(ctx, first, last)
	}
	if err == nil && tokens {
		err = n.opt.ShareTokens(ctx)
	}
	if err != nil {
		n.NoteAll()
	}
	return err
}

func (n *HostNews) followState(ctx context.Context) error {
	err := n.opt.Sessions().Read(ctx, event.RuntimeSession, func(s *state.Session) error {
		n.opt.Loop().FollowState(s)
		return nil
	})
	if fault.KindOf(err) == fault.NotFound {
		return nil // nothing was recorded there yet
	}
	return err
}

// followFacts reports whether one of the facts is about a token.
func (n *HostNews) followFacts(ctx context.Context, first, last uint64) (tokens bool, err error) {
	facts, err := n.opt.Sessions().Facts(ctx, event.RuntimeSession, first, last)
	if err != nil {
		return false, err
	}
	if len(facts) == 0 || facts[len(facts)-1].Sequence < last {
		return false, errors.New("the facts that another node recorded aren't there yet")
	}
	n.opt.Loop().Follow(facts)
	for i := range facts {
		if p, ok := facts[i].Payload.(*event.RuntimeChanged); ok && p.TokenID != "" {
			return true, nil
		}
	}
	return false, nil
}
