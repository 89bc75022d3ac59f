package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// everything a process can say about its own confinement, without what differs from
// run to run: its number, ids of mounts, minor numbers of new file systems, names of groups.
const everything = `
grep -E '^(Sig(Q|Blk|Ign|Cgt)|ShdPnd|Cap|NoNewPrivs|Seccomp|Uid|Gid|Groups|Umask|CoreDumping|THP|Speculation)' /proc/self/status | grep -v SigQ
sh -c 'set -- $(grep -E "^NS(pid|sid|pgid)" /proc/$PPID/status); test "$2" = "$4" && test "$2" = "$6" && echo leader'
ulimit -a; ulimit -Ha
ls -l /proc/self/fd/ | sed 's/.* \([0-9]*\) -> \([a-z/]*\).*/\1 \2/'
cut -d' ' -f4- /proc/self/mountinfo
ls -l /dev /dev/pts | sed 's/ [0-9]*:[0-9]* / /'
cat /proc/net/dev | cut -d: -f1
cat /proc/1/comm /proc/self/oom_score_adj /proc/sys/kernel/pid_max
cat /proc/1/environ /proc/1/maps /proc/1/mem 2>&1; ls /proc/1/root/ 2>&1; kill -0 1 2>&1
env | sort; pwd; ls -ld . /tmp /var/tmp | sed 's/ [0-9]*:[0-9]* / /'
`

// TestForkedIsLikeExecuted: nothing that a command can see tells how its stage came
// to be.
func TestForkedIsLikeExecuted(t *testing.T) {
	dir := workspace(t)
	for _, p := range []Profile{
		{Root: dir, Limits: Limits{MemoryMB: 512, Processes: 64}},
		{Root: dir, Mode: ReadOnly, Network: NetworkAllow, Hidden: []string{"/var/cache"}, Limits: Limits{OpenFiles: 200, FileSizeMB: 3}},
	} {
		plan := prepared(t, p)
		if !plan.use.pid || !plan.use.mount || !canFork {
			t.Skipf("stages aren't forked here: %v", plan.NotEnforced)
		}
		want, got := runBy(t, executed, plan, everything), runBy(t, forked, plan, everything)
		if !want.Success() && want.Code != 1 || len(want.stdout) < 1000 {
			t.Fatalf("%+v\n%s\n%s", want.Exit, want.stdout, want.stderr)
		}
		if diff := cmp.Diff(want.stdout, got.stdout); diff != "" || want.Code != got.Code {
			t.Errorf("executed - forked +, code %d and %d:\n%s", want.Code, got.Code, diff)
		}
	}
}

// TestEndsAreLikeExecuted: how a command ended, or why it didn't begin, is told the
// same way.
func TestEndsAreLikeExecuted(t *testing.T) {
	plan := prepared(t, Profile{Root: workspace(t), Limits: Limits{MemoryMB: 512, Processes: 64}})
	long := strings.Repeat("x", 100<<10)
	for name, c := range map[string]Command{
		"a status":         {Argv: []string{"sh", "-c", "exit 7"}},
		"a signal":         {Argv: []string{"sh", "-c", "kill -9 $$"}},
		"no such program":  {Argv: []string{"no-such-program"}},
		"no such folder":   {Argv: []string{"true"}, Dir: "/no/such/folder"},
		"no program":       {Argv: []string{"/etc/passwd"}},
		"much to say":      {Argv: []string{"sh", "-c", `test ${#0} -eq 102400 && test ${#LONG} -eq 102400`, long}, Env: []string{"LONG=" + long, "B=" + long, "C=" + long, "D=" + long}},
		"a zero in it":     {Argv: []string{"echo", "a\x00b"}},
		"too much to say":  {Argv: []string{"echo", long + long}},
		"far too much":     {Argv: []string{"echo", strings.Repeat(long, 90)}},
		"a background job": {Argv: []string{"sh", "-c", "sleep 100000 & exit 3"}},
	} {
		var first string
		for _, how := range []string{"executed", "forked"} {
			got := ended(t, starters[how], plan, c)
			if first == "" {
				first = got
			} else if got != first {
				t.Errorf("%s: %s, not %s", name, got, first)
			}
		}
		t.Logf("%s: %s", name, first)
	}
}

