package workspace

import (
	"sort"
	"strings"

	"agentd/event"
)

// Turned is a turn that is taken back, with what its calls changed, in order.
type Turned struct {
	TurnID string
	Files  []event.FileChange
	// Elsewhere says why the files that these changes left are not those of the workspace:
	// they were made in another one. Empty if they were made here.
	Elsewhere string
}

// Step is what a rollback does with one path.
type Step struct {
	// File is the outcome as it is reported.
	File event.RollbackFile
	// Do says whether anything has to be done.
	Do bool
	// To is the state to go back to, Ref where its content is.
	To  State
	Ref string
}

// Reasons that people read.
const (
	reasonSince   = "someone else changed it since"
	reasonBetween = "someone else changed it between the removed turns"
	reasonSetID   = "without its set-user-ID and set-group-ID bits"
)

// history is what removed turns did with one path.
type history struct {
	path string
	// was is the state before the first change, ref where its content is, and to
	// what of that state is brought back.
	was, to State
	ref     string
	// after is the state after the last one.
	after State
	// foreign says that someone else changed it in between.
	foreign bool
	// note is what was said of the first change.
	note string
	// lost says why the state before is not known.
	lost string
	// elsewhere says why what a change left is in another workspace; left that the last
	// change is such a one.
	elsewhere string
	left      bool
}

// histories folds changes, oldest first, into one history per path, in the order
// of first appearance.
func histories(changes []Turned) []*history {
	byPath := map[string]*history{}
	var all []*history
	for _, turn := range changes {
		for i := range turn.Files {
			c := &turn.Files[i]
			h, ok := byPath[c.Path]
			if !ok {
				h = &history{path: c.Path, ref: c.BeforeRef, note: c.Note}
				h.was, h.lost = stateBefore(c)
				h.to = h.was.restorable()
				byPath[c.Path] = h
				all = append(all, h)
			} else if was, lost := stateBefore(c); lost == "" && was != h.after {
				if h.left && turn.Elsewhere == "" {
					h.beginHere(c)
				} else {
					h.foreign = true
				}
			}
			h.after = State{Hash: c.AfterHash, Mode: c.Mode}
			if h.left = turn.Elsewhere != ""; h.left {
				h.elsewhere = turn.Elsewhere
			}
		}
	}
	return all
}

// beginHere has a history begin with a change: those before were made in another workspace,
// and what they left was not brought to this one.
func (h *history) beginHere(c *event.FileChange) {
	h.was, h.lost = stateBefore(c)
	h.to, h.ref = h.was.restorable(), c.BeforeRef
	h.note, h.elsewhere = "to what it was when the session came here; "+h.elsewhere, ""
	h.foreign = false
}

// stateBefore returns the state before a change, or why it is not known.
func stateBefore(c *event.FileChange) (State, string) {
	switch {
	case c.BeforeRef != "":
		e, err := parseRef(c.BeforeRef)
		if err != nil {
			return State{}, "its reference can't be read"
		}
		return e.state, ""
	case c.Change == changeCreated && c.AfterHash != "":
		return State{}, ""
	case c.Note != "":
		return State{}, c.Note
	default:
		return State{}, "its earlier content was not kept"
	}
}

// Plan decides what a rollback does: given the changes of the removed turns,
// oldest first, and the states of their paths now (absent paths may be left out),
// one step per path, ordered by path. Each path goes back to the state before its
// first change. If someone else changed it, between the changes or since, it is a
// conflict and stays, unless force is set. A path that is as it was needs nothing
// done, so that a plan that was carried out in part leads to the same end.
func Plan(changes []Turned, now map[string]State, force bool) []Step {
	var steps []Step
	for _, h := range histories(changes) {
		if step, ok := h.step(now[h.path], force); ok {
			steps = append(steps, step)
		}
	}
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].File.Path < steps[j].File.Path })
	return steps
}

// step is false for a path that neither the turns nor anyone else changed in
// the end.
func (h *history) step(now State, force bool) (Step, bool) {
	s := Step{File: event.RollbackFile{Path: h.path, Change: rolledRestored, Reason: h.note}, To: h.to, Ref: h.ref}
	if h.to == (State{}) {
		s.File.Change = rolledDeleted
	}
	switch {
	case h.lost != "":
		return s.as(rolledUnavailable, h.lost), true
	case h.unseen(now):
		return s.as(rolledUnavailable, h.elsewhere), h.after != h.was || h.foreign
	case now == h.was, now == h.to:
		return s, h.after != h.was || h.foreign
	case h.foreign && !force:
		return s.as(rolledConflict, reasonBetween), true
	case !h.ours(now) && !force:
		return s.as(rolledConflict, reasonSince), true
	}
	if !h.ours(now) || h.foreign {
		s.File.Reason = "forced: " + reasonSince
	}
	if h.to != h.was {
		s.File.Reason = strings.TrimPrefix(s.File.Reason+"; "+reasonSetID, "; ")
	}
	s.Do = true
	return s, true
}

// unseen reports whether a path says nothing about what became of a file in another
// workspace: it isn't here, or it isn't the one that was left there. What is here with the
// very same content was brought.
func (h *history) unseen(now State) bool {
	if h.elsewhere == "" {
		return false
	}
	return now.kind() == kindNone || (h.left && now != h.after && now != h.was && now != h.to)
}

// setID are the bits by which a program runs as its owner or its group.
const setID = 0o6000

// restorable returns the state without what is never brought back. Whose file it was
// isn't known, and a restored one belongs to this process's user: with these bits,
// anyone could run another's program as that user.
func (s State) restorable() State {
	if s.kind() == kindFile {
		s.Mode &^= setID
	}
	return s
}

// ours says whether a state is the one that the turns left, or one that a
// rollback passes through: where a folder and something else take each other's
// location there is nothing for a moment, and a folder is open while it is filled.
func (h *history) ours(now State) bool {
	if now == h.after {
		return true
	}
	from, to := h.after.kind(), h.to.kind()
	if now.Hash == "" {
		return from != to && to != kindNone && (from == kindDir || to == kindDir)
	}
	if now.Hash != kindDir || to != kindDir {
		return false
	}
	// A folder that is made is closed to others at first; setgid it may inherit.
	made := from != kindDir && now.Mode&^0o2000 == 0o700
	return made || now.Mode == h.to.Mode|0o700
}

func (s Step) as(change, reason string) Step {
	s.File.Change, s.File.Reason = change, reason
	return s
}

// Values of event.RollbackFile.Change and event.FileChange.Change.
const (
	rolledRestored    = "restored"
	rolledDeleted     = "deleted"
	rolledKept        = "kept"
	rolledConflict    = "conflict"
	rolledUnavailable = "unavailable"

	changeCreated  = "created"
	changeModified = "modified"
	changeDeleted  = "deleted"
)
