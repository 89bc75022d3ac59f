package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group is the control group of one run: one directory with version 2, one for
// each controller with version 1. The zero group is none.
type group struct {
	unified, pids, memory string
	// kept is what is known of a group that may be used again; nil for others.
	kept *keptGroup
}

// groupPrefix begins the names of our groups.
const groupPrefix = "agentd-"

// groupCount makes names of groups unique within this process.
var groupCount atomic.Int64

// pidNamespace ends the names of our groups: a process id means something else in
// another namespace. It is empty if the kernel doesn't tell. A process doesn't change its
// own.
var pidNamespace = sync.OnceValue(func() string {
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return "-" + strings.Trim(link, "pid:[]")
})

// newGroupName returns a name that no group ever had.
func newGroupName() string {
	return fmt.Sprintf("%s%d-%d-%x%s", groupPrefix, os.Getpid(), groupCount.Add(1), time.Now().UnixNano(), pidNamespace())
}

// groupBases are the directories below which a plan's groups are made; empty for a
// hierarchy that it doesn't use.
func (p *Plan) groupBases() (b cgroups) {
	base := p.report.cgroups
	if p.use.cgroupV2 {
		b.unified = base.unified
		return b
	}
	// Without a pid namespace the group is how the tree is ended.
	if p.use.cgroupPids || !p.use.pid {
		b.pids = base.pids
	}
	if p.use.cgroupMemory {
		b.memory = base.memory
	}
	return b
}

// makeGroup makes the groups that a plan uses, without limits yet.
func (p *Plan) makeGroup() (group, error) {
	base, name := p.groupBases(), newGroupName()
	var g group
	for _, d := range []struct {
		base string
		dir  *string
	}{{base.unified, &g.unified}, {base.pids, &g.pids}, {base.memory, &g.memory}} {
		if d.base == "" {
			continue
		}
		dir := filepath.Join(d.base, name)
		if err := os.Mkdir(dir, 0o750); err != nil {
			g.remove()
			return group{}, fmt.Errorf("make control group: %w", err)
		}
		*d.dir = dir
	}
	return g, nil
}

// limit sets the limits of a plan.
func (g group) limit(p *Plan) error {
	l := p.Profile.Limits
	set := func(used bool, dir, file string, value int64) error {
		if !used || dir == "" || g.kept.has(file, value) {
			return nil
		}
		if err := writeControl(filepath.Join(dir, file), strconv.FormatInt(value, 10)); err != nil {
			return fmt.Errorf("limit control group: %w", err)
		}
		g.kept.recordLimit(file, value)
		return nil
	}
	return errors.Join(
		set(p.use.cgroupPids, g.unified, "pids.max", l.Processes+stageThreads),
		set(p.use.cgroupMemory, g.unified, "memory.max", l.MemoryMB<<20+stageBytes),
		// One more for the stage's thread that starts the command.
		set(p.use.cgroupPids, g.pids, "pids.max", l.Processes+1),
		set(p.use.cgroupMemory, g.memory, "memory.limit_in_bytes", l.MemoryMB<<20),
	)
}

// enter returns descriptors of the files that the command's thread writes itself into,
// and what closes them.
func (g group) enter() (fds []int, done func(), err error) {
	if g.kept != nil && g.kept.opened {
		return g.kept.tasks, func() {}, nil
	}
	done = func() { closeDescriptors(fds) }
	for _, path := range g.tasks() {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fds, done, fmt.Errorf("enter control group: %s: %w", path, err)
		}
		fds = append(fds, fd)
	}
	return fds, done, nil
}

func closeDescriptors(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// With version 2 the stage itself is in the group.
const (
	stageThreads = 8
	stageBytes   = 16 << 20
)

func writeControl(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// tasks are the files that the command's thread writes itself into.
func (g group) tasks() []string {
	var files []string
	for _, dir := range []string{g.pids, g.memory} {
		if dir != "" {
			files = append(files, filepath.Join(dir, "tasks"))
		}
	}
	return files
}

// name is what the ledger keeps.
func (g group) name() string { return firstNonEmpty(g.unified, g.pids, g.memory) }

// exists tells whether there is a group.
func (g group) exists() bool { return g.name() != "" }

// counts reads what the limits did.
func (g group) counts() (oom, forks int64) {
	switch {
	case g.unified != "":
		oom = readCounter(filepath.Join(g.unified, "memory.events"), "oom_kill")
		forks = readCounter(filepath.Join(g.unified, "pids.events"), "max")
	default:
		if g.memory != "" {
			oom = readCounter(filepath.Join(g.memory, "memory.oom_control"), "oom_kill")
		}
		if g.pids != "" {
			forks = readCounter(filepath.Join(g.pids, "pids.events"), "max")
		}
	}
	return oom, forks
}

// readCounter reads "name value" lines.
func readCounter(path, name string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, _ := counterIn(string(b), name)
	return n
}

// counterIn finds the value of a name in such lines.
func counterIn(text, name string) (value int64, ok bool) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == name {
			value, err := strconv.ParseInt(fields[1], 10, 64)
			return value, err == nil
		}
	}
	return 0, false
}

// kill ends every process of the group.
func (g group) kill() { killGroup(g.name()) }

