package permission

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"agentd/event"
)

// texts are lines that only read and have forbid-me in them as text.
var texts = []string{
	"cat <<E\nforbid-me\nE\n", "cat <<'E'\nforbid-me\nE\necho a", "cat <<\"E\"\nforbid-me\nE\n", "cat <<-E\n\tforbid-me\n\tE\n", "cat <<\\E\nforbid-me\nE\n", "cat <<E <<F\nforbid-me\nE\nforbid-me\nF\n",
	"cat <<\"E\\\"F\"\nx\nE\"F\nforbid-me\nE\\\"F\n", "cat <<E\nE\\\n\nforbid-me\nE\n", "cat <<E&\nforbid-me\nE\n", "cat <<EF\nE\\\nF\nforbid-me\nEF\n", "(cat <<E)\nforbid-me\nE\n", "echo $(cat <<E)\nforbid-me\nE\n", "cat <<E |\nforbid-me\nE\ncat",
	"cat <<E\n${a:-\nforbid-me\n}\nE\n", "cat <<E\n`\necho forbid-me`\nE\n", "cat <<E;cat <<F\nforbid-me\nE\nforbid-me\nF\n", "if cat <<E; then echo; fi\nforbid-me\nE\n", "f() { cat <<E\nforbid-me\nE\n}; f", "case x in x) cat <<E;; esac\nforbid-me\nE\n",
	"echo \"$(cat <<E\nforbid-me\nE\n)\"", "echo `cat <<E\nforbid-me\nE\n`", "x=$(cat <<'E'\nforbid-me\nE\n)", "cat <<<'forbid-me'", "cat <<E\n`echo`E\necho '$(forbid-me)'\nE\n",
	"echo 'forbid-me'", "echo \"forbid-me\"", "echo $'forbid-me'", "echo $\"forbid-me\"", "echo a\\;forbid-me", "echo a # forbid-me", "echo a '\nforbid-me\n'", "echo \"a\\\"; forbid-me\"", "echo $'a\\'; forbid-me'", "echo a\\\nforbid-me", "echo `echo \\`echo forbid-me\\``",
	"case x in forbid-me) echo z;; esac", "for i in forbid-me; do echo $i; done", "echo ${a:-forbid-me}", "echo \"${a:-'forbid-me'}\"", "echo ${a:-'}'forbid-me}", "echo ${x//forbid-me/}", "[[ a =~ (forbid-me|z) ]]", "[[ a < forbid-me && b > z ]]", "[ forbid-me = z ]",
	"a=(forbid-me); echo ${a[0]}", "echo {forbid-me,z}", "echo !(forbid-me)", "echo a&echo forbid-me", "{ echo forbid-me; }", "set -- forbid-me; echo $1", "ls 2>&1 <&0 forbid-me", "ls <&- forbid-me", "x=(1); y='($(forbid-me))'; x=$y", "x=(1); x+='($(forbid-me))'",
	"OPTIND=1 echo 'a[$(forbid-me)]'", "x='a[$(forbid-me)]'; echo $x", "x='a[$(forbid-me)]'; [[ -n $x ]]", "for y in 'a[$(forbid-me)]'; do echo $y; done", "read x <<<'a[$(forbid-me)]'; echo $x", "printf %d 'a[$(forbid-me)]'", "export x='a[$(forbid-me)]'",
	"typeset x='a[$(forbid-me)]'", "x='a[`forbid-me`]'; RANDOM=1; echo $x", "x='(`forbid-me`)'; declare y=\"$x\"", "x=1; echo $((x)) 'a[$(forbid-me)]'", "shift 'a[$(forbid-me)]'", "unset x; x+='a[$(forbid-me)]'",
}

// marks are what makes text end, or not.
var marks = strings.Fields(`'E'F "E" \E $E $'E' E""F << <<- <<< < ; & && || | |& ( ) { } (( )) [[ ]] [ ] $( ${ $(( <( ' " \ ' $' $" # ! = += a= x y RANDOM SECONDS OPTIND PIPESTATUS -i -a -v -eq -A -n
	x[ ]= @ * ? - -- ~ \' \" \$ \x27 ;; x) if then fi for do done f() time 1 >&1 2>&1 <&- <&-x {a,b} =( ${a:- ${a# ${a@Q} declare export let local readonly eval exec command test E) EF`)

// brokenText makes a line that may or may not run what was text in it.
func brokenText(r source) string {
	line := texts[r.IntN(len(texts))]
	if r.IntN(3) == 0 {
		line += []string{"\n", "; ", " | ", " "}[r.IntN(4)] + texts[r.IntN(len(texts))]
	}
	for range 1 + r.IntN(4) {
		at := r.IntN(len(line) + 1)
		switch r.IntN(5) {
		case 0: // a piece is missing
			line = line[:at] + line[min(len(line), at+1+r.IntN(3)):]
		case 1: // a piece is elsewhere, too
			to, k := min(len(line), at+1+r.IntN(8)), r.IntN(len(line)+1)
			line = line[:k] + line[at:to] + line[k:]
		case 2:
			line = line[:at] + []string{"\n", "\n", " ", "\t", "\r", "\\\n", "\nE\n", "`", "\u00a0"}[r.IntN(9)] + line[at:]
		default:
			line = line[:at] + marks[r.IntN(len(marks))] + line[at:]
		}
	}
	if risky.MatchString(line) || !strings.Contains(line, "forbid-me") {
		return brokenText(r)
	}
	return line
}

