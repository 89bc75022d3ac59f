package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// witnessed is a workspace with a program that leaves a mark when it runs.
type witnessed struct {
	dir     string
	witness Identity
	mark    string
	mu      sync.Mutex
	seen    []Start
}

// newWitnessed makes one. The witness is a program of its own, not a script: a
// copy of /bin/touch that leaves what its first argument names.
func newWitnessed(t *testing.T) *witnessed {
	t.Helper()
	w := &witnessed{dir: workspace(t)}
	w.mark = filepath.Join(w.dir, "mark")
	touch, err := os.ReadFile("/bin/touch")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.dir, "witness")
	if err := os.WriteFile(path, touch, 0o755); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	w.witness = Identity{Dev: st.Dev, Ino: st.Ino}
	return w
}

// supervise refuses the witness under every name.
func (w *witnessed) supervise(s Start) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, s)
	id := Identity{Dev: s.Dev, Ino: s.Ino}
	if strings.HasPrefix(filepath.Base(s.Path), "ld-") && len(s.Argv) > 1 {
		_, id, _ = s.Resolve(s.Argv[1])
	}
	if id == w.witness {
		return witnessRefused
	}
	return ""
}

// witnessRefused is why the witness doesn't run; the others are why a start is refused
// that can't be looked up as the kernel does.
const (
	witnessRefused = "the witness may not run"
	folderRefused  = "begins in a folder that isn't"
	folderGone     = "can't be found"
	fileUnreadable = "can't be read"
)

// linkedParent makes link/../y another file than y. Without following links it is true.
const linkedParent = `mkdir -p l/s2; ln -s $W l/y; ln -s /bin/true y; ln -s l/s2 link; `

// startWays are ways to start a program. W is the witness, M the mark.
var startWays = []struct{ name, line string }{
	{"parent of a link", linkedParent + `link/../y $M`},
	{"parent of a link in the own folder", linkedParent + `/proc/self/cwd/link/../y $M`},
	{"parent of a link in the thread's folder", linkedParent + `/proc//./thread-self/cwd/./link/../y $M`},
	{"parent of a link through the root", linkedParent + `/proc/self/root/$PWD/link/../y $M`},
	{"parent of a link in a descriptor", linkedParent + `bash -c 'exec 9<.; exec /dev/fd/9/link/../y "$M"'`},
	{"parent of a link for the loader", linkedParent + `$(ls /lib64/ld-linux*.so.* /lib/ld-linux*.so.* 2>/dev/null | head -n 1) link/../y $M`},
	{"parent of an interpreter's link", linkedParent + `printf '#!link/../y\n' > s; chmod +x s; ./s $M`},
	{"interpreter before a zero", `printf '#!%s\0x y\n' $W > s; chmod +x s; ./s $M`},
	{"plain", `$W $M`},
	{"relative", `./witness $M`},
	{"parent", `mkdir -p d; cd d; ../witness $M`},
	{"exec", `exec $W $M`},
	{"subshell", `(true; $W $M)`},
	{"background", `$W $M & wait`},
	{"env", `env -i $W $M`},
	{"xargs", `echo $M | xargs $W`},
	{"find", `find . -maxdepth 0 -exec $W $M \;`},
	{"timeout", `timeout 5 $W $M`},
	{"path", `PATH=$PWD:$PATH; witness $M`},
	{"computed", `x=wit; y=ness; ./$x$y $M`},
	{"nested shell", `sh -c "sh -c '$W $M'"`},
	{"stdin", `echo "$W $M" | sh`},
	{"symlink", `ln -s witness other; ./other $M`},
	{"symlink chain", `ln -s witness one; ln -s one two; ln -s $PWD/two three; ./three $M`},
	{"hard link", `ln witness other; ./other $M`},
	{"renamed", `mv witness other; ./other $M; mv other witness`},
	{"directory link", `ln -s . here; here/here/witness $M`},
	{"dots", `././/witness $M`},
	{"interpreter", `printf '#!%s\n' $W > s; chmod +x s; cp s $M.src; ./s $M`},
	{"interpreter with option", `printf '#! %s -a\n' $W > s; chmod +x s; ./s $M`},
	{"interpreter of interpreter", `printf '#!%s\n' $W > a; printf '#!%s\n' $PWD/a > b; chmod +x a b; ./b $M`},
	{"relative interpreter", `printf '#!./witness\n' > s; chmod +x s; ./s $M`},
	{"env interpreter", `printf '#!/usr/bin/env %s\n' $W > s; chmod +x s; ./s $M`},
	{"other name", `bash -c "exec -a innocent $W $M"`},
	{"descriptor", `bash -c 'exec 9<witness; exec /proc/self/fd/9 "$M"'`},
	{"descriptor of /dev", `bash -c 'exec 9<witness; exec /dev/fd/9 "$M"'`},
	{"own folder", `cd /proc/self/cwd && ./witness $M`},
	{"through the root", `/proc/self/root$W $M`},
	{"script without interpreter", `echo "$W $M" > s; chmod +x s; ./s`},
	{"nice", `nice -n 5 $W $M`},
	{"setsid", `setsid -w $W $M`},
	// Not looked up as the kernel does, so refused whatever it is.
	{"removed folder", `mkdir -p q safe/sub; ln -s /bin/true safe/x; ln -s $W x; ln -s safe/sub 'q (deleted)'; cd q; rmdir ../q; ../x $M`},
	{"removed folder without a decoy", `mkdir q; ln -s $W x; cd q; rmdir ../q; ../x $M`},
	{"unreadable script", `printf '#!%s\n' $W > u; chmod 111 u; ./u $M`},
	{"many arguments", `$W $(printf "$M %.0s" $(seq 1 3000))`},
}

