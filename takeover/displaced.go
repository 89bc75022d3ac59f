package takeover

import (
	"time"

	"agentd/store"
)

const (
	// turnAfter is how long a node leaves a session to each one whose turn is before its own,
	// lastTurn is the turn after which all of the others try: a session isn't to wait for long
	// where many nodes are and only one reaches it.
	turnAfter = 400 * time.Millisecond
	lastTurn  = 2
	// strandAfter is how long a session's files may be out of reach before that becomes a
	// fact: another node may reach them, and their own may only be restarting. By then each
	// of the others has tried.
	strandAfter = 3 * time.Second
)

// Displacements says when a node tries which of the sessions that lost their node and that
// not every node can go on with. The zero value is ready; it is for one goroutine.
type Displacements struct{ since map[string]time.Time }

// Try is a session to try now.
type Try struct {
	SessionID string
	// Strand says that no node can be expected to reach the files any more.
	Strand bool
}

// Due returns which of the sessions are to be tried, of all that there are at this moment.
func (d *Displacements) Due(found []store.Displaced, now time.Time) []Try {
	seen := make(map[string]time.Time, len(found))
	var due []Try
	for _, f := range found {
		first, known := d.since[f.SessionID]
		if !known {
			first = now
		}
		seen[f.SessionID] = first
		turn := min(f.Turn, lastTurn)
		if waited := now.Sub(first); waited >= time.Duration(turn)*turnAfter {
			due = append(due, Try{f.SessionID, waited >= time.Duration(turn+1)*strandAfter})
		}
	}
	d.since = seen
	return due
}
