package evidence

import (
	"strings"

	"agentd/event"
)

// CaseInherited is a turn that a fork had from the session which it was forked from,
// as far as a rollback says something about it.
type CaseInherited struct {
	TurnID string `json:"turnId"`
	// Changed are the files of which a rollback said that they were changed before the
	// fork. Which of the turns it took back changed them isn't told: the newest has all.
	Changed []string `json:"changed,omitempty"`
}

// inheritFacts are what a recording remembers of the turns that a fork inherited.
type inheritFacts struct {
	// behind says that a rollback went behind the fork's beginning, kept is the turn that
	// it left as the last; empty if it left none.
	behind bool
	kept   string
	// newest is where in the case the newest turn is that the last rollback took back; -1 if
	// it took none.
	newest int
}

// inherits takes the turns that a rollback behind the beginning of a fork tells of: the
// ones that it took back and the one that stays. The next one tells of those before. It
// reports whether they fit to what was told.
func (r *recording) inherits(p *event.RollbackStarted) bool {
	f, n := &r.act.inheritFacts, int(p.InheritedTurns)
	if n < 0 || n > len(p.RemovedTurns) {
		return false
	}
	gone, to := p.RemovedTurns[:n], applicable(p.ToTurnID)
	f.newest = n - 1
	switch {
	case f.behind && n == 0:
		return to == f.kept // nothing inherited goes
	case f.behind && gone[n-1] != f.kept:
		return false
	case f.behind:
		gone = gone[:n-1] // the last one is in the case
	}
	var told []CaseInherited
	if to != "" {
		told = append(told, CaseInherited{TurnID: to})
		if n > 0 {
			f.newest++
		}
	}
	for _, id := range gone {
		told = append(told, CaseInherited{TurnID: id})
	}
	r.c.Inherited = append(told, r.c.Inherited...)
	f.behind, f.kept = true, to
	return true
}

// beforeTheFork begins the reason of a file that an inherited turn changed and no turn of
// the fork did.
const beforeTheFork = "it was changed before the fork"

// inheritedFiles takes the files of inherited turns that a rollback names.
func (r *recording) inheritedFiles(p *event.RollbackCompleted) {
	if p.Origin == nil || r.limits[limitTakenBack] {
		return
	}
	for _, file := range p.Files {
		if !strings.HasPrefix(file.Reason, beforeTheFork) {
			continue
		}
		if r.act.newest < 0 || r.act.newest >= len(r.c.Inherited) {
			r.limit(limitTakenBack)
			return
		}
		t := &r.c.Inherited[r.act.newest]
		t.Changed = append(t.Changed, file.Path)
	}
}
