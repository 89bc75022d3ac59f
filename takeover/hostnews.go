package takeover

import (
	"context"
	"errors"
	"log/slog"
	"strings"
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
// the host's policy is, who may come in, how much an account may use. What can't be read stays
// due until it was.
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

// changed says what has to be read beside the facts that tell of it.
type changed struct{ tokens, limits bool }

// takeOverDue takes over what is due. After an error all is.
func (n *HostNews) takeOverDue(ctx context.Context) error {
	first, last, all := n.takeDue()
	var what changed
	var err error
	switch {
	case all || last-first >= followedFacts:
		what, err = changed{tokens: true, limits: true}, n.followState(ctx)
	case last > 0:
		what, err = n.followFacts(ctx, first, last)
	}
	if err == nil && what.limits {
		err = n.opt.Sessions().ReadLimits(ctx)
	}
	if err == nil && what.tokens {
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

// followFacts takes over facts, and says what they are about.
func (n *HostNews) followFacts(ctx context.Context, first, last uint64) (what changed, err error) {
	facts, err := n.opt.Sessions().Facts(ctx, event.RuntimeSession, first, last)
	if err != nil {
		return what, err
	}
	if len(facts) == 0 || facts[len(facts)-1].Sequence < last {
		return what, errors.New("the facts that another node recorded aren't there yet")
	}
	n.opt.Loop().Follow(facts)
	for i := range facts {
		if p, ok := facts[i].Payload.(*event.RuntimeChanged); ok {
			what.tokens = what.tokens || p.TokenID != ""
			what.limits = what.limits || strings.HasPrefix(p.Change, "quotas_")
		}
	}
	return what, nil
}
