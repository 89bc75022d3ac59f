package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// newGroupTest is a netTest for control groups.
func newGroupTest(t *testing.T, limits Limits) *netTest {
	t.Helper()
	plan := prepared(t, Profile{Root: workspace(t), Limits: limits})
	if !plan.keepsGroup() || !canFork {
		t.Skipf("skipped: control groups are used once here: version %d, %+v", report().CgroupVersion, report().CgroupPids)
	}
	l, err := startLauncher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return &netTest{t, l, plan}
}

// groupsWaiting are the groups that wait for a command.
func (n *netTest) groupsWaiting() []group {
	n.l.groups.mu.Lock()
	defer n.l.groups.mu.Unlock()
	return append([]group(nil), n.l.groups.free...)
}

// begun is a child that waits for its word to go.
func (n *netTest) begun(line string) *Child {
	n.Helper()
	c, err := n.start(n.plan, Command{Argv: []string{"/bin/sh", "-c", line}})
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(c.Close)
	return c
}

// ended runs a child to its end, with all that is taken down after it.
func (n *netTest) ended(c *Child) Exit {
	n.Helper()
	if err := c.Go(); err != nil {
		n.Fatal(err)
	}
	e := c.Wait()
	c.Close()
	return e
}

// inode is what a group is known by under each of its names.
func inode(t *testing.T, dir string) uint64 {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// TestGroupIsUsedAgainUnderAnotherName: whoever ends what is left of the first command,
// by the name that the ledger has, doesn't meet the second one.
func TestGroupIsUsedAgainUnderAnotherName(t *testing.T) {
	n := newGroupTest(t, Limits{Processes: 20, MemoryMB: 512})
	first := n.begun("exit 3")
	name, ino := first.Cgroup(), inode(t, first.Cgroup())
	if e := n.ended(first); e.Code != 3 {
		t.Fatalf("%+v", e)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	second, err := n.start(n.plan, Command{Argv: []string{"/bin/sh", "-c", "echo runs; sleep 1000"}, Stdout: in})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	_ = in.Close()
	if inode(t, second.Cgroup()) != ino {
		t.Fatal("the second command has another group")
	}
	if second.Cgroup() == name {
		t.Fatalf("both commands' groups are called %s", name)
	}
	if err := second.Go(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if left := KillCgroup(name); left != 0 {
		t.Errorf("%d processes were ended by the name of the first command's group", left)
	}
	if members := groupProcs(second.Cgroup()); len(members) == 0 {
		t.Error("nothing runs in the second command's group")
	}
	if left := KillCgroup(second.Cgroup()); left == 0 {
		t.Error("no process was ended by the name of the second command's group")
	}
	if e := second.Wait(); e.Success() {
		t.Errorf("the second command ended with %+v", e)
	}
}

// TestGroupThatSomeoneElseEndedIsNotUsed: the ledger's entry of the first command was
// acted on while its group waited for the second one.
func TestGroupThatSomeoneElseEndedIsNotUsed(t *testing.T) {
	n := newGroupTest(t, Limits{Processes: 20, MemoryMB: 512})
	first := n.begun("true")
	name := first.Cgroup()
	n.ended(first)
	if len(n.groupsWaiting()) != 1 {
		t.Fatal("the group doesn't wait for another command")
	}
	KillCgroup(name)
	second := n.begun("true")
	if _, err := os.Stat(second.Cgroup()); err != nil {
		t.Error(err)
	}
	if e := n.ended(second); !e.Success() {
		t.Errorf("%+v", e)
	}
}

// TestGroupIsUsedOnceInDoubt: what a command did to its group, or that nobody knows how it
// ended, must not meet the next one.
func TestGroupIsUsedOnceInDoubt(t *testing.T) {
	n := newGroupTest(t, Limits{Processes: 20, MemoryMB: 64})
	for name, line := range map[string]string{
		"forks were refused":   "i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; exit 0",
		"memory ran out":       "sh -c 'x=0123456789; while :; do x=$x$x; done'; exit 0",
		"memory is still held": "head -c 8000000 /dev/zero >held",
		"it was ended by us":   "",
	} {
		c := n.begun(firstNonEmpty(line, "sleep 1000"))
		if line == "" {
			_ = c.Go() // else it has ended already
			_ = c.Kill()
			c.Close()
		} else {
			n.ended(c)
		}
		if left := n.groupsWaiting(); len(left) > 0 {
			t.Errorf("%s: the group waits for another command", name)
		}
		for _, dir := range []string{c.group.pids, c.group.memory} {
			if _, err := os.Stat(dir); dir != "" && !os.IsNotExist(err) {
				t.Errorf("%s: %s is left: %v", name, dir, err)
			}
		}
	}
	n.ended(n.begun("exit 7"))
	if left := n.groupsWaiting(); len(left) != 1 {
		t.Errorf("%d groups wait after a command that did nothing to its group", len(left))
	}
}

// TestGroupHasTheLimitsOfItsCommand: also if the one before had others.
func TestGroupHasTheLimitsOfItsCommand(t *testing.T) {
	n := newGroupTest(t, Limits{Processes: 20, MemoryMB: 512})
	n.ended(n.begun("true"))
	wider := prepared(t, Profile{Root: workspace(t), Limits: Limits{Processes: 30, MemoryMB: 1024}})
	for _, plan := range []*Plan{wider, n.plan} {
		n.plan = plan
		c := n.begun("true")
		l := plan.Profile.Limits
		for file, want := range map[string]int64{
			filepath.Join(c.group.pids, "pids.max"):                l.Processes + 1,
			filepath.Join(c.group.memory, "memory.limit_in_bytes"): l.MemoryMB << 20,
		} {
			b, err := os.ReadFile(file)
			if err != nil || strings.TrimSpace(string(b)) != strconv.FormatInt(want, 10) {
				t.Errorf("%s is %q, %v; want %d", file, b, err, want)
			}
		}
		n.ended(c)
		if len(n.groupsWaiting()) != 1 {
			t.Errorf("%d groups wait, want 1", len(n.groupsWaiting()))
		}
	}
	n.l.close()
	if left := n.groupsWaiting(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}
