package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// attempt is one way out.
type attempt struct {
	name string
	// line for the shell; $OUT, $HID and so on name the scene, "attack NAME ARG" is
	// our own program.
	line string
	// forbids tells whether the plan claims to stop it.
	forbids func(p *Plan) bool
	// boundary of the violation, or empty where none can be known.
	boundary string
	// escaped looks from outside. Nil: the line's success is the escape.
	escaped func(s *scene, r result) bool
}

func files(p *Plan) bool { return p.Enforcement.Filesystem != None }
func attributes(p *Plan) bool {
	return files(p) && (p.use.mount || p.use.denyAttributes)
}
func mounted(p *Plan) bool { return p.use.mount }
func filtered(p *Plan) bool {
	return p.use.seccomp
}

// covers tells whether the hidden directory in the workspace is hidden.
func covers(p *Plan) bool {
	return files(p) && !strings.Contains(strings.Join(p.NotEnforced, "\n"), "can be read")
}

func offline(p *Plan) bool { return p.Profile.Network == NetworkDeny && p.Enforcement.Network != None }

func noUnix(p *Plan) bool { return p.Profile.Network != NetworkAllow && p.use.seccomp }

func alone(p *Plan) bool {
	return p.use.pid || p.use.landlock && p.report.LandlockABI >= 6
}

// protects tells whether the protected file in the workspace is.
func protects(p *Plan) bool {
	return files(p) && !strings.Contains(strings.Join(p.NotEnforced, "\n"), ".guard can be changed")
}

// unguarded: the protected file isn't what it was, by whatever name.
func unguarded(s *scene, _ result) bool {
	b, err := os.ReadFile(s.guard)
	info, serr := os.Lstat(s.guard)
	return err != nil || serr != nil || string(b) != guardText || info.Mode() != 0o644
}

func changed(s *scene, _ result) bool {
	b, err := os.ReadFile(s.outside + "/victim")
	info, serr := os.Stat(s.outside + "/victim")
	entries, _ := os.ReadDir(s.outside)
	return err != nil || string(b) != "original" || serr != nil || info.Mode().Perm() != 0o644 ||
		!info.ModTime().Equal(time.Unix(1e9, 0)) || len(entries) != 3
}

func leaked(_ *scene, r result) bool { return strings.Contains(r.stdout, "TOP-"+"SECRET") }

func connected(s *scene, _ result) bool {
	// What was sent has arrived or never will: loopback delivers before the
	// command ends. Counting takes a moment.
	if err := s.settle(); err != nil {
		panic(err) // the scene is broken
	}
	return s.reached.Load() > 0
}