func TestSupervisionHoldsEveryStart(t *testing.T) {
	if !report().Supervise.Available {
		t.Skip("no supervision here: " + report().Supervise.Reason)
	}
	for name, mode := range map[string]Mode{"confined": WorkspaceWrite, "outside": DangerFullAccess} {
		for how, start := range map[string]starter{"forked": forked, "executed": executed} {
			t.Run(name+" "+how, func(t *testing.T) { superviseAll(t, mode, start) })
		}
	}
}

// superviseAll tries all ways to start a program: each leaves its mark without
// supervision and none with it.
func superviseAll(t *testing.T, mode Mode, start starter) {
	hidden := workspace(t)
	for _, way := range startWays {
		t.Run(way.name, func(t *testing.T) {
			for _, supervised := range []bool{false, true} {
				w := newWitnessed(t)
				plan := prepared(t, Profile{Mode: mode, Root: w.dir, Hidden: []string{hidden}, Supervised: supervised})
				var ask func(Start) string
				if supervised {
					if plan.Enforcement.Rules != "seccomp_notify" {
						t.Fatalf("rules are held by %q: %q", plan.Enforcement.Rules, plan.NotEnforced)
					}
					ask = w.supervise
				}
				supervising := func(p *Plan, cmd Command) (*Child, error) {
					cmd.Supervise = ask
					return start(p, cmd)
				}
				r := runBy(t, supervising, plan, way.line, "W="+w.dir+"/witness", "M="+w.mark)
				ran := exists(w.mark)
				switch {
				case supervised && ran:
					t.Errorf("the witness ran: %+v", w.seen)
				case supervised && (len(r.Refused) != 1 || !expected(way.name, r.Refused[0].Reason)):
					t.Errorf("refused %+v, stderr %q", r.Refused, r.stderr)
				case !supervised && !ran:
					t.Errorf("the way doesn't work without supervision: %q", r.stderr)
				case !supervised && len(r.Refused) != 0:
					t.Errorf("refused %+v", r.Refused)
				}
			}
		})
	}
}

