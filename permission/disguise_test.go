package permission

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentd/event"
)

// source is where a generator takes its choices from.
type source interface{ IntN(n int) int }

// single quotes a text for the shell.
func single(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// names are ways to write the name of a program, all of which run forbid-me.
var disguisedNames = []string{
	`forbid-me`, `\forbid-me`, `f\orbid\-me`, `'forbid-me'`, `"forbid-me"`, `for""bid-me`, `'for'"bid"-me`, "forbid\\\n-me",
	`$(echo forbid-me)`, "`echo forbid-me`", `$(printf 'forb%s' id-me)`, `"$(echo forbid-me)"`, `${nothing:-forbid-me}`, `"${nothing-forbid-me}"`,
	`$STUBS/forbid-me`, `"$STUBS"/forbid-m?`, `$STUBS/forbid-*`, `$STUBS/forbid-m[e]`, `$(command -v forbid-me)`,
}

// simple are ways to run a simple command by another one; %s is the command.
var disguisedPrefixes = []string{
	`%s`, `A=1 %s`, `env %s`, `env A=1 %s`, `env -i PATH="$PATH" MARK="$MARK" %s`, `nohup %s`, `nice %s`, `nice -n 1 %s`, `timeout 5 %s`, `timeout -k 1 5 %s`, `setsid -w %s`,
	`stdbuf -o0 %s`, `command %s`, `exec %s`, `time %s`, `! %s`, `echo x | xargs %s`, `echo x | xargs -n 1 -I{} %s {}`, `find . -maxdepth 0 -exec %s {} \;`,
	`find . -maxdepth 0 -execdir %s {} +`, `echo forbid-me | xargs -I{} {}`, `echo %s | xargs env`, `flock lock %s`, `ionice -c 3 %s`, `taskset 1 %s`,
	`[[ a && %s ]]`, `((%s))`, `echo $'\'; %s #'`, `x=forbid-me; $x`, `set -- forbid-me; "$@"`, `forbid-{me,x}`, `shopt -s expand_aliases; alias zz=forbid-me` + "\nzz",
	`cp "$STUBS/forbid-me" ./zz; ./zz`, `ln -s "$STUBS/forbid-me" zz2; ./zz2`, `PATH="$STUBS:$PATH" %s`, `hash -p "$STUBS/forbid-me" ls; ls`, `unshare %s`, `setarch x86_64 %s`,
}

// lines are ways to run a line; %s is the line, %q the line in quotes.
var disguisedLines = []string{
	`%s`, `ls; %s`, `true && %s`, `false || %s`, `(%s)`, `{ %s; }`, `if %s; then :; fi`, `if :; then %s; fi`, `if false; then :; else %s; fi`,
	`for i in 1; do %s; done`, `for ((i=0;i<1;i++)); do %s; done`, `while %s; do break; done`, `until %s; do break; done`, `case x in x) %s;; esac`, `ff() { %s; }; ff`,
	`function ff { %s; }; ff`, `echo "$( %s )"`, `echo $( %s )`, `x=$( %s )`, `echo ${nothing:-$( %s )}`, `echo $(( 1 + $(%s; echo 1) ))`, "cat <<E\n$( %s )\nE", `cat <<< "$( %s )"`, `cat <(%s)`, `echo x > >(%s)`,
	`eval %q`, `sh -c %q`, `bash -c %q`, `bash -ec %q`, `dash -c %q`, `sh -c "$1" x %q`, `trap %q EXIT`, `echo %q | sh`, `echo %q | bash`, `sh -s <<< %q`,
	"sh <<'E'\n%s\nE", "bash <<E\n%s\nE", `echo %q > s.sh; sh s.sh`, `echo %q > s.sh; . ./s.sh`, `echo %q > s.sh; chmod +x s.sh; ./s.sh`, `bash <(echo %q)`, `. /dev/stdin <<< %q`,
	`find . -maxdepth 0 -exec sh -c %q \;`, `echo x | xargs -I{} sh -c %q`, `echo %q | xargs -d '\n' sh -c`, `echo %q | xargs -d '\n' -I{} sh -c {}`, `timeout 5 sh -c %q`,
	`env sh -c %q`, `x=%q; eval "$x"`, `x=%q; sh -c "$x"`, `awk -v c=%q 'BEGIN { system(c) }'`, `perl -e 'system($ARGV[0])' %q`, `python3 -c 'import os,sys; os.system(sys.argv[1])' %q`,
	`git -c alias.zz='!sh -c "$0"' zz %q`, `git -c core.pager=%q --paginate version`, `script -qc %q /dev/null`, `flock lock -c %q`,
	`bash -c 'eval "$1"' x %q`, `bash -c "$(cat)" <<< %q`, `x='a[$( %s )]'; echo $((x))`, `[[ 'a[$( %s )]' -eq 0 ]]`, `test -v 'a[$( %s )]'`, `x='$( %s )'; echo "${x@P}"`, `mapfile -c 1 -C %q a <<< x`, `%s # ls`, `coproc { %s; }; wait`,
	`ls | %s`, `ls && (ls; %s) &` + "\nwait", "ls\n%s", "ls;\\\n%s", `tar cf a.tar s.sh b 2>/dev/null; tar cf - . | tar xf - --to-command=%q`, `env -S "sh -c" %q`, `busybox sh -c %q`,
	`echo %q | sh //dev/stdin`, `cd /dev; echo %q | sh stdin`, `cd /proc/self/fd; echo %q | sh 0`, `echo %q | bash /dev/../dev/fd/0`, `t=-c; sh $t %q`, `t=-c; bash "$t" %q`, `set -- -c %q; sh "$@"`, `ff() { sh "$@"; }; ff -c %q`,
	`echo x | sed 1e%q`, `echo x | sed -n -e 1e%q`, `echo x > f; sed -i 1e%q f`, `awk 'BEGIN { system(ARGV[1]) }' %q`, `t=-v; printf $t 'a[$( %s )]' x`, `printf -v'a[$( %s )]' x`, `t=-exec; find . -maxdepth 0 $t sh -c %q \;`,
	`x=%q; find . -maxdepth 0 -exec sh -c "$x" \;`, `echo x > z; tar cf a.tar --checkpoint=1 --checkpoint-action=exec=%q z`, `echo x > z; tar -cf a.tar --checkpoint=1 --checkpoint-act=exec=%q z`, `python3 -m timeit -n1 -r1 -s 'import os,sys' "os.system(sys.argv[-1])" %q`,
}

// disguise builds a line that runs forbid-me in some shell, with everything that
// it stands on there: quoting, substitution, wrappers, nesting.
func disguise(r source) string {
	name := disguisedNames[r.IntN(len(disguisedNames))]
	line := strings.ReplaceAll(disguisedPrefixes[r.IntN(len(disguisedPrefixes))], "%s", name)
	for range r.IntN(4) {
		form := disguisedLines[r.IntN(len(disguisedLines))]
		if strings.Contains(form, "a[$( %s )]'") || strings.Contains(form, "'$( %s )'") {
			form = strings.Replace(form, "%s", strings.ReplaceAll(line, "'", `'\''`), 1)
		} else {
			form = strings.ReplaceAll(form, "%s", line)
		}
		line = strings.ReplaceAll(form, "%q", single(line))
	}
	return line
}

// soup puts pieces of the shell's language together by chance.
func soup(r source) string {
	pieces := []string{
		"forbid-me", "forbid-me", "forbid-me", "echo", "true", "false", "eval", "command", "x=", "$x", "if", "then", "fi", "else", "for i in 1", "do", "done", "case x in", "x)", "esac",
		" ", " ", " ", " ", "\n", "\n", ";", ";", ";", "&&", "||", "|", "&", "(", ")", "{ ", "}", "$(", ")", "`", "`", "'", "'", "'", "\"", "\"", "\"", "\\", "\\", "$'", "$\"", "#", "<<E\n", "E\n", "<<'E'\n", "<<-E\n", "\t", "\nE\n",
		"[[ ", " ]]", "((", "))", "$((", "!", "${", "${x:-", "}", ":-", ",", "\\x66", "<", "> o", "2>&1", "&>o", "<(", "~", "*", "?", "=", "\r", "\v", "\u00a0", ";;", "$", "-", "time ", "coproc ", "function f", "let ", "\\\n", "sh -c ", "bash -c ",
	}
	var b strings.Builder
	for range 2 + r.IntN(14) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

// risky finds what could define a function, which by chance could call itself
// without end.
var risky = regexp.MustCompile(`\([\s\\]*\)|function`)

// bold is the policy that lets most run: everything but the one command.
func bold(line string) Question {
	q := shellQuestion(ModeBypass, line, []event.PolicyRule{
		{Decision: Allow, Tool: "*"},
		{Decision: Allow, Tool: "shell", Match: "*"},
		{Decision: Deny, Tool: "shell", Match: "forbid-me *"},
	})
	q.Hook = &Opinion{Decision: Allow}
	return q
}

func TestDisguisesAreNeverAllowed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		line := disguise(r)
		if d := Decide(bold(line)); d.Decision == Allow {
			t.Errorf("allowed: %s\n%s", line, d.DecisionReason)
		}
	}
	for _, name := range disguisedNames {
		for _, p := range disguisedPrefixes {
			line := strings.ReplaceAll(p, "%s", name)
			if d := Decide(bold(line)); d.Decision == Allow {
				t.Errorf("allowed: %s\n%s", line, d.DecisionReason)
			}
		}
	}
}

