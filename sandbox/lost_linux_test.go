package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/sandbox/internal/stage"

	"golang.org/x/sys/unix"
)

// someLauncher is one that a test may break.
func someLauncher(t *testing.T) *launcher {
	t.Helper()
	if !canFork {
		t.Skip("there are no launchers here")
	}
	l, err := startLauncher()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLateAnswersAreNobodyElses: an answer that came too late isn't taken for that
// of the next request, whose stage would then run under another's process id; and
// the stage that nobody learned of is ended and collected.
func TestLateAnswersAreNobodyElses(t *testing.T) {
	l := someLauncher(t)
	if err := l.proc.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l.patience = time.Millisecond // it is stopped: no time would be enough
	if _, _, err := l.fork(&syscall.SysProcAttr{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a stopped launcher answered: %v", err)
	}
	l.patience = launcherAnswers
	if err := l.proc.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	pid := peekAnswer(t, l)
	proc, _, err := l.fork(&syscall.SysProcAttr{})
	if !errors.Is(err, errLost) {
		t.Errorf("the next request got %+v, %v; the stage of the one before is %d", proc, err, pid)
	}
	if !ours(pid) {
		t.Fatalf("the stage %d isn't a child of ours", pid)
	}
	l.close()
	if ours(pid) {
		t.Errorf("the stage %d is left", pid)
	}
}

// peekAnswer waits for an answer and leaves it where it is.
func peekAnswer(t *testing.T, l *launcher) (pid int) {
	t.Helper()
	f, err := l.conn.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, stage.AnswerSize)
	for {
		n, _, err := unix.Recvfrom(int(f.Fd()), b, unix.MSG_PEEK)
		switch {
		case err == nil && n == len(b):
			return int(int64(binary.LittleEndian.Uint64(b)))
		case !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN):
			t.Fatalf("%d bytes, %v", n, err)
		}
		fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds, -1) // interrupted or not, look again
	}
}

// ours tells whether a process is a child of this one, ended or not.
func ours(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	return len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid())
}

// TestStageIsBornInItsGroupOrNotAtAll: a launcher without room for the descriptor
// of the control group doesn't fork a stage outside of it.
func TestStageIsBornInItsGroupOrNotAtAll(t *testing.T) {
	l := someLauncher(t)
	defer l.close()
	pid := l.proc.Pid
	open := descriptors(t, pid)
	first := uint64(0) // that is free: there is room for it alone
	for open[strconv.FormatUint(first, 10)] {
		first++
	}
	var before unix.Rlimit
	room := unix.Rlimit{Cur: first + 1, Max: l.openFiles[1]}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &room, &before); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	sys := &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if _, _, err := l.fork(sys); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("without room for the group: %v", err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil); err != nil {
		t.Fatal(err)
	}
	// The kernel was asked now, and doesn't call that a group.
	if _, _, err := l.fork(sys); err == nil || errors.Is(err, syscall.EMFILE) || l.isLost() {
		t.Errorf("%v", err)
	}
	if after := descriptors(t, pid); len(after) != len(open) {
		t.Errorf("the launcher keeps %v, had %v", after, open)
	}
}

// descriptors are those that a process has open.
func descriptors(t *testing.T, pid int) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	for _, e := range entries {
		open[e.Name()] = true
	}
	return open
}

// TestGroupThatIsGone: a stage isn't started outside of the group that was meant.
func TestGroupThatIsGone(t *testing.T) {
	plan := prepared(t, Profile{Root: workspace(t)})
	if _, err := plan.attributes(group{unified: "/no/such/group"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestRefusalsDontCostTheLauncher: what fails for other reasons would fail without
// a launcher, too, and three such failures must not slow down everything after.
func TestRefusalsDontCostTheLauncher(t *testing.T) {
	l := someLauncher(t)
	w := Warm{launcher: l, launched: 1}
	defer w.Close()
	plan := *prepared(t, Profile{Root: workspace(t)})
	if !plan.use.pid {
		t.Skipf("stages aren't forked here: %v", plan.NotEnforced)
	}
	plan.use.cgroupV2, plan.report.cgroups.unified = true, "/no/such/group"
	if _, err := w.begin(&plan, l); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if w.launcher != l || l.isLost() {
		t.Error("the launcher was given up")
	}
}

// TestCommandsOutliveTheirLaunchers kills and stops launchers while commands are
// started on several threads: each command runs once, as itself, and nothing runs
// when all is closed.
func TestCommandsOutliveTheirLaunchers(t *testing.T) {
	plan := prepared(t, Profile{Root: workspace(t)})
	if !plan.use.pid || !canFork {
		t.Skipf("stages aren't forked here: %v", plan.NotEnforced)
	}
	var w Warm
	stop, stopped := make(chan struct{}), make(chan int)
	go func() { stopped <- attackLaunchers(&w, stop) }()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 15 {
				name := fmt.Sprintf("%d-%d", i, j)
				if out, exit, err := startWarm(&w, plan, name); err != nil || out != name+"\n" || exit.Code != 7 {
					t.Errorf("%s: %q, %+v, %v", name, out, exit, err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	t.Logf("%d launchers were attacked", <-stopped)
	w.Close()
	for _, pid := range children(t) {
		if b, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && strings.HasPrefix(string(b), "agentd-sandbox") && alive(pid) {
			if l, err := testLauncher(); err == nil && strconv.Itoa(l.proc.Pid) != pid {
				t.Errorf("process %s is left", pid)
			}
		}
	}
}

// startWarm runs a command that says its name and fails with 7.
func startWarm(w *Warm, plan *Plan, name string) (string, Exit, error) {
	r, out, err := os.Pipe()
	if err != nil {
		return "", Exit{}, err
	}
	defer r.Close()
	child, err := w.Start(plan, Command{Argv: []string{"sh", "-c", `echo "$0"; exit 7`, name}, Stdout: out})
	_ = out.Close()
	if err != nil {
		return "", Exit{}, err
	}
	defer child.Close()
	if err := child.Go(); err != nil {
		return "", Exit{}, err
	}
	said, err := io.ReadAll(r)
	return string(said), child.Wait(), err
}

// attackLaunchers kills one launcher after the other, or stops it, and returns how
// many there were.
func attackLaunchers(w *Warm, stop <-chan struct{}) (n int) {
	for {
		select {
		case <-stop:
			return n
		case <-time.After(time.Millisecond):
		}
		w.mu.Lock()
		l := w.launcher
		w.launched = 0 // it is never given up
		w.mu.Unlock()
		if l == nil {
			continue
		}
		n++
		l.mu.Lock()
		l.patience = 20 * time.Millisecond // too short is harmless, too
		l.mu.Unlock()
		if n%2 == 0 {
			_ = l.proc.Kill()
			continue
		}
		_ = l.proc.Signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(n%50) * time.Millisecond)
		_ = l.proc.Signal(syscall.SIGCONT)
	}
}

// children are the processes that this one is the parent of.
func children(t *testing.T) (pids []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && ours(pid) {
			pids = append(pids, e.Name())
		}
	}
	return pids
}
