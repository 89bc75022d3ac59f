package loop

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"agentd/event"
	"agentd/fault"
	"agentd/store"
)

// inheritedRollback is what a fork gives up of the history that it inherited. The sessions that
// it is of stay as they are, with their files: what a fork rolls back is its own
// conversation.
type inheritedRollback struct {
	// origin is where the history ends now; its sequence is 0 if nothing is left.
	origin event.ForkPoint
	// turns go, oldest first.
	turns []string
	// files were changed by these turns, and in which session.
	files []inheritedFile
}

type inheritedFile struct{ path, sessionID string }

// findInherited finds what a fork gives up to go back to an inherited turn, which stays, or
// to its very beginning. It reads from the fork backwards through the sessions that
// the history is of, as far as needed.
func (l *Loop) findInherited(ctx context.Context, origin *event.ForkPoint, toTurn string) (*inheritedRollback, error) {
	g := &inheritedRollback{}
	for range maxForks {
		c := historySegment{at: *origin, toTurn: toTurn, gone: map[string]bool{}, inherited: g}
		found, err := c.read(ctx, l.opt.Store)
		if err != nil {
			return nil, err
		}
		if found {
			slices.Reverse(g.turns)
			return g, nil
		}
		earlier, err := forkOf(ctx, l.opt.Store, origin, c.base)
		if err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "the history of session %s can't be read", origin.SessionID)
		}
		if earlier == nil {
			return g.toStart(origin, toTurn)
		}
		origin = earlier
	}
	return nil, fault.New(fault.Unavailable, "the session is forked more than %d levels deep", maxForks)
}

// toStart gives all of it up, if that is wanted.
func (g *inheritedRollback) toStart(first *event.ForkPoint, toTurn string) (*inheritedRollback, error) {
	if toTurn != event.NotApplicable {
		return nil, fault.New(fault.NotFound, "there is no finished turn %s in the thread or in the history it was forked from", toTurn)
	}
	g.origin = event.ForkPoint{SessionID: first.SessionID, ThreadID: first.ThreadID}
	slices.Reverse(g.turns)
	return g, nil
}

// historySegment is the part of a fork's history that is in one session.
type historySegment struct {
	at     event.ForkPoint
	toTurn string
	gone   map[string]bool
	// base is where the segment's own rollbacks left the history before it; nil if none
	// went that far.
	base *event.ForkPoint
	// end is the last fact of the turn that stays, once it was met.
	end       store.Record
	files     []inheritedFile
	inherited *inheritedRollback
}

// read goes back from the segment's end to the start of the turn that stays and
// reports whether that is here.
func (c *historySegment) read(ctx context.Context, s store.Store) (bool, error) {
	for rec, err := range s.Read(ctx, c.at.SessionID, store.Range{Before: c.at.Sequence + 1, Reverse: true}) {
		if err != nil {
			return false, fault.Wrap(fault.Unavailable, err, "the facts of session %s can't be read", c.at.SessionID)
		}
		if c.end.Sequence == 0 && rec.Sequence == c.at.Sequence {
			c.end = rec // of a turn that had not ended here
		}
		e, err := decodeIf(ctx, s, rec, c.at.ThreadID, inheritedPart)
		if err != nil {
			return false, fault.Wrap(fault.Internal, err, "a fact can't be read")
		}
		if e == nil {
			continue
		}
		if found, err := c.noteFact(rec, e); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// inheritedPart reports whether facts of a type say what an inherited turn was.
func inheritedPart(t event.Type) bool {
	switch t { //nolint:exhaustive // the rest stays with the session that it is of
	case event.TypeTurnStarted, event.TypeTurnCompleted, event.TypeTurnFailed, event.TypeToolResult, event.TypeToolFailed,
		event.TypeHistoryRollbackCompleted:
		return true
	}
	return false
}

func (c *historySegment) noteFact(rec store.Record, e *event.Event) (bool, error) {
	switch p := e.Payload.(type) {
	case *event.RollbackCompleted:
		for _, id := range ownTurns(p) {
			c.gone[id] = true
		}
		if p.Origin != nil && c.base == nil {
			c.base = p.Origin
		}
	case *event.TurnCompleted, *event.TurnFailed:
		if e.TurnID == c.toTurn {
			c.end = rec
		}
	case *event.ToolResult:
		c.changed(e.TurnID, p.ChangedFiles)
	case *event.ToolFailed:
		c.changed(e.TurnID, p.ChangedFiles)
	case *event.TurnStarted:
		return c.started(e.TurnID)
	}
	return false, nil
}

func (c *historySegment) changed(turnID string, files []event.FileChange) {
	if turnID == c.toTurn || c.gone[turnID] {
		return
	}
	for _, f := range files {
		c.files = append(c.files, inheritedFile{f.Path, c.at.SessionID})
	}
}

// started meets the beginning of a turn: it goes, it is gone already, or it is the
// one that stays.
func (c *historySegment) started(turnID string) (bool, error) {
	g := c.inherited
	switch {
	case c.gone[turnID] && turnID == c.toTurn:
		return false, fault.New(fault.NotFound, "turn %s was rolled back in session %s before the fork", turnID, c.at.SessionID)
	case c.gone[turnID]:
		return false, nil
	case turnID == c.toTurn:
		g.origin = event.ForkPoint{SessionID: c.at.SessionID, ThreadID: c.at.ThreadID, Sequence: c.end.Sequence, Hash: hex.EncodeToString(c.end.Hash[:])}
		return true, nil
	}
	g.turns = append(g.turns, turnID)
	g.files, c.files = append(g.files, c.files...), nil
	return false, nil
}

// point is where the history ends now; nil if nothing of it is given up.
func (g *inheritedRollback) point() *event.ForkPoint {
	if g == nil {
		return nil
	}
	p := g.origin
	return &p
}

func (g *inheritedRollback) count() int64 {
	if g == nil {
		return 0
	}
	return int64(len(g.turns))
}

// beside adds the files of inherited turns, which can't be restored from here.
func (g *inheritedRollback) beside(files []event.RollbackFile) []event.RollbackFile {
	return g.list(files, "unavailable", "it was changed before the fork, in session %s: take it back there")
}

// kept adds the files of inherited turns where nothing is to be restored.
func (g *inheritedRollback) kept(files []event.RollbackFile) []event.RollbackFile {
	return g.list(files, "kept", "it was changed before the fork, in session %s")
}

func (g *inheritedRollback) list(files []event.RollbackFile, change, why string) []event.RollbackFile {
	if g == nil {
		return files
	}
	for _, f := range slices.Backward(g.files) {
		i := slices.IndexFunc(files, func(x event.RollbackFile) bool { return x.Path == f.path })
		if i < 0 {
			files = append(files, event.RollbackFile{Path: f.path, Change: change, Reason: fmt.Sprintf(why, f.sessionID)})
			continue
		}
		if x := &files[i]; x.Reason == "" && (x.Change == "restored" || x.Change == "deleted") {
			x.Reason = "to what it was at the fork; " + fmt.Sprintf(why, f.sessionID)
		}
	}
	return files
}
