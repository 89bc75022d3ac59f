package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentd/event"
	"agentd/session"
	"agentd/state"
)

// BoundSet is what bounds agents on this machine, beside what each workspace has of its
// own. The zero value is empty.
type BoundSet struct {
	// Paths are files and folders; a relative one lies in each workspace.
	Paths []string
	// Commands are the words of commands that run in a workspace with other rights than
	// tools, such as hooks. A word that can be the name of a file of the workspace is
	// taken for one.
	Commands [][]string
}

// workspaceBounds are those of a workspace; see [Bounds].
func (l *Loop) workspaceBounds(root string) []string { return Bounds(root, l.opt.Bounds) }

// unheldBounds has a sentence for each reason why a command in a workspace could change
// something that bounds agents.
func unheldBounds(root string, bounds []string, unsure string) []string {
	out := linkedBounds(root, bounds)
	if unsure != "" {
		out = append(out, unsure)
	}
	return out
}

// Bounds are the files and folders by which agents are bounded, or by which a
// workspace runs programs outside of the sandbox when a person works in it: what is
// configured ([Governance.Bounds]), its rules, and what its repository runs. Commands
// find them read-only; file tools ask in every mode. They are absolute, and need not
// exist.
func Bounds(root string, configured BoundSet) []string {
	out, _ := findBounds(root, configured)
	return out
}

func findBounds(root string, configured BoundSet) (out []string, unsure string) {
	for _, path := range configured.Paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		out = append(out, path)
	}
	for _, words := range configured.Commands {
		out = append(out, namedFiles(root, words)...)
	}
	out = append(out, filepath.Join(root, RulesFile))
	git, unsure := gitBounds(root)
	out = append(out, git...)
	slices.Sort(out)
	return slices.Compact(out), unsure
}

// namedFiles are the files of a workspace that the words of a command may name, there
// or not. A word that names a folder is no program: it may be what a linter checks. But
// the command may change into it (env -C, cd), so the words after it count from there
// as well.
func namedFiles(root string, words []string) []string {
	var out, folders []string
	for _, word := range words {
		if filepath.IsAbs(word) || !filepath.IsLocal(word) {
			continue
		}
		for _, folder := range folders {
			path := filepath.Join(folder, word)
			if info, err := os.Stat(path); err == nil && !info.IsDir() {
				out = append(out, path)
			}
		}
		path := filepath.Join(root, word)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if path != root && len(folders) < maxFolders {
				folders = append(folders, path)
			}
			continue
		}
		out = append(out, path)
	}
	return out
}

// uncoveredBound names a bound of a workspace that commands can change because nothing
// can be covered; empty if there is none, or things can be covered.
func uncoveredBound(root string, bounds []string, uncovered string) string {
	if uncovered == "" {
		return ""
	}
	for _, path := range bounds {
		if _, err := os.Lstat(path); err == nil && strings.HasPrefix(path, root+"/") {
			return fmt.Sprintf("%s can be changed: %s", path, uncovered)
		}
	}
	return ""
}

// linkedBounds has a sentence for each bound of a workspace that is reached through a
// link in it. A mount covers what a link leads to, never the link, so a command could
// put another file in its place.
func linkedBounds(root string, bounds []string) []string {
	var out []string
	missing := "" // the folder that was looked for last and isn't there: most workspaces have no .git
	for _, path := range bounds {
		if path == root || !pathWithin(root, path) || missing != "" && pathWithin(missing, path) {
			continue
		}
		for at := range waypoints(root, path) {
			info, err := os.Lstat(at)
			if err != nil {
				missing = at
				break
			}
			if info.Mode()&fs.ModeSymlink != 0 {
				out = append(out, fmt.Sprintf("%s is a link, which a command could replace", at))
				break
			}
		}
	}
	return slices.Compact(out)
}

// maxFolders bounds the folders that a command is taken to change into.
const maxFolders = 8

// boundStates says what each bound of a workspace is. No mount covers a name that isn't
// there, or one that is a link, so a command can make or replace it.
func (l *Loop) boundStates(root string) map[string]boundState {
	out := map[string]boundState{}
	for _, path := range l.workspaceBounds(root) {
		out[path] = boundStateOf(path)
	}
	return out
}

// boundState is what a name is; the zero value is one that isn't there.
type boundState struct {
	kind fs.FileMode
	link string
	info fs.FileInfo
}

func boundStateOf(path string) boundState {
	info, err := os.Lstat(path)
	if err != nil {
		return boundState{}
	}
	s := boundState{kind: info.Mode().Type(), info: info}
	if s.kind&fs.ModeSymlink != 0 {
		s.link, _ = os.Readlink(path)
	}
	return s
}

// sameAs says that a name is what it was. The content of a file may differ.
func (s boundState) sameAs(was boundState) bool {
	if s.info == nil || was.info == nil {
		return s.info == nil && was.info == nil
	}
	return s.kind == was.kind && s.link == was.link && os.SameFile(s.info, was.info)
}

// tellChangedBounds says which bounds appeared, went away or are another file since
// before the call. A person may have changed them in the meantime; the warning says what may
// have done it.
func (r *toolRun) tellChangedBounds(before map[string]boundState) {
	var notices []*event.RuntimeNotice
	for _, path := range slices.Sorted(maps.Keys(before)) {
		was, now := before[path], boundStateOf(path)
		if now.sameAs(was) {
			continue
		}
		name := strings.TrimPrefix(path, r.place.root+"/")
		switch {
		case was.info != nil:
			notices = append(notices, &event.RuntimeNotice{
				Code:    "bound_changed",
				Message: fmt.Sprintf("%s was replaced or removed while %s ran; it bounds what agents may do, or names programs that run outside of the sandbox", name, r.request.ToolName),
				Advice:  "compare it with what you expect before you go on; put it back if you did not ask for the change",
			})
		case filepath.Base(path) == RulesFile:
			notices = append(notices, &event.RuntimeNotice{
				Code:    "workspace_rules_made",
				Message: fmt.Sprintf("%s appeared in %s while %s ran; what it denies or asks about counts from the next turn on", RulesFile, r.place.root, r.request.ToolName),
				Advice:  "if this wasn't intended: remove the file, then run agentd policy accept",
			})
		default:
			notices = append(notices, &event.RuntimeNotice{
				Code:    "bound_made",
				Message: fmt.Sprintf("%s appeared while %s ran; programs that it names may run outside of the sandbox when a person uses the folder", name, r.request.ToolName),
				Advice:  "look at it before you use the folder; remove it if you did not ask for it",
			})
		}
	}
	if len(notices) == 0 {
		return
	}
	err := r.emitWhileRunning(func(tx *session.Tx, _ *state.Thread) {
		for _, n := range notices {
			tx.Emit(event.Event{Type: event.TypeRuntimeWarning, Scope: r.scope, Payload: n})
		}
	})
	if err != nil && !errors.Is(err, errMoved) {
		r.l.opt.Logger.Warn("changed workspace bounds could not be recorded", "toolCallId", r.call.ToolCallID, "error", err)
	}
}
