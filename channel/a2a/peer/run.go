package peer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/channel/a2a/dial"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// lastTries is how often a peer is asked to stop a task that is no longer needed.
const lastTries = 3

// run is the work on one task.
type run struct {
	c                 *Client
	taskID, sessionID string
	// woken says that the task may have changed here, told that the peer says that it
	// changed there.
	woken, told chan struct{}

	// w is the task as it was read last, line the open line to its peer.
	w    *command.PeerWork
	line *line
	// stream is the line as a stream of the peer's channel.
	stream command.ChannelStream
	// failures counts the tries in a row that failed, interval is the wait before the
	// next look.
	failures int
	interval time.Duration
	// stops counts the looks at a task since the request to stop it.
	stops int
	// unsent says that the peer can't have the message. deaf that it gives no streams
	// of tasks that run, stopped that it was asked to stop, answered is its question that
	// was answered last.
	unsent, deaf, stopped bool
	// over says that the task came to its end at the peer.
	over     bool
	answered string
	// got is what the stream delivered, for peers that forget what they have done.
	got gathered
}

// ownError is an error of this runtime, not of the peer.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }

func markOwnError(err error) error {
	if err == nil {
		return nil
	}
	return &ownError{err}
}

// runSteps does what is to be done until there is nothing.
func (r *run) runSteps(ctx context.Context) {
	defer r.hangUp()
	for ctx.Err() == nil {
		more, err := r.runNextStep(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if fault.KindOf(err) == fault.NotFound {
				more = false
			} else {
				r.c.opt.Logger.Warn("a peer's task failed and will be tried again", "taskId", r.taskID, "error", err)
				r.sleep(ctx, r.c.opt.Backoff)
			}
		}
		if !more && r.c.leave(r) {
			return
		}
	}
}

// runNextStep does the next thing. It reports whether there may be more, and errors of this
// runtime; those of the peer are dealt with.
func (r *run) runNextStep(ctx context.Context) (more bool, err error) {
	w, err := r.c.work(ctx, r.taskID)
	if err != nil {
		return true, err
	}
	if r.w == nil || r.w.RunID != w.RunID {
		r.resetAttempt()
	}
	r.w = w
	todo := nextStep(w, r.unsent, r.c.first(w.RunID))
	if todo == stop {
		if !w.Active {
			r.c.forget(w.RunID)
		}
		return false, nil
	}
	err = r.runStep(ctx, todo)
	if err == nil {
		r.failures = 0
		return true, nil
	}
	if ctx.Err() != nil {
		return false, nil //nolint:nilerr // the runtime stops: nothing went wrong
	}
	if mine, ok := errors.AsType[*ownError](err); ok {
		return true, mine.error
	}
	return r.handleTrouble(ctx, err)
}

// resetAttempt forgets what belonged to an earlier attempt.
func (r *run) resetAttempt() {
	r.failures, r.stops, r.interval, r.unsent, r.deaf, r.stopped, r.over, r.answered, r.got = 0, 0, 0, false, false, false, false, "", gathered{}
	r.hangUp()
}

func (r *run) hangUp() {
	r.leaveChannel()
	if r.line != nil {
		r.line.close()
		r.line = nil
	}
}

func (r *run) runStep(ctx context.Context, todo step) error {
	if err := r.dial(ctx); err != nil {
		return err
	}
	if err := r.enrolChannel(ctx); err != nil {
		return err
	}
	switch todo {
	case send:
		return r.sendTask(ctx)
	case find:
		return r.findSentMessage(ctx)
	case reply:
		return r.passAnswer(ctx)
	case cancel, abandon:
		return r.cancelTask(ctx)
	case follow:
		return r.followTask(ctx)
	case stop:
	}
	return nil
}

// dial opens the line to the peer.
func (r *run) dial(ctx context.Context) error {
	if r.line != nil {
		return nil
	}
	p, err := r.c.peer(r.w.Peer)
	if err != nil {
		return fmt.Errorf("%w: %w", errCard, err)
	}
	r.line, err = r.c.open(ctx, p)
	return err
}

// handleTrouble deals with what went wrong at the peer.
func (r *run) handleTrouble(ctx context.Context, err error) (more bool, _ error) {
	why := kindOf(err)
	linked := r.w.Link != nil
	switch {
	case why == gone && linked:
		return true, r.reportStatus(ctx, &command.UpdatePeerTask{Status: "missing", Reason: "the peer doesn't know the task: " + errorText(err), Category: "lost"})
	case !r.w.Active:
		return r.giveUpLate(ctx, err)
	case why == tooLarge && linked:
		return true, r.failAttempt(ctx, "peer_output_too_large", fmt.Sprintf("the peer delivers more than the %d bytes that are taken", r.c.opt.MaxBody))
	case why == refused && r.isDone():
		return true, r.failAttempt(ctx, "peer_output_refused", "what the peer delivered can't be fetched: "+errorText(err))
	case !linked && (!r.w.Sent || r.unsent) && (errors.Is(err, errCard) || why == refused):
		return true, r.reportStatus(ctx, &command.UpdatePeerTask{Status: "rejected", Category: categoryOf(err), Reason: errorText(err)})
	}
	return r.tryAgain(ctx, why, err)
}

