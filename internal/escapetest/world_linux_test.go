package escapetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence/replaytest"
	"agentd/loop"
	"agentd/model/provider/script"
	"agentd/process"
	"agentd/sandbox"
	"agentd/store"
	"agentd/store/pebble"
	"agentd/tool"
	"agentd/workspace"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(attackVariable); name != "" {
		os.Exit(attack(name))
	}
	if os.Getenv(hookVariable) != "" {
		os.Exit(answerHook())
	}
	if os.Getenv(serverVariable) != "" {
		os.Exit(serveTools())
	}
	if os.Getenv(plantedVariable) == "" {
		// The kernel shows the environment that a process began with.
		err := plant()
		fmt.Fprintln(os.Stderr, "the test can't start itself again:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// plantedVariable is what the runtime has in its environment and no tool may see.
const plantedVariable = "AGENTD_ESCAPE_PLANTED"

// plant starts this program again with something in its environment.
func plant() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), plantedVariable+"="+plantedEnv))
}

// report is what this machine offers, found out once.
var report = sync.OnceValue(sandbox.Probe)

// planted is what must not come out: it is in the token's file, in the store, in
// the environment of the runtime and of a stranger. It has no shape that redaction
// would know.
const (
	plantedToken   = "planted: the token"
	plantedStore   = "planted: an earlier conversation"
	plantedEnv     = "planted: the runtime's environment"
	plantedOther   = "planted: a stranger's environment"
	plantedPrivate = "planted: a private key"
)

// world is a machine in small, with a runtime in it: a workspace that holds the
// data directory, and everything outside that an attempt may try to reach.
type world struct {
	testing.TB
	outside, workspace, hidden string
	private                    string // a folder that the configuration hides
	nested                     string // a file that it hides, below a folder of the workspace
	attacker, tmp              string
	tcp, udp, unix, gram       string
	abstract                   string
	key                        string
	stranger                   *exec.Cmd
	shm                        int // key of memory that a stranger shares
	reached                    atomic.Int64
	ruled                      bool // the rules of the workspace count
	settled                    chan struct{}

	profile sandbox.Profile
	plan    *sandbox.Plan
	store   store.Store
	r       *agentd.Runtime
	manager *process.Manager
}

