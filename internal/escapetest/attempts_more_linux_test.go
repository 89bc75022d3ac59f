package escapetest

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// cleverWrites are writes outside by ways that no path check sees.
func cleverWrites() []attempt {
	return []attempt{
		{name: "exchange with a file outside", line: "echo x > f; ATTACK:exchange: $OUT/victim", claims: files, escaped: changed},
		{name: "nameless file linked outside", line: "ATTACK:tmplink: $OUT/new", claims: files, escaped: changed},
		{name: "reopen for writing", line: "exec 3< $OUT/victim; echo x > /proc/self/fd/3", claims: files, escaped: changed},
		{name: "rename race by a program", line: "mkdir -p r/a; ln -sfn $OUT r/b; ATTACK:race: r; rm -rf r; exit 1", claims: files, escaped: changed},
		{name: "program without a file", line: "ATTACK:memfd: $OUT/victim", claims: files, escaped: changed},
		{name: "shared memory for others", line: "echo x > /dev/shm/escape-left", claims: files, escaped: leftInMemory},
		{name: "raise its own limits", line: "for f in $(find /sys/fs/cgroup -maxdepth 4 -name pids.max -o -maxdepth 4 -name memory.max -o -maxdepth 4 -name memory.limit_in_bytes); do echo 99999999999 > $f && exit 0; done; exit 1", claims: files},
		{name: "program for crashes", line: "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern", claims: files},
		{name: "watch the store", line: "ATTACK:inotify: $HID", claims: mounts},
		{name: "watch the store's file system", line: "ATTACK:fanotify: $HID", claims: mounts},
		{name: "socket by a link", line: "ln -sfn $UNIX s; ATTACK:unix: s", claims: noUnix, escaped: connected},
		{name: "socket by /proc/self/root", line: "ATTACK:unix: /proc/self/root$UNIX", claims: noUnix, escaped: connected},
		{name: "pair of sockets from outside", line: "ATTACK:steal: 1", claims: files},
	}
}

// cleverCalls are system calls that reach past a process.
func cleverCalls() []attempt {
	return []attempt{
		{name: "userfaultfd", line: "ATTACK:userfault:", claims: filter},
		{name: "clone with hidden flags", line: "ATTACK:clone3:", claims: filter},
		{name: "namespaces by a program", line: "unshare -Ur true || unshare -m true || unshare -n true", claims: filter},
		{name: "enter another's namespaces", line: "nsenter -t 1 -m -p true", claims: filter},
		{name: "machines, tunnels and loops", line: "ATTACK:devices:", claims: mounts},
		{name: "name of the machine", line: "ATTACK:hostname:", claims: filter},
		{name: "clock of the machine", line: "ATTACK:clock:", claims: filter},
		{name: "swap and accounting", line: "ATTACK:acct:", claims: filter},
		{name: "the init's memory", line: "ATTACK:procmem: /proc/1/mem", claims: filter},
		{name: "the runtime's memory by /proc", line: "ATTACK:procmem: /proc/$SELF/mem", claims: files},
		{name: "kill a stranger by descriptor", line: "ATTACK:pidfd: $PID", claims: signals, escaped: hurt},
		{name: "limits of a stranger", line: "ATTACK:prlimit: $PID", claims: ownPids},
		{name: "processors of a stranger", line: "ATTACK:affinity: $PID", claims: ownPids},
		{name: "memory that others share", line: "ATTACK:shm: $SHM", claims: ownPids},
	}
}

func leftInMemory(*world, *call) bool {
	err := os.Remove("/dev/shm/escape-left")
	return err == nil
}

// moreAttacks are those of the tables above.
func moreAttacks() map[string]func(arg string) error {
	return map[string]func(arg string) error{
		"exchange": func(path string) error {
			return unix.Renameat2(unix.AT_FDCWD, "f", unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
		},
		"tmplink":   nameless,
		"race":      exchangeRace,
		"memfd":     withoutFile,
		"inotify":   watch,
		"fanotify":  watchAll,
		"steal":     stealSocket,
		"userfault": func(string) error { return reached(unix.SYS_USERFAULTFD, 0, 0) },
		"clone3":    func(string) error { return reached(unix.SYS_CLONE3, 0, 0) },
		"devices":   virtualDevices,
		"hostname":  sameHostname,
		"clock":     sameClock,
		"acct":      func(string) error { return reached(unix.SYS_ACCT, 0, 0) },
		"procmem":   writableMemory,
		"pidfd":     killByDescriptor,
		"prlimit": func(pid string) error {
			return unix.Prlimit(number(pid), unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
		},
		"affinity": func(pid string) error {
			var set unix.CPUSet
			set.Set(0)
			return unix.SchedSetaffinity(number(pid), &set)
		},
		"shm": func(key string) error {
			_, err := unix.SysvShmGet(number(key), 1, 0)
			return err
		},
	}
}

// nameless makes a file without a name in the workspace and gives it one outside.
func nameless(path string) error {
	fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return unix.Linkat(fd, "", unix.AT_FDCWD, path, unix.AT_EMPTY_PATH)
}

// exchangeRace writes through a folder that is a link to the outside every other
// moment.
func exchangeRace(dir string) error {
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 3000 {
			_ = unix.Renameat2(unix.AT_FDCWD, dir+"/a", unix.AT_FDCWD, dir+"/b", unix.RENAME_EXCHANGE)
		}
	})
	for range 3000 {
		if f, err := os.OpenFile(dir+"/a/new", os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_ = f.Close() // that it is there counts
		}
	}
	wg.Wait()
	return errors.New("the race is over")
}

// withoutFile runs a copy of the shell that is in memory alone.
func withoutFile(path string) error {
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("x", 0)
	if err != nil {
		return err
	}
	for len(shell) > 0 {
		n, err := unix.Write(fd, shell)
		if err != nil {
			return err
		}
		shell = shell[n:]
	}
	return unix.Exec("/proc/self/fd/"+strconv.Itoa(fd), []string{"sh", "-c", "echo x > " + path}, nil)
}

func watch(path string) error {
	fd, err := unix.InotifyInit1(0)
	if err != nil {
		return err
	}
	_, err = unix.InotifyAddWatch(fd, path, unix.IN_ALL_EVENTS)
	return err
}

func watchAll(path string) error {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_FID, 0)
	if err != nil {
		return err
	}
	return unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_MODIFY|unix.FAN_CREATE, unix.AT_FDCWD, path)
}

// stealSocket takes the descriptor by which the init of the sandbox is told what to do.
func stealSocket(pid string) error {
	fd, err := unix.PidfdOpen(number(pid), 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 3, 0)
	return err
}

func virtualDevices(string) error {
	for _, path := range []string{"/dev/kvm", "/dev/fuse", "/dev/loop-control", "/dev/net/tun", "/dev/vhost-net", "/dev/vsock", "/dev/userfaultfd", "/dev/mapper/control", "/dev/console"} {
		if _, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
			return nil
		}
	}
	return unix.ENOENT
}

func sameHostname(string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return unix.Sethostname([]byte(name))
}

func sameClock(string) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
}

func writableMemory(path string) error {
	_, err := unix.Open(path, unix.O_RDWR, 0)
	return err
}

func killByDescriptor(pid string) error {
	fd, err := unix.PidfdOpen(number(pid), 0)
	if err != nil {
		return err
	}
	return unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0)
}