// ended runs a command and says what became of it.
func ended(t *testing.T, start starter, plan *Plan, c Command) string {
	t.Helper()
	child, err := start(plan, c)
	if err != nil {
		return err.Error()
	}
	exit := finish(t, child, nil)
	exit.CPU, exit.MaxRSS = 0, 0
	if exit.Failure != nil {
		return exit.Failure.Error()
	}
	return cmp.Diff(Exit{}, exit)
}

// TestOrphansAreReaped: the stage collects whoever lost its parent, while the
// command goes on.
func TestOrphansAreReaped(t *testing.T) {
	plan := prepared(t, Profile{Root: workspace(t)})
	for how, start := range starters {
		r := runBy(t, start, plan, `
			for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0 &); done
			while grep -q '^State:.*Z\|^Name:.*sleep' /proc/[0-9]*/status 2> /dev/null; do :; done
			echo clean`)
		if r.stdout != "clean\n" {
			t.Errorf("%s: %+v\n%s", how, r.Exit, r.stderr)
		}
	}
}

// TestSignalsReachAForkedCommand: the command's group alone, or everything.
func TestSignalsReachAForkedCommand(t *testing.T) {
	plan := prepared(t, Profile{Root: workspace(t)})
	for _, all := range []bool{false, true} {
		out, w := pipe(t)
		child, err := forked(plan, Command{Argv: []string{"sh", "-c", `
			setsid sh -c 'trap "echo other; exit" TERM; echo up; while :; do sleep 0.01; done' &
			trap "wait; exit 5" TERM; wait`}, Stdout: w})
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		if err := child.Go(); err != nil {
			t.Error(err)
		}
		word := make([]byte, 3)
		if _, err := out.Read(word); err != nil || string(word) != "up\n" {
			t.Fatalf("%q, %v", word, err)
		}
		if !all {
			// The other session keeps the command waiting: nothing ends yet.
			if err := child.Signal(int(syscall.SIGTERM), false); err != nil {
				t.Error(err)
			}
		}
		if err := child.Signal(int(syscall.SIGTERM), true); err != nil {
			t.Error(err)
		}
		if exit := child.Wait(); exit.Code != 5 && exit.Signal != int(syscall.SIGTERM) {
			t.Errorf("all %v: %+v", all, exit)
		}
		child.Close()
	}
}

// TestLauncherIsReplaced: whoever kills the launcher slows the next command down,
// and no more.
func TestLauncherIsReplaced(t *testing.T) {
	plan := prepared(t, Profile{Root: workspace(t)})
	if !plan.use.pid || !canFork {
		t.Skipf("stages aren't forked here: %v", plan.NotEnforced)
	}
	var w Warm
	defer w.Close()
	start := func() *Child {
		child, err := w.Start(plan, Command{Argv: []string{"sh", "-c", "exit 0"}})
		if exit := finish(t, child, err); !exit.Success() {
			t.Fatalf("%+v", exit)
		}
		return child
	}
	if start().forked {
		t.Error("the first command waited for a launcher")
	}
	if s := w.waiting(); s == nil || !s.forked {
		t.Fatalf("the spare was not forked: %+v", s)
	}
	if !start().forked {
		t.Error("the second command was not forked")
	}
	for range maxLaunchers {
		w.waiting()
		if l := w.launcher; l != nil {
			_ = l.proc.Kill()
			_, _ = l.proc.Wait()
		}
		start() // has the spare that was there
		w.waiting()
		start() // has one that nobody forked, if the launcher was missed
	}
	w.waiting()
	if w.launched != maxLaunchers || w.launcher != nil {
		t.Errorf("%d launchers, and %v", w.launched, w.launcher)
	}
	if start().forked {
		t.Error("forked without a launcher")
	}
}

