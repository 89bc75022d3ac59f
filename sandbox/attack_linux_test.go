package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attackEnv makes the test binary a program that attacks from inside a sandbox.
const attackEnv = "AGENTD_TEST_ATTACK"

// attacks are attempts that no shell line can make. Each returns nil when it got
// through.
var attacks = map[string]func(arg string) error{
	"truncate": func(path string) error { return unix.Truncate(path, 0) },
	"setxattr": func(path string) error { return unix.Setxattr(path, "user.agentd", []byte("x"), 0) },
	"bind":     func(path string) error { return unix.Mount(path, ".", "", unix.MS_BIND, "") },
	"remount": func(path string) error {
		return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND, "")
	},
	"umount": func(path string) error { return unix.Unmount(path, unix.MNT_DETACH) },
	"open_tree": func(path string) error {
		_, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE)
		return err
	},
	"unshare": func(string) error { return unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWUSER) },
	"clone3":  clone3,
	"mknod":   mknod,
	"disk":    disk,
	"handle":  handle,
	"chroot":  unix.Chroot,

	"tcp":        func(a string) error { return dial("tcp", a) },
	"udp":        func(a string) error { return dial("udp", a) },
	"unix":       func(a string) error { return dial("unix", a) },
	"unixgram":   func(a string) error { return dial("unixgram", a) },
	"pair":       pair,
	"mptcp":      func(a string) error { return rawConnect(a, unix.SOCK_STREAM, 262) },
	"raw":        func(string) error { return sock(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
	"packet":     func(string) error { return sock(unix.AF_PACKET, unix.SOCK_RAW, 0) },
	"vsock":      func(string) error { return sock(unix.AF_VSOCK, unix.SOCK_STREAM, 0) },
	"alg":        func(string) error { return sock(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) },
	"sock":       makeSocket,
	"both":       both,
	"get":        fetchURL,
	"io_uring":   ioUring,
	"bpf":        func(string) error { return call(unix.SYS_BPF, 0, 0, 0) },
	"perf":       func(string) error { return call(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0) },
	"keyctl":     func(string) error { return call(unix.SYS_KEYCTL, 0, ^uintptr(2), 0) },
	"tiocsti":    tiocsti,
	"ptrace":     func(pid string) error { return unix.PtraceAttach(atoi(pid)) },
	"vm_readv":   vmRead,
	"kill":       func(pid string) error { return unix.Kill(atoi(pid), unix.SIGKILL) },
	"kill all":   func(string) error { return unix.Kill(-1, unix.SIGUSR1) },
	"nice":       func(pid string) error { return unix.Setpriority(unix.PRIO_PROCESS, atoi(pid), anotherNice()) },
	"privileges": privileges,
	"memory":     memory,
	"files":      openFiles,
}

// anotherNice is a priority that isn't ours: the tests themselves may run at the
// lowest one.
func anotherNice() int {
	const lowest = 19
	if p, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && p == 20-lowest { // the kernel counts from 40 down to 1
		return lowest - 1
	}
	return lowest
}

// attack runs one attempt: exit status 0 says that it got through.
func attack(name string) {
	do, ok := attacks[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "unknown attack", name)
		os.Exit(0) // counts as an escape, so that a typing mistake is found
	}
	if err := do(strings.Join(os.Args[1:], " ")); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

func call(nr, a, b, c uintptr) error {
	if _, _, e := syscall.Syscall6(nr, a, b, c, 0, 0, 0); e == unix.EPERM || e == unix.ENOSYS {
		return e
	}
	return nil // whatever else it said: it was reached
}

func clone3(string) error {
	args := struct{ flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64 }{
		flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, exitSignal: uint64(unix.SIGCHLD),
	}
	pid, _, e := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

// mknod makes the node of the disk that holds a path, and reads it.
func mknod(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	node := "/tmp/node"
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(st.Dev)); err != nil {
		return err
	}
	return readSome(node)
}

// disk reads a disk by a node that is there already.
func disk(string) error {
	for _, node := range []string{"/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg"} {
		if readSome(node) == nil {
			return nil
		}
	}
	return unix.ENOENT
}

func readSome(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Read(make([]byte, 512))
	return err
}

// handle opens a file by its handle, past every directory.
func handle(path string) error {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	if err != nil {
		return err
	}
	mount, err := unix.Open("/", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	_, err = unix.OpenByHandleAt(mount, h, unix.O_RDWR)
	return err
}

func dial(network, address string) error {
	conn, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte("out"))
	return err
}

// both is no attack: a server and a client talk over the loopback device.
func both(string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	return dial("tcp", l.Addr().String())
}

// fetchURL is no attack: it fetches a URL through the proxy of the environment. The
// standard library never uses a proxy for loopback addresses, so it is given here.
func fetchURL(address string) error {
	proxy, err := url.Parse(os.Getenv("HTTP_PROXY"))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	resp, err := client.Get(address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}

func sock(family, kind, proto int) error {
	fd, err := unix.Socket(family, kind, proto)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// makeSocket makes a socket that is allowed.
func makeSocket(kind string) error {
	switch kind {
	case "pair":
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			_, _ = unix.Close(fds[0]), unix.Close(fds[1])
		}
		return err
	case "inet6":
		return sock(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	case "netlink":
		return sock(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	default:
		return sock(unix.AF_INET, unix.SOCK_STREAM, 0)
	}
}

func rawConnect(address string, kind, proto int) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, kind, proto)
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Port: atoi(port)}
	copy(to.Addr[:], net.ParseIP(host).To4())
	return unix.Connect(fd, to)
}

// pair connects one end of a pair of datagram sockets to a stranger.
func pair(path string) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(fds[0], []byte("out"), 0, &unix.SockaddrUnix{Name: path})
}

func ioUring(string) error {
	var params [120]byte
	_, _, e := syscall.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if e != 0 {
		return e
	}
	return nil
}

// tiocsti types into whatever standard input is.
func tiocsti(string) error {
	c := byte('x')
	_, _, e := syscall.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	if e == unix.EPERM || e == unix.EIO {
		return e
	}
	return nil
}

func vmRead(pid string) error {
	buf := make([]byte, 16)
	local := []unix.Iovec{{Base: &buf[0], Len: 16}}
	_, err := unix.ProcessVMReadv(atoi(pid), local, []unix.RemoteIovec{{Base: 0x400000, Len: 16}}, 0)
	if err == unix.EFAULT {
		return nil // it was let in
	}
	return err
}

// privileges looks for any that is left, after a further execve.
func privileges(string) error {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch {
		case strings.HasPrefix(name, "Cap") && strings.Trim(value, "0") != "",
			name == "NoNewPrivs" && value != "1":
			return nil
		}
	}
	return errors.New("no privileges")
}

// memory takes what it can get, up to a gigabyte.
func memory(string) error {
	var all [][]byte
	for range 1024 {
		b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	_ = all
	return nil
}

func openFiles(string) error {
	for range 4096 {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			return err
		}
	}
	return nil
}
