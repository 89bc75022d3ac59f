package workspace

import (
	"strings"
	"testing"

	"agentd/event"
)

// fileState is a file with that content, mode 0644.
func fileState(content string) State {
	h := &hasher{limit: 1 << 20}
	_, _ = h.Write([]byte(content))
	h.done()
	return State{Hash: fileHash(h.sum), Mode: 0o644}
}

// did is a change between two states; the zero State is nothing.
func did(path string, from, to State) event.FileChange {
	c := event.FileChange{Path: path, Change: changeModified, AfterHash: to.Hash, Mode: to.Mode}
	if from == (State{}) {
		c.Change = changeCreated
		return c
	}
	if to == (State{}) {
		c.Change = changeDeleted
	}
	c.BeforeRef = formatRef(from.kind(), from, location{})
	return c
}

func TestPlan(t *testing.T) {
	a, b, c, none := fileState("a"), fileState("b"), fileState("c"), State{}
	aExec := State{Hash: a.Hash, Mode: 0o755}
	dir, open, made := State{Hash: kindDir, Mode: 0o555}, State{Hash: kindDir, Mode: 0o755}, State{Hash: kindDir, Mode: 0o700}
	link := linkState("a")
	for _, c := range []struct {
		name    string
		changes []event.FileChange
		now     State
		want    string
		do      bool
		forced  string
	}{
		{"modified", []event.FileChange{did("f", a, b)}, b, "restored f", true, "restored f"},
		{"modified twice", []event.FileChange{did("f", a, b), did("f", b, c)}, c, "restored f", true, "restored f"},
		{"created", []event.FileChange{did("f", none, b)}, b, "deleted f", true, "deleted f"},
		{"deleted", []event.FileChange{did("f", a, none)}, none, "restored f", true, "restored f"},
		{"mode alone", []event.FileChange{did("f", a, aExec)}, aExec, "restored f", true, "restored f"},
		{"link in a file's place", []event.FileChange{did("f", a, link)}, link, "restored f", true, "restored f"},
		{"created and deleted", []event.FileChange{did("f", none, b), did("f", b, none)}, none, "", false, ""},
		{"and back", []event.FileChange{did("f", a, b), did("f", b, a)}, a, "", false, ""},
		{"done already", []event.FileChange{did("f", a, b)}, a, "restored f", false, "restored f"},
		{"deleted already", []event.FileChange{did("f", none, b)}, none, "deleted f", false, "deleted f"},
		{"changed since", []event.FileChange{did("f", a, b)}, c, "conflict f: " + reasonSince, false, "restored f: forced: " + reasonSince},
		{"mode changed since", []event.FileChange{did("f", b, a)}, aExec, "conflict f: " + reasonSince, false, "restored f: forced: " + reasonSince},
		{"deleted since", []event.FileChange{did("f", a, b)}, none, "conflict f: " + reasonSince, false, "restored f: forced: " + reasonSince},
		{"made again since", []event.FileChange{did("f", a, none)}, c, "conflict f: " + reasonSince, false, "restored f: forced: " + reasonSince},
		{"changed in between", []event.FileChange{did("f", a, b), did("f", c, b)}, b, "conflict f: " + reasonBetween, false, "restored f: forced: " + reasonSince},
		{"not kept", []event.FileChange{{Path: "f", Change: changeModified, AfterHash: b.Hash, Note: noteTooLarge}}, b, "unavailable f: " + noteTooLarge, false, "unavailable f: " + noteTooLarge},
		{"not kept, without a note", []event.FileChange{{Path: "f", Change: changeDeleted}}, none, "unavailable f: its earlier content was not kept", false, "unavailable f: its earlier content was not kept"},
		{"bad reference", []event.FileChange{{Path: "f", Change: changeDeleted, BeforeRef: "undo:x"}}, none, "unavailable f: its reference can't be read", false, "unavailable f: its reference can't be read"},
		{"created with a note", []event.FileChange{{Path: "f", Change: changeCreated, AfterHash: b.Hash, Mode: b.Mode, Note: noteShared}}, b, "deleted f: " + noteShared, true, "deleted f: " + noteShared},
		{"created under a name that isn't known", []event.FileChange{{Path: "f", Change: changeCreated, Note: noteName}}, none, "unavailable f: " + noteName, false, "unavailable f: " + noteName},
		{"folder deleted", []event.FileChange{did("f", dir, none)}, none, "restored f", true, "restored f"},
		{"folder just made again", []event.FileChange{did("f", dir, none)}, made, "restored f", true, "restored f"},
		{"folder open while it is filled", []event.FileChange{did("f", dir, open)}, State{Hash: kindDir, Mode: 0o755}, "restored f", true, "restored f"},
		{"someone else's folder", []event.FileChange{did("f", dir, none)}, State{Hash: kindDir, Mode: 0o711}, "conflict f: " + reasonSince, false, "restored f: forced: " + reasonSince},
		{"file in a folder's place, half done", []event.FileChange{did("f", dir, b)}, none, "restored f", true, "restored f"},
		{"folder in a file's place, half done", []event.FileChange{did("f", a, open)}, none, "restored f", true, "restored f"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, force := range []bool{false, true} {
				want := c.want
				if force {
					want = c.forced
				}
				steps := Plan([]Turned{{Files: c.changes}}, map[string]State{"f": c.now}, force)
				if got := outcomeLines(outcomes(steps)); got != want {
					t.Errorf("force %v: got %q, want %q", force, got, want)
				}
				if !force && len(steps) > 0 && steps[0].Do != c.do {
					t.Errorf("do: %v", steps[0].Do)
				}
			}
		})
	}
}