func gone(s *scene, r result) bool {
	ended := func() bool { return syscall.Kill(s.victim.Process.Pid, 0) != nil || victimHurt(s) }
	// A signal that was sent takes its time to end a process.
	for range 500 {
		if ended() || r.Code != 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ended()
}

// victimHurt tells a victim that ended, was stopped, or runs at another priority
// than we do, who started it.
func victimHurt(s *scene) bool {
	const nice = 16
	victim, ours := stat(s.victim.Process.Pid), stat(os.Getpid())
	return len(victim) <= nice || victim[0] == "Z" || victim[0] == "t" || victim[0] == "T" || victim[nice] != ours[nice]
}

// stat returns what the kernel says of a process, from its state on.
func stat(pid int) []string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// attempts is the table.
var attempts = []attempt{
	{"write by absolute path", "echo pwned > $OUT/victim", files, "filesystem", changed},
	{"write by ..", "echo pwned > ../$(basename $OUT)/victim", files, "filesystem", changed},
	{"append", "echo pwned >> $OUT/victim", files, "filesystem", changed},
	{"create beside", "echo pwned > $OUT/new", files, "filesystem", changed},
	{"symbolic link", "ln -s $OUT/victim link; echo pwned > link", files, "", changed},
	{"linked directory", "ln -s $OUT dir; echo pwned > dir/new", files, "", changed},
	{"hard link", "ln $OUT/victim hard && echo pwned > hard", files, "filesystem", changed},
	{"rename out", "echo x > file; mv file $OUT/new", files, "", changed},
	{"rename in", "mv $OUT/victim stolen", files, "filesystem", changed},
	{"rename race", "mkdir -p a b; for i in 1 2 3 4 5; do ln -sfn $OUT a/x; echo pwned > a/x/new; rm -f a/x; mkdir -p a/x; rmdir a/x; done", files, "", changed},
	{"remove", "rm -f $OUT/victim", files, "filesystem", changed},
	{"remove directory", "rm -rf $OUT", files, "", changed},
	{"make directory", "mkdir $OUT/new", files, "filesystem", changed},
	{"truncate", "attack truncate $OUT/victim", files, "", changed},
	{"change the mode", "chmod 777 $OUT/victim", attributes, "filesystem", changed},
	{"change the time", "touch -d @5 $OUT/victim", attributes, "", changed},
	{"extended attribute", "attack setxattr $OUT/victim", attributes, "", nil},
	{"mode of a device", "chmod 666 /dev/null", attributes, "", nil},
	{"/proc/self/root", "echo pwned > /proc/self/root$OUT/victim", files, "", changed},
	{"/proc/1/root", "echo pwned > /proc/1/root$OUT/victim", files, "", changed},
	{"/proc/self/cwd", "echo pwned > /proc/self/cwd/../$(basename $OUT)/victim", files, "", changed},
	{"kernel settings", "cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness", files, "", nil},
	{"control groups", "for f in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs); do echo $$ > $f && exit 0; done; exit 1", files, "", nil},
	{"disk device", "attack disk", mounted, "", nil},
	{"own device node", "attack mknod $OUT", files, "", nil},
	{"bind mount", "attack bind $OUT", files, "", nil},
	{"remount", "attack remount /", files, "", nil},
	{"detached tree", "attack open_tree /", files, "", nil},
	{"uncover", "attack umount $HID && cat $HID/token", covers, "", leaked},
	{"user namespace", "attack unshare", filtered, "", nil},
	{"user namespace by clone3", "attack clone3", filtered, "", nil},
	{"chroot", "attack chroot $OUT", filtered, "", nil},
	{"file handle", "attack handle $OUT/victim", files, "", nil},
	{"the machine's /tmp", "ls /tmp/$TMPMARK", mounted, "", nil},
	{"leave something in /tmp", "echo pwned > /tmp/$TMPMARK/left", files, "", func(s *scene, _ result) bool {
		_, err := os.Stat(s.tmp + "/left")
		return err == nil
	}},

	{"overwrite the protected", "echo pwned > $GUARD", protects, "filesystem", unguarded},
	{"overwrite the protected by its name", "echo pwned > .guard", protects, "", unguarded},
	{"remove the protected", "rm -f .guard", protects, "filesystem", unguarded},
	{"rename the protected", "mv .guard other", protects, "filesystem", unguarded},
	{"rename over the protected", "echo pwned > other; mv -f other .guard", protects, "", unguarded},
	{"link to the protected", "ln .guard other && echo pwned > other", protects, "filesystem", unguarded},
	{"mode of the protected", "chmod 777 .guard", protects, "filesystem", unguarded},
	{"truncate the protected", "attack truncate $PWD/.guard", protects, "", unguarded},
	{"move the folder of the protected", "cd / && mv $WS $WS-2 && mkdir $WS && echo pwned > $WS/.guard", protects, "", unguarded},
	{"uncover the protected", "attack umount $GUARD && echo pwned > $GUARD", protects, "", unguarded},

	{"read hidden", "cat $HID/token", covers, "filesystem", leaked},
	{"list hidden", "ls $HID/token", mounted, "", nil},
	{"write hidden", "echo pwned > $HID/token", covers, "filesystem", func(s *scene, _ result) bool {
		b, _ := os.ReadFile(s.hidden + "/token")
		return !strings.HasPrefix(string(b), "TOP-")
	}},
	{"hidden by symbolic link", "ln -s $HID link2; cat link2/token", covers, "", leaked},
	{"hidden by hard link", "ln $HID/token t; cat t", covers, "", leaked},
	{"hidden by renaming", "mv $HID moved; cat moved/token", covers, "", leaked},
	{"hidden by renaming what holds it", "mv $(dirname $HID) moved2; cat moved2/*/token", covers, "", leaked},
	{"hidden by /proc/self/root", "cat /proc/self/root$HID/token", covers, "", leaked},
	{"hidden by /proc/1/root", "cat /proc/1/root$HID/token", covers, "", leaked},
	{"hidden by /proc/1/cwd", "cat /proc/1/cwd/*/*/*/*/token /proc/1/cwd$HID/token", covers, "", leaked},
	{"hidden by a descriptor of init", "cat /proc/1/fd/* /proc/self/fd/[3-9]* </dev/null", covers, "", leaked},

	{"TCP", "attack tcp $TCP", offline, "network", connected},
	{"UDP", "attack udp $UDP", offline, "", connected},
	{"MPTCP", "attack mptcp $TCP", offline, "", connected},
	{"Unix socket", "attack unix $UNIX", noUnix, "network", connected},
	{"Unix datagrams", "attack unixgram $GRAM", noUnix, "", connected},
	{"pair that is connected again", "attack pair $GRAM", noUnix, "", connected},
	{"abstract socket", "attack unix $ABSTRACT", noUnix, "", connected},
	{"raw socket", "attack raw", offline, "", nil},
	{"packet socket", "attack packet", filtered, "", nil},
	{"sockets of the hypervisor", "attack vsock", filtered, "", nil},
	{"kernel's cipher sockets", "attack alg", filtered, "", nil},
	{"io_uring", "attack io_uring", filtered, "", nil},
	{"bpf", "attack bpf", filtered, "", nil},
	{"perf events", "attack perf", filtered, "", nil},
	{"keys", "attack keyctl", filtered, "", nil},
	{"type into the terminal", "attack tiocsti", filtered, "", nil},

	{"kill a stranger", "attack kill $PID", alone, "", gone},
	// Only where "everybody" is a namespace of its own: if this one failed
	// elsewhere, it would end the machine's processes.
	{"signal everybody", "attack 'kill all'; kill -TERM -1", func(p *Plan) bool { return p.use.pid }, "", gone},
	{"ptrace a stranger", "attack ptrace $PID", files, "", gone},
	{"read a stranger's memory", "attack vm_readv $PID", files, "", nil},
	{"read a stranger's environment", "cat /proc/$PID/environ", files, "", leaked},
	{"slow a stranger down", "attack nice $PID", func(p *Plan) bool { return p.use.pid }, "", gone},
	{"privileges", "attack privileges", filtered, "", nil},
	{"set-uid program", "cp $(command -v id) suid && chmod u+s suid; attack privileges", filtered, "", nil},

	{"environment", "env; cat /proc/self/environ /proc/$PPID/environ /proc/1/environ", func(*Plan) bool { return true }, "", func(_ *scene, r result) bool {
		return strings.Contains(r.stdout, secretName)
	}},
	{"fork bomb", "for i in $(seq 200); do sleep 30 & done; wait -n; exit 0", func(p *Plan) bool {
		return p.use.cgroupPids || p.use.nproc && p.use.user
	}, "limit", func(_ *scene, r result) bool { return r.Code == 0 }},
	{"memory", "attack memory", func(p *Plan) bool { return p.Profile.Limits.MemoryMB > 0 && p.report.Rlimits.Available }, "limit", nil},
	{"memory of several processes", "for i in 1 2 3 4 5 6 7 8; do attack memory & done; wait $!; exit $?", func(p *Plan) bool { return p.use.cgroupMemory }, "limit", nil},
	{"file size", "head -c 20M /dev/zero > /tmp/large", func(p *Plan) bool { return p.report.Rlimits.Available && p.use.mount }, "limit", nil},
	{"fill /tmp", "for i in $(seq 200); do head -c 7M /dev/zero > /tmp/large$i || exit 1; done", mounted, "limit", nil},
	{"descriptors", "attack files", func(p *Plan) bool { return p.report.Rlimits.Available }, "limit", nil},
	{"detached child", "(setsid sh -c 'trap \"\" TERM HUP; sleep $NAP & sleep $NAP' >/dev/null 2>&1 &); exit 1", func(*Plan) bool { return true }, "", func(*scene, result) bool {
		return strings.Contains(cmdlines(), "sleep\x00"+nap("8123"))
	}},
}

const secretName = "AGENTD_TEST_PLANTED"

// nap is how long this process's sleepers sleep: nobody else's sleep as long.
func nap(n string) string { return fmt.Sprintf("%s%07d", n, os.Getpid()) }

// cmdlines are those of all processes.
func cmdlines() string {
	var all strings.Builder
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range paths {
		b, _ := os.ReadFile(p)
		all.Write(b)
		all.WriteByte('\n')
	}
	return all.String()
}

// variant is a machine: this one, or this one with something taken away.
type variant struct {
	name   string
	change func(*Report)
	useful func(Report) bool
	// profiles that TestEscapes runs; the others are for TestLongEscapes.
	profiles string
}

var variants = []variant{
	{"as it is", func(*Report) {}, func(Report) bool { return true }, "workspace_write read_only network allow"},
	{"user namespace", func(r *Report) { r.InUserNamespace = true }, func(r Report) bool {
		return r.UserNamespace.Available && r.MountNamespace.Available && !r.InUserNamespace
	}, "workspace_write"},
	{"no namespaces", func(r *Report) {
		off := unavailable("taken away by the test")
		r.MountNamespace, r.PidNamespace, r.NetworkNamespace, r.ProcMount, r.PidMax = off, off, off, off, off
	}, func(r Report) bool { return r.Landlock.Available }, "workspace_write read_only"},
	{"no Landlock", func(r *Report) {
		r.Landlock, r.LandlockABI = unavailable("taken away by the test"), 0
	}, func(r Report) bool { return r.MountNamespace.Available }, "workspace_write"},
}

// profiles that forbid something.
func profiles(s *scene) map[string]Profile {
	limits := Limits{MemoryMB: 192, Processes: 64, FileSizeMB: 8, OpenFiles: 64}
	if raceEnabled && !report().CgroupMemory.Available {
		limits.MemoryMB = 0
	}
	p := Profile{Mode: WorkspaceWrite, Root: s.workspace, Hidden: []string{s.hidden}, Protected: []string{s.guard}, Limits: limits}
	readOnly, allow := p, p
	readOnly.Mode, allow.Network = ReadOnly, NetworkAllow
	return map[string]Profile{"workspace_write": p, "read_only": readOnly, "network allow": allow}
}

// TestEscapes runs the table in every profile on the machine as it is, and in some
// profiles on lesser machines.
func TestEscapes(t *testing.T) { eachProfile(t, false) }

// TestEscapesOfAnExecutedStage runs the table where no launcher is there to fork
// the stage.
func TestEscapesOfAnExecutedStage(t *testing.T) {
	t.Setenv(secretName, "planted")
	escapes(t, variants[0], "workspace_write", executed)
}

// TestLongEscapes runs what is left.
func TestLongEscapes(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("AGENTD_TEST_LONG is not set: lesser machines are tried in some profiles only")
	}
	eachProfile(t, true)
}