// careful is the policy under which nothing but reads runs.
func careful(line string) Question { return shellQuestion(ModeDefault, line, nil) }

// TestRealShellsReads: what the mode default lets run as a read runs nothing else in any
// shell.
func TestRealShellsReads(t *testing.T) { compareAsked(t, 1500, 13, brokenText, careful) }

// TestBashEvaluates: the variables that bash makes integers are those that count as such,
// and its arrays those that count as arrays.
func TestBashEvaluates(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("skipped: which variables bash evaluates; there is no bash")
	}
	// Some exist only once they were asked for.
	out, err := exec.CommandContext(t.Context(), bash, "-c", `f() { local IFS; for v in $(compgen -v) HISTCMD SRANDOM EPOCHSECONDS MAPFILE COPROC; do : "${!v}"; declare -p "$v" 2>/dev/null; done; }; f; :`).Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "declare" {
			continue
		}
		name, _, _ := strings.Cut(words[2], "=")
		switch {
		case strings.Contains(words[1], "i"):
			found++
			if !slices.Contains(integerVariables, name) {
				t.Errorf("bash evaluates what %s is set to: %s", name, line)
			}
		case strings.ContainsAny(words[1], "aA") && !commandeers(name):
			found++
			if !slices.Contains(arrayVariables, name) {
				t.Errorf("bash has an array %s: %s", name, line)
			}
		}
	}
	if found < 8 {
		t.Errorf("bash tells of %d such variables: %s", found, out)
	}
}

// TestPlainTextIsRead: here-documents, redirections, assignments and wrappers about which
// all shells agree stay what they are.
func TestPlainTextIsRead(t *testing.T) {
	for _, line := range []string{
		"cat <<EOF\nhello $(echo a)\nworld\nEOF", "cat <<'EOF'\nEOF", "cat <<-EOF\n\ta\n\tb\n\tEOF\nls", "cat <<A <<\"B\"\n1\nA\n2\nB", "x=$(cat <<\\E\nit's\nE\n)", "cat <<E | sort\nb \\\na\nE", "cat <<E\n`echo a`\nE\n",
		"if true; then\ncat <<-E\n\tx\n\tE\nfi; cat <<E\ny\nE", "echo a\\\n b <<END_OF_TEXT\nx\nEND_OF_TEXT", "ls 2>&1 <&-", "ls >&2", "OPTIND=1; RANDOM=42; SECONDS=0; x=5; echo $((x+1))", "declare x='a b' y=\"$z\"; export Z=$(pwd)", "x=(a b); declare y=a",
		"time -p ls", "nice -n 5 ls", "timeout -k 5 -s TERM 10 ls", "timeout --preserve-status 5 ls", "env -i A=1 ls", "env -u X --chdir=sub ls", "stdbuf -oL ls", "find . | xargs -0 -n1 -P 4 wc -l", "ls | xargs -I{} wc -l {}", "command -p ls", "nohup ls", "setsid -w ls", "watch -n 2 -d ls",
	} {
		if l := Analyse(line); !l.readOnly() {
			t.Errorf("%q is no read: %s", line, l.why())
		}
	}
}

// TestWrappersThatWrite: an option of a wrapper may write a file or set what runs.
func TestWrappersThatWrite(t *testing.T) {
	for _, line := range []string{
		"time -o x ls", "time -vox ls", "time --output=x ls", "time --out x ls", "/usr/bin/time -ao x ls", "env time -o x ls", "time -o x", "nice time -o x ls", "flock x -c ls", "flock x ls", "ls | xargs --process-slot-var=BASH_ENV ls", "watch --shotsdir x ls", "time --new ls",
	} {
		if l := Analyse(line); l.readOnly() {
			t.Errorf("%q is called a read", line)
		}
	}
}

// TestCommandsThatSeemToRead: what the mode lets run for no other reason than that it
// reads has to be kept from more; what may write anyway hasn't.
func TestCommandsThatSeemToRead(t *testing.T) {
	for _, mode := range Modes() {
		for _, rules := range [][]event.PolicyRule{nil, {{Decision: Allow, Tool: "shell", Match: "ls *"}}} {
			q := shellQuestion(mode, "ls a", rules)
			if d := Decide(q); d.ReadOnly != (rules == nil && (mode == ModeDefault || mode == ModeUntrusted)) {
				t.Errorf("%s, %d rules: ReadOnly is %v (%s)", mode, len(rules), d.ReadOnly, d.DecisionReason)
			}
			q.Sandbox.Unheld = "what bounds agents can be changed"
			if d := Decide(q); d.ReadOnly != (rules == nil && mode != ModePlan && mode != ModeBypass) {
				t.Errorf("%s, %d rules, unheld: ReadOnly is %v (%s)", mode, len(rules), d.ReadOnly, d.DecisionReason)
			}
		}
	}
	lifted := careful("ls a")
	lifted.Sandbox.Mode = "danger_full_access"
	if Decide(lifted).ReadOnly {
		t.Error("danger_full_access has a sandbox")
	}
	if Decide(careful("touch a")).ReadOnly {
		t.Error("a question is answered")
	}
}