// TestPlanOfChangesElsewhere: of files that were changed in another workspace nothing is
// claimed, unless they were brought along.
func TestPlanOfChangesElsewhere(t *testing.T) {
	a, b, c, none := fileState("a"), fileState("b"), fileState("c"), State{}
	there := func(files ...event.FileChange) Turned {
		return Turned{TurnID: "t1", Files: files, Elsewhere: "it is elsewhere"}
	}
	here := func(files ...event.FileChange) Turned { return Turned{TurnID: "t2", Files: files} }
	for _, x := range []struct {
		name    string
		changes []Turned
		now     State
		want    string
		do      bool
	}{
		{"created", []Turned{there(did("f", none, b))}, none, "unavailable f: it is elsewhere", false},
		{"deleted", []Turned{there(did("f", a, none))}, none, "unavailable f: it is elsewhere", false},
		{"another file", []Turned{there(did("f", a, b))}, c, "unavailable f: it is elsewhere", false},
		{"net nothing", []Turned{there(did("f", none, b), did("f", b, none))}, none, "", false},
		{"created, brought", []Turned{there(did("f", none, b))}, b, "deleted f", true},
		{"modified, brought", []Turned{there(did("f", a, b))}, b, "restored f", true},
		{"the file of before was brought", []Turned{there(did("f", a, b))}, a, "restored f", false},
		{"brought and changed here", []Turned{there(did("f", a, b)), here(did("f", b, c))}, c, "restored f", true},
		{"brought, changed and gone", []Turned{there(did("f", a, b)), here(did("f", b, none))}, none, "unavailable f: it is elsewhere", false},
		{"made anew here", []Turned{there(did("f", a, b)), here(did("f", none, c))}, c, "deleted f: to what it was when the session came here; it is elsewhere", true},
		{"made anew here, and deleted by someone", []Turned{there(did("f", a, b)), here(did("f", none, c))}, none, "deleted f: to what it was when the session came here; it is elsewhere", false},
		{"changed here by someone", []Turned{there(did("f", a, b)), here(did("f", b, c))}, a, "restored f", false},
	} {
		for _, force := range []bool{false, true} {
			got, do := "", false
			for _, s := range Plan(x.changes, map[string]State{"f": x.now}, force) {
				got, do = s.File.Change+" "+s.File.Path, s.Do
				if s.File.Reason != "" {
					got += ": " + s.File.Reason
				}
			}
			if got != x.want || do != x.do {
				t.Errorf("%s, force %v: %q, %v; want %q, %v", x.name, force, got, do, x.want, x.do)
			}
		}
	}
}

func TestPlanIsOrderedByPath(t *testing.T) {
	a, b := fileState("a"), fileState("b")
	steps := Plan(turned([]event.FileChange{did("z", a, b), did("m/n", a, b)}, []event.FileChange{did("b", a, b), did("z", b, a)}), map[string]State{"z": b, "m/n": b, "b": b}, false)
	if got := strings.ReplaceAll(outcomeLines(outcomes(steps)), "\n", ", "); got != "restored b, restored m/n, conflict z: "+reasonSince {
		t.Errorf("got %s", got)
	}
}
