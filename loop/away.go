package loop

import (
	"context"
	"slices"

	"agentd/event"
	"agentd/session"
	"agentd/tool"
)

// usesFiles reports whether a tool works in the session's folder.
func usesFiles(info *event.ToolInfo) bool {
	return slices.ContainsFunc(info.Capabilities, func(c string) bool {
		return c == tool.CapFilesRead || c == tool.CapFilesWrite || c == tool.CapProcess
	})
}

// emitPlace records where the session's files are, once a tool is about to work with them:
// from then on only nodes that reach them work on the session.
func (l *Loop) emitPlace(tx *session.Tx, r *toolRun) {
	if !l.m.HasPlaces() || !usesFiles(&r.entry.Info) {
		return
	}
	if p := tx.State.Place; p != nil && (p.Folder != "" || p.Away != "") {
		return
	}
	here := l.m.Here(r.place.root)
	if p := tx.State.Place; here == nil || (p != nil && (here.Folder == "" || p.Node != here.Node || p.Root != here.Root)) {
		return
	}
	tx.Emit(event.Event{Type: event.TypeSessionUpdated, Payload: &event.SessionUpdated{
		Place: here, Reason: "a tool works with the files that are here",
	}})
}

// Strand records that no live node reaches a session's files: what was in flight becomes
// facts, and the threads with work wait until such a node is back.
func (l *Loop) Strand(ctx context.Context, sessionID string) error {
	return l.m.Strand(ctx, sessionID, func(tx *session.Tx) error {
		var lost []string
		for _, t := range tx.State.Threads {
			if t.Active == nil && len(t.Queue) == 0 && (t.Context == nil || t.Context.Running == nil) {
				continue
			}
			lost = append(lost, l.recoverThread(tx, t)...)
			if t.Block == nil && !blockedIn(tx, t.ThreadID) {
				tx.Emit(event.Event{Type: event.TypeThreadUpdated, Scope: event.Scope{ThreadID: t.ThreadID}, Payload: &event.ThreadUpdated{
					Status: "blocked", Code: event.PlaceUnreachable, Reason: session.AwayReason(sessionID, tx.State.Place) + "; it goes on by itself when the files are there again",
				}})
			}
		}
		if len(lost) > 0 {
			tx.Emit(event.Event{Type: event.TypeHistoryReconstructed, Payload: &event.HistoryReconstructed{
				ReplayedEvents: int64(tx.State.Sequence), Reason: "the node that has the session's files is gone", Recovered: lost,
			}})
		}
		return nil
	})
}

// unstrand lets the threads go on that waited for the session's files, which this node
// reaches.
func (l *Loop) unstrand(tx *session.Tx) {
	reason := "the session doesn't wait for files any more"
	if p := tx.State.Place; p != nil && p.Away != "" {
		reason = "the session's files are there again"
		back := *p
		back.Away = ""
		tx.Emit(event.Event{Type: event.TypeSessionUpdated, Payload: &event.SessionUpdated{Place: &back, Reason: reason}})
	}
	session.ResumePlaced(tx, reason)
}

// blockedIn reports whether a decision blocks a thread.
func blockedIn(tx *session.Tx, threadID string) bool {
	return slices.ContainsFunc(tx.Facts(), func(e event.Event) bool {
		p, ok := e.Payload.(*event.ThreadUpdated)
		return ok && e.ThreadID == threadID && p.Status == "blocked"
	})
}