// room is a folder for a world. It isn't below /tmp if that can be had, because a
// private /tmp would hide what goes wrong.
func room(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/var/lib", "agentd-escape-") //nolint:usetesting // see above
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// limits are small enough that a test can reach them.
func limits() sandbox.Limits {
	l := sandbox.Limits{MemoryMB: 192, Processes: 64, FileSizeMB: 8, OpenFiles: 64}
	if raceEnabled && !report().CgroupMemory.Available {
		l.MemoryMB = 0
	}
	return l
}

// newWorld makes a world whose commands are confined by a profile.
func newWorld(tb testing.TB, mode sandbox.Mode) *world {
	tb.Helper()
	base := room(tb)
	w := &world{TB: tb, outside: base + "/outside", workspace: base + "/ws", hidden: base + "/ws/.agentd", attacker: base + "/bin/attacker", private: base + "/home/.ssh", nested: base + "/ws/conf/deep/secret"}
	for _, dir := range []string{w.outside, w.hidden, base + "/bin", w.private, filepath.Dir(w.nested), w.workspace + "/.git/hooks"} {
		w.must(os.MkdirAll(dir, 0o755))
	}
	w.must(os.Symlink(w.outside, w.workspace+"/way-out"))
	w.must(os.Symlink(w.hidden, w.workspace+"/way-in"))
	w.must(os.Symlink(w.outside+"/victim", w.workspace+"/file-out"))
	w.copySelf()
	w.listen()
	w.startStranger()
	var err error
	w.tmp, err = os.MkdirTemp("/tmp", "agentd-escape-") //nolint:usetesting // the machine's /tmp is what some attempts are about
	w.must(err)
	tb.Cleanup(func() { _ = os.RemoveAll(w.tmp) })
	key, err := workspace.LoadKey(w.hidden)
	w.must(err)
	stored, err := os.ReadFile(filepath.Join(w.hidden, workspace.KeyFile))
	w.must(err)
	if w.key = strings.TrimSpace(string(stored)); w.key == "" || len(key) == 0 {
		tb.Fatal("there is no key to look for")
	}
	w.restore()
	w.profile = sandbox.Profile{Mode: mode, Hidden: []string{w.hidden, w.private, w.nested}, Limits: limits()}
	w.prepare()
	return w
}

// prepare plans what the profile will be worth; the rules of the workspace are
// protected in every profile.
func (w *world) prepare() {
	w.Helper()
	p := w.profile
	p.Root, p.Protected = w.workspace, loop.Bounds(w.workspace, guardWords)
	var err error
	w.plan, err = sandbox.Prepare(p, report())
	w.must(err)
}

// guardWords are those of a hook whose script lies in the workspace.
var guardWords = loop.BoundSet{Commands: [][]string{{"scripts", "./guard.sh"}}}

// rules is the file with the rules of the workspace.
func (w *world) rules() string { return w.workspace + "/" + loop.RulesFile }

// bounds are files of the workspace's repository that make git run programs.
func (w *world) bounds() map[string]string {
	files := map[string]string{
		".git/config":                 "[core]\n\thooksPath = .husky\n[include]\n\tpath = ../.gitconfig\n",
		".git/hooks/pre-commit":       "#!/bin/sh\n",
		".husky/pre-commit":           "#!/bin/sh\n",
		".gitconfig":                  "[alias]\n",
		".git/modules/sub/config":     "[core]\n\tworktree = ../../../sub\n",
		".git/modules/logs/config":    "[core]\n",
		".git/worktrees/wt/commondir": "../..\n",
		"sub/.git":                    "gitdir: ../.git/modules/sub\n",
		"scripts/guard.sh":            "#!/bin/sh\n",
	}
	out := map[string]string{}
	for name, text := range files {
		out[filepath.Join(w.workspace, name)] = text
	}
	return out
}

// plantedRules deny what nobody asks for.
const plantedRules = `{"rules":[{"decision":"deny","tool":"no_such_tool"}]}`

func parseRules(content []byte) ([]event.PolicyRule, error) {
	var file struct{ Rules []event.PolicyRule }
	err := json.Unmarshal(content, &file)
	return file.Rules, err
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// open starts the runtime: a store on disk below the hidden directory, the
// built-in tools, and answers that ask for them.
func (w *world) open(permissionMode string, answers []script.Answer, change func(*agentd.Options)) {
	w.Helper()
	var err error
	w.store, err = pebble.Open(w.hidden+"/data", &pebble.Options{ReserveBytes: -1})
	w.must(err)
	tools, err := tool.NewRegistry(tool.Builtins(&tool.Options{Hidden: w.profile.Hidden})...)
	w.must(err)
	w.manager = process.New(process.Options{Report: report()})
	opt := agentd.Options{
		Store: w.store, Provider: script.New("script", &script.Script{Answers: answers}), Model: "test",
		Loop: loop.Options{
			Workspace: w.workspace, Tools: tools, NobodyToAsk: true, ParseRules: parseRules, Host: loop.HostPolicy{Mode: permissionMode},
			Governance: loop.Governance{Sandbox: w.profile, Bounds: guardWords, Processes: func() *process.Manager { return w.manager }},
		},
	}
	if change != nil {
		change(&opt)
	}
	w.r, err = agentd.Open(context.Background(), opt)
	w.must(err)
	w.Cleanup(func() {
		if err := w.r.Close(context.Background()); err != nil {
			w.Error(err)
		}
		replaytest.Recorded(w, opt.Store)
		if err := w.store.Close(); err != nil {
			w.Error(err)
		}
	})
}

// ask submits a turn and waits until its task has ended.
func (w *world) ask(sessionID, text string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	input := event.Raw(fmt.Sprintf("%q", text))
	res, err := w.r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: sessionID, Create: true, Input: input})
	w.must(err)
	turn := res.(*command.SubmitTurnResult)
	sub, err := w.r.Subscribe(ctx, command.Local(), sessionID, turn.Sequence)
	w.must(err)
	defer sub.Close()
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			w.Fatalf("waiting for the end of %q: %v", text, err)
		}
		for _, rec := range records {
			e, err := event.Decode(rec.Data)
			w.must(err)
			if e.TurnID == turn.TurnID && (e.Type == event.TypeTaskCompleted || e.Type == event.TypeTaskFailed) {
				return
			}
		}
	}
}