// TestLauncherEndsWithUs: it leaves when the socket closes.
func TestLauncherEndsWithUs(t *testing.T) {
	if !canFork {
		t.Skip("there are no launchers here")
	}
	l, err := startLauncher()
	if err != nil {
		t.Fatal(err)
	}
	_ = l.conn.Close()
	state, err := l.proc.Wait()
	if err != nil || !state.Success() {
		t.Errorf("%v, %v", state, err)
	}
}

// TestLauncherRefuses: what the kernel doesn't give is said, and the launcher lives
// on.
func TestLauncherRefuses(t *testing.T) {
	if !canFork {
		t.Skip("there are no launchers here")
	}
	l, err := startLauncher()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	_, _, err = l.fork(&syscall.SysProcAttr{Cloneflags: unix.CLONE_THREAD})
	if err == nil || !strings.Contains(err.Error(), syscall.EINVAL.Error()) {
		t.Errorf("a thread was forked: %v", err)
	}
	proc, conn, err := l.fork(&syscall.SysProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	// A stage that is told nothing ends.
	_ = conn.Close()
	if state, err := proc.Wait(); err != nil || state.ExitCode() == 0 {
		t.Errorf("%v, %v", state, err)
	}
}

// TestLauncherIsSmall: a fork copies what describes the memory.
func TestLauncherIsSmall(t *testing.T) {
	l, err := testLauncher()
	if err != nil {
		t.Skipf("there is no launcher here: %v", err)
	}
	maps := func(pid string) int {
		b, err := os.ReadFile("/proc/" + pid + "/maps")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "\n")
	}
	if n := maps(strconv.Itoa(l.proc.Pid)); n > 25 {
		t.Errorf("the launcher has %d mappings; this test has %d", n, maps("self"))
	}
}

// dieEnv makes a test binary start a command in a forked stage, say so, and wait to
// be killed.
const dieEnv = "AGENTD_TEST_DIE"

// TestForkedEndsWithUs: when we die without a word, so do the launcher, the stage and
// the command.
func TestForkedEndsWithUs(t *testing.T) {
	if !canFork || !report().PidNamespace.Available {
		t.Skip("stages aren't forked here")
	}
	if dir := os.Getenv(dieEnv); dir != "" {
		waitToDie(t, dir, os.Getenv(dieEnv+"_MARK"))
	}
	mark := nap("8300")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestForkedEndsWithUs$")
	cmd.Env = append(os.Environ(), dieEnv+"="+workspace(t), dieEnv+"_MARK="+mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if !strings.Contains(cmdlines(), "sleep\x00"+mark) {
		t.Errorf("%q was said, and nothing runs", line)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed
	// Nothing tells when others' processes are gone; what stays fails by the time
	// limit of all tests.
	for strings.Contains(cmdlines(), "sleep\x00"+mark) {
		time.Sleep(time.Millisecond)
	}
	for pid := range strings.FieldsSeq(line) {
		for alive(pid) {
			time.Sleep(time.Millisecond)
		}
	}
}

// waitToDie says the process ids of the launcher and the stage when the command runs.
func waitToDie(t *testing.T, dir, mark string) {
	t.Helper()
	plan := prepared(t, Profile{Root: dir})
	out, w := pipe(t)
	child, err := forked(plan, Command{Argv: []string{"sh", "-c", "echo up; exec sleep " + mark}, Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Go(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(cmdlines(), "sleep\x00"+mark) {
		time.Sleep(time.Millisecond)
	}
	l, err := testLauncher()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.proc.Pid, child.Pid())
	select {}
}

// alive tells whether a process is there that hasn't ended.
func alive(pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(b), ") Z ")
}
