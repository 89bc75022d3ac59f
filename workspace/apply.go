package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// applying is one rollback under way.
type applying struct {
	v    *Vault
	ctx  context.Context
	root *os.Root
	// touched are folders whose entries changed.
	touched map[string]bool
}

// errStopped wraps what ends a rollback as a whole.
type errStopped struct{ err error }

func (e *errStopped) Error() string { return e.err.Error() }
func (e *errStopped) Unwrap() error { return e.err }

// step stands before every change of the file system.
func (a *applying) step() error {
	if err := a.ctx.Err(); err != nil {
		return &errStopped{err}
	}
	if a.v.step != nil {
		if err := a.v.step(); err != nil {
			return &errStopped{err}
		}
	}
	return nil
}

// run carries steps out in an order in which each can succeed: folders are
// opened, what is in the way goes, the deepest first, folders come, the highest
// first, then files, and at last folders get their modes.
func (a *applying) run(steps []Step) error {
	up := slices.Clone(sortByPath(steps))
	slices.Reverse(up)
	phases := []struct {
		steps []*Step
		do    func(*Step) error
	}{
		{sortByPath(steps), a.openFolder},
		{up, a.clear},
		{sortByPath(steps), a.makeFolder},
		{sortByPath(steps), a.restore},
		{up, a.setFolderMode},
	}
	for i := range steps {
		if err := a.applyStep(&steps[i], a.tidy); err != nil {
			return err
		}
	}
	for _, phase := range phases {
		for _, s := range phase.steps {
			if !s.Do {
				continue
			}
			if err := a.applyStep(s, phase.do); err != nil {
				return err
			}
		}
	}
	return a.sync()
}

// sortByPath returns steps by path, so that folders come before what is in them.
func sortByPath(steps []Step) []*Step {
	out := make([]*Step, len(steps))
	for i := range steps {
		out[i] = &steps[i]
	}
	slices.SortFunc(out, func(x, y *Step) int { return strings.Compare(x.File.Path, y.File.Path) })
	return out
}

// applyStep does one step; its failure is the step's outcome.
func (a *applying) applyStep(s *Step, do func(*Step) error) error {
	err := do(s)
	if stopped, ok := errors.AsType[*errStopped](err); ok {
		return stopped.err
	}
	if err != nil {
		s.Do = false
		*s = s.as(rolledUnavailable, reasonOf(err))
		if errors.Is(err, errNotEmpty) {
			*s = s.as(rolledKept, err.Error())
		}
	}
	return nil
}

var errNotEmpty = errors.New("the folder is not empty: it contains files that these turns didn't create")

// in calls fn with the folder of a path and its last name.
func (a *applying) in(path string, fn func(parent *os.Root, name string) error) error {
	parent, name, err := openParent(a.root, path)
	if err != nil {
		return err
	}
	defer parent.Close()
	return fn(parent, name)
}

// change is in for what changes the folder's entries.
func (a *applying) change(path string, fn func(parent *os.Root, name string) error) error {
	return a.in(path, func(parent *os.Root, name string) error {
		if err := a.step(); err != nil {
			return err
		}
		a.touched[folderOf(path)] = true
		return fn(parent, name)
	})
}

func folderOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return "."
}

// tidy removes what an interrupted rollback left beside a path.
func (a *applying) tidy(s *Step) error {
	if kind := s.To.kind(); kind != kindFile && kind != kindLink {
		return nil
	}
	err := a.in(s.File.Path, func(parent *os.Root, _ string) error {
		temp := tempName(s.File.Path)
		if _, err := parent.Lstat(temp); err != nil {
			return err
		}
		if err := a.step(); err != nil {
			return err
		}
		return parent.Remove(temp)
	})
	if isAbsent(err) || errors.Is(err, fs.ErrPermission) {
		return nil // a folder that is closed is opened later, and then the file can't be made
	}
	return err
}

// openFolder makes a folder that stays a folder writable for its owner.
func (a *applying) openFolder(s *Step) error {
	if s.To.kind() != kindDir {
		return nil
	}
	err := a.chmod(s.File.Path, s.To.Mode|0o700)
	if isAbsent(err) {
		return nil // makeFolder's
	}
	return err
}

// chmod sets a folder's mode, if it has another.
func (a *applying) chmod(path string, mode int64) error {
	return a.in(path, func(parent *os.Root, name string) error {
		sub, err := openSub(parent, name)
		if err != nil {
			return err
		}
		defer sub.Close()
		f, err := sub.Open(".")
		if err != nil {
			return err
		}
		defer f.Close()
		if st, err := statFile(f); err != nil || st.mode == mode {
			return err
		}
		if err := a.step(); err != nil {
			return err
		}
		return f.Chmod(goMode(mode))
	})
}