// categoryOf names a refusal for programs.
func categoryOf(err error) string {
	switch {
	case errors.Is(err, errCard):
		return "peer_card"
	case errors.Is(err, errRedirect), errors.Is(err, dial.ErrRefused):
		return "peer_address"
	}
	return "peer_rejected"
}

// tryAgain says that the peer can't be reached, and waits; or gives up.
func (r *run) tryAgain(ctx context.Context, why kind, err error) (more bool, _ error) {
	r.failures++
	reason := "the peer can't be reached: " + errorText(err)
	if why == unauthorized {
		reason = "the peer doesn't take our credential: " + errorText(err)
	}
	up := &command.UpdatePeerTask{Status: "unreachable", Reason: reason, Category: "peer_unreachable"}
	if r.isDone() && r.failures < r.c.opt.Attempts {
		// It is known how the task stands there; what it delivered is all that is missing.
		up = &command.UpdatePeerTask{Status: unreconciled, Reason: "the peer is done, and what it delivered can't be fetched now: " + errorText(err)}
	}
	if r.failures >= r.c.opt.Attempts {
		up.Final = true
		up.Reason = fmt.Sprintf("%s (given up after %d tries)", reason, r.failures)
		r.failures = 0
		return false, r.reportStatus(ctx, up)
	}
	if err := r.reportStatus(ctx, up); err != nil {
		return true, err
	}
	r.hangUp() // the card may have changed
	wait := r.c.opt.MaxBackoff
	if r.failures < 20 {
		wait = min(wait, r.c.opt.Backoff<<(r.failures-1))
	}
	r.pause(ctx, wait)
	return true, nil
}

// isDone reports whether the peer is known to be done with the task.
func (r *run) isDone() bool { return r.w.Link != nil && r.w.Link.Status == unreconciled }

// giveUpLate stops asking a peer to stop a task that is no longer needed.
func (r *run) giveUpLate(ctx context.Context, err error) (more bool, _ error) {
	if r.failures++; r.failures < lastTries {
		r.sleep(ctx, r.c.opt.Backoff)
		return true, nil
	}
	return false, r.reportStatus(ctx, &command.UpdatePeerTask{Status: "unreachable", Reason: "the peer could not be asked to stop: " + errorText(err)})
}

// errorText is an error for people. Addresses may hold secrets, so their hosts alone
// are named.
func errorText(err error) string {
	text := err.Error()
	if u, ok := errors.AsType[*url.Error](err); ok {
		host := "the address"
		if at, err := url.Parse(u.URL); err == nil && at.Host != "" {
			host = at.Scheme + "://" + at.Host
		}
		text = strings.ReplaceAll(text, strconv.Quote(u.URL), host)
	}
	return wire.Shorten(text, 1000)
}

// reportStatus records how the task stands at the peer.
func (r *run) reportStatus(ctx context.Context, up *command.UpdatePeerTask) error {
	up.TaskID, up.RunID, up.ChannelID = r.w.TaskID, r.w.RunID, r.channelID()
	if r.w.Link != nil {
		up.RemoteTaskID = r.w.Link.RemoteTaskID
	}
	up.Reason = wire.Shorten(up.Reason, 3900)
	_, err := r.c.rt.Do(ctx, caller(), up)
	if err != nil {
		return markOwnError(fmt.Errorf("peer: task %s: %w", r.taskID, err))
	}
	return nil
}

// failAttempt ends the attempt while the task at the peer stays as it is.
func (r *run) failAttempt(ctx context.Context, category, message string) error {
	_, err := r.c.rt.Do(ctx, caller(), &command.FailTask{
		TaskID: r.w.TaskID, RunID: r.w.RunID, Error: &event.Failure{Message: message, Category: category},
	})
	if err != nil {
		return markOwnError(fmt.Errorf("peer: task %s: %w", r.taskID, err))
	}
	return nil
}

// channelID is the id of the channel to the peer.
func (r *run) channelID() string {
	sum := sha256.Sum256([]byte(r.w.Account + "\x00" + r.w.Peer))
	return "chan_a2a_out_" + hex.EncodeToString(sum[:8])
}

// sleep waits, whatever happens in the meantime.
func (r *run) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// pause waits until it is time, the peer tells of a change, or something else is to
// be done.
func (r *run) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-r.told:
			return
		case <-r.woken:
			if r.stepChanged(ctx) {
				return
			}
		}
	}
}

// stepChanged reports whether something else is to be done than what is being done.
func (r *run) stepChanged(ctx context.Context) bool {
	w, err := r.c.work(ctx, r.taskID)
	if err != nil {
		return true
	}
	return w.RunID != r.w.RunID || nextStep(w, r.unsent, false) != nextStep(r.w, r.unsent, false)
}

// check refuses ids that can't be kept.
func check(id proto.TaskID) error {
	if id == "" || len(id) > 256 {
		return fmt.Errorf("%w: a task has no usable id", errNonsense)
	}
	return nil
}