// remove removes the directories. The kernel needs a moment to let go of
// processes that have ended; a directory that stays is empty and harmless.
func (g group) remove() {
	g.kept.close()
	for _, dir := range []string{g.unified, g.pids, g.memory} {
		for try := 0; dir != "" && try < 50; try++ {
			if err := os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// killGroup ends every process of a control group and returns how many it saw.
// Version 2 does it in one write; with version 1 the group may not fork while it
// is emptied.
func killGroup(dir string) int {
	if dir == "" {
		return 0
	}
	seen := len(groupProcs(dir))
	if writeControl(filepath.Join(dir, "cgroup.kill"), "1") == nil {
		return seen
	}
	_ = writeControl(filepath.Join(dir, "pids.max"), "0")
	for range 100 {
		pids := groupProcs(dir)
		if len(pids) == 0 {
			break
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
	return seen
}

// groupProcs lists the processes of a group, without our own.
func groupProcs(dir string) []int {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for line := range bytes.Lines(b) {
		if pid, err := strconv.Atoi(string(bytes.TrimSpace(line))); err == nil && pid > 0 && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// probeCgroups finds the directories where groups can be made, by making one in
// each.
func probeCgroups(r *Report) {
	own, mounts := ownGroups(), groupMounts()
	pids, pidsWhy := tryGroup(mounts["pids"], own["pids"], "pids.max")
	memory, memoryWhy := tryGroup(mounts["memory"], own["memory"], "memory.limit_in_bytes")
	unified, unifiedWhy := tryGroup(mounts[""], own[""], "cgroup.kill")
	switch {
	case unified != "" && pids == "" && memory == "":
		r.CgroupVersion, r.cgroups.unified, r.CgroupKill = 2, unified, available()
		_, pidsWhy = tryGroup(mounts[""], own[""], "pids.max")
		_, memoryWhy = tryGroup(mounts[""], own[""], "memory.max")
	case pids != "" || memory != "":
		r.CgroupVersion, r.cgroups.pids, r.cgroups.memory = 1, pids, memory
		r.CgroupKill = feature(pidsWhy)
	default:
		r.CgroupKill = feature(unifiedWhy)
	}
	r.CgroupPids, r.CgroupMemory = feature(pidsWhy), feature(memoryWhy)
	for _, base := range []string{unified, pids, memory} {
		sweepGroups(base)
	}
}

// sweepGroups removes groups that a run of ours left behind when it died. The kernel
// removes only what is empty. Those of another pid namespace are left alone: their
// makers may live, unseen from here, and be about to enter them.
func sweepGroups(base string) {
	namespace := pidNamespace()
	if base == "" || namespace == "" {
		return
	}
	dirs, _ := filepath.Glob(filepath.Join(base, groupPrefix+"[0-9]*-*"+namespace))
	for _, dir := range dirs {
		name := strings.TrimPrefix(filepath.Base(dir), groupPrefix)
		pid, err := strconv.Atoi(name[:strings.IndexByte(name, '-')])
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.Remove(dir)
		}
	}
}

func feature(why string) Feature {
	if why == "" {
		return available()
	}
	return unavailable("%s", why)
}

// tryGroup makes a group below our own, looks for the file, and removes the group.
func tryGroup(mount groupMount, own, file string) (base, why string) {
	if mount.point == "" {
		return "", "the controller isn't mounted"
	}
	base = filepath.Join(mount.point, strings.TrimPrefix(own, strings.TrimSuffix(mount.root, "/")))
	dir, err := os.MkdirTemp(base, "agentd-probe-")
	if err != nil {
		return "", kernelReason(err)
	}
	defer os.Remove(dir) // an empty group is harmless
	if unix.Access(filepath.Join(dir, file), unix.W_OK) != nil {
		return "", file + " isn't there: the controller isn't delegated to us"
	}
	return base, ""
}

// kernelReason shortens an error to what the kernel said.
func kernelReason(err error) string {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Op + " " + filepath.Dir(path.Path) + ": " + path.Err.Error()
	}
	return err.Error()
}

// ownGroups maps each controller to our own group; "" is the unified hierarchy.
func ownGroups() map[string]string {
	groups := map[string]string{}
	b, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 {
			for controller := range strings.SplitSeq(parts[1], ",") {
				groups[controller] = parts[2]
			}
		}
	}
	return groups
}

// groupMount is where a hierarchy is mounted, and which part of it.
type groupMount struct{ point, root string }

// groupMounts maps each controller to where it is mounted.
func groupMounts() map[string]groupMount {
	mounts := map[string]groupMount{}
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		switch right[0] {
		case "cgroup2":
			mounts[""] = groupMount{left[4], left[3]}
		case "cgroup":
			for option := range strings.SplitSeq(right[2], ",") {
				mounts[option] = groupMount{left[4], left[3]}
			}
		}
	}
	return mounts
}

// KillCgroup ends every process of a control group that an earlier run of ours
// made, removes the group, and returns how many processes it found. Anything that
// isn't such a group is left alone.
//
// Its maker may live and give the group to another command, under another name: so it
// gets a name of ours first. Of two who rename a group one finds it gone.
func KillCgroup(dir string) int {
	if !strings.HasPrefix(filepath.Base(dir), groupPrefix) || !filepath.IsAbs(dir) {
		return 0
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
		return 0
	}
	taken := filepath.Join(filepath.Dir(dir), newGroupName())
	switch err := os.Rename(dir, taken); {
	case err == nil:
		dir = taken
	case errors.Is(err, os.ErrNotExist):
		return 0
	}
	// With version 2 groups have one name, and are used once.
	seen := killGroup(dir)
	group{unified: dir}.remove()
	return seen
}
