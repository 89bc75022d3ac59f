package permission

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"agentd/event"
)

// forbidden checks a line against the one rule that denies forbid-me, in the mode that
// lets most run.
func forbidden(line string) Decision {
	q := shellQuestion(ModeBypass, line, []event.PolicyRule{{Decision: Deny, Tool: "shell", Match: "forbid-me *"}})
	return Decide(q)
}

// evasions are lines that run forbid-me in a way that no command of the line tells, by the
// class of the way. Each of them asks at least.
var evasions = map[string][]string{
	"a computed word where an option can stand": {
		`t=-v; printf $t 'a[$(forbid-me)]'`, `t=-p; hash $t /bin/forbid-me ls; ls`, `printf "$t" 'a[$(forbid-me)]'`, `t=-v; test $t 'a[$(forbid-me)]'`, `[ $t 'a[$(forbid-me)]' ]`,
		`mapfile $t forbid-me a`, `read $t 'a[$(forbid-me)]'`, `tar $x cf a.tar .`, `tar cf a.tar "$x"`, `sort "$x" a`, `rg "$x" .`, `rsync $x a b`, `make $x`, `make "$x"`, `go test $x ./...`,
		`git clone "$x" y`, `git fetch $x`, `git rebase "$x"`, `git grep $x y`, `enable $x`, `complete $x`, `sed $x a`, `sed "$x" a`, `awk $x a`, `awk -vx=$y '{print}' a`, `python3 $x`, `npx "$x"`,
		`zip a.zip "$x"`, `wget "$x"`, `gcc $CFLAGS x.c`, `git -c "$x" status`, `man $x`, `sqlite3 a "$x"`, `unset $x`, `wait $x 1`, `split "$x" a`, `cargo $x`, `docker "$x"`,
	},
	"attached and bundled options": {
		`printf -vPS4 x; set -x; ls`, `printf -v'a[$(forbid-me)]' x`, `git clone -qu forbid-me a b`, `git clone -quforbid-me a b`, `tar -cvIforbid-me -f a b`, `tar cvIf forbid-me a b`,
		`tar xfT a list`, `git grep -nOforbid-me x`, `git rebase -ixforbid-me HEAD`, `python3 -Ic 'import os'`, `python3 -mtimeit forbid`, `rsync -ave forbid-me a b`, `zip -qTT forbid-me a b`,
		`perl -ne 'system' x`, `perl -lane 'system' x`, `ruby -ne 'x' y`, `fd -Hx forbid-me`, `hash -lp /bin/forbid-me ls`, `mapfile -tCforbid-me a`, `git difftool -yx forbid-me`, `bash -xc "$y"`, `php -nr 'x();'`, `awk -Eprog`,
		`sed -ne'1e forbid-me' a`, `sed -nf script a`, `git clone -qcore.x=y a`,
	},
	"abbreviated long options": {
		`git fetch --upl=forbid-me x`, `git clone --upl forbid-me x`, `git push --rec=forbid-me x`, `tar --to-c=forbid-me -xf a`, `tar --checkpoint-act=exec=forbid-me -cf a b`, `tar --use-comp forbid-me -cf a b`,
		`sort --compress-p=forbid-me a`, `sed --expr='1e forbid-me' a`, `sed --fil=x a`, `rsync --rs=forbid-me a b`, `git rebase --ex forbid-me x`, `git grep --open=forbid-me x`, `make --ev='$(shell forbid-me)'`, `wget --exec=x y`, `fd --ex forbid-me`,
	},
	"arguments that come from elsewhere": {
		`find $x`, `find . $x`, `find "$x" forbid-me \;`, `echo -exec forbid-me | xargs find .`, `echo x | xargs git`, `echo x | xargs git clone`, `xargs tar cf a < l`, `xargs make < l`, `xargs sed -i s/a/b/ < l`, `xargs python3 < l`,
		`set -- -exec forbid-me; find . "$@"`, `f() { find . "$@"; }; f -exec forbid-me`, `f() { git "$@"; }; f x`, `f() { tar "$@"; }; f x`, `xargs printf < l`, `xargs -I{} sed {} a < l`, `xargs -I{} find . {} < l`, `echo x | xargs awk`,
	},
	"sed scripts": {
		`sed '1e forbid-me' a`, `sed -i '1e forbid-me' a`, `sed 's/x/forbid-me/e' a`, `sed -n 's/x/y/pe' a`, `sed 's/[/]/x/e' a`, `sed 's/[]/]/x/;1e forbid-me' a`, `sed '/[/]p;1e forbid-me/p' a`, `sed 's,[,],x,e' a`,
		"sed 'a\\\\\\\n1e forbid-me' a", `sed -e p -e '1e forbid-me' a`, `sed '$!{e forbid-me` + "\n}' a", `sed '1,/x/e forbid-me' a`, `sed 'y/a/b/;e forbid-me' a`, `sed '0~3e forbid-me' a`, `sed -s '\,x,e forbid-me' a`, `sed ':a;e forbid-me' a`,
		`sed 's/a/b/w x` + "\ne forbid-me' a", `sed '#n` + "\ne forbid-me' a", `sed 'e' a`, `sed 's/[\]/]e;/x/;e forbid-me;/' a`, `sed -f /dev/stdin a`, `sed 'v;e forbid-me' a`,
	},
	"code from standard input": {
		`echo forbid-me | sh //dev/stdin`, `echo forbid-me | sh /dev/./stdin`, `cd /dev; echo forbid-me | sh stdin`, `cd /dev && echo forbid-me | sh ./stdin`, `echo forbid-me | sh /proc/self/fd/0`, `cd /proc/self/fd; echo forbid-me | sh 0`,
		`echo forbid-me | bash /dev/../dev/fd/0`, `echo forbid-me | . /dev/stdin`, `echo forbid-me | . //dev/fd/0`, `echo x | python3 -`, `echo x | python3 //dev/stdin`, `echo x | node /dev/stdin`, `echo x | perl`, `echo x | ruby -`,
		`echo x | make -f -`, `echo x | make -f /dev/stdin`, `echo x | make -f//dev/stdin`, `echo x | sh -s`, `sh ../../../../dev/stdin`, `echo x | bash -i`, `echo x | vim -s /dev/stdin`, `echo x | sqlite3 a`, `echo x | ed`, `echo x | m4`, `echo x | dc`, `cd fd; echo x | sh 0`,
	},
	"programs with a language of their own": {
		`tar --checkpoint=1 --checkpoint-action=exec=forbid-me -cf a b`, `vim -c ':!forbid-me' a`, `vi '+!forbid-me' a`, `ex -c '!forbid-me' a`, `nvim --cmd '!forbid-me'`, `sqlite3 a '.shell forbid-me'`, `sqlite3 a '.system forbid-me'`, `sqlite3 -cmd '.shell x' a 'select 1'`,
		`python -m timeit 'x'`, `python3 -m pdb -c x y`, `python3 -c 1`, `node -e 1`, `node -p 1`, `node --eval 1`, `ruby -e 1`, `lua -e 1`, `php -r 1`, `gdb -ex '!forbid-me'`, `perl -MX x`, `make --eval='x'`, `make 'X=$(shell forbid-me)'`, `make SHELL=forbid-me`,
		`less '+!forbid-me' a`, `man -P forbid-me x`, `emacs --batch --eval x`, `ed a`, `m4 a`, `dc -e '!forbid-me'`, `awk 'BEGIN { system("x") }'`, `awk '{ print | "x" }' a`, `awk '@load "x"' a`, `psql -c '\! forbid-me'`, `mysql -e 'system forbid-me'`,
		`ssh -oProxyCommand=forbid-me x`, `scp -S forbid-me a b`, `scp -oProxyCommand=forbid-me a b`, `rsync -e forbid-me a b:`, `zip -TT forbid-me a b`, `wget --use-askpass=forbid-me x`, `gcc -wrapper forbid-me x.c`, `go build -toolexec forbid-me ./...`, `go vet -vettool=forbid-me`, `rg --pre forbid-me x`, `rg --hostname-bin forbid-me x`,
		`git -c core.pager=forbid-me log`, `git filter-branch --tree-filter forbid-me`, `git difftool --extcmd=forbid-me`, `git clone -c core.sshCommand=forbid-me x`, `git clone --config=core.x=y x`, `git archive --remote=ext::x HEAD`, `git interpret-trailers x`, `deno eval x`, `bun -e x`, `expect -c x`, `osascript -e x`, `cc -fplugin=x y.c`, `cc @x y.c`, `split --filter=forbid-me a`, `install -s --strip-program=forbid-me a b`,
		`some-runner /bin/forbid-me x`, `/opt/bin/vim -c x`, `/opt/bin/tar -cIf x y`,
	},
	"text that shells end elsewhere": {
		"cat <<\"E\\\"F\"\nx\nE\"F\nforbid-me\nE\\\"F", "cat <<EF\nE\\\nF\nforbid-me\nEF", "cat <<EF\nEF\\\n\nforbid-me\nEF\n", "cat <<$'E'\nx\nE\nforbid-me\n$E", "cat <<E\"\"F\nx\nEF\nforbid-me\nE\"\"F",
		"echo $(cat <<E)\nforbid-me\nE", "echo \"$(cat <<E)\"\nforbid-me\nE", "cat <(cat <<E)\nforbid-me\nE", "echo `<<E # `\nforbid-me\nE", "cat <<E\n${a}E\necho '$(forbid-me)'\nE", "cat <<E\n`\necho`E\necho '`forbid-me`'\n",
		"cat <<-E\n\t$((1))E\necho '$(forbid-me)'\n\tE", "cat <<E \"x\ny\"\nforbid-me\nE", "cat <<-\rE\n\tx\n\tE\nforbid-me\n", "echo a\r#;forbid-me", "echo a \\\r\nforbid-me", "x=1\r#\rforbid-me",
		`<&-forbid-me`, `>&-forbid-me x`, "x=<&-$(echo forbid-me)",
	},
	"text that bash evaluates by itself": {
		`RANDOM='a[$(forbid-me)]'`, `HISTCMD='a[$(forbid-me)]' ls`, `OPTIND='a[$(forbid-me)]'; ls`, `export SRANDOM='a[$(forbid-me)]'`, `for RANDOM in 'a[$(forbid-me)]'; do ls; done`, `read RANDOM <<< 'a[$(forbid-me)]'`, `printf -v RANDOM %s 'a[$(forbid-me)]'`,
		`: ${RANDOM:='a[$(forbid-me)]'}`, `RANDOM=('a[$(forbid-me)]')`, `x='a[$(forbid-me)]'; RANDOM=x`, `x='a[$(forbid-me)]'; RANDOM='1 x'`, `RANDOM=$x`, `env RANDOM='a[$(forbid-me)]' bash -c ls`, `mapfile RANDOM < l`, `command export RANDOM='a[$(forbid-me)]'`,
		`x=(); declare x='($(forbid-me))'`, `x=(); declare "x=($(echo '$(forbid-me)'))"`, `x[0]=1; y='($(forbid-me))'; declare x="$y"`, `y='($(forbid-me))'; declare PIPESTATUS="$y"`, `mapfile x < l; y='($(forbid-me))'; typeset x="$y"`, `x=(); command declare x='($(forbid-me))'`,
		`x='a[$(forbid-me)]'; y=([x]=1)`, `x='a[$(forbid-me)]'; [[ 1 -eq 1+x ]]`, `x='a[$(forbid-me)]'; [[ 1 -eq '1 x' ]]`, `x='a[$(forbid-me)]'; y='x+1'; echo $((y))`,
	},
	"files that the same line writes": {
		`printf 'a:\n\tforbid-me' > Makefile; make`, `cp x Makefile && make`, `echo x > .git/config; git status`, `echo x >> .git/hooks/pre-commit; git commit -m x`, `tee .git/config < x; git log`, `echo x > run.sh; sh run.sh`, `cp x run.sh; ./run.sh`, `echo x > package.json; npm test`,
		`echo x > .gitattributes; git diff`, `ln -s x Makefile; make`, `mv x Makefile; make all`, `curl -o Makefile http://127.0.0.1/x; make`, `echo x > x.go; go run x.go`, `cd .git; echo x > config; git status`, `echo x > "$f"; make`, `sed -i s/a/b/ Makefile; make`, `echo x > .npmrc; npm ci`, `install x Makefile; make`, `dd if=x of=Makefile; make`,
	},
}

