package channel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// NextWithin returns the next facts of a stream, or none if there were none for a
// while: what follows a stream for a remote client shows then that it is alive.
func NextWithin(ctx context.Context, s command.Stream, wait time.Duration) ([]command.Delivered, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	facts, err := s.Next(waiting)
	if err != nil && ctx.Err() == nil && errors.Is(waiting.Err(), context.DeadlineExceeded) {
		return nil, nil
	}
	return facts, err
}

// Accepting returns the context to submit a turn in for a client that waits for it. A
// client that goes away in that moment doesn't end it: whether there is a turn must be
// known, because it is to be abandoned then.
func Accepting(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// Abandon interrupts the turn of a client that went away, if there is one.
func Abandon(ctx context.Context, rt command.Runtime, caller command.Caller, sessionID, turnID string, log *slog.Logger) {
	if turnID == "" {
		return
	}
	p := &command.InterruptTurn{SessionID: sessionID, TurnID: turnID, Reason: "the client went away"}
	if _, err := rt.Do(context.WithoutCancel(ctx), caller, p); err != nil {
		log.Warn("a turn whose client went away could not be interrupted", "session", sessionID, "turn", turnID, "error", err)
	}
}

// HistorySegment is a part of a thread's history: the facts of one session, up to a
// sequence.
type HistorySegment struct {
	SessionID, ThreadID string
	// Through is the last sequence that belongs to it; 0 is all that there are.
	Through uint64
}

// maxSegments bounds how many forks of forks are followed.
const maxSegments = 100

// HistorySegments returns where the history of a thread is, the oldest part first. A thread
// that began by itself has one; that of a fork begins in the session that it was
// forked from. A source that isn't there any more is left out, with what is before it.
func HistorySegments(ctx context.Context, rt command.Runtime, caller command.Caller, sessionID, threadID string) ([]HistorySegment, error) {
	list := []HistorySegment{{SessionID: sessionID, ThreadID: threadID}}
	for len(list) < maxSegments {
		from, err := forkOf(ctx, rt, caller, &list[0])
		if err != nil && fault.KindOf(err) == fault.NotFound && len(list) > 1 {
			return list[1:], nil
		}
		if err != nil || from == nil {
			return list, err
		}
		list = append([]HistorySegment{{from.SessionID, from.ThreadID, from.Sequence}}, list...)
	}
	return list, nil
}

// forkOf returns what a segment's thread was forked from, nil if it wasn't: the thread
// of a fork is the first of its session.
func forkOf(ctx context.Context, rt command.Runtime, caller command.Caller, c *HistorySegment) (*event.ForkPoint, error) {
	oldest, err := rt.Oldest(ctx, caller, c.SessionID)
	if err != nil || oldest > 1 {
		return nil, err // what the first fact said is gone
	}
	facts, _, err := rt.Events(ctx, caller, c.SessionID, 0, 2)
	if err != nil || len(facts) < 2 || facts[0].Sequence != 1 {
		return nil, err
	}
	first, err := event.Decode(facts[0].Data)
	if err != nil {
		return nil, nil //nolint:nilerr // one of a newer server: what it says isn't known here
	}
	created, ok := first.Payload.(*event.SessionCreated)
	if !ok || created.ForkedFrom == nil {
		return nil, nil
	}
	var second event.Event
	if _, err := event.DecodeHeader(facts[1].Data, &second); err != nil || second.ThreadID != c.ThreadID {
		return nil, nil //nolint:nilerr // as above
	}
	return created.ForkedFrom, nil
}

// Read hands the facts of a segment over, in order, and returns the sequence of the
// last. What a newer server wrote and can't be read here is passed over, and so is
// what retention removed.
func (c *HistorySegment) Read(ctx context.Context, rt command.Runtime, caller command.Caller, with func(*event.Event)) (uint64, error) {
	oldest, err := rt.Oldest(ctx, caller, c.SessionID)
	if err != nil {
		return 0, err
	}
	through := max(c.Through, oldest-1)
	for d, err := range Facts(ctx, rt, caller, c.SessionID, oldest-1) {
		if err != nil {
			return 0, err
		}
		if c.Through > 0 && d.Sequence > c.Through {
			break
		}
		through = max(through, d.Sequence)
		if e, err := wholeFact(ctx, rt, caller, d.Data); err == nil {
			with(e)
		}
	}
	return through, nil
}

// Removed returns the last fact of a segment that retention removed, 0 if all are
// there. Code that shows a segment says so with [RemovedNote]: no reader may take the rest
// for all there was.
func (c *HistorySegment) Removed(ctx context.Context, rt command.Runtime, caller command.Caller) (uint64, error) {
	oldest, err := rt.Oldest(ctx, caller, c.SessionID)
	if err != nil {
		return 0, err
	}
	return oldest - 1, nil
}

// RemovedNote tells a person what isn't shown.
func RemovedNote(through uint64) string {
	return fmt.Sprintf("The beginning of this conversation isn't shown: its events through %d were removed by retention.", through)
}

// readPage is how many facts are read at once.
const readPage = 500

// Facts reads the facts of a session after a sequence, up to the last that there is.
// After an error it ends.
func Facts(ctx context.Context, rt command.Runtime, caller command.Caller, sessionID string, after uint64) iter.Seq2[command.Delivered, error] {
	return func(yield func(command.Delivered, error) bool) {
		for {
			page, last, err := rt.Events(ctx, caller, sessionID, after, readPage)
			if err != nil {
				yield(command.Delivered{}, err)
				return
			}
			for i := range page {
				if after = page[i].Sequence; !yield(page[i], nil) {
					return
				}
			}
			if len(page) == 0 || after >= last {
				return
			}
		}
	}
}
