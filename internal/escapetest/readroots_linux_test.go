package escapetest

import (
	"slices"
	"testing"

	"agentd/model/provider/script"
	"agentd/sandbox"
)

// TestReadRoots: with read roots an agent's commands read these, the workspace and
// the system's own folders, and nothing else; the fact says so.
func TestReadRoots(t *testing.T) {
	if !report().Landlock.Available {
		t.Skipf("skipped: read roots are enforced by Landlock: %s", report().Landlock.Reason)
	}
	w := newWorld(t, sandbox.WorkspaceWrite)
	w.profile.ReadRoots = []string{w.outside + "/victim"}
	w.prepare()
	reads := []struct {
		line string
		may  bool
	}{
		{"cat $OUT/victim", true},
		{"cat /etc/passwd && ls /usr/bin && true", true},
		{"echo x > mine && cat mine", true},
		{"cat /proc/self/status", true},
		{"echo x > /tmp/mine && cat /tmp/mine", true},
		{"ls $OUT", false},
		{"cat $PRIV/id", false},
		{"cat $WS/../bin/attacker", false},
		{"$WS/../bin/attacker", false},
		{"cat /proc/self/root$OUT/../bin/attacker", false},
		{"ls -d / && ls /", false},
		{"ln -sfn $OUT/.. up; ls up/bin", false},
		{"ln $OUT/../bin/attacker other && cat other", false},
	}
	var answers []script.Answer
	for i, r := range reads {
		answers = append(answers, wants(mark(i), script.Tool{Name: "shell", Arguments: map[string]any{"command": w.fill(r.line) + " > /dev/null"}})...)
	}
	w.open("bypass", answers, nil)
	for i, r := range reads {
		w.restore()
		id := "sess_" + string(rune('a'+i))
		w.ask(id, mark(i))
		c := w.facts(id)
		ok := c.result != nil && c.result.ExitCode.Present && c.result.ExitCode.Value == 0
		if ok != r.may {
			t.Errorf("%s: read %v: %s", r.line, ok, c.finalText())
		}
		for _, wrong := range c.wrongSandbox(w.plan) {
			t.Errorf("%s: %s", r.line, wrong)
		}
		if c.applied != nil && (slices.Contains(c.applied.ReadRoots, "/") || !slices.Contains(c.applied.ReadRoots, w.outside+"/victim")) {
			t.Errorf("%s: the fact says that %v can be read", r.line, c.applied.ReadRoots)
		}
	}
}
