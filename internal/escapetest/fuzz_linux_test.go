package escapetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"agentd/event"
	"agentd/permission"
	"agentd/sandbox"
)

// TestShellPrograms runs random shell programs that try to start a program which a
// rule denies: the reading of the line and the supervision together.
func TestShellPrograms(t *testing.T) { runPrograms(t, 1, 400) }

// TestManyShellPrograms runs as many of them as the variable says, in several
// sandboxes beside each other, each with a seed of its own.
func TestManyShellPrograms(t *testing.T) {
	count, err := strconv.Atoi(os.Getenv("AGENTD_TEST_PROGRAMS"))
	if err != nil {
		t.Skip("AGENTD_TEST_PROGRAMS is not set: 100,000 random shell programs are not run (make fuzz-shell)")
	}
	workers := runtime.NumCPU()
	for i := range workers {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			runPrograms(t, uint64(20261116+i), (count+workers-1)/workers)
		})
	}
}

// batch is how many programs one sandboxed command runs, one after the other.
const batch = 200

// runPrograms draws programs from a seed and runs all that a reading of the line
// would let run, or would ask about: a person may say yes.
func runPrograms(t *testing.T, seed uint64, count int) {
	if !report().Supervise.Available {
		t.Skip("rules aren't held where programs start here: " + report().Supervise.Reason)
	}
	f := newProgramFuzz(t, seed)
	f.checkDrawing(t)
	ran, denied := 0, 0
	var programs []string
	for i := range count {
		if i > 0 && i%5000 == 0 {
			t.Logf("seed %d: %d of %d programs so far", seed, i, count)
		}
		line := f.draw()
		if f.decide(line) == permission.Deny {
			denied++
			continue
		}
		ran++
		if programs = append(programs, line); len(programs) == batch {
			f.run(t, programs, true)
			programs = nil
		}
	}
	f.run(t, programs, true)
	t.Logf("seed %d: %d programs, %d denied by reading the line, %d run under supervision", seed, count, denied, ran)
	if ran < count/4 {
		t.Errorf("only %d of %d programs were run", ran, count)
	}
}

// programFuzz draws and runs programs in a workspace with a witness.
type programFuzz struct {
	*rand.Rand
	dir, witness, mark string
	rules              []event.PolicyRule
	has                map[string]bool // programs of this machine
}

func newProgramFuzz(t *testing.T, seed uint64) *programFuzz {
	t.Helper()
	f := &programFuzz{Rand: rand.New(rand.NewPCG(seed, 17)), dir: room(t), has: map[string]bool{}} // the same each time
	f.witness, f.mark = plantWitness(t, f.dir)
	f.rules = []event.PolicyRule{{Decision: "deny", Tool: "shell", Match: "witness *"}}
	for _, name := range []string{"bash", "python3", "perl", "make", "git", "busybox", "ex", "setpriv", "script", "flock", "m4", "ed"} {
		_, err := exec.LookPath(name)
		f.has[name] = err == nil
	}
	return f
}

// checkDrawing shows that the programs are worth running: without rules a good part
// of them leaves the mark.
func (f *programFuzz) checkDrawing(t *testing.T) {
	t.Helper()
	marks := 0
	const sample = 60
	for range sample {
		f.run(t, []string{f.draw()}, false)
		if os.Remove(f.mark) == nil {
			marks++
		}
	}
	if marks < sample/3 {
		t.Errorf("only %d of %d programs start the witness when nothing forbids it", marks, sample)
	}
}

// decide reads the line as a tool call of the mode bypass, where nothing but rules
// speaks.
func (f *programFuzz) decide(line string) string {
	input, _ := json.Marshal(map[string]string{"command": line}) // a map of strings
	return permission.Decide(permission.Question{
		Mode: permission.ModeBypass, Interactive: true, Tool: event.ToolInfo{ToolName: "shell", RuntimeOwner: "local"}, Input: input,
		Root: f.dir, Rules: f.rules, Sandbox: permission.Sandbox{Mode: "workspace_write", Filesystem: true, Network: true},
	}).Decision
}

