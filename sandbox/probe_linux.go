package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"agentd/sandbox/internal/stage"

	"golang.org/x/sys/unix"
)

// Probe tries what this kernel offers to this process. It starts our own binary a
// few times; keep the report.
func Probe() Report {
	r := Report{Kernel: kernel(), UID: os.Geteuid(), Rlimits: available()}
	abi, _, errno := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == 0 {
		r.LandlockABI = int(abi)
	}
	// There are no descriptors of such numbers: nothing changes.
	if err := unix.CloseRange(1<<32-2, 1<<32-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		r.Inherited = "close_range: " + err.Error()
	}
	probeCgroups(&r)
	probeRestrictions(&r, errno)
	probeNamespaces(&r)
	return r
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "Linux"
	}
	return "Linux " + unix.ByteSliceToString(u.Release[:])
}

// probeRestrictions tries what needs no namespace.
func probeRestrictions(r *Report, abi syscall.Errno) {
	failed, err := tryStage(0, false, func(s *stage.Spec) {
		s.NoNewPrivs = true
		if r.LandlockABI > 0 {
			s.LandlockFS = landlockRights(r.LandlockABI)
			s.Rules = []stage.Rule{{Path: "/", Access: readRights}}
		}
		s.Seccomp = seccompFilter(filterWants{})
	})
	if err != nil {
		r.NoNewPrivs, r.Landlock, r.Seccomp = unavailable("%v", err), unavailable("%v", err), unavailable("%v", err)
		return
	}
	r.NoNewPrivs = stepFeature(failed, stage.StepNoNewPrivs)
	r.Landlock = stepFeature(failed, stage.StepLandlock)
	if r.LandlockABI == 0 {
		r.Landlock = unavailable("the kernel doesn't have it or it is off: %v", abi)
	}
	r.Seccomp = stepFeature(failed, stage.StepSeccomp)
	if auditArch == 0 {
		r.Seccomp = unavailable("no filter for %s", runtime.GOARCH)
	}
	r.Supervise = probeSupervision(r.Seccomp)
}

// probeSupervision tries whether starts of programs can be handed to us, and whether
// we may read what is started.
func probeSupervision(seccomp Feature) Feature {
	if !seccomp.Available {
		return seccomp
	}
	failed, err := tryStage(0, false, func(s *stage.Spec) {
		s.NoNewPrivs, s.Supervise = true, unix.SYS_SECCOMP
		s.Seccomp = seccompFilter(filterWants{supervise: true, nothingElse: true})
	})
	if err != nil {
		return unavailable("%v", err)
	}
	if f := stepFeature(failed, stage.StepSupervise, stage.StepNoNewPrivs); !f.Available {
		return f
	}
	if scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil && strings.TrimSpace(string(scope)) == "3" {
		return unavailable("kernel.yama.ptrace_scope is 3: the arguments of programs can't be read")
	}
	return available()
}

// namespaces that are tried, together and one by one.
const allNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWNET

// probeNamespaces tries namespaces with our own privileges, and then inside a user
// namespace.
func probeNamespaces(r *Report) {
	_, err := tryStage(unix.CLONE_NEWUSER, true, nil)
	r.UserNamespace = available()
	if err != nil {
		r.UserNamespace = unavailable("%s", kernelCause(err))
	}
	own := Report{}
	tryNamespaces(&own, false)
	if !own.MountNamespace.Available || !own.PidNamespace.Available || !own.NetworkNamespace.Available {
		inside := Report{InUserNamespace: true}
		if r.UserNamespace.Available {
			tryNamespaces(&inside, true)
		}
		if better(inside, own) {
			own = inside
		}
	}
	r.InUserNamespace = own.InUserNamespace
	r.MountNamespace, r.PidNamespace, r.NetworkNamespace = own.MountNamespace, own.PidNamespace, own.NetworkNamespace
	r.ProcMount, r.PidMax = own.ProcMount, own.PidMax
	if !r.UserNamespace.Available && r.UID != 0 {
		for _, f := range []*Feature{&r.MountNamespace, &r.PidNamespace, &r.NetworkNamespace} {
			if !f.Available {
				f.Reason += "; user namespace: " + r.UserNamespace.Reason
			}
		}
	}
}

