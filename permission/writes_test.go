package permission

import (
	"strings"
	"testing"

	"agentd/event"
)

// TestWritesOutsideAskFirst: CONTRACT "Meanings", modes: what needs to leave the sandbox
// asks, and where nobody can be asked is denied. That holds for every program whose words
// prove that it writes outside, as for redirections; what they don't prove is left to the
// kernel.
func TestWritesOutsideAskFirst(t *testing.T) {
	leave := strings.Split(strings.TrimSpace(`
touch /opt/x
/usr/bin/touch -d yesterday a /opt/x
touch -- -x /opt/x
touch ../x
touch "/opt/a b"
echo a > /opt/x
echo a >> ../x
echo a | tee -a /etc/x
mkdir -p -m 700 /opt/a/b
rm -rf /opt/x
rmdir /opt/x
unlink /opt/x
shred -n 3 /opt/x
truncate -s 0 /opt/x
mkfifo /opt/x
cp a /opt/x
cp -r a b /opt
cp -t /opt a b
cp --target-directory=/opt a
mv a /opt/x
mv /opt/x a
mv -t . /opt/x
ln -s a /opt/x
link a /opt/x
install -m 755 a /opt/x
install -d /opt/a /opt/b
dd if=/dev/zero of=/opt/x count=1
sed -i s/a/b/ /opt/x
sed -i -e s/a/b/ /opt/x
chmod 644 /opt/x
chown -R root:root /opt/x
env A=1 touch /opt/x
timeout 3 touch /opt/x
sh -c "touch /opt/x"
ls && (touch /opt/x || true)
cd sub && touch /opt/x
touch link/x
touch /tmp/../opt/x`), "\n")
	stay := strings.Split(strings.TrimSpace(`
touch a sub/b
touch /ws/a
touch /roots/one/a
touch /tmp/x /var/tmp/x
touch -r /opt/x a
touch -d /opt/x a
touch "$x"
touch ~/x
touch /opt/*
cd sub && touch ../a
env -C sub touch ../a
find sub -execdir touch ../a ';'
cp /etc/hosts .
cp -r /opt/x a
cp a "$x" /opt/x
cp "$x" -t /opt
cp a /dev/stdout
tee /dev/null
tee -z /opt/x
mv a b
ln -s /opt/x a
ln /opt/x
install -m 755 /opt/x a
dd if=/opt/x of=a
sed -i s:/opt/x:b: a
chmod /opt/x
chroot sub touch /opt/x
./touch /opt/x
echo touch /opt/x
git commit -m "touch /opt/x"`), "\n")
	want := map[string]string{ModeAuto: Ask, ModeOnRequest: Ask, ModeOnFailure: Ask, ModeNever: Deny}
	decide := func(mode, line string) Decision {
		q := shellQuestion(mode, line, nil)
		q.Sandbox.WriteRoots = []string{"/roots/one"}
		q.Resolve = func(p string) string { return strings.Replace(p, "/ws/link", "/opt", 1) }
		return Decide(q)
	}
	for mode, decision := range want {
		for _, line := range leave {
			d := decide(mode, line)
			if d.Decision != decision || !d.NeedsOutside || !strings.Contains(d.DecisionReason, "outside") {
				t.Errorf("%s in %s: %s (%s)", line, mode, d.Decision, d.DecisionReason)
			}
			if !strings.Contains(string(d.Scope), `"outside":true`) || !strings.Contains(string(d.Scope), `"paths":["`) {
				t.Errorf("%s: the scope is %s", line, d.Scope)
			}
		}
		for _, line := range stay {
			if d := decide(mode, line); d.Decision != Allow || d.NeedsOutside {
				t.Errorf("%s in %s: %s (%s)", line, mode, d.Decision, d.DecisionReason)
			}
		}
	}
	lifted := shellQuestion(ModeAuto, "touch /opt/x", nil)
	lifted.Sandbox = Sandbox{Mode: "danger_full_access"}
	if d := Decide(lifted); d.Decision != Allow {
		t.Errorf("without a sandbox: %s (%s)", d.Decision, d.DecisionReason)
	}
}

// TestFolderOutsideAsksFirst: a command in a folder outside of the workspace can't start
// inside the sandbox, whatever it does there.
func TestFolderOutsideAsksFirst(t *testing.T) {
	for _, cwd := range []string{"/opt", "..", "link"} {
		for mode, want := range map[string]string{ModeDefault: Ask, ModeUntrusted: Ask, ModeAuto: Ask, ModeOnFailure: Ask, ModeNever: Deny, ModePlan: Deny} {
			q := shellQuestion(mode, "ls", nil)
			q.Input = event.Raw(`{"command":"ls","cwd":"` + cwd + `"}`)
			q.Resolve = func(p string) string { return strings.Replace(p, "/ws/link", "/opt", 1) }
			if d := Decide(q); d.Decision != want || !d.NeedsOutside || mode != ModePlan && !strings.Contains(d.DecisionReason, "it runs in ") {
				t.Errorf("in %s in mode %s: %s (%s)", cwd, mode, d.Decision, d.DecisionReason)
			}
		}
	}
}

// TestRefusedCallsAreDenied: nothing lets a call run that its tool never carries out.
func TestRefusedCallsAreDenied(t *testing.T) {
	for _, c := range calls() {
		for _, mode := range Modes() {
			q := c.q
			q.Mode, q.Refused, q.Hook = mode, "it is elsewhere", &Opinion{Decision: Allow}
			q.Rules = []event.PolicyRule{{Decision: Allow, Tool: "*"}}
			d := Decide(q)
			if d.Decision != Deny || d.DecisionSource != "default" || len(d.RuleRefs) != 0 || !strings.Contains(d.DecisionReason, "it is elsewhere") || d.CannotAsk {
				t.Errorf("%s in %s: %s by %s (%s)", c.name, mode, d.Decision, d.DecisionSource, d.DecisionReason)
			}
			if !WasRefused(&d.PermissionEvaluated) {
				t.Errorf("%s in %s: it isn't told apart", c.name, mode)
			}
		}
	}
}
