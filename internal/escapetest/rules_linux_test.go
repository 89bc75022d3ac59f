package escapetest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"agentd"
	"agentd/event"
	"agentd/loop"
	"agentd/sandbox"
)

// disguises start the witness, which a rule denies, in ways that no reading of the
// line settles. M is the mark that it leaves.
var disguises = []string{
	`witness $M`,
	`w=witness; $w $M`,
	`bash -c 't=-v; printf $t "a[\$(witness $M)]" x'`,
	`t=-p; bash -c "hash $t $WIT ls; ls $M"`,
	`printf '%s\n' "witness $M" > s.sh; sh s.sh`,
	`printf '#!%s\n' $WIT > s; chmod +x s; ./s $M`,
	`echo "witness $M" | sh //dev/stdin`,
	`cd /dev; echo "witness $M" | sh stdin`,
	`x=-exec; find . -maxdepth 0 $x witness $M \;`,
	`echo $M | xargs witness`,
	`set -- witness $M; "$@"`,
	`echo a > in; sed -i "1e witness $M" in`,
	`echo a | sed '/[/]/d;1e witness '$M`,
	`: > a; tar cf /dev/null --checkpoint=1 --checkpoint-action=exec="witness $M" a`,
	`printf 'all:\n\twitness %s\n' $M > Makefile; make`,
	`git -c alias.x="!witness $M" x`,
	`awk 'BEGIN { system("witness '$M'") }'`,
	`perl -e 'exec "witness", "'$M'"'`,
	`python3 -c 'import os; os.execvp("witness", ["w", "'$M'"])'`,
	`python3 -m timeit -n 1 -r 1 'import os; os.system("witness '$M'")'`,
	`ln -s $WIT other-name; ./other-name $M`,
	`ln $WIT other-hard 2>/dev/null && ./other-hard $M`,
	`bash -c "exec -a ls witness $M"`,
	`env -S "witness $M"`,
	`bash -c 'PS4="\$(witness $M)"; set -x; :'`,
	`echo "witness $M" > rc; BASH_ENV=rc bash -c :`,
	`bash -c 'coproc witness '$M'; wait'`,
	`trap "witness $M" EXIT`,
	`(witness $M) & wait`,
	`/lib64/ld-linux-x86-64.so.2 $WIT $M`,
	`mkdir -p l/sub; ln -sfn $WIT l/y; ln -sfn /bin/true y; ln -sfn l/sub lk; /lib64/ld-linux-x86-64.so.2 lk/../y $M`,
	`mkdir -p l/sub; ln -sfn $WIT l/y; ln -sfn /bin/true y; ln -sfn l/sub lk; /proc/self/cwd/lk/../y $M`,
	`mkdir -p l; ln -f $WIT l/busybox; l/busybox $M`,
	`mkdir -p l; ln -f $WIT l/coreutils; l/coreutils $M`,
}

// TestRulesHoldWhereProgramsStart has the agent run what a rule denies, in a mode in
// which nothing asks, in every disguise.
func TestRulesHoldWhereProgramsStart(t *testing.T) {
	if !report().Supervise.Available {
		t.Skip("rules aren't held where programs start here: " + report().Supervise.Reason)
	}
	w := newWorld(t, sandbox.WorkspaceWrite)
	witness, mark := plantWitness(t, w.workspace)
	var answers []attempt
	for i, line := range disguises {
		line = strings.NewReplacer("$M", mark, "$WIT", witness).Replace(line)
		// The same in a file that was there before: nothing of it can be read in the line.
		file := fmt.Sprintf("%s/disguise%d.sh", w.workspace, i)
		w.must(os.WriteFile(file, []byte(line+"\n"), 0o644))
		answers = append(answers, attempt{line: line}, attempt{line: "sh " + file})
	}
	w.profile.Env = []string{"PATH=" + w.workspace + "/bin:/usr/local/bin:/usr/bin:/bin"}
	w.open("bypass", w.answers(answers), func(o *agentd.Options) {
		o.Loop.Host.Rules = []event.PolicyRule{{Decision: "deny", Tool: "shell", Match: "witness *", RuleID: "no-witness", Reason: "it leaves a mark"}}
	})
	refused := 0
	for i, a := range answers {
		id := fmt.Sprintf("sess_rule_%d", i)
		w.ask(id, mark2(i))
		c := w.facts(id)
		if _, err := os.Lstat(mark); err == nil {
			t.Errorf("the witness ran: %s: %s", a.line, c.how())
			w.must(os.Remove(mark))
		}
		if c.failed == nil {
			if !strings.Contains(c.text, "not found") && !strings.Contains(c.text, "No such file") {
				t.Errorf("%s did not fail: %s: %s", a.line, c.how(), c.finalText())
			}
			continue
		}
		if c.failed.ErrorCategory != "denied" {
			t.Errorf("%s failed as %s: %s", a.line, c.failed.ErrorCategory, c.failed.Message)
		}
		if c.violation == nil {
			continue // the reading of the line was enough
		}
		refused++
		if c.violation.Boundary != "rule" || !strings.Contains(c.failed.Message, "no-witness") || !strings.Contains(c.failed.Message, "it leaves a mark") {
			t.Errorf("%s: violation %+v, failed %+v", a.line, c.violation, c.failed)
		}
		if c.applied == nil || c.applied.Enforcement.Rules != "seccomp_notify" {
			t.Errorf("%s: sandbox.applied says %+v", a.line, c.applied)
		}
	}
	if refused < len(disguises)*3/4 { // some need a program that this machine may lack
		t.Errorf("only %d of %d lines got as far as the start of a program", refused, len(answers))
	}
}