// eachProfile runs the variants with their usual profiles, or with the others.
func eachProfile(t *testing.T, others bool) {
	t.Setenv(secretName, "planted")
	t.Logf("this machine:\n%s", report())
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			if !v.useful(report()) {
				t.Skip("this machine doesn't have what this variant is about")
			}
			for _, name := range []string{"workspace_write", "read_only", "network allow"} {
				if strings.Contains(v.profiles, name) != others {
					t.Run(name, func(t *testing.T) { escapes(t, v, name, forked) })
				}
			}
		})
	}
}

// escapes runs the table under one profile.
func escapes(t *testing.T, v variant, profile string, start starter) {
	changedReport := report()
	v.change(&changedReport)
	s := newScene(t)
	s.start = start
	plan, err := Prepare(profiles(s)[profile], changedReport)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("enforced: %+v\nnot enforced: %s", plan.Enforcement, strings.Join(plan.NotEnforced, "\n  "))
	var stopped, skipped []string
	for _, a := range attempts {
		if !a.forbids(plan) {
			skipped = append(skipped, a.name)
			continue
		}
		r := s.runAttempt(t, plan, a)
		if r.Failure != nil {
			t.Fatalf("%s: %v", a.name, r.Failure)
		}
		escaped := r.Code == 0
		if a.escaped != nil {
			escaped = a.escaped(s, r)
		}
		if escaped {
			t.Errorf("ESCAPED: %s: %+v\n%s\n%s", a.name, r.Exit, r.stdout, r.stderr)
		}
		violation := Classify(r.Exit, r.stderr, plan)
		if a.boundary != "" && (violation == nil || violation.Boundary != a.boundary) {
			t.Errorf("%s: violation %+v of %+v\n%s", a.name, violation, r.Exit, r.stderr)
		}
		stopped = append(stopped, a.name)
	}
	t.Logf("%d attempts stopped; %d not enforced or allowed here: %s", len(stopped), len(skipped), strings.Join(skipped, ", "))
}

