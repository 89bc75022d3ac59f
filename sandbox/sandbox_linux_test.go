package sandbox

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentd/internal/leaktest"
	"agentd/sandbox/internal/stage"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(attackEnv); name != "" {
		attack(name)
		return
	}
	leaktest.Main(m)
}

// report is this machine's, probed once.
var report = sync.OnceValue(Probe)

// result is what a command in a sandbox did.
type result struct {
	Exit
	stdout, stderr string
	plan           *Plan
}

// workspace is a directory of the test that is not below /tmp, where possible, so
// that the private /tmp doesn't hide a mistake.
func workspace(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(cmp.Or(os.Getenv(userEnv), "/var/lib"), "agentd-test-") //nolint:usetesting // a place that isn't below /tmp
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// plan prepares a profile on this machine.
func prepared(t *testing.T, p Profile) *Plan {
	t.Helper()
	plan, err := Prepare(p, report())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// run runs a shell line and returns what came of it.
func run(t *testing.T, plan *Plan, line string, env ...string) result {
	t.Helper()
	return runBy(t, forked, plan, line, env...)
}

// starter starts a stage that becomes a command.
type starter func(*Plan, Command) (*Child, error)

// executed starts our binary again.
var executed starter = (*Plan).Start

// forked forks the stage, where that can be.
var forked starter = func(p *Plan, cmd Command) (*Child, error) {
	if !p.use.pid || !canFork {
		return p.Start(cmd)
	}
	l, err := testLauncher()
	if err != nil {
		return nil, err
	}
	c, err := p.beginStage(l)
	if err != nil {
		return nil, err
	}
	return c.become(p, cmd)
}

// starters are both ways, for tests that compare.
var starters = map[string]starter{"executed": executed, "forked": forked}

// testLauncher is one for all tests. It ends with the test binary.
var testLauncher = sync.OnceValues(startLauncher)

func runBy(t *testing.T, start starter, plan *Plan, line string, env ...string) result {
	t.Helper()
	outR, outW := pipe(t)
	errR, errW := pipe(t)
	child, err := start(plan, Command{Argv: []string{"sh", "-c", line}, Env: env, Stdout: outW, Stderr: errW})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = outW.Close(), errW.Close()
	var out, errs bytes.Buffer
	var readers sync.WaitGroup
	readers.Go(func() { _, _ = io.Copy(&out, outR) })
	readers.Go(func() { _, _ = io.Copy(&errs, errR) })
	if err := child.Go(); err != nil {
		t.Error(err)
	}
	exit := child.Wait()
	readers.Wait()
	child.Close()
	return result{Exit: exit, stdout: out.String(), stderr: errs.String(), plan: plan}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

func TestProbe(t *testing.T) {
	r := report()
	t.Logf("\n%s", r)
	for _, row := range r.Rows() {
		if !row.Available && row.Reason == "" {
			t.Errorf("%s isn't there, and nothing says why", row.Name)
		}
	}
	if r.Landlock.Available != (r.LandlockABI > 0) {
		t.Errorf("Landlock is %v with ABI %d", r.Landlock, r.LandlockABI)
	}
	again := Probe()
	if again.String() != r.String() {
		t.Errorf("a second probe says something else:\n%s", again)
	}
}

// TestPartsOfTheView looks at what a command sees.
func TestPartsOfTheView(t *testing.T) {
	dir := workspace(t)
	plan := prepared(t, Profile{Root: dir, Limits: Limits{MemoryMB: 512, Processes: 64}})
	if !plan.use.mount || !plan.use.pid {
		t.Skipf("no view of its own here: %v", plan.NotEnforced)
	}
	for name, c := range map[string]struct{ line, want string }{
		"workspace":     {"pwd; echo x > new && cat new", dir + "\nx\n"},
		"private /tmp":  {"ls -A /tmp | grep -v agentd-test; echo x > /tmp/a && cat /tmp/a", "x\n"},
		"shared memory": {"echo x > /dev/shm/a && cat /dev/shm/a", "x\n"},
		"devices":       {"head -c 3 /dev/zero | wc -c; echo x > /dev/null; head -c 1 /dev/urandom | wc -c; echo y > /dev/stdout", "3\n1\ny\n"},
		"processes":     {"test $(ls -d /proc/[0-9]* | wc -l) -lt 9 && echo few", "few\n"},
		"pipes":         {"echo a | cat | tr a b", "b\n"},
		"environment":   {"env -u PWD -u OLDPWD -u SHLVL -u _ env | cut -d= -f1 | grep -v -e '^_$' -e PWD -e SHLVL | sort | tr '\\n' ' '", "HOME LANG PATH TERM TMPDIR "},
		"status":        {"exit 0", ""},
	} {
		for how, start := range starters {
			if r := runBy(t, start, plan, c.line); r.stdout != c.want || r.Code != 0 {
				t.Errorf("%s, %s: %+v\n%q, want %q\n%s", name, how, r.Exit, r.stdout, c.want, r.stderr)
			}
		}
	}
	if r := run(t, plan, "exec 3<>/dev/tcp/127.0.0.1/1; exit 7"); r.Code == 0 {
		t.Errorf("%+v", r.Exit)
	}
}

// TestLoopbackInside: a server and a client in the same sandbox find each other.
func TestPartsOfTheLoopback(t *testing.T) {
	plan := prepared(t, Profile{Root: workspace(t)})
	if !plan.use.net {
		t.Skipf("no network of its own here: %v", plan.NotEnforced)
	}
	copySelf(t, plan.Profile.Root+"/attacker")
	r := run(t, plan, attackEnv+`="both" ./attacker`)
	if r.Code != 0 {
		t.Errorf("%+v %s", r.Exit, r.stderr)
	}
}

func TestReadRootsNarrow(t *testing.T) {
	base := workspace(t)
	for _, d := range []string{"ws", "lib", "other"} {
		if err := os.Mkdir(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(base, d, "f"), []byte(d), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plan := prepared(t, Profile{Root: base + "/ws", ReadRoots: []string{base + "/lib"}})
	if !plan.use.landlock {
		t.Skipf("reading can't be narrowed here: %v", plan.NotEnforced)
	}
	if r := run(t, plan, "cat f ../lib/f"); r.stdout != "wslib" {
		t.Errorf("%+v %s", r, r.stderr)
	}
	if r := run(t, plan, "cat ../other/f"); r.Code == 0 {
		t.Errorf("read %q", r.stdout)
	}
	if r := run(t, plan, "echo x > ../lib/f"); r.Code == 0 {
		t.Error("a read root was written")
	}
}

// TestStageRunsFirst holds the stage to being early: what a program initialises
// before it is paid for by every command.
func TestStageRunsFirst(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{stage.Marker + "=1", "GODEBUG=inittrace=1"}
	out, _ := cmd.CombinedOutput()
	for _, late := range []string{"init os ", "init net ", "init golang.org/x/sys/unix ", "init testing ", "init reflect "} {
		if bytes.Contains(out, []byte(late)) {
			t.Errorf("%sruns before the stage:\n%s", late, out)
		}
	}
	if !bytes.Contains(out, []byte("init syscall ")) {
		t.Errorf("nothing was traced:\n%s", out)
	}
}

func TestKillAndClose(t *testing.T) {
	// Not as subtests: the ordinary user's run names those of the table alone.
	for how, start := range starters {
		t.Logf("%s", how)
		killAndClose(t, start)
	}
	if strings.Contains(cmdlines(), "sleep\x00"+nap("8200")) {
		t.Error("something is left")
	}
}

func killAndClose(t *testing.T, start starter) {
	t.Helper()
	for _, mode := range []Mode{WorkspaceWrite, DangerFullAccess} {
		plan := prepared(t, Profile{Mode: mode, Root: workspace(t)})
		child, err := start(plan, Command{Argv: []string{"sleep", nap("8200")}})
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Go(); err != nil {
			t.Error(err)
		}
		if err := child.Kill(); err != nil {
			t.Error(err)
		}
		if exit := child.Wait(); !exit.Killed || exit.Success() {
			t.Errorf("%s: %+v", mode, exit)
		}
		child.Close()
		child.Close()
		if err := child.Signal(15, true); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s: %v", mode, err)
		}
		// Closed before it was let run.
		child, err = start(plan, Command{Argv: []string{"touch", "ran"}})
		if err != nil {
			t.Fatal(err)
		}
		child.Close()
		if _, err := os.Stat(filepath.Join(plan.Profile.Root, "ran")); err == nil {
			t.Errorf("%s: it ran", mode)
		}
		if _, err := plan.Start(Command{}); err == nil {
			t.Errorf("%s: nothing was started", mode)
		}
	}
}