// better tells whether a has more of the namespaces than b.
func better(a, b Report) bool {
	count := func(r Report) (n int) {
		for _, f := range []Feature{r.MountNamespace, r.PidNamespace, r.NetworkNamespace} {
			if f.Available {
				n++
			}
		}
		return n
	}
	return count(a) > count(b)
}

// tryNamespaces tries all at once, and if that can't be had each for itself.
func tryNamespaces(r *Report, user bool) {
	failed, err := tryStage(allNamespaces, user, wantAll)
	if err == nil {
		r.NetworkNamespace = stepFeature(failed, stage.StepLoopback, stage.StepListen)
		r.PidNamespace = available()
		fillMount(r, failed)
		return
	}
	for flag, f := range map[uintptr]*Feature{unix.CLONE_NEWPID: &r.PidNamespace, unix.CLONE_NEWNET: &r.NetworkNamespace} {
		*f = available()
		if _, err := tryStage(flag, user, nil); err != nil {
			*f = unavailable("%s", kernelCause(err))
		}
	}
	r.ProcMount, r.PidMax = unavailable("not with a mount namespace together"), unavailable("not with a mount namespace together")
	failed, err = tryStage(unix.CLONE_NEWNS, user, func(s *stage.Spec) { wantAll(s); s.Proc, s.PidMax, s.ProxyPort, s.Loopback = false, 0, 0, false })
	if err != nil {
		r.MountNamespace = unavailable("%s", kernelCause(err))
		return
	}
	fillMount(r, failed)
}

func fillMount(r *Report, failed []stage.Failed) {
	r.MountNamespace = stepFeature(failed, stage.StepPrivate, stage.StepClone, stage.StepReadOnly, stage.StepTmpfs, stage.StepDev, stage.StepAttach, stage.StepPin, stage.StepHide, stage.StepCaps)
	if r.ProcMount.Reason == "" {
		r.ProcMount = stepFeature(failed, stage.StepProc)
		r.PidMax = stepFeature(failed, stage.StepPidMax, stage.StepProc)
	}
}

// wantAll asks for everything that a sandbox does in its namespaces.
func wantAll(s *stage.Spec) {
	s.MountNS, s.PidNS, s.NetNS = true, true, true
	s.ReadOnly, s.Dev, s.Proc, s.PidMax = true, true, true, 1<<15
	s.Private, s.PrivateBytes = privatePaths, 1<<20
	s.Keep = []stage.Tree{{File: stage.File{Path: "/etc"}}}
	s.Pinned, s.Hidden = []string{"/etc"}, []stage.File{{Path: "/etc"}}
	s.Loopback, s.ProxyPort = true, proxyPort
	s.DropCaps, s.NoNewPrivs = true, true
}

// stepFeature says whether none of the steps failed.
func stepFeature(failed []stage.Failed, names ...string) Feature {
	for _, f := range failed {
		if slices.Contains(names, f.Step) {
			return unavailable("%s: %v", f.Step, syscall.Errno(f.Errno))
		}
	}
	return available()
}

// tryStage starts a stage that tries the steps of a spec and runs nothing.
func tryStage(flags uintptr, user bool, want func(*stage.Spec)) ([]stage.Failed, error) {
	sys := &syscall.SysProcAttr{Setsid: true, Cloneflags: flags}
	if user {
		enterUser(sys)
	}
	c := &Child{}
	if err := c.launchStage(sys, nil); err != nil {
		return nil, err
	}
	defer func() {
		_ = c.conn.Close()
		_, _ = c.proc.Wait()
	}()
	spec := &stage.Spec{Probe: true}
	if want != nil {
		want(spec)
	}
	if err := c.sendMessage(stage.MsgSpec, stage.EncodeSpec(spec)); err != nil {
		return nil, err
	}
	kind, payload, file, err := c.receive()
	if file != nil {
		_ = file.Close()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the stage didn't answer: %w", err)
	case kind == stage.MsgFailed:
		return stage.DecodeFailed(payload)
	default:
		return nil, nil
	}
}

// kernelCause shortens an error to what the kernel said.
func kernelCause(err error) string {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		err = path.Err
	}
	return strings.TrimPrefix(err.Error(), "fork/exec: ")
}