// clear removes what was made, and what stands where something of another kind
// has to come back.
func (a *applying) clear(s *Step) error {
	now, err := a.kindAt(s.File.Path)
	if err != nil || now == kindNone {
		return err
	}
	to := s.To.kind()
	if to != kindNone && (now == kindDir) == (to == kindDir) {
		return nil // it is replaced in one step, or stays
	}
	err = a.change(s.File.Path, (*os.Root).Remove)
	if now == kindDir && errors.Is(err, syscall.ENOTEMPTY) {
		return errNotEmpty
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (a *applying) kindAt(path string) (string, error) {
	kind := kindNone
	err := a.in(path, func(parent *os.Root, name string) error {
		info, err := parent.Lstat(name)
		if err == nil {
			kind = statInfo(info).kind
		}
		return err
	})
	if isAbsent(err) {
		return kindNone, nil
	}
	return kind, err
}

func (a *applying) makeFolder(s *Step) error {
	if s.To.kind() != kindDir {
		return nil
	}
	now, err := a.kindAt(s.File.Path)
	if err != nil || now == kindDir {
		return err
	}
	if err := a.parents(s.File.Path); err != nil {
		return err
	}
	return a.change(s.File.Path, func(parent *os.Root, name string) error {
		return parent.Mkdir(name, 0o700)
	})
}

// parents makes the folders above a path. They are missing only if someone else
// removed them and the rollback is forced.
func (a *applying) parents(path string) error {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		now, err := a.kindAt(path[:i])
		if err != nil {
			return err
		}
		if now != kindNone {
			continue
		}
		err = a.change(path[:i], func(parent *os.Root, name string) error { return parent.Mkdir(name, 0o755) })
		if err != nil {
			return err
		}
	}
	return nil
}

// restore brings a file or a symbolic link back, in one step.
func (a *applying) restore(s *Step) error {
	kind := s.To.kind()
	if kind != kindFile && kind != kindLink {
		return nil
	}
	e, err := parseRef(s.Ref)
	if err != nil {
		return err
	}
	if err := a.parents(s.File.Path); err != nil {
		return err
	}
	return a.in(s.File.Path, func(parent *os.Root, name string) error {
		temp := tempName(s.File.Path)
		if err := a.write(parent, temp, s.To, e); err != nil {
			return discardTemp(parent, temp, err)
		}
		if err := a.step(); err != nil {
			return err
		}
		a.touched[folderOf(s.File.Path)] = true
		if err := parent.Rename(temp, name); err != nil {
			return discardTemp(parent, temp, err)
		}
		return nil
	})
}

// discardTemp removes what couldn't be completed, unless all stopped: then it
// stays as it would after a crash.
func discardTemp(parent *os.Root, temp string, err error) error {
	if _, ok := errors.AsType[*errStopped](err); ok {
		return err
	}
	if rerr := parent.Remove(temp); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		return errors.Join(err, rerr)
	}
	return err
}

// tempName is the same for the same path, so that what an interrupted rollback
// left is found.
func tempName(path string) string {
	sum := sha256.Sum256([]byte(path))
	return tempPrefix + hex.EncodeToString(sum[:8])
}

func (a *applying) write(parent *os.Root, temp string, to State, e earlier) error {
	if to.kind() == kindLink {
		target, err := a.v.bytes(a.ctx, e, 64<<10)
		if err != nil {
			return err
		}
		if err := a.step(); err != nil {
			return err
		}
		return parent.Symlink(string(target), temp)
	}
	if err := a.step(); err != nil {
		return err
	}
	f, err := parent.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = a.step()
	if err == nil {
		err = a.v.open(a.ctx, f, e)
	}
	if err == nil {
		err = errors.Join(f.Chmod(goMode(to.Mode)), f.Sync())
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// setFolderMode gives a folder its mode once everything is in it.
func (a *applying) setFolderMode(s *Step) error {
	if s.To.kind() != kindDir {
		return nil
	}
	return a.chmod(s.File.Path, s.To.Mode)
}

// sync makes the changed folders durable.
func (a *applying) sync() error {
	for path := range a.touched {
		f, err := openFolder(a.root, path)
		if isAbsent(err) || errors.Is(err, fs.ErrPermission) {
			continue // it went, or its mode keeps even its owner out
		}
		if err != nil {
			return err
		}
		err = f.Sync()
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
