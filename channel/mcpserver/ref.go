package mcpserver

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentd/channel"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// turnRef names a turn durably: its ids, and where its facts begin. As a text it is
// a task's id and the state of a call that was asked for input. It is no secret and
// gives no rights: its bearer can only see what its role and account may see.
type turnRef struct {
	Session, Turn string
	// Sequence of the turn's first fact.
	Sequence uint64

	// Submitted and Thread are known once the fact was read.
	Submitted time.Time
	Thread    string
}

// String is how clients hold it.
func (r turnRef) String() string {
	return r.Session + "/" + r.Turn + "/" + strconv.FormatUint(r.Sequence, 10)
}

// parseRef reads what String wrote.
func parseRef(text string) (turnRef, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || !event.ValidID(parts[0]) || !event.ValidID(parts[1]) {
		return turnRef{}, fault.New(fault.NotFound, "there is no task %s", wire.Clip(text))
	}
	sequence, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil || sequence == 0 {
		return turnRef{}, fault.New(fault.NotFound, "there is no task %s", wire.Clip(text))
	}
	return turnRef{Session: parts[0], Turn: parts[1], Sequence: sequence}, nil
}

// turnOf returns the turn that a text names, if it is there and the caller may see
// it.
func (s *Server) turnOf(ctx context.Context, id *Identity, text string) (turnRef, error) {
	ref, err := parseRef(text)
	if err != nil {
		return ref, err
	}
	return ref, s.readRef(ctx, id, &ref)
}

// readRef reads the turn's first fact.
func (s *Server) readRef(ctx context.Context, id *Identity, ref *turnRef) error {
	unknown := fault.New(fault.NotFound, "there is no task %s", ref)
	events, _, err := s.opt.Runtime.Events(ctx, id.Caller, ref.Session, ref.Sequence-1, 1)
	if err != nil {
		if fault.KindOf(err) == fault.NotFound {
			return unknown
		}
		return err
	}
	if len(events) == 0 || events[0].Sequence != ref.Sequence {
		return unknown
	}
	var e event.Event
	if _, err := event.DecodeHeader(events[0].Data, &e); err != nil {
		return fmt.Errorf("mcpserver: %w", err)
	}
	if e.TurnID != ref.Turn || (e.Type != event.TypeTurnSubmitted && e.Type != event.TypeTurnSteered) {
		return unknown
	}
	ref.Submitted, ref.Thread = e.Time, e.ThreadID
	return nil
}

// findTurn returns the turn with an id: from the session's snapshot where it is
// among the newest, else from the journal.
func (s *Server) findTurn(ctx context.Context, id *Identity, sessionID, turnID string) (turnRef, error) {
	ref := turnRef{Session: sessionID, Turn: turnID}
	none := 0
	snapshot, err := runCommandAs[command.SessionRead](ctx, s, id, &command.GetSession{SessionID: sessionID, Limit: &none})
	if err != nil {
		return ref, err
	}
	for _, t := range snapshot.Threads {
		for _, turn := range t.Turns {
			if turn.TurnID == turnID && turn.SubmittedSequence > 0 {
				ref.Sequence = turn.SubmittedSequence
				return ref, s.readRef(ctx, id, &ref)
			}
		}
	}
	err = s.scanFacts(ctx, id, sessionID, 0, func(e *event.Event, _ []byte) (bool, error) {
		if e.Type != event.TypeTurnSubmitted || e.TurnID != turnID {
			return true, nil
		}
		ref.Sequence = e.Sequence
		return false, nil
	})
	switch {
	case err != nil:
		return ref, err
	case ref.Sequence == 0:
		return ref, fault.New(fault.NotFound, "the session %s has no turn %s", sessionID, turnID)
	}
	return ref, s.readRef(ctx, id, &ref)
}

// scanFacts reads a session's facts after a sequence until visit returns false or there
// are no more. The event is valid during the call.
func (s *Server) scanFacts(ctx context.Context, id *Identity, sessionID string, after uint64, visit func(e *event.Event, payload []byte) (bool, error)) error {
	var e event.Event
	for d, err := range channel.Facts(ctx, s.opt.Runtime, id.Caller, sessionID, after) {
		if err != nil {
			return err
		}
		payload, err := event.DecodeHeader(d.Data, &e)
		if err != nil {
			return fmt.Errorf("mcpserver: %w", err)
		}
		if more, err := visit(&e, payload); err != nil || !more {
			return err
		}
	}
	return nil
}

// threadRead is the part of a thread's read model that says how a turn stands.
type threadRead struct {
	command.ThreadRead

	UpdatedAt time.Time `json:"updatedAt"`
	Block     *struct {
		Reason string `json:"reason"`
	} `json:"block"`
}

func threadOf(ref turnRef) *command.GetThreadRead {
	return &command.GetThreadRead{SessionID: ref.Session, ThreadID: ref.Thread}
}

// readTurnFacts reads the facts of a turn up to its end.
func (s *Server) readTurnFacts(ctx context.Context, id *Identity, ref turnRef) (*watch, error) {
	w := newWatch(ref)
	err := s.scanFacts(ctx, id, ref.Session, ref.Sequence-1, func(e *event.Event, payload []byte) (bool, error) {
		if e.TurnID != ref.Turn {
			return true, nil
		}
		err := w.apply(e, payload)
		return w.End == nil, err
	})
	return w, err
}
