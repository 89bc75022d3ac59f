package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what a process has used so far.
type Usage struct {
	// CPU is the processor time of the process, Children that of its children: those
	// that it waited for, with theirs, and those that still run.
	CPU, Children time.Duration
	// Written is the bytes that it had written to storage.
	Written int64
	// Switches is how often one of its living threads gave its processor away, to wait or
	// because another was to run.
	Switches int64
	// RSS is its resident memory.
	RSS int64
}

// Sub returns the difference; memory is that of u.
func (u Usage) Sub(before Usage) Usage {
	return Usage{
		CPU: u.CPU - before.CPU, Children: u.Children - before.Children, Written: u.Written - before.Written,
		Switches: u.Switches - before.Switches, RSS: u.RSS,
	}
}

// Total is the processor time with that of the children.
func (u Usage) Total() time.Duration { return u.CPU + u.Children }

// tick is the unit of processor time in /proc on every common build of Linux.
const tick = 10 * time.Millisecond

// ReadUsage asks the kernel about a process.
func ReadUsage(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	// The name may have spaces; the fields after it are numbered from 3.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var n [4]int64 // our own two are too coarse
	for i := range n {
		if n[i], err = strconv.ParseInt(fields[11+i], 10, 64); err != nil {
			return Usage{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	u := Usage{Children: time.Duration(n[2]+n[3]) * tick}
	if u.CPU, err = processorTime(pid); err != nil {
		return Usage{}, err
	}
	u.Children += livingChildren(pid)
	if u.Written, err = field(fmt.Sprintf("/proc/%d/io", pid), "write_bytes:"); err != nil {
		return Usage{}, err
	}
	u.Switches = switches(pid)
	rss, err := field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:")
	u.RSS = rss << 10
	return u, err
}

// processorTime asks for a process's own time, which the kernel counts exactly.
func processorTime(pid int) (time.Duration, error) {
	const scheduled = 2 // which of a process's clocks: all that it ran
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("the processor time of %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// field reads a number from a file of names and values.
func field(path, name string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

// switches is how often the living threads of a process gave their processors away.
func switches(pid int) (total int64) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, file := range files {
		for _, name := range []string{"voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"} {
			n, _ := field(file, name) // a thread may end meanwhile
			total += n
		}
	}
	return total
}

// Load is what the machine did in the last minute beside and with us, for the
// reader of a figure.
func Load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(b), " ")
	return one
}

// livingChildren is the processor time of the children that still run: it is not
// among that of the children that were waited for.
func livingChildren(pid int) (total time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		b, _ := os.ReadFile(file)
		for child := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(child); err == nil {
				t, _ := processorTime(n)
				total += t
			}
		}
	}
	return total
}