// expected says that a refusal is the one for the way.
func expected(way, reason string) bool {
	switch {
	case way == "removed folder":
		return strings.Contains(reason, folderRefused)
	case way == "removed folder without a decoy":
		return strings.Contains(reason, folderGone)
	case way == "unreadable script" && os.Geteuid() != 0:
		return strings.Contains(reason, fileUnreadable)
	default:
		return reason == witnessRefused
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestSupervisionSeesRealArguments looks at what is told of each start.
func TestSupervisionSeesRealArguments(t *testing.T) {
	if !report().Supervise.Available {
		t.Skip("no supervision here: " + report().Supervise.Reason)
	}
	w := newWitnessed(t)
	plan := prepared(t, Profile{Root: w.dir, Supervised: true})
	supervising := func(p *Plan, cmd Command) (*Child, error) {
		cmd.Supervise = w.supervise
		return forked(p, cmd)
	}
	r := runBy(t, supervising, plan, `mkdir sub; cd sub; x="a  b"; printf '#!/bin/sh -e\nexit 0\n' > s; chmod +x s; ./s "$x" ""; /usr/bin/env true c; ./nothing; exit 0`)
	if r.Code != 0 || len(r.Refused) != 0 {
		t.Fatalf("%+v", r)
	}
	var got []string
	for _, s := range w.seen {
		got = append(got, filepath.Base(s.Path)+"("+strings.Join(s.Argv, "|")+") in "+strings.TrimPrefix(s.Dir, w.dir))
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{
		"s(./s|a  b|) in /sub",
		"(/bin/sh|-e|./s|a  b|) in /sub",
		"env(/usr/bin/env|true|c) in /sub",
		"true(true|c) in /sub",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "nothing") {
		t.Errorf("a program that isn't there was asked about:\n%s", text)
	}
}

// TestFailureToJudgeRefusesOneStart: what judges a start may fail on it. The start is
// refused, those after it are judged as always, and the runtime lives.
func TestFailureToJudgeRefusesOneStart(t *testing.T) {
	if !report().Supervise.Available {
		t.Skip("no supervision here: " + report().Supervise.Reason)
	}
	w := newWitnessed(t)
	plan := prepared(t, Profile{Root: w.dir, Supervised: true})
	supervising := func(p *Plan, cmd Command) (*Child, error) {
		cmd.Supervise = func(s Start) string {
			if s.Argv[len(s.Argv)-1] == "odd" {
				panic("too odd")
			}
			return ""
		}
		return forked(p, cmd)
	}
	r := runBy(t, supervising, plan, `./witness odd; ./witness even; ./witness odd; ./witness other`)
	if r.Code != 0 || len(r.Refused) != 2 || !strings.Contains(r.Refused[0].Reason, "judging it failed: too odd") {
		t.Errorf("%+v", r)
	}
	for name, want := range map[string]bool{"odd": false, "even": true, "other": true} {
		if exists(filepath.Join(w.dir, name)) != want {
			t.Errorf("%s: the witness ran: %v", name, !want)
		}
	}
}

// mountedWays start the witness where the names of a process's own files mean something
// else. Each runs with a mount namespace of its own, where the user may mount.
var mountedWays = []struct{ name, line string }{
	{"a file as the descriptor", `mount -t tmpfs x /dev; mkdir /dev/fd; : > /dev/fd/0; mount --bind $W /dev/fd/0; /dev/fd/0 $M < /bin/true`},
	{"a link in the folder of descriptors", `mount -t tmpfs x /dev; mkdir /dev/fd; ln -s $W /dev/fd/0; /dev/fd/0 $M < /bin/true`},
	{"another link as the folder", `mkdir l; ln -s $W l/0; mount -t tmpfs x /dev; ln -s $PWD/l /dev/fd; /dev/fd/0 $M < /bin/true`},
	{"another link as the input", `mount -t tmpfs x /dev; ln -s $W /dev/stdin; /dev/stdin $M < /bin/true`},
	{"another /proc", `mount -t tmpfs x /proc; mkdir /proc/self; : > /proc/self/exe; mount --bind $W /proc/self/exe; /proc/self/exe $M`},
	{"another thread's folder", `mount -t tmpfs x /proc; mkdir -p /proc/thread-self/cwd; ln -s $W /proc/thread-self/cwd/x; /proc/thread-self/cwd/x $M`},
	{"over the own entry", `mount -t tmpfs x /proc/$$; ln -s $W /proc/$$/exe; exec /proc/self/exe $M`},
	{"over the own folder", `mkdir l; ln -s $W l/x; mount -t tmpfs x /proc/$$; ln -s $PWD/l /proc/$$/cwd; exec /proc/self/cwd/x $M`},
	{"a folder of /proc as /proc", `mkdir -p l/self; ln -s $W l/self/exe; mount --bind l /proc; /proc/self/exe $M`},
	{"another root", `mkdir -p r/proc/self r/usr; cp -a /bin /lib /lib64 r/ 2>/dev/null; mount --rbind /usr r/usr; mkdir -p r$PWD; mount --bind . r$PWD; ln witness r/proc/self/exe; chroot r /proc/self/exe $M`},
	{"over a program", `mount --bind $W /bin/true; /bin/true $M`},
}

// TestSupervisionTrustsNoNames: whatever is mounted at the names by which a process reaches
// its own files, the witness is refused. Where it is nothing unusual, they lead there.
func TestSupervisionTrustsNoNames(t *testing.T) {
	if !report().Supervise.Available {
		t.Skip("no supervision here: " + report().Supervise.Reason)
	}
	hidden := workspace(t)
	for _, way := range mountedWays {
		t.Run(way.name, func(t *testing.T) {
			for _, supervised := range []bool{false, true} {
				w := newWitnessed(t)
				plan := prepared(t, Profile{Mode: DangerFullAccess, Root: w.dir, Hidden: []string{hidden}, Supervised: supervised})
				if supervised && plan.Enforcement.Rules != "seccomp_notify" {
					t.Fatalf("rules are held by %q: %q", plan.Enforcement.Rules, plan.NotEnforced)
				}
				supervising := func(p *Plan, cmd Command) (*Child, error) {
					if supervised {
						cmd.Supervise = w.supervise
					}
					return forked(p, cmd)
				}
				r := runBy(t, supervising, plan, `exec unshare -Urm sh -c "$L"`, "W="+w.dir+"/witness", "M="+w.mark, "L="+way.line)
				switch ran := exists(w.mark); {
				case !supervised && !ran:
					t.Skipf("it doesn't work without supervision here: %s", r.stderr)
				case supervised && ran:
					t.Errorf("the witness ran: %+v", w.seen)
				case supervised && (len(r.Refused) != 1 || r.Refused[0].Reason != witnessRefused && !strings.Contains(r.Refused[0].Reason, "/proc")):
					t.Errorf("refused %+v, stderr %q", r.Refused, r.stderr)
				}
			}
		})
	}
}

// TestCommandsEndWithTheirSupervisor kills commands whose programs wait for an answer.
func TestCommandsEndWithTheirSupervisor(t *testing.T) {
	if !report().Supervise.Available {
		t.Skip("no supervision here: " + report().Supervise.Reason)
	}
	plan := prepared(t, Profile{Root: workspace(t), Supervised: true})
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	child, err := plan.Start(Command{Argv: []string{"/bin/sh", "-c", "/bin/true; /bin/true"}, Supervise: func(Start) string {
		asked <- struct{}{}
		<-answer
		return ""
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Go(); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := child.Kill(); err != nil {
		t.Fatal(err)
	}
	close(answer)
	if e := child.Wait(); !e.Killed {
		t.Errorf("%+v", e)
	}
	child.Close()
}
