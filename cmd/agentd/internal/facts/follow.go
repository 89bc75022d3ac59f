package facts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentd/client"
	"agentd/fault"
)

// News is what a follower delivers: a fact, the news that the connection is lost or
// there again, or the end. The zero value says that the follower was stopped.
type News struct {
	Fact Fact
	// Connected says that the server is reached again, also if it has nothing to tell.
	Connected bool
	// Lost says why nothing comes at the moment; it will be tried again.
	Lost error
	// Err is why the follower ended by itself.
	Err error
}

// Follower delivers the facts of a session to a channel. Its owner calls Stop, which
// waits.
type Follower struct {
	// News is closed when the follower has ended.
	News      chan News
	cancel    context.CancelFunc
	wait      sync.WaitGroup
	sessionID string
	after     uint64
	// patient says that a lost server is waited for without end.
	patient bool
	// lost says that the connection was lost, and is not there again.
	lost bool
}

// StartFollower begins behind a sequence. It goes on when ctx ends, because what
// becomes of a turn that is being interrupted is of interest too.
func StartFollower(ctx context.Context, f Source, sessionID string, after uint64) *Follower {
	return startFollower(ctx, f, &Follower{sessionID: sessionID, after: after})
}

// StartPatientFollower is StartFollower for someone who stays: a server that can't be
// reached is tried again until the follower is stopped.
func StartPatientFollower(ctx context.Context, f Source, sessionID string, after uint64) *Follower {
	return startFollower(ctx, f, &Follower{sessionID: sessionID, after: after, patient: true})
}

func startFollower(ctx context.Context, f Source, w *Follower) *Follower {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.News, w.cancel = make(chan News, 64), cancel
	w.wait.Go(func() {
		defer close(w.News)
		w.run(ctx, f)
	})
	return w
}

// Stop ends the follower and waits for it.
func (w *Follower) Stop() {
	w.cancel()
	w.wait.Wait()
}

// How often, and after how long, a lost connection is tried again.
const (
	followTries = 8
	firstPause  = 200 * time.Millisecond
	longPause   = 2 * time.Second
)

func (w *Follower) run(ctx context.Context, f Source) {
	pause := firstPause
	for tries := 0; ; tries++ {
		before := w.after
		err := w.pass(ctx, f)
		if ctx.Err() != nil {
			return
		}
		if w.after > before {
			tries, pause = 0, firstPause
		}
		if (tries >= followTries && !w.patient) || !mayRecover(f, err) {
			w.deliver(ctx, News{Err: fmt.Errorf("session %s can no longer be followed: %w", w.sessionID, err)})
			return
		}
		w.lost = true
		w.deliver(ctx, News{Lost: err})
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, longPause)
	}
}

// mayRecover reports whether trying again may help.
func mayRecover(f Source, err error) bool {
	kind := fault.KindOf(err)
	return f.Remote() && (kind == fault.Unavailable || kind == fault.RateLimited || kind == fault.Internal)
}

// pass delivers facts until the stream ends, and returns why. The source doesn't try
// again by itself, so that a lost connection can be told.
func (w *Follower) pass(ctx context.Context, f Source) error {
	o := &client.FollowOptions{Retries: -1}
	if w.lost {
		o.Connected = func() {
			w.lost = false
			w.deliver(ctx, News{Connected: true})
		}
	}
	for e, err := range f.Follow(ctx, w.sessionID, w.after, o) {
		if err != nil {
			return err
		}
		if !w.deliver(ctx, News{Fact: e}) {
			return ctx.Err()
		}
		w.after = e.Sequence
	}
	return errors.New("the stream ended")
}

func (w *Follower) deliver(ctx context.Context, n News) bool {
	select {
	case w.News <- n:
		return true
	case <-ctx.Done():
		return false
	}
}
