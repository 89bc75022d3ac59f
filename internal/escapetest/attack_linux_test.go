package escapetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attackVariable makes the test binary the attacker: its value names the attack,
// the arguments say against what.
const attackVariable = "AGENTD_ESCAPE_ATTACK"

// attacks are what no line of shell can try. Each returns nil if it got through.
func attacks() map[string]func(arg string) error {
	return map[string]func(arg string) error{
		"truncate":  func(path string) error { return unix.Truncate(path, 0) },
		"xattr":     func(path string) error { return unix.Setxattr(path, "user.escape", []byte{1}, 0) },
		"mount":     func(path string) error { return unix.Mount(path, "/tmp", "", unix.MS_BIND, "") },
		"remount":   func(path string) error { return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"tmpfs":     func(path string) error { return unix.Mount("none", path, "tmpfs", 0, "") },
		"uncover":   func(path string) error { return unix.Unmount(path, unix.MNT_DETACH) },
		"open_tree": openTree,
		"pivot":     func(path string) error { return unix.PivotRoot(path, path) },
		"chroot":    unix.Chroot,
		"unshare":   func(string) error { return unix.Unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNS) },
		"setns":     setNamespace,
		"node":      deviceNode,
		"disk":      readDisk,
		"handle":    byHandle,

		"tcp":      func(to string) error { return send("tcp", to) },
		"udp":      func(to string) error { return send("udp", to) },
		"unix":     func(to string) error { return send("unix", to) },
		"unixgram": func(to string) error { return send("unixgram", to) },
		"mptcp":    multipath,
		"raw":      func(string) error { return open(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
		"packet":   func(string) error { return open(unix.AF_PACKET, unix.SOCK_RAW, 0) },
		"vsock":    func(string) error { return open(unix.AF_VSOCK, unix.SOCK_STREAM, 0) },
		"alg":      func(string) error { return open(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) },

		"io_uring": func(string) error { return reached(unix.SYS_IO_URING_SETUP, 1, 0) },
		"bpf":      func(string) error { return reached(unix.SYS_BPF, 0, 0) },
		"perf":     func(string) error { return reached(unix.SYS_PERF_EVENT_OPEN, 0, 0) },
		"keyctl":   func(string) error { return reached(unix.SYS_KEYCTL, 0, ^uintptr(2)) },
		"module":   func(string) error { return reached(unix.SYS_FINIT_MODULE, ^uintptr(0), 0) },
		"reboot":   func(string) error { return reached(unix.SYS_KEXEC_LOAD, 0, 0) },
		"tiocsti":  typeInto,

		"kill":       func(pid string) error { return unix.Kill(number(pid), unix.SIGKILL) },
		"killall":    func(string) error { return unix.Kill(-1, unix.SIGUSR1) },
		"ptrace":     func(pid string) error { return unix.PtraceAttach(number(pid)) },
		"readmem":    readMemory,
		"nice":       changeNiceness,
		"privileges": anyPrivilege,
		"memory":     takeMemory,
		"files":      openMany,
		"threads":    forkMany,
	}
}

// attack runs one attack. The exit status is 0 if it got through; an unknown name
// counts as that, so that a mistake in the table is found.
func attack(name string) int {
	try, ok := attacks()[name]
	if !ok {
		try, ok = moreAttacks()[name]
	}
	if !ok {
		return 0
	}
	if err := try(strings.Join(os.Args[1:], " ")); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -2 // nobody
	}
	return n
}

func openTree(path string) error {
	_, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE)
	return err
}

// setNamespace enters the mount namespace of the first process that it sees.
func setNamespace(string) error {
	fd, err := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return unix.Setns(fd, unix.CLONE_NEWNS)
}

// deviceNode makes a node for the disk that a path is on, and reads from it.
func deviceNode(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if err := unix.Mknod("/tmp/disk", unix.S_IFBLK|0o600, int(st.Dev)); err != nil {
		return err
	}
	return readFrom("/tmp/disk")
}

func readDisk(string) error {
	for _, dev := range []string{"/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg", "/dev/port"} {
		if readFrom(dev) == nil {
			return nil
		}
	}
	return unix.ENOENT
}

func readFrom(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_, err = unix.Read(fd, make([]byte, 512))
	return err
}

// byHandle opens a file without walking to it.
func byHandle(path string) error {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	if err != nil {
		return err
	}
	root, err := unix.Open("/", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	_, err = unix.OpenByHandleAt(root, h, unix.O_WRONLY)
	return err
}

func send(network, to string) error {
	c, err := net.Dial(network, to)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("out"))
	return err
}

// multipath is TCP by another protocol number, which filters of TCP overlook.
func multipath(to string) error {
	addr, err := net.ResolveTCPAddr("tcp", to)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
	if err != nil {
		return err
	}
	sa := &unix.SockaddrInet4{Port: addr.Port}
	copy(sa.Addr[:], addr.IP.To4())
	return unix.Connect(fd, sa)
}

func open(family, kind, protocol int) error {
	_, err := unix.Socket(family, kind, protocol)
	return err
}

// reached reports whether a system call was let through: any other error than a
// refusal is the kernel's own.
func reached(nr, a, b uintptr) error {
	var room [256]byte
	if a == 1 {
		b = uintptr(unsafe.Pointer(&room))
	}
	if _, _, e := syscall.Syscall6(nr, a, b, 0, 0, 0, 0); e == unix.EPERM || e == unix.ENOSYS {
		return e
	}
	return nil
}

// typeInto puts a character into the terminal that is standard input.
func typeInto(string) error {
	c := byte('#')
	if _, _, e := syscall.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c))); e != 0 {
		return e
	}
	return nil
}

func readMemory(pid string) error {
	b := make([]byte, 8)
	_, err := unix.ProcessVMReadv(number(pid), []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil // nothing is at that place, but it was allowed to look
	}
	return err
}

// changeNiceness gives a process another niceness than it has.
func changeNiceness(pid string) error {
	now, err := unix.Getpriority(unix.PRIO_PROCESS, number(pid))
	if err != nil {
		return err
	}
	to := 19
	if 20-now == to { // the kernel says 20 less the value
		to = 18
	}
	return unix.Setpriority(unix.PRIO_PROCESS, number(pid), to)
}

// anyPrivilege looks for a capability that is left, or could be got.
func anyPrivilege(string) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		if strings.HasPrefix(key, "Cap") && strings.Trim(value, "0") != "" || key == "NoNewPrivs" && value != "1" {
			return nil
		}
	}
	return errors.New("no privilege is left")
}

// takeMemory touches up to a gigabyte.
func takeMemory(string) error {
	for range 256 {
		b, err := unix.Mmap(-1, 0, 4<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
		if err != nil {
			return err
		}
		b[0] = 1
	}
	return nil
}

func openMany(string) error {
	for range 10000 {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			return err
		}
	}
	return nil
}

// forkMany starts children that stay, until it is refused one.
func forkMany(string) error {
	for range 1000 {
		if _, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, &syscall.ProcAttr{}); err != nil {
			return fmt.Errorf("fork: %w", err)
		}
	}
	return nil
}