// TestAttemptsWorkWithoutASandbox runs those attempts that harm nothing but the
// scene where nothing is forbidden: an attempt that would fail anyway proves
// nothing.
func TestAttemptsWorkWithoutASandbox(t *testing.T) {
	plan, err := Prepare(Profile{Mode: DangerFullAccess, Root: workspace(t)}, report())
	if err != nil {
		t.Fatal(err)
	}
	harmless := []string{
		"write by absolute path", "write by ..", "append", "create beside", "symbolic link", "linked directory", "hard link",
		"rename out", "rename in", "rename race", "remove", "remove directory", "make directory", "truncate", "change the mode", "change the time",
		"/proc/self/root", "/proc/self/cwd", "the machine's /tmp", "leave something in /tmp",
		"read hidden", "list hidden", "write hidden", "hidden by symbolic link", "hidden by hard link", "hidden by renaming", "hidden by /proc/self/root",
		"TCP", "UDP", "Unix socket", "Unix datagrams", "pair that is connected again", "abstract socket",
		"kill a stranger", "read a stranger's environment", "slow a stranger down", "memory",
		"overwrite the protected", "overwrite the protected by its name", "remove the protected", "rename the protected", "rename over the protected",
		"link to the protected", "mode of the protected", "truncate the protected",
	}
	for _, a := range attempts {
		if !slices.Contains(harmless, a.name) {
			continue
		}
		s := newScene(t)
		plan.Profile.Cwd = s.workspace
		r := s.runAttempt(t, plan, a)
		escaped := r.Code == 0
		if a.escaped != nil {
			escaped = a.escaped(s, r)
		}
		if !escaped {
			t.Errorf("%s can't succeed even without a sandbox: %+v\n%s", a.name, r.Exit, r.stderr)
		}
	}
}