// run runs programs in one sandbox. If the mark appears, each is run by itself, so
// that the one that did it is named.
func (f *programFuzz) run(t *testing.T, programs []string, supervised bool) {
	t.Helper()
	if len(programs) == 0 {
		return
	}
	for i, line := range programs {
		if err := os.WriteFile(fmt.Sprintf("%s/p%d", f.dir, i), []byte(line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := sandbox.Prepare(sandbox.Profile{
		Root: f.dir, Env: []string{"PATH=" + f.dir + "/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin", "M=" + f.mark}, Supervised: supervised,
		Limits: sandbox.Limits{Processes: 500, MemoryMB: 1024},
	}, report())
	if err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do mkdir -p /tmp/w$i; (cd /tmp/w$i && timeout -s KILL 20 sh %s/p$i </dev/null >/dev/null 2>&1); rm -rf /tmp/w$i; i=$((i+1)); done`, len(programs), f.dir)
	cmd := sandbox.Command{Argv: []string{"/bin/sh", "-c", line}}
	if supervised {
		guard := permission.NewGuard(f.rules, nil, func(name string) (permission.FileID, bool) {
			id, ok := plan.LookPath(name)
			return permission.FileID(id), ok
		})
		cmd.Supervise = func(s sandbox.Start) string {
			r, _ := guard.Judge(permission.Start{
				Path: s.Path, ID: permission.FileID{Dev: s.Dev, Ino: s.Ino}, Argv: s.Argv,
				Resolve: func(path string) (string, permission.FileID, bool) {
					file, id, ok := s.Resolve(path)
					return file, permission.FileID(id), ok
				},
			})
			return r.Reason
		}
	}
	child, err := plan.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	if err := child.Go(); err != nil {
		t.Fatal(err)
	}
	if e := child.Wait(); e.Failure != nil || e.Killed {
		t.Fatalf("the programs were not run: %+v", e)
	}
	if !supervised {
		return
	}
	if _, err := os.Lstat(f.mark); err != nil {
		return
	}
	_ = os.Remove(f.mark)
	if len(programs) == 1 {
		t.Errorf("the witness ran: %s", programs[0])
		return
	}
	for _, p := range programs {
		f.run(t, []string{p}, true)
	}
}

// draw makes one program: a way to start the witness, wrapped a few times.
func (f *programFuzz) draw() string {
	line := f.start()
	for range f.IntN(4) {
		line = f.wrap(line)
	}
	return f.setting(line)
}

// pick returns one of the texts.
func (f *programFuzz) pick(all ...string) string { return all[f.IntN(len(all))] }

// start spells the call of the witness.
func (f *programFuzz) start() string {
	return f.name() + " " + f.pick(`$M`, `"$M"`, `${M}`, `${M:-x}`, f.mark, `"${M#x}"`)
}

// name spells the witness.
func (f *programFuzz) name() string {
	dir := filepath.Dir(f.witness)
	return f.pick(
		"witness", f.witness, `wit''ness`, `w\itness`, `"witness"`, `'wit'"ness"`, dir+`/../bin/witness`, dir+`//witness`, dir+`/witnes?`, dir+`/[w]itness`,
		`$(echo witness)`, "`echo witness`", `$(printf '%b' '\167itness')`, `${X:-witness}`, `$(echo ssentiw | rev)`, `$(echo WITNESS | tr A-Z a-z)`,
		`command witness`, `exec witness`, `eval witness`, `env witness`, `nice witness`, `nohup witness`, `timeout 9 witness`, `setsid -w witness`,
		`env -i PATH="$PATH" witness`, `env -u X witness`, `stdbuf -o0 witness`, `nice -n1 witness`, `nice -1 witness`, `timeout -k1 9 witness`, `time -p witness`,
		`env --chdir=/ witness`, `env -S witness`, `env --split-string=witness`,
	)
}

// quoted makes a text one word.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// doubly makes it one word that expands.
func doubly(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`).Replace(text) + `"`
}

// wrap has something else run a program.
func (f *programFuzz) wrap(line string) string {
	q := quoted(line)
	ways := []string{
		"sh -c " + q, "sh -c " + doubly(line), "sh -ec " + q, "sh -x -c " + q, "sh -c " + quoted(q) + " || sh -c " + q, "eval " + q, "eval " + doubly(line), "(" + line + ")", "{ " + line + "; }",
		"if true; then " + line + "; fi", "for i in 1; do " + line + "; done", "while :; do " + line + "; break; done", "case x in *) " + line + ";; esac",
		"f() { " + line + "; }; f", line + " & wait", "true && " + line, "false || " + line, "! " + line, "x=$(" + line + ")", ": `true; " + strings.ReplaceAll(line, "`", "\\`") + "`",
		"echo " + q + " | sh", "printf '%s\\n' " + q + " | sh -s", "sh <<'E_O_F'\n" + line + "\nE_O_F", "echo " + q + " > s; sh s", "echo " + q + " > s; . ./s", "echo " + q + " > s; sh ./s",
		"echo " + q + " > s; chmod +x s; ./s", "printf '#!/bin/sh\\n%s\\n' " + q + " > s; chmod 755 s; ./s", "printf '#!/usr/bin/env sh\\n%s\\n' " + q + " > s; chmod 755 s; ./s",
		"echo " + q + " | sh /dev/stdin", "echo " + q + " | sh //dev/stdin", "cd /dev; echo " + q + " | sh stdin", "echo " + q + " | sh /proc/self/fd/0", "echo " + q + " | (. /dev/stdin)",
		"x=" + q + "; eval \"$x\"", "x=" + q + "; sh -c \"$x\"", "set -- " + q + "; eval \"$1\"", "set -- sh -c " + q + "; \"$@\"", "set sh -c " + q + "; $1 $2 \"$3\"", "trap " + q + " EXIT",
		"xargs sh -c " + q, "echo x | xargs -I{} sh -c " + q, "echo x | xargs -n1 sh -c " + q + " y", "find . -maxdepth 0 -exec sh -c " + q + " \\;", "o=-exec; find . -maxdepth 0 $o sh -c " + q + " \\;",
		"find . -maxdepth 0 -execdir sh -c " + q + " \\;", "awk 'BEGIN { system(ENVIRON[\"L\"]) }'", "echo a | sed \"1e $L\"", "echo a | sed -n \"s/a/$L/e\"", "echo a > in; sed -i \"1e $L\" in",
		": > a; tar cf /dev/null --checkpoint=1 --checkpoint-action=exec=\"$L\" a", ": > a; tar cf /dev/null a --checkpoint=1 --checkpoint-action \"exec=$L\"", ": > a; tar cf x.tar a; tar xf x.tar --to-command \"$L\"",
		"nohup sh -c " + q, "env sh -c " + q, "env X=1 sh -c " + q, "timeout 9 sh -c " + q, "setsid -w sh -c " + q, "nice sh -c " + q, "stdbuf -oL sh -c " + q, "command sh -c " + q, "exec sh -c " + q,
		"base64 <<'E_O_F' | base64 -d | sh\n" + line + "\nE_O_F", "ENV=" + quoted("$PWD/s") + " sh -c " + q, "alias w=" + q + "\nw",
	}
	if f.has["bash"] {
		ways = append(ways,
			"bash -c "+q, "bash -ec "+q, "bash --norc -c "+q, "bash -O extglob -c "+q, "echo "+q+" | bash", "bash <(echo "+q+")", "bash -c "+quoted("source <(echo "+q+")"), "echo "+q+" > s; BASH_ENV=$PWD/s bash -c :",
			"PS4='$(eval \"$L\")' bash -xc :", "bash -c 't=-v; printf $t '\"'\"'a[$(eval \"$L\")]'\"'\"' x'", "bash -c 'a=(1); x='\"'\"'a[$(eval \"$L\")]'\"'\"'; ((x))'", "bash -c 'exec -a ls sh -c \"$L\"'",
			"bash -c 'coproc sh -c \"$L\"; wait'", "bash -c 'mapfile -C \"eval \\\"\\$L\\\" #\" -c 1 < /etc/passwd'", "bash -c 'x=${L@P}; eval \"$x\"'", "bash -ic "+q, "bash -c 'enable -n echo; eval \"$L\"'",
			"bash -c 'f() { eval \"$L\"; }; export -f f; bash -c f'", "bash -c 'declare -n r=L; eval \"$r\"'", "bash -c 'hash -p /bin/sh ls; ls -c \"$L\"'", "bash -c 't=-p; hash $t /bin/sh ls; ls -c \"$L\"'",
		)
	}
	if f.has["python3"] {
		ways = append(ways, "python3 -c 'import os; os.system(os.environ[\"L\"])'", "python3 -c 'import subprocess, os; subprocess.run([\"sh\", \"-c\", os.environ[\"L\"]])'", "echo 'import os; os.system(os.environ[\"L\"])' | python3 -",
			"python3 -m timeit -n1 -r1 'import os; os.system(os.environ[\"L\"])'", "echo 'import os; os.system(os.environ[\"L\"])' > s.py; python3 s.py", "python3 -Ic 'import os; os.execvp(\"sh\", [\"ls\", \"-c\", os.environ[\"L\"]])'")
	}
	if f.has["perl"] {
		ways = append(ways, "perl -e 'system($ENV{L})'", "perl -e 'exec \"sh\", \"-c\", $ENV{L}'", "perl -ne 'print' \"$L|\"", "echo | perl -pe '`$ENV{L}`'", "perl -we 'open(F, \"-|\", $ENV{L}); print <F>'")
	}
	if f.has["make"] {
		ways = append(ways, "printf 'all:\\n\\t@sh -c \"$$L\"\\n' > Makefile; make", "printf 'all:\\n\\t@sh -c \"$$L\"\\n' | make -f -", "make -s --eval 'x:=$(shell sh -c \"$$L\")' -f /dev/null", "printf 'all: ; @eval \"$$L\"\\n' > m; make -fm")
	}
	if f.has["git"] {
		ways = append(ways, "git -c alias.x='!sh -c \"$L\"' x", "git -c core.pager='sh -c \"$L\";:' -p version", "git -calias.x='!eval \"$L\"' x", "git init -q .; git -c core.fsmonitor='eval \"$L\";:' status", "git init -q .; git config alias.x '!eval \"$L\"'; git x", "GIT_PAGER='eval \"$L\"' git -p help -a", "git init -q r; git clone -qu 'eval \"$L\";:' r c", "git init -q r; git clone -q --upl='eval \"$L\";:' ./r c")
	}
	if f.has["busybox"] {
		ways = append(ways, "busybox sh -c "+q, "busybox env sh -c "+q, "echo x | busybox xargs sh -c "+q)
	}
	if f.has["flock"] {
		ways = append(ways, "flock lock sh -c "+q, "flock lock -c "+q)
	}
	if f.has["script"] {
		ways = append(ways, "script -qc "+q+" /dev/null")
	}
	if f.has["m4"] {
		ways = append(ways, "echo 'syscmd(`eval \"$L\"'"+"'"+"')' | m4")
	}
	if f.has["ex"] {
		ways = append(ways, "ex -sc '!eval \"$L\"' -c q")
	}
	way := ways[f.IntN(len(ways))]
	if strings.Contains(way, "L") {
		way = "L=" + q + "; export L; " + way
	}
	return way
}

// setting puts something before or behind a program.
func (f *programFuzz) setting(line string) string {
	return f.pick("", "", "", "", "cd .. ; ", "set -e; ", "X=1; ", "umask 022; ", "ls >/dev/null; ", "true; ", "IFS=,; unset IFS; ", ": > out; ", "ln -s "+f.witness+" other; ") + line + f.pick("", "", "", "; true", " | cat", " 2>&1", "; exit 3")
}