func TestEvasionsAreNeverAllowed(t *testing.T) {
	for class, lines := range evasions {
		for _, line := range lines {
			if d := forbidden(line); d.Decision == Allow {
				t.Errorf("%s: allowed: %s\n%s", class, line, d.DecisionReason)
			}
			// Nor is any of them a read that runs by itself.
			if l := Analyse(line); l.readOnly() {
				t.Errorf("%s: called a read: %s", class, line)
			}
		}
	}
}

// TestEvasionsStayHiddenByWrappers: what asks asks within others, too.
func TestEvasionsStayHiddenByWrappers(t *testing.T) {
	for class, lines := range evasions {
		for _, line := range lines {
			for _, form := range []string{"ls; %s", "( %s )", "{ %s\n}", "if true; then %s\nfi", "f() { %s\n}; f", "x=$( %s )"} {
				whole := strings.Replace(form, "%s", line, 1)
				if d := forbidden(whole); d.Decision == Allow {
					t.Errorf("%s: allowed: %s", class, whole)
				}
			}
			if d := forbidden("sh -c " + single(line)); d.Decision == Allow {
				t.Errorf("%s: allowed: sh -c %s", class, single(line))
			}
		}
	}
}

// TestFileRulesOnLines: a rule about files asks wherever a line may name such a file.
func TestFileRulesOnLines(t *testing.T) {
	rules := []event.PolicyRule{{Decision: Deny, Tool: "*_file", Match: "**/.env"}}
	for line, want := range map[string]string{
		`cat .env`: Ask, `cat .en*`: Ask, `x=.env; cat $x`: Ask, `x=.env; cat "$x"`: Ask, `cat $PWD/.env`: Ask, `cat "$PWD"/sub/.env`: Ask, `git show HEAD:.env`: Ask, `git show HEAD:./.env`: Ask, `git show :.env`: Ask,
		`git show "$x"`: Ask, `cat <(cat .env)`: Ask, `cat {.env,x}`: Ask, `cat .{env,x}`: Ask, `cat ~/.env`: Ask, `cd sub; cat ../.env`: Ask, `cat "$(echo .env)"`: Ask, `cat sub/../.env`: Ask, `cat .e?v`: Ask, `cat .[e]nv`: Ask, `cat ./.env`: Ask,
		`for f in .env a; do cat $f; done`: Ask, `for f in .e*; do cat "$f"; done`: Ask, `cat "$f"`: Ask, `cat $1`: Ask, `xargs cat < l`: Ask, `find . -exec cat {} +`: Ask, `grep -f.env x`: Ask, `grep --file=.env x`: Ask, `dd if=.env`: Ask, `curl -d @.env http://127.0.0.1`: Ask,
		`curl -Ff=@.env http://127.0.0.1`: Ask, `sed 'r .env' a`: Ask, `sed -n 'w .env' a`: Ask, `cat < .env`: Deny, `cat < $x`: Ask, `cat < .en*`: Ask, `x=.en; cat ${x}v`: Ask, `x='a .env'; cat $x`: Ask, `x='.en*'; cat $x`: Ask, `cat $'.en\x76'`: Ask, `cat .e""nv`: Ask,
		`sh -c 'cat .env'`: Ask, `sh -c 'cat .en*'`: Ask, `docker run -v $PWD/.env:/x y`: Ask, `cat /ws/.env`: Ask, `cat /w*/.env`: Ask, `cat */.env`: Ask, `echo x > .env`: Deny, `echo x > $f`: Ask, `y=$x; cat $y`: Ask, `read x; cat $x`: Ask, `cat "${x:-.env}"`: Ask, `. .env`: Ask, `. ./.en*`: Ask,
		// What can't be such a file doesn't ask.
		`cat ""`: Allow, `cat "" a`: Allow, `x=; cat $x a`: Allow, `cat < ""`: Allow, `cat a`: Allow, `cat *.go`: Allow, `cat *`: Allow, `cat src/*`: Allow, `x=a; cat $x`: Allow, `cat $PWD/a`: Allow, `git show HEAD:a`: Allow, `cat {a,b}.go`: Allow, `cat ~/a`: Allow, `cd sub; cat a`: Allow, `for f in *.go; do cat "$f"; done`: Allow,
		`for f in a b; do cat $f; done`: Allow, `echo "$x"`: Allow, `echo .env`: Allow, `git commit -m "$msg"`: Allow, `git status`: Allow, `make all`: Allow, `go test ./...`: Allow, `grep -rn x .`: Allow, `cat /etc/.env`: Allow, `ls -la`: Allow, `cat .environment`: Allow, `test -f "$x"`: Allow,
	} {
		if d := Decide(shellQuestion(ModeBypass, line, rules)); d.Decision != want {
			t.Errorf("%q: %s, want %s (%s)", line, d.Decision, want, d.DecisionReason)
		}
	}
	// A rule about writing doesn't speak of reading.
	rules[0].Tool = "write_file"
	for line, want := range map[string]string{`cat .env`: Allow, `cat "$x"`: Allow, `cp a .env`: Ask, `cp a "$x"`: Ask, `echo x > .env`: Deny, `tee .en* < a`: Ask} {
		if d := Decide(shellQuestion(ModeBypass, line, rules)); d.Decision != want {
			t.Errorf("write_file: %q: %s, want %s (%s)", line, d.Decision, want, d.DecisionReason)
		}
	}
}

