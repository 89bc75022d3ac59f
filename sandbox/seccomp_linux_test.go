package sandbox

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// runFilter runs a filter as the kernel does, and counts its steps.
func runFilter(t *testing.T, program []byte, arch, nr uint32, args ...uint32) (action uint32, steps int) {
	t.Helper()
	data := make([]byte, 64) // struct seccomp_data
	binary.LittleEndian.PutUint32(data[offsetNr:], nr)
	binary.LittleEndian.PutUint32(data[offsetArch:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint32(data[offsetArg0+8*i:], a)
	}
	var loaded uint32
	for pc := 0; ; steps++ {
		o := program[pc*filterSize:]
		code, jt, jf, k := uint16(o[0])|uint16(o[1])<<8, int(o[2]), int(o[3]), binary.LittleEndian.Uint32(o[4:])
		pc++
		jump := func(yes bool) {
			if yes {
				pc += jt
			} else {
				pc += jf
			}
		}
		switch code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			loaded = binary.LittleEndian.Uint32(data[k:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			loaded &= k
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(k)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(loaded == k)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(loaded >= k)
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			jump(loaded > k)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(loaded&k != 0)
		case unix.BPF_RET | unix.BPF_K:
			return k, steps + 1
		default:
			t.Fatalf("instruction %d has the unknown code %#x", pc-1, code)
		}
	}
}

// filterKinds are the wants of all kinds of plans, with what each forbids without
// looking at arguments.
func filterKinds() map[string]struct {
	wants   filterWants
	actions map[uint32]uint32
} {
	type kind = struct {
		wants   filterWants
		actions map[uint32]uint32
	}
	always := map[uint32]uint32{unix.SYS_CLONE3: errno(unix.ENOSYS)}
	deny := func(m map[uint32]uint32, lists ...[]uint32) map[uint32]uint32 {
		m = maps.Clone(m)
		for _, nr := range slices.Concat(lists...) {
			m[nr] = errno(unix.EPERM)
		}
		return m
	}
	always = deny(always, denied, deniedArch)
	starts := map[uint32]uint32{unix.SYS_EXECVE: unix.SECCOMP_RET_USER_NOTIF, unix.SYS_EXECVEAT: unix.SECCOMP_RET_USER_NOTIF}
	supervised := maps.Clone(always)
	maps.Copy(supervised, starts)
	inet := []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
	return map[string]kind{
		"usual":       {filterWants{families: inet}, always},
		"read_only":   {filterWants{families: inet, attributes: true}, deny(always, deniedAttributes, deniedAttributesArch)},
		"no sockets":  {filterWants{debug: true}, deny(always, deniedDebug)},
		"supervised":  {filterWants{families: inet, supervise: true}, supervised},
		"starts only": {filterWants{supervise: true, nothingElse: true}, starts},
	}
}

// TestFilterDecidesByNumber compares the tree with the lists that it is made of.
func TestFilterDecidesByNumber(t *testing.T) {
	if auditArch == 0 {
		t.Skip("there is no filter on this architecture")
	}
	looked := []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE, unix.SYS_IOCTL, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR}
	for name, kind := range filterKinds() {
		program := seccompFilter(kind.wants)
		for nr := range uint32(1000) {
			if slices.Contains(looked, nr) && !kind.wants.nothingElse {
				continue // TestFilterLooksAtArguments
			}
			want, forbidden := kind.actions[nr]
			if !forbidden {
				want = unix.SECCOMP_RET_ALLOW
			}
			if got, _ := runFilter(t, program, auditArch, nr); got != want {
				t.Errorf("%s: call %d gets %#x, not %#x", name, nr, got, want)
			}
		}
		if got, _ := runFilter(t, program, auditArch^1, unix.SYS_READ); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("%s: a call of another architecture gets %#x", name, got)
		}
		if got, _ := runFilter(t, program, auditArch, unix.SYS_READ|foreignBit); foreignBit != 0 && got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("%s: a call of another table gets %#x", name, got)
		}
	}
}

// TestFilterLooksAtArguments has a line for each call that is judged by them.
func TestFilterLooksAtArguments(t *testing.T) {
	if auditArch == 0 {
		t.Skip("there is no filter on this architecture")
	}
	eperm, allow := errno(unix.EPERM), uint32(unix.SECCOMP_RET_ALLOW)
	usual, open := filterKinds()["usual"].wants, filterWants{families: []uint32{unix.AF_UNIX}, anyPair: true}
	for _, c := range []struct {
		wants filterWants
		nr    uint32
		args  []uint32
		want  uint32
	}{
		{usual, unix.SYS_CLONE, []uint32{uint32(unix.SIGCHLD)}, allow},
		{usual, unix.SYS_CLONE, []uint32{unix.CLONE_NEWNS}, eperm},
		{usual, unix.SYS_CLONE, []uint32{unix.CLONE_NEWUSER | unix.CLONE_VM}, eperm},
		{usual, unix.SYS_UNSHARE, []uint32{unix.CLONE_FILES}, allow},
		{usual, unix.SYS_UNSHARE, []uint32{unix.CLONE_NEWNET}, eperm},
		{usual, unix.SYS_UNSHARE, []uint32{unix.CLONE_NEWTIME}, eperm},
		{usual, unix.SYS_IOCTL, []uint32{0, unix.TCGETS}, allow},
		{usual, unix.SYS_IOCTL, []uint32{0, unix.TIOCSTI}, eperm},
		{usual, unix.SYS_IOCTL, []uint32{0, tiocLinux}, eperm},
		{usual, unix.SYS_SOCKET, []uint32{unix.AF_INET}, allow},
		{usual, unix.SYS_SOCKET, []uint32{unix.AF_NETLINK}, allow},
		{usual, unix.SYS_SOCKET, []uint32{unix.AF_UNIX}, eperm},
		{usual, unix.SYS_SOCKET, []uint32{unix.AF_PACKET}, eperm},
		{usual, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, allow},
		{usual, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}, eperm},
		{open, unix.SYS_SOCKET, []uint32{unix.AF_UNIX}, allow},
		{open, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_DGRAM}, allow},
	} {
		if got, _ := runFilter(t, seccompFilter(c.wants), auditArch, c.nr, c.args...); got != c.want {
			t.Errorf("call %d with %#x gets %#x, not %#x", c.nr, c.args, got, c.want)
		}
	}
}

// TestFilterIsShort bounds what the kernel does when a filter is loaded: it runs it for
// each number.
func TestFilterIsShort(t *testing.T) {
	if auditArch == 0 {
		t.Skip("there is no filter on this architecture")
	}
	const most = 20
	for name, kind := range filterKinds() {
		program := seccompFilter(kind.wants)
		for nr := range uint32(500) {
			if _, steps := runFilter(t, program, auditArch, nr); steps > most {
				t.Errorf("%s: call %d takes %d steps, more than %d", name, nr, steps, most)
			}
		}
		t.Logf("%s: %d instructions", name, len(program)/filterSize)
	}
}
