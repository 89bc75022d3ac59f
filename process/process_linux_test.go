package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/internal/leaktest"
	"agentd/sandbox"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		victim(dir)
		return
	}
	leaktest.Main(m)
}

// report is this machine's, probed once.
var report = sync.OnceValue(sandbox.Probe)

// modes are run by every test that is about the life of processes: with all
// boundaries, and with none, where other mechanisms end the tree.
var modes = []sandbox.Mode{sandbox.WorkspaceWrite, sandbox.DangerFullAccess}

// inModes runs a test in each mode.
func inModes(t *testing.T, test func(t *testing.T, m *Manager, profile sandbox.Profile)) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			m := New(Options{Report: report(), Grace: 200 * time.Millisecond})
			t.Cleanup(func() {
				if err := m.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			test(t, m, sandbox.Profile{Mode: mode, Root: t.TempDir()})
		})
	}
}

func start(t *testing.T, m *Manager, spec Spec) *Process {
	t.Helper()
	if spec.ProcessID == "" {
		spec.ProcessID = "proc_" + strconv.FormatInt(time.Now().UnixNano(), 36)
	}
	p, err := m.Start(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wait(t *testing.T, p *Process) Exit {
	t.Helper()
	exit, err := p.Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if exit.Failure != nil {
		t.Fatal(exit.Failure)
	}
	return exit
}

func TestRun(t *testing.T) {
	inModes(t, func(t *testing.T, m *Manager, profile sandbox.Profile) {
		exit := wait(t, start(t, m, Spec{Line: "echo out; echo err >&2; exit 3", Profile: profile}))
		if exit.Code != 3 || string(exit.Stdout.Head) != "out\n" || string(exit.Stderr.Head) != "err\n" {
			t.Fatalf("%+v", exit)
		}
		if exit.Duration() <= 0 || exit.MaxRSS == 0 {
			t.Errorf("usage: %+v", exit)
		}
		exit = wait(t, start(t, m, Spec{Line: "kill -SEGV $$", Profile: profile}))
		if exit.SignalName != "SIGSEGV" || exit.Code != 128+11 {
			t.Errorf("signal: %+v", exit)
		}
		exit = wait(t, start(t, m, Spec{Line: "echo a; echo b >&2; echo c", Merge: true, Profile: profile}))
		if string(exit.Stdout.Head) != "a\nb\nc\n" {
			t.Errorf("merged: %q", exit.Stdout.Head)
		}
	})
}

func TestStartFails(t *testing.T) {
	inModes(t, func(t *testing.T, m *Manager, profile sandbox.Profile) {
		p := start(t, m, Spec{Argv: []string{"no-such-program-anywhere"}, Profile: profile})
		exit, err := p.Wait(context.Background())
		if err != nil || !errors.Is(exit.Failure, syscall.ENOENT) {
			t.Errorf("missing program: %+v, %v", exit, err)
		}
		p = start(t, m, Spec{Argv: []string{"true"}, Cwd: profile.Root + "/missing", Profile: profile})
		if exit, _ := p.Wait(context.Background()); exit.Failure == nil {
			t.Errorf("missing directory: %+v", exit)
		}
		for name, spec := range map[string]Spec{
			"no id":      {Line: "true", Profile: profile},
			"no command": {ProcessID: "p", Profile: profile},
			"bad mode":   {ProcessID: "p", Line: "true", Profile: sandbox.Profile{Mode: "x", Root: profile.Root}},
			"no root":    {ProcessID: "p", Line: "true", Profile: sandbox.Profile{Root: profile.Root + "/missing"}},
			"bad size":   {ProcessID: "p", Line: "true", TTY: true, Rows: -1, Profile: profile},
		} {
			if p, err := m.Start(context.Background(), spec); err == nil {
				t.Errorf("%s: started %v", name, p.Entry())
			}
		}
		if got := m.List(); len(got) != 0 {
			t.Errorf("left: %v", got)
		}
	})
}

func TestLedgerIsWrittenBeforeTheCommandRuns(t *testing.T) {
	inModes(t, func(t *testing.T, m *Manager, profile sandbox.Profile) {
		mark := filepath.Join(profile.Root, "ran")
		var entry Entry
		p := start(t, m, Spec{ProcessID: "proc_1", Line: "touch ran", Profile: profile, Ledger: func(_ context.Context, e Entry) error {
			if _, err := os.Stat(mark); err == nil {
				t.Error("the command ran before the ledger was written")
			}
			if e.StartTime != startTime(e.Pid) || e.BootID != bootID() || e.BootID == "" || e.StartTime == "" {
				t.Errorf("entry doesn't identify the process: %+v", e)
			}
			entry = e
			return nil
		}})
		wait(t, p)
		if _, err := os.Stat(mark); err != nil {
			t.Error(err)
		}
		if s := entry.Started(); s.ProcessID != entry.ProcessID || s.Pid != int64(entry.Pid) || s.StartTime != entry.StartTime || s.BootID != entry.BootID || s.Cgroup != entry.Cgroup {
			t.Errorf("the fact %+v doesn't identify what the entry %+v does", s, entry)
		}

		boom := errors.New("disk full")
		var pid int
		_, err := m.Start(context.Background(), Spec{ProcessID: "proc_2", Line: "touch again", Profile: profile, Ledger: func(_ context.Context, e Entry) error {
			pid = e.Pid
			return boom
		}})
		if !errors.Is(err, boom) {
			t.Errorf("failed ledger: %v", err)
		}
		if _, err := os.Stat(filepath.Join(profile.Root, "again")); err == nil {
			t.Error("the command ran without a ledger")
		}
		if startTime(pid) != "" {
			t.Error("the process is still there")
		}
	})
}

func TestDetachedChildrenEndWithTheCommand(t *testing.T) {
	inModes(t, func(t *testing.T, m *Manager, profile sandbox.Profile) {
		for name, line := range map[string]string{
			"background":  "sleep " + nap("7777") + " & exit 0",
			"nohup":       "nohup sleep " + nap("7777") + " >/dev/null 2>&1 & exit 0",
			"setsid":      "setsid sleep " + nap("7777") + " & exit 0",
			"double fork": "(setsid sh -c 'sleep " + nap("7777") + " & sleep " + nap("7777") + "' </dev/null >/dev/null 2>&1 &) ; exit 0",
			"ignores":     "(trap '' TERM HUP INT; setsid sleep " + nap("7777") + " &) ; exit 0",
		} {
			exit := wait(t, start(t, m, Spec{Line: line, Profile: profile}))
			if exit.Code != 0 {
				t.Errorf("%s: %+v %s", name, exit, exit.Stderr.Head)
			}
			if left := sleepers(t, nap("7777")); len(left) > 0 {
				t.Errorf("%s: left %v", name, left)
			}
		}
	})
}

// nap is how long this process's sleepers sleep: nobody else's sleep as long.
func nap(n string) string { return napOf(n, os.Getpid()) }

func napOf(n string, pid int) string { return fmt.Sprintf("%s%07d", n, pid) }

// sleepers finds processes "sleep N" of the machine.
func sleepers(t *testing.T, n string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if bytes.Equal(b, []byte("sleep\x00"+n+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			if !zombieForTest(pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func zombieForTest(pid int) bool { return statField(pid, statState) == "Z" }

func TestTerminate(t *testing.T) {
	inModes(t, func(t *testing.T, m *Manager, profile sandbox.Profile) {
		// A command that obeys.
		p := start(t, m, Spec{Line: "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.01; done", Profile: profile, Background: true})
		waitFor(t, p, "up")
		if err := p.Terminate(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, p); !exit.Terminated || exit.Code != 5 || !strings.Contains(string(exit.Stdout.Head), "bye") {
			t.Errorf("obeys: %+v", exit)
		}
		// One that doesn't, with a child that doesn't either.
		p = start(t, m, Spec{Line: "trap '' TERM; setsid sleep " + nap("7778") + " & echo up; while :; do sleep " + nap("7778") + "; done", Profile: profile, Background: true})
		waitFor(t, p, "up")
		if err := p.Terminate(context.Background(), 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		exit := wait(t, p)
		if !exit.Terminated || exit.SignalName != "SIGKILL" {
			t.Errorf("disobeys: %+v", exit)
		}
		if left := sleepers(t, nap("7778")); len(left) > 0 {
			t.Errorf("left %v", left)
		}
		if err := p.Terminate(context.Background(), time.Minute); err != nil {
			t.Errorf("again: %v", err)
		}
		if err := p.Signal(15); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("signal to an ended process: %v", err)
		}
	})
}

// waitFor waits until a process has written a text.
func waitFor(t *testing.T, p *Process, text string) {
	t.Helper()
	for {
		out, _ := p.Output()
		if bytes.Contains(out.Bytes(), []byte(text)) {
			return
		}
		select {
		case <-p.Done():
			out, errs := p.Output()
			if bytes.Contains(out.Bytes(), []byte(text)) {
				return
			}
			t.Fatalf("ended without %q: %q %q", text, out.Bytes(), errs.Bytes())
		case <-time.After(time.Millisecond):
		}
	}
}

func TestTimeAndContextEndAProcess(t *testing.T) {
	inModes(t, func(t *testing.T, m *Manager, profile sandbox.Profile) {
		exit := wait(t, start(t, m, Spec{Line: "sleep " + nap("7779"), TimeoutMs: 30, Profile: profile}))
		if !exit.TimedOut || exit.Violation != nil {
			t.Errorf("timeout: %+v", exit)
		}
		bounded := profile
		bounded.Limits.WallClock = 30 * time.Millisecond
		if exit := wait(t, start(t, m, Spec{Line: "sleep " + nap("7779"), TimeoutMs: 60_000, Profile: bounded})); !exit.TimedOut {
			t.Errorf("wall clock: %+v", exit)
		}

		ctx, cancel := context.WithCancel(context.Background())
		foreground, err := m.Start(ctx, Spec{ProcessID: "proc_f", Line: "echo up; sleep " + nap("7779"), Profile: profile})
		if err != nil {
			t.Fatal(err)
		}
		background, err := m.Start(ctx, Spec{ProcessID: "proc_b", Line: "echo up; sleep " + nap("7779"), Background: true, Profile: profile})
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, foreground, "up")
		waitFor(t, background, "up")
		cancel()
		if exit := wait(t, foreground); !exit.Terminated {
			t.Errorf("cancelled: %+v", exit)
		}
		list := m.List()
		if len(list) != 1 || list[0].ProcessID != "proc_b" || list[0].OutputBytes != 3 || m.Get("proc_b") != background || m.Get("proc_f") != nil {
			t.Errorf("list: %+v", list)
		}
		if _, err := m.Start(context.Background(), Spec{ProcessID: "proc_b", Line: "true", Profile: profile}); !errors.Is(err, ErrRunning) {
			t.Errorf("same id: %v", err)
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if exit := wait(t, background); !exit.Terminated {
			t.Errorf("closed: %+v", exit)
		}
		if _, err := m.Start(context.Background(), Spec{ProcessID: "late", Line: "true", Profile: profile}); !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
		if left := sleepers(t, nap("7779")); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	})
}

func TestInput(t *testing.T) {
	inModes(t, func(t *testing.T, m *Manager, profile sandbox.Profile) {
		p := start(t, m, Spec{Line: "cat; echo end", Input: true, Profile: profile})
		for _, text := range []string{"one\n", "two\n"} {
			if err := p.Write(context.Background(), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.CloseInput(); err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, p); string(exit.Stdout.Head) != "one\ntwo\nend\n" {
			t.Errorf("%q", exit.Stdout.Head)
		}
		if err := p.Write(context.Background(), []byte("x")); !errors.Is(err, ErrNoInput) {
			t.Errorf("write after close: %v", err)
		}

		// Without input standard input is empty, not ours.
		p = start(t, m, Spec{Line: "cat; echo end", Profile: profile})
		if err := p.Write(context.Background(), []byte("x")); !errors.Is(err, ErrNoInput) {
			t.Errorf("no input: %v", err)
		}
		if exit := wait(t, p); string(exit.Stdout.Head) != "end\n" {
			t.Errorf("%q", exit.Stdout.Head)
		}

		// A process that reads nothing doesn't hold the writer for ever.
		p = start(t, m, Spec{Line: "sleep " + nap("7780"), Input: true, Profile: profile, Background: true})
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if err := p.Write(ctx, make([]byte, 1<<20)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("full pipe: %v", err)
		}
	})
}

func TestTerminal(t *testing.T) {
	inModes(t, func(t *testing.T, m *Manager, profile sandbox.Profile) {
		p := start(t, m, Spec{
			Line: `test -t 0 && test -t 1 && echo terminal; stty size; trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep 0.01; done`,
			TTY:  true, Rows: 30, Cols: 100, Profile: profile, Background: true,
		})
		waitFor(t, p, "ready")
		if err := p.Resize(40, 120); err != nil {
			t.Fatal(err)
		}
		exit := wait(t, p)
		text := strings.ReplaceAll(string(exit.Stdout.Head), "\r\n", "\n")
		if exit.Code != 7 || text != "terminal\n30 100\nready\n40 120\n" {
			t.Errorf("%d %q", exit.Code, text)
		}
		// Control-C typed into the terminal reaches the command: it is its
		// controlling terminal.
		p = start(t, m, Spec{Line: `trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.01; done`, TTY: true, Profile: profile, Background: true})
		waitFor(t, p, "ready")
		if err := p.Write(context.Background(), []byte{3}); err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, p); exit.Code != 9 {
			t.Errorf("%+v %q", exit, exit.Stdout.Head)
		}
		p = start(t, m, Spec{Line: `cat; echo end`, TTY: true, Profile: profile, Background: true})
		if err := p.CloseInput(); err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, p); !strings.HasSuffix(string(exit.Stdout.Head), "end\r\n") {
			t.Errorf("%q", exit.Stdout.Head)
		}
		for _, size := range [][2]int{{0, 1}, {1, 0}, {1 << 16, 1}} {
			if err := p.Resize(size[0], size[1]); err == nil {
				t.Errorf("resized to %v", size)
			}
		}
		p = start(t, m, Spec{Line: "true", Profile: profile})
		if err := p.Resize(1, 1); err == nil {
			t.Error("resized a process without a terminal")
		}
	})
}

// TestIgnoredSignalsAreNotPassedOn: agentd may have been started by nohup or in the
// background, where signals are ignored; its commands heed them all the same.
func TestIgnoredSignalsAreNotPassedOn(t *testing.T) {
	ignored := []os.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU}
	signal.Ignore(ignored...)
	defer signal.Reset(ignored...)
	inModes(t, func(t *testing.T, m *Manager, profile sandbox.Profile) {
		exit := wait(t, start(t, m, Spec{Line: "grep -E 'Sig(Ign|Blk)' /proc/self/status", Profile: profile}))
		if text := string(exit.Stdout.Head); text != "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n" {
			t.Errorf("%q", text)
		}
		p := start(t, m, Spec{Line: `trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.01; done`, TTY: true, Profile: profile, Background: true})
		waitFor(t, p, "ready")
		if err := p.Write(context.Background(), []byte{3}); err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, p); exit.Code != 9 {
			t.Errorf("%+v %q", exit, exit.Stdout.Head)
		}
	})
}

func TestSignalGoesToTheGroup(t *testing.T) {
	inModes(t, func(t *testing.T, m *Manager, profile sandbox.Profile) {
		p := start(t, m, Spec{Line: `trap 'echo usr; exit 4' USR1; echo up; while :; do sleep 0.01; done`, Profile: profile, Background: true})
		waitFor(t, p, "up")
		if err := p.Signal(int(syscall.SIGUSR1)); err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, p); exit.Code != 4 {
			t.Errorf("%+v", exit)
		}
	})
}

func TestViolationIsTold(t *testing.T) {
	m := New(Options{Report: report()})
	defer m.Close(context.Background())
	profile := sandbox.Profile{Mode: sandbox.ReadOnly, Root: t.TempDir()}
	p := start(t, m, Spec{Line: "echo x > /etc/agentd-test", Profile: profile, Merge: true})
	if p.Plan().Enforcement.Filesystem == sandbox.None {
		t.Skipf("files can't be protected here: %v", p.Plan().NotEnforced)
	}
	exit := wait(t, p)
	if exit.Violation == nil || exit.Violation.Boundary != "filesystem" || exit.Violation.Path != "/etc/agentd-test" {
		t.Fatalf("%+v %s", exit.Violation, exit.Stdout.Head)
	}
	if exit := wait(t, start(t, m, Spec{Line: "exit 1", Profile: profile})); exit.Violation != nil {
		t.Errorf("an ordinary failure is called a violation: %+v", exit.Violation)
	}
}

func TestReap(t *testing.T) {
	m := New(Options{Report: report()})
	defer m.Close(context.Background())
	p := start(t, m, Spec{Line: "echo up; sleep " + nap("7781"), Background: true, Profile: sandbox.Profile{Root: t.TempDir()}})
	waitFor(t, p, "up")
	e := p.Entry()
	for name, c := range map[string]struct {
		change func(*Entry)
		want   State
	}{
		"another boot":       {func(e *Entry) { e.BootID = "00000000-0000-0000-0000-000000000000" }, Gone},
		"a pid given again":  {func(e *Entry) { e.StartTime = "1"; e.Cgroup = "" }, Gone},
		"a pid that is free": {func(e *Entry) { e.Pid = 1 << 22; e.Cgroup = "" }, Gone},
		"no identity":        {func(e *Entry) { e.Pid, e.StartTime, e.Cgroup = 0, "", "" }, Unreachable},
		"a foreign group":    {func(e *Entry) { e.Pid = 1 << 22; e.Cgroup = "/sys/fs/cgroup" }, Gone},
	} {
		changed := e
		c.change(&changed)
		if fates := Reap([]Entry{changed}); fates[0].State != c.want || fates[0].Detail == "" {
			t.Errorf("%s: %+v", name, fates[0])
		}
	}
	select {
	case <-p.Done():
		t.Fatal("a process that wasn't meant was ended")
	default:
	}
	fates := Reap([]Entry{e})
	if fates[0].State != Ended || fates[0].MayStillExist() {
		t.Errorf("%+v", fates[0])
	}
	if exit, err := p.Wait(context.Background()); err != nil || !exit.Killed {
		t.Errorf("%+v %v", exit, err)
	}
	if fates := Reap([]Entry{e}); fates[0].State != Gone {
		t.Errorf("again: %+v", fates[0])
	}
	if left := sleepers(t, nap("7781")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// Who learns of a process from the ledger can reach it, although the ledger is
// written before the command runs; and who asks for one that never ran is told so.
func TestWhatIsInTheLedgerCanBeReached(t *testing.T) {
	inModes(t, func(t *testing.T, m *Manager, profile sandbox.Profile) {
		for _, broken := range []error{nil, errors.New("disk full")} {
			reached := make(chan *Process, 1)
			p, err := m.Start(t.Context(), Spec{
				ProcessID: "proc_reached", Line: "cat", Profile: profile, Background: true,
				Ledger: func(context.Context, Entry) error {
					began := make(chan struct{})
					go func() {
						close(began)
						reached <- m.Reach("proc_reached")
					}()
					<-began
					return broken
				},
			})
			if !errors.Is(err, broken) {
				t.Fatalf("got %v", err)
			}
			if got := <-reached; got != p {
				t.Fatalf("reached %v, want %v", got, p)
			}
			if p != nil {
				_ = p.Terminate(t.Context(), 0) // Done says whether it worked
				<-p.Done()
			}
		}
		if m.Reach("proc_unknown") != nil {
			t.Error("a process that never was is reached")
		}
	})
}