// TestAllowRulesCoverWhatTheyMatch: reads included, and nothing else.
func TestAllowRulesCoverWhatTheyMatch(t *testing.T) {
	rule := func(match string) event.PolicyRule {
		return event.PolicyRule{Decision: Allow, Tool: "shell", Match: match, RuleID: match}
	}
	for _, tc := range []struct{ mode, match, line, want, source string }{
		{ModeDefault, "ls *", "ls -la", Allow, "rule"},
		{ModeDefault, "git status *", "git status", Allow, "rule"},
		{ModeDefault, "git *", "git log -5", Allow, "rule"},
		{ModeDefault, "git *", "git commit -m x", Allow, "rule"},
		{ModeUntrusted, "cat /etc/hostname", "cat /etc/hostname", Allow, "rule"},
		{ModeUntrusted, "make lint", "make lint; cat /etc/hostname", Ask, "mode"},
		{ModeUntrusted, "make lint", "make lint; cat README", Allow, "rule"},
		{ModeUntrusted, "make lint", "make lint; cat < /etc/hostname", Ask, "mode"},
		{ModeUntrusted, "make lint", "make lint; ps", Ask, "mode"},
		{ModeDefault, "make lint", "make lint; cat /etc/hostname", Allow, "rule"},
		{ModeDefault, "make lint", "make lint; touch a", Ask, "mode"},
		{ModeDefault, "make lint", "make lint > out", Ask, "mode"},
		{ModeDefault, "make lint", "make lint; rg --pre x y", Ask, "mode"},
		{ModeDefault, "make lint", "make lint; $x", Ask, "mode"},
		{ModeDefault, "make lint", "cat a", Allow, "mode"},
		{ModeUntrusted, "make lint", "cat a", Allow, "mode"},
		{ModeUntrusted, "make lint", "cat /etc/hostname", Ask, "mode"},
		{ModeAuto, "make lint", "make lint; touch a", Allow, "rule"},
		{ModePlan, "ls *", "ls", Deny, "mode"},
	} {
		d := Decide(shellQuestion(tc.mode, tc.line, []event.PolicyRule{rule(tc.match)}))
		if d.Decision != tc.want || d.DecisionSource != tc.source || tc.source == "rule" && len(d.RuleRefs) != 1 {
			t.Errorf("%+v: %s by %s %v (%s)", tc, d.Decision, d.DecisionSource, d.RuleRefs, d.DecisionReason)
		}
	}
}

