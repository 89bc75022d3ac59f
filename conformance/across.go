package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// checkErased is the check that holds snapshots against the stream of their session.
const checkErased = "across.unresolved_actions"

func acrossChecks() []Check {
	return []Check{{
		ID: checkErased, Scope: Across, Level: Must, Paragraph: "Runtime event stream, Ordering",
		Says: "A snapshot doesn't silently erase an unresolved action: at the sequence at which the stream ends it has all that are pending there, or says that it is stale.",
	}}
}

// openActions are the actions of a session that nothing resolved, at the end of a
// stream that begins with the session.
type openActions struct {
	through int64
	pending map[string]bool
}

// heldSnapshot is what is kept of a snapshot to hold it against a stream.
type heldSnapshot struct {
	where, session string
	through        int64
	pending        map[string]bool
}

// noteAction keeps track of the actions of sessions.
func (s *eventStream) noteAction(f *fact) {
	if f.session == "" || f.sequence < 0 {
		return
	}
	open := s.actions[f.session]
	if open == nil {
		if f.typ != "session.created" || len(s.actions) >= s.c.limits.Remembered {
			return // a window, or more sessions than can be remembered
		}
		open = &openActions{pending: map[string]bool{}}
		s.actions[f.session] = open
	}
	open.through = f.sequence
	switch id := f.ref("actionId"); f.typ {
	case "action.required":
		if id != "" && len(open.pending) < s.c.limits.Remembered {
			open.pending[id] = true
		}
	case "action.resolved":
		delete(open.pending, id)
	}
}

// holdSnapshot keeps what a snapshot says is pending.
func (c *Checker) holdSnapshot(where string, o object) {
	n, ok := o["sequence"].(json.Number)
	if !ok || len(c.snapshots) >= c.limits.Remembered || o["stale"] == true || o["truncated"] == true || o["degraded"] == true {
		return
	}
	through, err := n.Int64()
	if err != nil {
		return
	}
	s := heldSnapshot{where: where, session: bounded(text(o, "sessionId")), through: through, pending: map[string]bool{}}
	for _, t := range list(o, "threads") {
		for _, r := range slices.Concat(list(t, "pendingRequests"), list(t, "actions")) {
			s.pending[bounded(text(r, "actionId"))] = true
		}
		if text(t, "status") == "stale" || text(t, "status") == "unknown" {
			return
		}
	}
	c.snapshots = append(c.snapshots, s)
}

// compareSnapshots holds all snapshots against the streams of their sessions.
func (c *Checker) compareSnapshots() {
	for _, s := range c.snapshots {
		open := c.open[s.session]
		if open == nil || open.through != s.through {
			continue
		}
		c.report.Checks[c.at[checkErased]].Made++
		for _, id := range slices.Sorted(maps.Keys(open.pending)) {
			if !s.pending[id] {
				c.found(checkErased, s.where, fmt.Sprintf("action %s is unresolved at sequence %d, but the snapshot doesn't have it", id, s.through))
			}
		}
	}
	c.snapshots = nil
}
