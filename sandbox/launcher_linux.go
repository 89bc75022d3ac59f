package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"agentd/sandbox/internal/stage"

	"golang.org/x/sys/unix"
)

// launcher is a small process of ours that forks stages: a Go program of our size
// takes longer to come up than everything else that a sandbox needs. The stages are
// our children nevertheless.
type launcher struct {
	proc *os.Process
	conn *net.UnixConn
	// openFiles are the soft and the hard limit that what we start gets.
	openFiles [2]uint64
	// programs are those of its stages.
	programs programs
	// nets are network namespaces for them.
	nets namespaces
	// groups are control groups for them.
	groups groups

	// patience bounds the wait for an answer.
	patience time.Duration

	mu   sync.Mutex // one request at a time
	lost bool       // an answer is missing: the next one would be another's
}

// errLost says that a launcher can't be used any more.
var errLost = errors.New("the launcher was lost")

// launcherAnswers bounds the wait for an answer. It takes a fraction of a
// millisecond; a stopped launcher must not stop everything else.
const launcherAnswers = 10 * time.Second

// startLauncher starts one.
func startLauncher() (*launcher, error) {
	openFiles, err := inheritedOpenFiles()
	if err != nil {
		return nil, fmt.Errorf("start launcher: %w", err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start launcher: socketpair: %w", err)
	}
	ours, theirs, err := connectPair(fds)
	if err != nil {
		return nil, fmt.Errorf("start launcher: %w", err)
	}
	l := &launcher{conn: ours, openFiles: openFiles, patience: launcherAnswers}
	if err := l.begin(theirs); err != nil {
		return nil, fmt.Errorf("start launcher: %w", errors.Join(err, ours.Close()))
	}
	return l, nil
}

// begin starts the process that forks the launcher and ends.
func (l *launcher) begin(theirs *os.File) error {
	first, err := startSelf(stage.LauncherMode, theirs, &syscall.SysProcAttr{Setsid: true})
	err = errors.Join(err, theirs.Close())
	if err != nil {
		return err
	}
	pid, err := l.answer()
	if err != nil {
		_ = first.Kill() // it has ended, unless something stopped it
	}
	if _, waited := first.Wait(); err == nil {
		err = waited
	}
	if err != nil {
		l.reapUntaken()
		return err
	}
	l.proc, err = os.FindProcess(pid)
	return err
}

// answer reads a process id.
func (l *launcher) answer() (int, error) {
	if err := l.conn.SetReadDeadline(time.Now().Add(l.patience)); err != nil {
		return 0, err
	}
	var b [stage.AnswerSize]byte
	n, err := l.conn.Read(b[:])
	if err != nil {
		return 0, err
	}
	pid := int64(binary.LittleEndian.Uint64(b[:]))
	if n != len(b) || pid == 0 {
		return 0, errors.New("the launcher didn't answer")
	}
	return int(pid), nil
}

// fork makes a stage, with the flags, the mappings and the control group of sys.
func (l *launcher) fork(sys *syscall.SysProcAttr) (*os.Process, *net.UnixConn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	pid, err := l.ask(sys, theirs)
	if err != nil {
		return nil, nil, errors.Join(err, ours.Close())
	}
	proc, err := os.FindProcess(pid)
	if err == nil {
		err = mapIDs(pid, sys)
	}
	if err != nil {
		_ = ours.Close() // which ends it, if it can't be killed
		if proc != nil {
			_ = proc.Kill()
			_, _ = proc.Wait()
		}
		return nil, nil, err
	}
	return proc, ours, nil
}

// ask sends a request.
func (l *launcher) ask(sys *syscall.SysProcAttr, theirs *os.File) (int, error) {
	defer theirs.Close() // the stage has its own
	fds := []int{int(theirs.Fd())}
	if sys.UseCgroupFD {
		fds = append(fds, sys.CgroupFD)
	}
	var request [stage.AskedSize]byte
	binary.NativeEndian.PutUint64(request[:], uint64(sys.Cloneflags))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost {
		return 0, errLost
	}
	_, _, err := l.conn.WriteMsgUnix(request[:], unix.UnixRights(fds...), nil)
	if err != nil {
		l.lost = true
		return 0, err
	}
	pid, err := l.answer()
	switch {
	case err != nil:
		l.lost = true
	case pid < 0:
		err = syscall.Errno(-pid) // the kernel's word; the launcher lives
	}
	return pid, err
}

// isLost tells whether the launcher can't be used any more.
func (l *launcher) isLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// close ends the launcher and waits for it. Stages go on, except those whose start
// was never reported.
func (l *launcher) close() {
	_ = l.proc.Kill() // which ends a request that is under way, too
	_, _ = l.proc.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
	l.reapUntaken()
	_ = l.conn.Close()
	l.nets.close()
	l.groups.close()
}

// reapUntaken ends and collects stages that the launcher reported after we stopped
// reading: they are our children, and no one else waits for them.
func (l *launcher) reapUntaken() {
	for {
		pid, err := l.answer()
		if err != nil {
			return
		}
		if pid < 0 {
			continue
		}
		if proc, err := os.FindProcess(pid); err == nil {
			_ = proc.Kill()
			_, _ = proc.Wait()
		}
	}
}

// mapIDs says who is who in a new user namespace, as package syscall does it for a
// process of its own.
func mapIDs(pid int, sys *syscall.SysProcAttr) error {
	if sys.Cloneflags&unix.CLONE_NEWUSER == 0 {
		return nil
	}
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	groups := "deny"
	if sys.GidMappingsEnableSetgroups {
		groups = "allow"
	}
	if err := writeControl(dir+"setgroups", groups); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for file, maps := range map[string][]syscall.SysProcIDMap{"uid_map": sys.UidMappings, "gid_map": sys.GidMappings} {
		var text []byte
		for _, m := range maps {
			text = fmt.Appendf(text, "%d %d %d\n", m.ContainerID, m.HostID, m.Size)
		}
		if err := writeControl(dir+file, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// inheritedOpenFiles is the limit of open files that we were started with. Go raises
// its own, remembers the earlier one privately, and gives it to the programs it
// starts: so one is started, and the kernel asked about it.
func inheritedOpenFiles() (limit [2]uint64, err error) {
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", "read x") // ends with its input
	cmd.Env = []string{}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return limit, err
	}
	if err := cmd.Start(); err != nil {
		return limit, err
	}
	var l unix.Rlimit
	err = unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &l)
	_ = stdin.Close()
	_ = cmd.Wait() // its read found nothing, which it calls a failure
	return [2]uint64{l.Cur, l.Max}, err
}