// restore puts back what an attempt may have changed.
func (w *world) restore() {
	w.Helper()
	w.reached.Store(0)
	w.must(os.WriteFile(w.outside+"/victim", []byte("original"), 0o644))
	w.must(os.WriteFile(w.hidden+"/token", []byte(plantedToken), 0o644))
	w.must(os.WriteFile(w.private+"/id", []byte(plantedPrivate), 0o644))
	w.must(os.WriteFile(w.rules(), []byte(plantedRules), 0o644))
	for path, text := range w.bounds() {
		w.must(os.MkdirAll(filepath.Dir(path), 0o755))
		w.must(os.WriteFile(path, []byte(text), 0o644))
	}
	if _, err := os.Lstat(w.nested); err != nil { // the same file, for as long as nothing took it away
		w.must(os.WriteFile(w.nested, []byte(plantedPrivate), 0o644))
	}
	w.must(os.RemoveAll(w.workspace + "/other"))
	w.must(os.Chtimes(w.outside+"/victim", time.Unix(1e9, 0), time.Unix(1e9, 0)))
}

// attackForm is how a line calls our own program.
var attackForm = regexp.MustCompile(`ATTACK:(\w+):`)

// fill puts the world's places into a line.
func (w *world) fill(line string) string {
	line = attackForm.ReplaceAllString(line, attackVariable+"=$1 "+w.attacker)
	return strings.NewReplacer(
		"$OUT", w.outside, "$HID", w.hidden, "$PRIV", w.private, "$NESTED", w.nested, "$RULES", loop.RulesFile, "$WS", w.workspace, "$TCP", w.tcp, "$UDP", w.udp, "$UNIX", w.unix, "$GRAM", w.gram,
		"$ABSTRACT", w.abstract, "$PID", fmt.Sprint(w.stranger.Process.Pid), "$SELF", fmt.Sprint(os.Getpid()), "$TMP", w.tmp, "$SHM", strconv.Itoa(w.shm),
	).Replace(line)
}

// changed reports whether something outside is not as it was.
func (w *world) changed() bool {
	b, err := os.ReadFile(w.outside + "/victim")
	info, serr := os.Stat(w.outside + "/victim")
	entries, derr := os.ReadDir(w.outside)
	return err != nil || serr != nil || derr != nil || string(b) != "original" || info.Mode().Perm() != 0o644 ||
		!info.ModTime().Equal(time.Unix(1e9, 0)) || len(entries) != 3
}

// hurt reports whether the stranger has ended, is stopped, traced or slowed down.
func (w *world) hurt() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.stranger.Process.Pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	return len(f) < 17 || slices.Contains([]string{"Z", "t", "T", "X"}, f[0]) || f[16] != niceness()
}

// niceness is that of the test, which its children begin with.
func niceness() string {
	n, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0) // the call fails for strangers alone
	return strconv.Itoa(20 - n)                          // the kernel says 20 less the value
}

// connected reports whether something came through a socket.
func (w *world) connected() bool {
	// Loopback delivers before the command ends; those who count may need a moment.
	w.settle()
	return w.reached.Load() > 0
}