// stage is a place where lines can be run: forbid-me leaves a mark.
type stage struct {
	dir, stubs string
	shells     []string
	n          int
}

func newStage(t *testing.T) *stage {
	t.Helper()
	// Not t.TempDir: a process that a line left behind may still write there, which
	// is no failure.
	dir, err := os.MkdirTemp("", "agentd-shells-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &stage{dir: dir, stubs: filepath.Join(dir, "stubs")}
	if err := os.Mkdir(s.stubs, 0o700); err != nil {
		t.Fatal(err)
	}
	stub := "#!/bin/sh\n: > \"${MARK:-" + filepath.Join(dir, "mark") + "}\"\n"
	if err := os.WriteFile(filepath.Join(s.stubs, "forbid-me"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "bash", "dash"} {
		if p, err := exec.LookPath(name); err == nil {
			s.shells = append(s.shells, p)
		}
	}
	if len(s.shells) == 0 {
		t.Skip("skipped: comparison with a real shell; there is none")
	}
	return s
}

// runs says which of the shells runs forbid-me by this line; none is "". Each run
// has a folder and a mark of its own, so that what an earlier one left behind
// leaves its mark elsewhere.
func (s *stage) runs(t *testing.T, line string) (shell string) {
	t.Helper()
	for _, sh := range s.shells {
		s.n++
		work, mark := filepath.Join(s.dir, fmt.Sprint("w", s.n)), filepath.Join(s.dir, fmt.Sprint("m", s.n))
		if err := os.Mkdir(work, 0o700); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		cmd := exec.CommandContext(ctx, sh, "-c", line)
		cmd.Dir = work
		cmd.Env = []string{"PATH=" + s.stubs + ":" + os.Getenv("PATH"), "HOME=" + work, "STUBS=" + s.stubs, "MARK=" + mark}
		ownGroup(cmd)
		cmd.Cancel = func() error { return killGroup(cmd) }
		cmd.WaitDelay = time.Second
		_ = cmd.Run()      // how it ends is irrelevant
		_ = killGroup(cmd) // what is left of it
		cancel()
		_ = os.RemoveAll(work)
		if os.Remove(mark) == nil || os.Remove(filepath.Join(s.dir, "mark")) == nil {
			return sh
		}
	}
	return ""
}

// compare runs lines for real: what runs forbid-me must not have been allowed.
func compare(t *testing.T, n int, seed uint64, build func(source) string) {
	t.Helper()
	compareAsked(t, n, seed, build, bold)
}

// compareAsked is compare under another policy.
func compareAsked(t *testing.T, n int, seed uint64, build func(source) string, ask func(line string) Question) {
	t.Helper()
	s := newStage(t)
	r := rand.New(rand.NewPCG(seed, 7))
	ran, caught := 0, map[string]int{}
	for range n {
		line := build(r)
		if strings.ContainsRune(line, 0) {
			continue
		}
		d := Decide(ask(line))
		if d.Decision != Allow && r.IntN(8) != 0 {
			continue // it can't be wrong; a few run nevertheless, to see that the lines do what they say
		}
		sh := s.runs(t, line)
		if sh == "" {
			continue
		}
		ran++
		caught[d.Decision]++
		if d.Decision == Allow {
			t.Errorf("%s ran forbid-me, and it was allowed: %q\n%s", sh, line, d.DecisionReason)
		}
	}
	t.Logf("%d lines, %d of those that were run did run forbid-me: %v", n, ran, caught)
	if ran == 0 {
		t.Error("no line ran forbid-me: the comparison shows nothing")
	}
}

func TestRealShellsDisguises(t *testing.T) { compare(t, 300, 11, disguise) }

func TestRealShellsSoup(t *testing.T) { compare(t, 800, 12, safeSoup) }

func safeSoup(r source) string {
	for {
		if line := soup(r); strings.Contains(line, "forbid-me") && !risky.MatchString(line) {
			return line
		}
	}
}

func TestLongRealShells(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: long comparison with real shells; AGENTD_TEST_LONG is not set")
	}
	compare(t, 10000, 100, disguise)
	compare(t, 25000, 200, safeSoup)
	compareAsked(t, 50000, 300, brokenText, careful)
}
