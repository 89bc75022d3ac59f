package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"agentd/client"
	"agentd/fault"
)

// told is what a follower delivers: a fact, the news that the connection is lost
// or back, or the end.
type told struct {
	fact fact
	// lost says why nothing comes at the moment; it will be tried again.
	lost error
	// err is the end.
	err error
}

// follower delivers the facts of a session to a channel. Its owner calls stop,
// which waits.
type follower struct {
	facts     chan told
	cancel    context.CancelFunc
	wait      sync.WaitGroup
	sessionID string
	after     uint64
}

// startFollowing begins behind a sequence. It goes on when ctx ends, because what
// becomes of a turn that is being interrupted is of interest too.
func startFollowing(ctx context.Context, f facts, sessionID string, after uint64) *follower {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &follower{facts: make(chan told, 64), cancel: cancel, sessionID: sessionID, after: after}
	w.wait.Go(func() {
		defer close(w.facts)
		w.run(ctx, f)
	})
	return w
}

func (w *follower) stop() {
	w.cancel()
	w.wait.Wait()
}

// How often, and after how long, a lost connection is tried again.
const (
	followTries = 8
	firstPause  = 200 * time.Millisecond
	longPause   = 2 * time.Second
)

func (w *follower) run(ctx context.Context, f facts) {
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
		if tries >= followTries || !goesOn(f, err) {
			w.tell(ctx, told{err: fmt.Errorf("session %s can't be followed any more: %w", w.sessionID, err)})
			return
		}
		w.tell(ctx, told{lost: err})
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, longPause)
	}
}

// goesOn reports whether trying again may help.
func goesOn(f facts, err error) bool {
	_, remote := f.(*remoteFacts)
	kind := fault.KindOf(err)
	return remote && (kind == fault.Unavailable || kind == fault.RateLimited || kind == fault.Internal)
}

// pass delivers facts until the stream ends, and returns why.
func (w *follower) pass(ctx context.Context, f facts) error {
	for e, err := range stream(ctx, f, w.sessionID, w.after) {
		if err != nil {
			return err
		}
		if !w.tell(ctx, told{fact: e}) {
			return ctx.Err()
		}
		w.after = e.sequence
	}
	return errors.New("the stream ended")
}

// stream follows a session; a server is not tried again here, so that it can be
// told that it is away.
func stream(ctx context.Context, f facts, sessionID string, after uint64) iter.Seq2[fact, error] {
	r, remote := f.(*remoteFacts)
	if !remote {
		return f.follow(ctx, sessionID, after, nil)
	}
	return func(yield func(fact, error) bool) {
		for e, err := range r.client.Follow(ctx, sessionID, after, &client.FollowOptions{Retries: -1}) {
			if err == nil && e.Frame != "" {
				continue // a repair of the stream; the facts that follow have their numbers
			}
			if !yield(fact{e.Sequence, e.Data}, err) {
				return
			}
		}
	}
}

func (w *follower) tell(ctx context.Context, t told) bool {
	select {
	case w.facts <- t:
		return true
	case <-ctx.Done():
		return false
	}
}