// lastWord is a datagram that isn't counted: what was sent before it has been.
const lastWord = "last word"

// settle waits until all that was sent is counted: each socket is served in order.
func (w *world) settle() {
	w.Helper()
	for address, network := range map[string]string{w.tcp: "tcp", w.unix: "unix", w.abstract: "unix"} {
		c, err := net.Dial(network, address)
		w.must(err)
		_, _ = io.Copy(io.Discard, c) // until it is closed by who counts
		_ = c.Close()
		w.reached.Add(-1)
	}
	for network, address := range map[string]string{"udp": w.udp, "unixgram": w.gram} {
		c, err := net.Dial(network, address)
		w.must(err)
		_, err = io.WriteString(c, lastWord)
		_ = c.Close()
		w.must(err)
		<-w.settled
	}
}

// running reports whether a process with such an argument is on the machine.
func running(argument string) bool {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(b), "\x00"+argument+"\x00") {
			return true
		}
	}
	return false
}

func (w *world) startStranger() {
	w.Helper()
	w.share()
	w.stranger = exec.Command("sleep", "1000000")
	w.stranger.Env = []string{"PLANTED=" + plantedOther}
	w.must(w.stranger.Start())
	w.Cleanup(func() {
		_ = w.stranger.Process.Kill()
		_ = w.stranger.Wait() // it was killed
	})
}

// share makes a piece of memory that any program of the user can find by its key.
func (w *world) share() {
	w.Helper()
	w.shm = 0x61000000 + os.Getpid()
	id, err := unix.SysvShmGet(w.shm, 4096, unix.IPC_CREAT|0o600)
	w.must(err)
	w.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) }) // it ends with the machine anyway
}

// copySelf puts the attacker where commands can run it.
func (w *world) copySelf() {
	w.Helper()
	self, err := os.Executable()
	w.must(err)
	in, err := os.Open(self)
	w.must(err)
	defer in.Close()
	out, err := os.OpenFile(w.attacker, os.O_CREATE|os.O_WRONLY, 0o755)
	w.must(err)
	_, err = io.Copy(out, in)
	w.must(err)
	w.must(out.Close())
}

// listen opens a socket of each kind and counts what comes.
func (w *world) listen() {
	w.Helper()
	w.settled = make(chan struct{}, 1)
	w.unix, w.gram, w.abstract = w.outside+"/socket", w.outside+"/datagrams", "@escape-"+filepath.Base(filepath.Dir(w.outside))
	w.tcp = w.accept("tcp", "127.0.0.1:0")
	w.accept("unix", w.unix)
	w.accept("unix", w.abstract)
	w.udp = w.receive("udp", "127.0.0.1:0")
	w.receive("unixgram", w.gram)
}

func (w *world) accept(network, at string) string {
	w.Helper()
	l, err := net.Listen(network, at)
	w.must(err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.reached.Add(1)
			_ = c.Close() // only that it came counts
		}
	})
	w.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String()
}

func (w *world) receive(network, at string) string {
	w.Helper()
	c, err := net.ListenPacket(network, at)
	w.must(err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for buf := make([]byte, 64); ; {
			n, _, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if string(buf[:n]) == lastWord {
				w.settled <- struct{}{}
				continue
			}
			w.reached.Add(1)
		}
	})
	w.Cleanup(func() { _ = c.Close(); wg.Wait() })
	return c.LocalAddr().String()
}

// follow waits until a process of the session has printed a word.
func (w *world) follow(sessionID, word string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	sub, err := w.r.Subscribe(ctx, command.Local(), sessionID, 0)
	w.must(err)
	defer sub.Close()
	for {
		records, err := sub.Next(ctx)
		w.must(err)
		for _, rec := range records {
			e, err := event.Decode(rec.Data)
			w.must(err)
			if p, ok := e.Payload.(*event.ProcessOutput); ok && strings.Contains(p.Text, word) {
				return
			}
		}
	}
}
