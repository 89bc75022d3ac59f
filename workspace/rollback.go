package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"agentd/event"
	"agentd/store"
)

// ApplyOptions say how a rollback is carried out.
type ApplyOptions struct {
	// Force overwrites what someone else changed.
	Force bool
}

// Preview returns what Apply would do with each path, and does nothing. Whether
// a content can be read back is checked; whether a file can be written isn't.
func (v *Vault) Preview(ctx context.Context, root string, changes []Turned, opt ApplyOptions) ([]event.RollbackFile, error) {
	r, steps, err := v.planRollback(ctx, root, changes, opt)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return outcomes(steps), nil
}

// Apply takes the changes of the removed turns back, oldest first, in the
// workspace at root, and returns what it did with each path, ordered by path. A
// path that can't be restored doesn't stop the others. After an error some paths
// may have been restored; the same call again does the rest.
func (v *Vault) Apply(ctx context.Context, root string, changes []Turned, opt ApplyOptions) ([]event.RollbackFile, error) {
	r, steps, err := v.planRollback(ctx, root, changes, opt)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	a := &applying{v: v, ctx: ctx, root: r, touched: map[string]bool{}}
	if err := a.run(steps); err != nil {
		return nil, fmt.Errorf("workspace: restore: %w", err)
	}
	return outcomes(steps), nil
}

func outcomes(steps []Step) []event.RollbackFile {
	out := make([]event.RollbackFile, len(steps))
	for i := range steps {
		out[i] = steps[i].File
	}
	return out
}

// planRollback observes the paths and plans. The root must be closed.
func (v *Vault) planRollback(ctx context.Context, root string, changes []Turned, opt ApplyOptions) (*os.Root, []Step, error) {
	changes, err := v.unfold(ctx, changes)
	if err != nil {
		return nil, nil, err
	}
	r, at, err := v.openRoot(root)
	if err != nil {
		return nil, nil, err
	}
	now, err := observeAll(ctx, r, changes)
	if err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	steps := Plan(changes, now, opt.Force)
	exclude(steps, newExclusion(at.Path, v.exclude, v.opt.Places))
	if err := v.check(ctx, steps); err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	keepFull(r, steps, now)
	return r, steps, nil
}

// observeAll returns the states of the paths of changes. A path that can't be
// looked at is in an unknown state, which no change has left.
func observeAll(ctx context.Context, root *os.Root, changes []Turned) (map[string]State, error) {
	now := map[string]State{}
	for _, h := range histories(changes) {
		if h.lost != "" {
			continue
		}
		s, err := observePath(ctx, root, h.path, h.after.Hash)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			s = State{Hash: kindOther, Mode: -1}
		}
		now[h.path] = s
	}
	return now, nil
}

// exclude takes steps away that must never be done.
func exclude(steps []Step, not *exclusion) {
	for i := range steps {
		if not.covers(steps[i].File.Path) {
			steps[i] = steps[i].as(rolledUnavailable, "it belongs to the runtime")
			steps[i].Do = false
		}
	}
}

// keepFull keeps folders that would have to go but hold what no step removes.
func keepFull(root *os.Root, steps []Step, now map[string]State) {
	goes := map[string]bool{}
	for _, s := range slices.Backward(sortByPath(steps)) {
		path := s.File.Path
		if !s.Do {
			continue
		}
		if now[path].kind() == kindDir && s.To.kind() != kindDir && !empties(root, path, goes) {
			*s = s.as(rolledKept, errNotEmpty.Error())
			s.Do = false
			continue
		}
		goes[path] = s.To.kind() == kindNone
	}
}

// empties says whether everything in a folder goes.
func empties(root *os.Root, path string, goes map[string]bool) bool {
	f, err := openFolder(root, path)
	if err != nil {
		return true // then removing it will tell
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(nameBatch)
		for _, name := range names {
			if !goes[path+"/"+name] && !strings.HasPrefix(name, tempPrefix) {
				return false
			}
		}
		if err != nil || len(names) == 0 {
			return true
		}
	}
}

// discard counts for nothing but reading.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// check reads every content that is needed once, so that a plan whose contents
// are gone says so before anything is changed.
func (v *Vault) check(ctx context.Context, steps []Step) error {
	for i := range steps {
		s := &steps[i]
		if !s.Do || s.To.kind() == kindDir || s.To.kind() == kindNone {
			continue
		}
		e, err := parseRef(s.Ref)
		if err == nil {
			err = v.open(ctx, discard{}, e)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			*s = s.as(rolledUnavailable, reasonOf(err))
			s.Do = false
		}
	}
	return nil
}

// reasonOf returns an error as a person reads it.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, ErrOtherKey):
		return "its earlier content was sealed with another key"
	case errors.Is(err, ErrDamaged), errors.Is(err, store.ErrCorrupt):
		return "its earlier content is damaged"
	case errors.Is(err, store.ErrNotFound):
		return "its earlier content is no longer kept"
	default:
		return strings.TrimPrefix(err.Error(), "workspace: ")
	}
}
