package escapetest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"agentd"
	"agentd/model/provider/script"
	"agentd/sandbox"
)

// combination is a profile and a permission mode.
type combination struct {
	profile sandbox.Mode
	mode    string
}

// TestEscapes runs every attempt in the profiles that forbid something. In mode
// bypass nothing but the sandbox stands in the way, in mode auto the permission
// does too.
func TestEscapes(t *testing.T) {
	runCombinations(t, combination{sandbox.WorkspaceWrite, "bypass"}, combination{sandbox.ReadOnly, "bypass"}, combination{sandbox.WorkspaceWrite, "auto"})
}

// TestLongEscapes runs the other modes that ask nobody.
func TestLongEscapes(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("AGENTD_TEST_LONG is not set: read_only in mode auto, and mode never, are not tried")
	}
	runCombinations(t, combination{sandbox.ReadOnly, "auto"}, combination{sandbox.WorkspaceWrite, "never"}, combination{sandbox.ReadOnly, "never"})
}

func runCombinations(t *testing.T, all ...combination) {
	if n := len(attempts()); n < 60 {
		t.Fatalf("only %d attempts", n)
	}
	t.Logf("what the kernel offers here:\n%s", report())
	for _, c := range all {
		t.Run(string(c.profile)+" "+c.mode, func(t *testing.T) { escapes(t, c) })
	}
}

// escapes runs the table in one combination, each attempt in a session of its own.
func escapes(t *testing.T, c combination) {
	w := newWorld(t, c.profile)
	w.ruled = c.mode != "bypass"
	w.open(c.mode, append(w.answers(attempts()), says("earlier", "I remember.")...), func(o *agentd.Options) {
		if !w.ruled { // the sandbox alone stands before the rules of the workspace
			o.Loop.ParseRules, o.Loop.Sandbox.Protected = nil, []string{w.rules()}
		}
	})
	w.ask("sess_earlier", "earlier: "+plantedStore)
	var table strings.Builder
	var skipped []string
	made := 0
	for i, a := range attempts() {
		if !a.claims(w) {
			skipped = append(skipped, a.name)
			continue
		}
		made++
		fmt.Fprintf(&table, "  %-44s %s\n", a.name, w.attempt(t, i, a, c.mode))
	}
	// A machine that enforces less is told so by the log; one that says it enforces
	// everything must have been tried.
	if made < 60 && len(w.plan.NotEnforced) == 0 {
		t.Errorf("only %d attempts were made", made)
	}
	t.Logf("%d attempts; enforced: %+v\nnot enforced: %s\nwhat stopped each attempt:\n%sskipped, because it isn't enforced or is allowed here: %s",
		made, w.plan.Enforcement, orNone(strings.Join(w.plan.NotEnforced, "\n  ")), table.String(), orNone(strings.Join(skipped, ", ")))
}

func orNone(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// mark is how the user's words name an attempt.
func mark(i int) string { return fmt.Sprintf("[attempt %d]", i) }

// answers are those of a model that does as it is told.
func (w *world) answers(all []attempt) []script.Answer {
	var out []script.Answer
	for i, a := range all {
		out = append(out, wants(mark(i), w.call(a))...)
	}
	return out
}

// call is the tool call of an attempt.
func (w *world) call(a attempt) script.Tool {
	if a.tool == "" {
		return script.Tool{Name: "shell", Arguments: map[string]any{"command": w.fill(a.line), "timeoutMs": 120000}}
	}
	args := map[string]any{}
	for k, v := range a.args {
		if s, ok := v.(string); ok {
			v = w.fill(s)
		}
		args[k] = v
	}
	return script.Tool{Name: a.tool, Arguments: args}
}

// wants are the answers to a text: one that asks for tools, one that ends.
func wants(text string, tools ...script.Tool) []script.Answer {
	return append([]script.Answer{{When: &script.When{Contains: text}, Tools: tools}}, says(text, "Done.")...)
}

func says(text, answer string) []script.Answer {
	return []script.Answer{{When: &script.When{Contains: text}, Text: answer}}
}

// attempt has the agent make one attempt and judges what came of it.
func (w *world) attempt(t *testing.T, i int, a attempt, mode string) string {
	t.Helper()
	w.restore()
	id := fmt.Sprintf("sess_%d", i)
	w.ask(id, mark(i)+" "+a.name)
	c := w.facts(id)
	if w.escaped(a, c) {
		// What came out isn't printed: it may be an environment.
		t.Errorf("ESCAPED: %s: %s: %v", a.name, c.how(), c.order)
	}
	for _, wrong := range c.wrong(w.plan, a.tool == "" || a.tool == "shell") {
		t.Errorf("%s: %s\n%v\n%s", a.name, wrong, c.order, c.finalText())
	}
	if a.boundary != "" && mode == "bypass" && (c.violation == nil || c.violation.Boundary != a.boundary) {
		t.Errorf("%s: no violation of %s: %v\n%s", a.name, a.boundary, c.order, c.finalText())
	}
	return c.how()
}

func (w *world) escaped(a attempt, c *call) bool {
	if a.escaped != nil {
		return a.escaped(w, c)
	}
	return c.result != nil && c.result.ExitCode.Present && c.result.ExitCode.Value == 0
}