// TestFullAccessHidesTheStore: in danger_full_access everything can be done but to
// look at what is hidden.
func TestFullAccessHidesTheStore(t *testing.T) {
	if !report().MountNamespace.Available {
		t.Skipf("skipped: hiding the store in danger_full_access: %s", report().MountNamespace.Reason)
	}
	for _, a := range attempts {
		hidden := strings.Contains(a.name, "hidden") || strings.Contains(a.name, "the protected") && !strings.HasPrefix(a.name, "move the folder")
		if !hidden && !slices.Contains([]string{"write by absolute path", "make directory", "the machine's /tmp", "TCP", "Unix socket", "kill a stranger"}, a.name) {
			continue
		}
		s := newScene(t)
		profile := Profile{Mode: DangerFullAccess, Root: s.workspace, Hidden: []string{s.hidden}, Protected: []string{s.guard}}
		r := s.runAttempt(t, prepared(t, profile), a)
		escaped := r.Code == 0
		if a.escaped != nil {
			escaped = a.escaped(s, r)
		}
		if escaped == hidden {
			t.Errorf("%s: escaped %v: %+v\n%s\n%s", a.name, escaped, r.Exit, r.stdout, r.stderr)
		}
	}
}

// TestRootStaysAboveTheCover: root can't take the cover away or look around it.
func TestRootStaysAboveTheCover(t *testing.T) {
	if !report().MountNamespace.Available {
		t.Skipf("skipped: hiding the store in danger_full_access: %s", report().MountNamespace.Reason)
	}
	s := newScene(t)
	plan := prepared(t, Profile{Mode: DangerFullAccess, Root: s.workspace, Hidden: []string{s.hidden}})
	self := strconv.Itoa(os.Getpid())
	for _, line := range []string{
		"umount " + s.hidden + " && cat " + s.hidden + "/*",
		"umount -l " + s.hidden + " && cat " + s.hidden + "/*",
		"mkdir b && mount --bind / b && cat b" + s.hidden + "/*",
		"unshare -m sh -c 'umount " + s.hidden + "; cat " + s.hidden + "/*'",
		"unshare -rm sh -c 'umount " + s.hidden + "; cat " + s.hidden + "/*'",
		"nsenter -t " + self + " -m cat " + s.hidden + "/*",
		"cat /proc/" + self + "/root" + s.hidden + "/*",
		"cat /proc/1/root" + s.hidden + "/*",
	} {
		r := s.runAttempt(t, plan, attempt{name: line, line: line})
		if r.Code == 0 || strings.Contains(r.stdout, "TOP-") {
			t.Errorf("%s: %+v\n%s\n%s", line, r.Exit, r.stdout, r.stderr)
		}
	}
}

// userEnv tells a test binary that it was started as an ordinary user, and where
// it may write.
const userEnv = "AGENTD_TEST_USER_DIR"

// TestOrdinaryUser runs the table as a user without privileges.
func TestOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: the other tests run as an ordinary user already")
	}
	const nobody = 65534
	base := workspace(t)
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	copySelf(t, base+"/self")
	dir := base + "/user"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, run := range []string{
		"^(TestEscapes|TestProbe|TestProxy.*|TestParts.*|TestKillAndClose|TestReadRootsNarrow|TestFullAccess.*|TestRootStays.*)$/^as_it_is$/^workspace_write$",
		"^(TestSupervision.*|TestView.*|TestShebang.*)$",
	} {
		cmd := exec.Command(base+"/self", "-test.v", "-test.run", run)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), userEnv+"="+dir, "HOME="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		printed, err := cmd.CombinedOutput()
		t.Logf("%s", printed)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, printed...)
	}
	if !strings.Contains(string(out), "uid 65534") || !strings.Contains(string(out), "attempts stopped") || !strings.Contains(string(out), "PASS: TestSupervisionHoldsEveryStart") {
		t.Error("the table wasn't run, or the supervision")
	}
}
