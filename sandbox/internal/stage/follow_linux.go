package stage

import (
	"strconv"
	"syscall"
)

// pollMs is how often orphans are reaped while nothing else happens.
const pollMs = 500

// follow waits for the command and for orders, and ends when the command's whole
// tree has ended.
func (s *stage) follow() {
	fds := []pollFD{{fd: int32(s.conn.fd), events: pollIn}, {fd: int32(s.pidfd), events: pollIn}}
	if s.pidfd < 0 {
		fds = fds[:1] // a kernel without pidfds: the timeout finds the end
	}
	for {
		// Interrupted by SIGCHLD or not: look at everything.
		n, err := poll(fds, pollMs)
		if err == nil && n > 0 && fds[0].revents != 0 && !s.order() {
			s.killAll()
			return
		}
		s.reap(syscall.WNOHANG)
		if s.ended {
			s.killAll()
			s.report()
			return
		}
	}
}

// order obeys one message of the parent; false says that there is no parent.
func (s *stage) order() bool {
	kind, payload, err := s.conn.receive()
	if err != nil || kind != MsgSignal || len(payload) != 2 {
		return false
	}
	sig, all := syscall.Signal(payload[0]), payload[1] != 0
	if s.ended {
		return true
	}
	_ = syscall.Kill(-s.leaf, sig)
	if !all {
		return true
	}
	if s.PidNS {
		_ = syscall.Kill(-1, sig)
		return true
	}
	for _, pid := range descendants(syscall.Getpid()) {
		_ = syscall.Kill(pid, sig)
	}
	return true
}

// reap collects ended children; false says that there are none any more.
func (s *stage) reap(options int) bool {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, options, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return false
		case pid == 0:
			return true
		case pid == s.leaf:
			s.status, s.ended = status, true
		}
	}
}

// killAll ends everything that the command started and waits for it. In a pid
// namespace one call reaches all; elsewhere orphans come to the stage, their
// subreaper, so that round after round nothing is left.
func (s *stage) killAll() {
	if s.PidNS {
		_ = syscall.Kill(-1, syscall.SIGKILL)
		s.reap(0)
		return
	}
	_ = syscall.Kill(-s.leaf, syscall.SIGKILL)
	for s.reap(syscall.WNOHANG) {
		pids := descendants(syscall.Getpid())
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		// Something was told to die: give it the processor before looking again.
		_, _ = poll(nil, 1)
	}
}

// report tells how the command ended.
func (s *stage) report() {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage)
	micros := usage.Utime.Nano()/1000 + usage.Stime.Nano()/1000
	s.conn.send(MsgExited, EncodeExited(Exited{
		WaitStatus: uint64(uint32(s.status)),
		CPUMicros:  uint64(micros),
		MaxRSSKiB:  uint64(usage.Maxrss),
	}), -1)
}

// descendants lists the processes below root, by reading /proc.
func descendants(root int) []int {
	parents := parentTable()
	below := map[int]bool{root: true}
	var found []int
	for grown := true; grown; {
		grown = false
		for pid, parent := range parents {
			if below[parent] && !below[pid] {
				below[pid], grown = true, true
				found = append(found, pid)
			}
		}
	}
	return found
}

// parentTable maps each process to its parent.
func parentTable() map[int]int {
	table := map[int]int{}
	dir, err := syscall.Open("/proc", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return table
	}
	defer syscall.Close(dir) // opened for reading
	buf := make([]byte, 32<<10)
	for {
		n, err := syscall.ReadDirent(dir, buf)
		if n <= 0 || err != nil {
			return table
		}
		_, _, names := syscall.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil {
				if parent, ok := parentOf(name); ok {
					table[pid] = parent
				}
			}
		}
	}
}

// parentOf reads the fourth field of stat; the second is the command's name in
// parentheses and may hold anything, so the last parenthesis counts.
func parentOf(pid string) (int, bool) {
	b, err := readFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	end := len(b) - 1
	for end >= 0 && b[end] != ')' {
		end--
	}
	// ") S 123 …": the state is one letter.
	start := end + 4
	if end < 0 || start >= len(b) {
		return 0, false
	}
	stop := start
	for stop < len(b) && b[stop] >= '0' && b[stop] <= '9' {
		stop++
	}
	parent, err := strconv.Atoi(string(b[start:stop]))
	return parent, err == nil
}

// readFile reads a small file.
func readFile(path string) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd) // opened for reading
	buf := make([]byte, 4096)
	n, err := syscall.Read(fd, buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}