// scriptedStarts run deploy.sh, a script that a rule denies, without starting it by its
// name. M is the mark that it leaves.
var scriptedStarts = []string{
	`sh ./deploy.sh $M`, `sh deploy.sh $M`, `bash -x deploy.sh $M`, `dash -e ./deploy.sh $M`, `cd sub; sh ../deploy.sh $M`, `sh $PWD/deploy.sh $M`, `ln -sf deploy.sh other; sh other $M`, `ln -f deploy.sh hard; sh hard $M`,
	`M=$M sh < deploy.sh`, `M=$M sh /dev/stdin < deploy.sh`, `bash -c 'exec 9<deploy.sh; exec sh /dev/fd/9 $M'`, `sh -c 'sh deploy.sh $M'`, `env sh deploy.sh $M`, `perl deploy.sh $M`, `x=deploy; sh $x.sh $M`,
	`cp deploy.sh new; mv new deploy.sh; ./deploy.sh $M`, `cp deploy.sh new; mv new deploy.sh; sh deploy.sh $M`, `ls | xargs -n1 sh deploy.sh $M`, `printf '#!/bin/sh ./deploy.sh\n' > s; chmod +x s; M=$M ./s`,
}

// TestRulesHoldForScripts has a script of the agent's give a denied script to an
// interpreter, in a mode in which nothing asks.
func TestRulesHoldForScripts(t *testing.T) {
	if !report().Supervise.Available {
		t.Skip("rules aren't held where programs start here: " + report().Supervise.Reason)
	}
	w := newWorld(t, sandbox.WorkspaceWrite)
	mark := w.workspace + "/mark"
	var answers []attempt
	for i, line := range scriptedStarts {
		file := fmt.Sprintf("%s/way%d.sh", w.workspace, i)
		w.must(os.WriteFile(file, []byte("M="+mark+"\n"+line+"\n"), 0o644))
		answers = append(answers, attempt{line: "sh " + file})
	}
	w.must(os.MkdirAll(w.workspace+"/sub", 0o755))
	w.open("bypass", w.answers(answers), func(o *agentd.Options) {
		o.Loop.Host.Rules = []event.PolicyRule{{Decision: "deny", Tool: "shell", Match: "./deploy.sh *", RuleID: "no-deploy"}}
	})
	for i, line := range scriptedStarts {
		w.must(os.WriteFile(w.workspace+"/deploy.sh", []byte("#!/bin/sh\n: > ${1:-$M}\n"), 0o755))
		id := fmt.Sprintf("sess_script_%d", i)
		w.ask(id, mark2(i))
		c := w.facts(id)
		if _, err := os.Lstat(mark); err == nil {
			t.Errorf("the script ran: %s: %s", line, c.how())
			w.must(os.Remove(mark))
		}
		if c.violation == nil || c.violation.Boundary != "rule" || !strings.Contains(c.failed.Message, "no-deploy") {
			t.Errorf("%s: %s: %s", line, c.how(), c.finalText())
		}
	}
}

func mark2(i int) string { return mark(i) + " rule" }

// plantWitness puts a program into the workspace that leaves a mark: a copy of touch.
func plantWitness(t testing.TB, workspace string) (path, mark string) {
	t.Helper()
	touch, err := os.ReadFile("/bin/touch")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(workspace+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	path = workspace + "/bin/witness"
	if err := os.WriteFile(path, touch, 0o755); err != nil {
		t.Fatal(err)
	}
	return path, workspace + "/mark"
}

// TestDeniedFilesAreCovered has commands look for a file that a rule denies.
func TestDeniedFilesAreCovered(t *testing.T) {
	w := newWorld(t, sandbox.WorkspaceWrite)
	if !report().MountNamespace.Available {
		t.Skip("files can't be covered here: " + report().MountNamespace.Reason)
	}
	lines := []string{
		`cat .en*`, `x=.env; cat $x`, `cat $PWD/.env`, `sh -c 'cat .e"n"v'`, `cp .env other; cat other`, `ln -s .env other; cat other`, `ln .env other; cat other`,
		`mv .env other; cat other`, `mv sub other; cat other/.env`, `grep -r planted .`, `tar c . | cat`, `cat sub/.env`, `find . -name '.e*' -exec cat {} +`,
		`python3 -c 'print(open(".e" + "nv").read())'`, `echo pwned > .env`, `rm -f .env`, `rm -rf sub`, `cat ro/locked; echo pwned > ro/locked`,
	}
	var answers []attempt
	for _, line := range lines {
		answers = append(answers, attempt{line: line})
	}
	w.open("bypass", w.answers(answers), func(o *agentd.Options) {
		o.Loop.Host = loop.HostPolicy{Mode: "bypass", Rules: []event.PolicyRule{
			{Decision: "deny", Tool: "*_file", Match: "**/.env"}, {Decision: "deny", Tool: "write_file", Match: "ro/**"},
		}}
	})
	planted := map[string]string{w.workspace + "/.env": plantedStore, w.workspace + "/sub/.env": plantedStore, w.workspace + "/ro/locked": "locked"}
	for _, dir := range []string{"/sub", "/ro"} {
		w.must(os.MkdirAll(w.workspace+dir, 0o755))
	}
	for i, line := range lines {
		for path, text := range planted {
			w.must(os.WriteFile(path, []byte(text), 0o644))
		}
		id := fmt.Sprintf("sess_file_%d", i)
		w.ask(id, mark(i))
		c := w.facts(id)
		if leaked(w, c) {
			t.Errorf("%s: read what a rule denies: %s", line, c.how())
		}
		for path, text := range planted {
			if b, err := os.ReadFile(path); err != nil || string(b) != text {
				t.Errorf("%s: changed %s: %q %v", line, path, b, err)
			}
		}
		w.must(os.RemoveAll(w.workspace + "/other"))
	}
}