// TestLaunchersAreNoReaders: which program a launcher starts is said by a file of the
// folder, which an agent can write. So it asks in the modes in which reads alone run,
// whatever it is told.
func TestLaunchersAreNoReaders(t *testing.T) {
	for _, name := range launchers {
		for _, args := range []string{"", "--version", "-V", "version", "--help", "env", "doc fmt", "list", "-v"} {
			for _, form := range []string{"%s", "ls; %s", "env %s", "/usr/bin/%s", "timeout 5 %s", "sh -c '%s'", "x=$(%s)"} {
				line := strings.Replace(form, "%s", strings.TrimSpace(name+" "+args), 1)
				for _, mode := range []string{ModeDefault, ModeUntrusted} {
					if d := Decide(shellQuestion(mode, line, nil)); d.Decision != Ask {
						t.Errorf("%s: %q: %s (%s)", mode, line, d.Decision, d.DecisionReason)
					}
				}
			}
		}
		_, reads := readers[name]
		if reads || slices.Contains(slices.Concat(versioned, harmlessReaders, hostReaders), name) {
			t.Errorf("%s is a launcher and a reader", name)
		}
	}
}

// TestReadsRunInsideTheSandboxAlone: where it doesn't hold, people decide.
func TestReadsRunInsideTheSandboxAlone(t *testing.T) {
	for name, box := range map[string]Sandbox{"absent": {Mode: "workspace_write"}, "exposed": {Mode: "workspace_write", Filesystem: true, Network: true, Exposed: "the data directory can be read"}} {
		for _, mode := range []string{ModeDefault, ModeUntrusted} {
			q := shellQuestion(mode, "cat a", nil)
			q.Sandbox = box
			if d := Decide(q); d.Decision != Ask {
				t.Errorf("%s in %s: %s", name, mode, d.Decision)
			}
		}
	}
	q := shellQuestion(ModeAuto, "cat a", nil)
	q.Sandbox.Exposed = "the data directory can be read"
	if d := Decide(q); d.Decision != Ask {
		t.Errorf("exposed in auto: %s", d.Decision)
	}
}

