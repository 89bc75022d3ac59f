package work

import (
	"time"

	"agentd/state"
)

// inactive is why a turn is stopped that shows no progress.
const inactive = "the attempt showed no progress for longer than its limit"

// quietSince says when the newest fact of a thread's work happened, its own or one of the
// children that work for it. Waits says that one of them waits for a person: that
// is no inactivity, however long it takes.
func quietSince(s *state.Session, t *state.Thread) (since time.Time, waits bool) {
	since, waits = t.LastAt, t.Block != nil || t.Active != nil && len(t.Active.Waiting) > 0
	for _, a := range s.Subagents.Open {
		if waits {
			break
		}
		if a.ParentThreadID != t.ThreadID {
			continue
		}
		waits = a.Status == childWaiting || a.Status == childBlocked
		if child := s.Thread(a.ThreadID); child != nil && child != t {
			heard, asks := quietSince(s, child)
			since, waits = latest(since, heard), waits || asks
		}
	}
	return since, waits
}
