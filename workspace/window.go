package workspace

import "fmt"

// window is the time between a command's two looks.
type window struct {
	// first has the state before the first change of each path.
	first map[string]was
	// below counts the changed entries in each ignored folder.
	below map[string]int
	// others are paths that file tools changed in the meantime.
	others map[string]*touched
	// shared says that another command ran in the meantime.
	shared bool
	// ended windows take no changes, but their copies are still needed.
	ended bool
}

// begin opens a window. The caller holds mu and has just looked.
func (x *index) begin() *window {
	w := &window{first: map[string]was{}, below: map[string]int{}, others: map[string]*touched{}}
	for other := range x.windows {
		if !other.ended {
			other.shared, w.shared = true, true
		}
	}
	x.windows[w] = struct{}{}
	return w
}

// forget gives a window's copies up.
func (x *index) forget(w *window) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.windows, w)
}

// changed tells open windows that a path isn't as it was.
func (x *index) changed(path string, old was, how ignored) {
	for w := range x.windows {
		if w.ended {
			continue
		}
		if how == ignoredAbove {
			w.below[x.ignoredFolder(path)]++
			continue
		}
		if _, ok := w.first[path]; !ok {
			w.first[path] = old
		}
	}
}

// touching tells open windows that a file tool changes a path.
func (x *index) touching(path string, t *touched) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for w := range x.windows {
		w.others[path] = t
	}
}

// deltas returns what changed in a window. The caller holds mu.
func (x *index) deltas(w *window) []delta {
	var out []delta
	for path, before := range w.first {
		after := x.stateAt(path)
		if after == before.state {
			continue
		}
		d := delta{path: path, before: before, after: after}
		if t, ok := w.others[path]; ok {
			if t.ended(after) {
				continue // the other call reports it
			}
			d.note = noteOther
		} else if w.shared {
			d.note = noteShared
		}
		out = append(out, d)
	}
	out = noteBelow(out, w.below)
	if x.cut {
		out = append(out, delta{
			path: ".", before: was{state: State{Hash: kindOther}, note: fmt.Sprintf("the workspace has more than %d entries or %d levels: what is beyond was not looked at", x.opt.MaxFiles, maxDepth)},
			after: State{Hash: kindDir},
		})
	}
	return out
}

// noteBelow tells of changes in ignored folders, on the folder's own change if
// there is one.
func noteBelow(deltas []delta, below map[string]int) []delta {
	for i := range deltas {
		if n, ok := below[deltas[i].path]; ok {
			deltas[i].note = belowNote(n)
			delete(below, deltas[i].path)
		}
	}
	for folder, n := range below {
		deltas = append(deltas, delta{path: folder, before: was{state: State{Hash: kindOther}, note: belowNote(n)}, after: State{Hash: kindDir}})
	}
	return deltas
}

func belowNote(n int) string {
	return fmt.Sprintf("%d changes in a folder that .gitignore ignores: earlier contents are not kept", n)
}

func (x *index) stateAt(path string) State {
	if n := x.findNode(path); n != nil {
		return n.state()
	}
	return State{}
}

// ended says whether the call has ended and left that state.
func (t *touched) ended(s State) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.after != nil && *t.after == s
}