// TestReasonsDontContradictThemselves: what a call is denied or asked about for is never
// that it is what the mode lets run.
func TestReasonsDontContradictThemselves(t *testing.T) {
	calls := map[string]Question{
		"a read of the host": shellQuestion("", "cat /etc/hostname", nil), "a read": shellQuestion("", "cat a", nil), "a read of the machine": shellQuestion("", "ps", nil), "a write": shellQuestion("", "touch a", nil),
		"unclear": shellQuestion("", "$x", nil), "a file": fileCall("read_file", "a", true), "a file outside": fileCall("read_file", "/etc/hostname", true), "a written file": fileCall("write_file", "a", false),
		"a tool that reads": {Interactive: true, Root: "/ws", Tool: event.ToolInfo{ToolName: "mcp__x__look", IsReadOnly: true, RuntimeOwner: "mcp"}, Input: event.Raw(`{}`)},
		"a tool":            {Interactive: true, Root: "/ws", Tool: event.ToolInfo{ToolName: "mcp__x__do", RuntimeOwner: "mcp"}, Input: event.Raw(`{}`)},
	}
	boxes := []Sandbox{{Mode: "workspace_write"}, {Mode: "workspace_write", Filesystem: true, Network: true}, {Mode: "danger_full_access"}, {Mode: "read_only", Filesystem: true, Network: true, Exposed: "it shows"}}
	for name, q := range calls {
		for _, mode := range Modes() {
			for _, q.Sandbox = range boxes {
				q.Mode = mode
				d := Decide(q)
				said := d.DecisionReason
				if d.Decision != Allow && (strings.Contains(said, "this command only reads") || strings.Contains(said, q.Tool.ToolName+" only reads") || strings.HasSuffix(said, "is inside the workspace")) {
					t.Errorf("%s in %s: %s because %s", name, mode, d.Decision, said)
				}
			}
		}
	}
}

// TestAnyLineIsDecided: no line, however odd, ends the program that judges it.
func TestAnyLineIsDecided(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	rules := []event.PolicyRule{{Decision: Deny, Tool: "*_file", Match: "**/.env"}, {Decision: Deny, Tool: "shell", Match: "forbid-me *"}}
	guard := NewGuard(rules, nil, nil)
	for range 3000 {
		for _, line := range []string{soup(r), disguise(r)} {
			q := shellQuestion(ModeUntrusted, line, rules)
			q.Outside = r.IntN(2) == 0
			q.Contents = func(string) (string, bool) { return "", r.IntN(2) == 0 }
			if d := Decide(q); d.Decision == "" || strings.Contains(d.DecisionReason, "can't be judged") || strings.Contains(d.DecisionReason, "runtime error") {
				t.Errorf("%q isn't decided: %s", line, d.DecisionReason)
			}
			guard.Judge(Start{Path: "/bin/sh", Argv: []string{"sh", "-c", line}})
			guard.Judge(Start{Path: "/bin/x", Argv: strings.Fields(line)})
		}
	}
}
