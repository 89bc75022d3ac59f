package sandbox

import (
	"bytes"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// groups are control groups that commands had, whose processes have all ended, and which
// are as good as new: making and removing them takes longer than much of what is done in
// them. Each is used by one command at a time, and has another name each time: an entry of
// the ledger names a group, and whoever ends what is left of its command must not meet the
// next one. Only groups of version 1 have names that can be changed.
type groups struct {
	mu     sync.Mutex
	free   []group
	closed bool
}

// maxGroups bounds those that wait.
const maxGroups = 16

// keptGroup is what is known of a group that may be used again. Only who has the group
// uses it. Nil knows nothing.
type keptGroup struct {
	bases cgroups
	// limits are those that were set, by the names of their files.
	limits map[string]int64

	// Once it was used, its files are open.
	opened bool
	tasks  []int
	meters []meter
}

// meter is a file that tells what the commands of a group left in it.
type meter struct {
	fd int
	// isNew says whether what it tells is what a new group would, or as good.
	isNew func(text []byte) bool
}

// has tells whether a limit is set already.
func (k *keptGroup) has(file string, value int64) bool {
	if k == nil {
		return false
	}
	set, ok := k.limits[file]
	return ok && set == value
}

func (k *keptGroup) recordLimit(file string, value int64) {
	if k != nil {
		k.limits[file] = value
	}
}

func (k *keptGroup) close() {
	if k == nil {
		return
	}
	closeDescriptors(k.tasks)
	for _, m := range k.meters {
		_ = unix.Close(m.fd)
	}
	k.opened, k.tasks, k.meters = false, nil, nil
}

// keepsGroup tells whether the plan's groups can be used again. Without a pid namespace
// nothing says that a group has lost its last process for good.
func (p *Plan) keepsGroup() bool {
	b := p.groupBases()
	return p.use.pid && b.unified == "" && (b.pids != "" || b.memory != "")
}

// takeGroup returns a group for a command of the plan: one that waits, or a new one.
func (n *groups) takeGroup(p *Plan) (group, error) {
	bases := p.groupBases()
	for {
		g, ok := n.takeFree(bases)
		if !ok {
			break
		}
		if renamed, err := g.renamed(); err == nil {
			return renamed, nil
		}
		g.remove() // someone else has it, who ended what an entry of the ledger was about
	}
	g, err := p.makeGroup()
	if err == nil {
		g.kept = &keptGroup{bases: bases, limits: map[string]int64{}}
	}
	return g, err
}

func (n *groups) takeFree(bases cgroups) (group, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, g := range slices.Backward(n.free) {
		if g.kept.bases == bases {
			n.free = slices.Delete(n.free, i, i+1)
			return g, true
		}
	}
	return group{}, false
}

// renamed gives the directory that the ledger names another name.
func (g group) renamed() (group, error) {
	dir := &g.pids
	if *dir == "" {
		dir = &g.memory
	}
	name := filepath.Join(filepath.Dir(*dir), newGroupName())
	if err := unix.Rename(*dir, name); err != nil {
		return g, err
	}
	*dir = name
	return g, nil
}

// takeBack keeps a group whose command has ended with all that it started, and tells
// whether it did.
func (n *groups) takeBack(g group) bool {
	if n == nil || g.kept == nil || g.openKept() != nil || !g.isNew() {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || len(n.free) == maxGroups {
		return false
	}
	n.free = append(n.free, g)
	return true
}

// close removes the groups that wait.
func (n *groups) close() {
	n.mu.Lock()
	free := n.free
	n.closed, n.free = true, nil
	n.mu.Unlock()
	for _, g := range free {
		g.remove()
	}
}

// openKept opens the files of a group that is used again for the first time.
func (g group) openKept() (err error) {
	k := g.kept
	if k.opened {
		return nil
	}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	if k.tasks, _, err = g.enter(); err != nil {
		return err
	}
	empty := ""
	if g.pids == "" {
		empty = g.memory
	}
	for _, f := range []struct {
		dir, file string
		isNew     func([]byte) bool
	}{
		{g.pids, "pids.current", isZero}, // the command's processes are in both or in none
		{g.pids, "pids.events", counted("max")},
		{g.memory, "memory.oom_control", counted("oom_kill")},
		{g.memory, "memory.usage_in_bytes", k.leavesRoom},
		{empty, "cgroup.procs", isEmpty},
	} {
		if f.dir == "" {
			continue
		}
		fd, err := unix.Open(filepath.Join(f.dir, f.file), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		k.meters = append(k.meters, meter{fd, f.isNew})
	}
	k.opened = true
	return nil
}

// isNew reads what the group's commands left in it.
func (g group) isNew() bool {
	var room [4096]byte
	for _, m := range g.kept.meters {
		n, err := unix.Pread(m.fd, room[:], 0)
		if err != nil || n == len(room) || !m.isNew(room[:n]) {
			return false
		}
	}
	return true
}

func isEmpty(text []byte) bool { return len(text) == 0 }

func isZero(text []byte) bool { return string(bytes.TrimSpace(text)) == "0" }

// counted is a meter that must stand at zero.
func counted(name string) func([]byte) bool {
	return func(text []byte) bool {
		n, ok := counterIn(string(text), name)
		return ok && n == 0
	}
}

// roomLeft is the share of its memory that a group may still hold, mostly copies of
// files, which give way. More of it would be missing in the next command, if it is what
// doesn't: files of a workspace that lies in memory.
const roomLeft = 64

func (k *keptGroup) leavesRoom(text []byte) bool {
	used, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	limit, limited := k.limits["memory.limit_in_bytes"]
	return err == nil && limited && used <= limit/roomLeft
}
