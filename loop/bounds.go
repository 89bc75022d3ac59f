package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentd/event"
	"agentd/session"
	"agentd/state"
)

// bounds are those of a workspace; see [Bounds].
func (l *Loop) bounds(root string) []string { return Bounds(root, l.opt.Bounds) }

// Bounds are the files and folders by which agents are bounded, or by which a
// workspace runs programs outside of the sandbox when a person works in it: what is
// configured ([Governance.Bounds]), its rules, and what its repository runs. Commands
// find them read-only; file tools ask in every mode. They are absolute, and need not
// exist.
func Bounds(root string, configured []string) []string {
	var out []string
	for _, path := range configured {
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		out = append(out, path)
	}
	out = append(out, filepath.Join(root, RulesFile))
	return append(out, gitBounds(root)...)
}

// gitBounds are the parts of a repository that name programs which git runs for
// whoever uses it: its hooks, its configuration, and what says where both are.
func gitBounds(root string) []string {
	git := filepath.Join(root, ".git")
	if info, err := os.Lstat(git); err == nil && info.Mode().IsRegular() {
		return []string{git} // it names the folder that has the hooks
	}
	out := gitFolderBounds(git)
	// Submodules have repositories of their own in here, at any depth.
	modules := filepath.Join(git, "modules")
	if _, err := os.Lstat(modules); err != nil {
		return out
	}
	looked := 0
	_ = filepath.WalkDir(modules, func(path string, d fs.DirEntry, err error) error {
		looked++
		switch {
		case err != nil || !d.IsDir():
			return nil //nolint:nilerr // what can't be listed can't be changed either
		case looked > maxModules:
			return fs.SkipAll
		case d.Name() == "objects" || d.Name() == "refs" || d.Name() == "logs":
			return fs.SkipDir
		}
		if _, err := os.Lstat(filepath.Join(path, "HEAD")); err == nil {
			out = append(out, gitFolderBounds(path)...)
		}
		return nil
	})
	return out
}

// maxModules bounds how much of the folder of submodules is looked at.
const maxModules = 10_000

func gitFolderBounds(git string) []string {
	var out []string
	for _, name := range []string{"hooks", "config", "config.worktree", "commondir"} {
		out = append(out, filepath.Join(git, name))
	}
	return out
}

// unmadeBounds are the bounds that aren't there. No mount covers a name that isn't
// there, so a command can make it.
func (l *Loop) unmadeBounds(root string) []string {
	var out []string
	for _, path := range l.bounds(root) {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			out = append(out, path)
		}
	}
	return out
}

// tellMadeBounds says which bounds appeared during the call. A person may have made
// them meanwhile; people are told what may have written them.
func (r *toolRun) tellMadeBounds(unmade []string) {
	var notices []*event.RuntimeNotice
	for _, path := range unmade {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if filepath.Base(path) == RulesFile {
			notices = append(notices, &event.RuntimeNotice{
				Code:    "workspace_rules_made",
				Message: fmt.Sprintf("%s appeared in %s while %s ran; what it denies or asks about counts from the next turn on", RulesFile, r.place.root, r.request.ToolName),
				Advice:  "if nobody meant it: remove the file, then agentd policy accept",
			})
			continue
		}
		name := strings.TrimPrefix(path, r.place.root+"/")
		notices = append(notices, &event.RuntimeNotice{
			Code:    "bound_made",
			Message: fmt.Sprintf("%s appeared while %s ran; programs that it names may run outside of the sandbox when a person uses the folder", name, r.request.ToolName),
			Advice:  "look at it before you use the folder; remove it if you did not ask for it",
		})
	}
	if len(notices) == 0 {
		return
	}
	err := r.emit(func(tx *session.Tx, _ *state.Thread) {
		for _, n := range notices {
			tx.Emit(event.Event{Type: event.TypeRuntimeWarning, Scope: r.scope, Payload: n})
		}
	})
	if err != nil && !errors.Is(err, errMoved) {
		r.l.opt.Logger.Warn("new bounds of a workspace could not be told", "toolCallId", r.call.ToolCallID, "error", err)
	}
}
