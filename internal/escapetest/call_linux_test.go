package escapetest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/sandbox"
	"agentd/store"
)

// call is what the facts say of one tool call.
type call struct {
	permission *event.PermissionEvaluated
	applied    *event.SandboxApplied
	runs       bool
	result     *event.ToolResult
	failed     *event.ToolFailed
	violation  *event.SandboxViolation
	// what the facts say of the hook before the call
	hookApplied *event.SandboxApplied
	hook        *event.HookCompleted
	hookFailed  *event.HookFailed
	// processes counts process.started, ended the facts of an end.
	processes, ended int
	// order has the types of the facts, text everything that they and the outputs
	// behind them say.
	order []event.Type
	text  string
	refs  []string
}

// facts reads the one tool call of a session, with its outputs.
func (w *world) facts(sessionID string) *call {
	w.Helper()
	c := w.stored(sessionID)
	for _, ref := range c.refs {
		c.text += w.output(ref)
	}
	return c
}

// stored reads the one tool call of a session from the store.
func (w *world) stored(sessionID string) *call {
	w.Helper()
	c := &call{}
	var text strings.Builder
	for rec, err := range w.store.Read(context.Background(), sessionID, store.Range{}) {
		w.must(err)
		e, err := event.Decode(rec.Data)
		w.must(err)
		if e.ToolCallID == "" || e.ToolCallID == event.NotApplicable {
			continue
		}
		c.order = append(c.order, e.Type)
		text.Write(rec.Data)
		text.WriteByte('\n')
		c.refs = append(c.refs, c.foldFact(e)...)
	}
	c.text = text.String()
	return c
}

// foldFact takes a fact in and returns the outputs that it names.
func (c *call) foldFact(e *event.Event) []string {
	switch p := e.Payload.(type) {
	case *event.PermissionEvaluated:
		c.permission = p
	case *event.SandboxApplied:
		if p.HookRunID != "" {
			c.hookApplied = p
			return nil
		}
		c.applied = p
	case *event.HookCompleted:
		c.hook = p
	case *event.HookFailed:
		c.hookFailed = p
	case *event.ToolProgress:
		c.runs = c.runs || p.Phase == event.PhaseRunning
	case *event.ToolResult:
		c.result = p
		return []string{p.OutputRef}
	case *event.ToolFailed:
		c.failed = p
		return []string{p.OutputRef}
	case *event.SandboxViolation:
		c.violation = p
	case *event.ProcessStarted:
		c.processes++
	case *event.ProcessCompleted:
		c.ended++
		return []string{p.OutputRef}
	case *event.ProcessTerminated:
		c.ended++
		return []string{p.OutputRef}
	case *event.ProcessFailed:
		c.ended++
	}
	return nil
}

// output reads what is behind a reference.
func (w *world) output(ref string) string {
	w.Helper()
	if ref == "" {
		return ""
	}
	b, _, err := w.r.Output(context.Background(), command.Local(), ref)
	w.must(err)
	defer b.Close()
	all, err := io.ReadAll(b)
	w.must(err)
	return string(all)
}

// wrong says what is missing or contradictory in the facts of a call in a sandbox
// with that plan; nothing if they are as they must be.
func (c *call) wrong(p *sandbox.Plan, shell bool) []string {
	var out []string
	say := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	// A path that no approval could open is refused before anything is decided.
	early := c.permission == nil && !c.runs && c.failed != nil && c.failed.ErrorCategory == "sandbox_violation"
	say(!early && (c.permission == nil || c.permission.DecisionReason == "" || c.permission.DecisionSource == ""), "no decision with a reason")
	say((c.result == nil) == (c.failed == nil), "not exactly one end")
	say(c.processes != c.ended, "%d processes started, %d ended", c.processes, c.ended)
	say(!c.runs && (c.result != nil || c.processes > 0), "something ran, and no tool.progress says so")
	say(c.permission != nil && c.permission.Decision != "allow" && c.runs, "it ran although the decision is %+v", c.permission)
	at := func(t event.Type) int { return slices.Index(c.order, t) }
	say(at(event.TypeToolStarted) != 0, "the first fact of the call is not its start")
	if c.runs {
		say(at(event.TypePermissionEvaluated) > at(event.TypeToolProgress), "the decision comes after it runs")
		if shell {
			out = append(out, c.wrongSandbox(p)...)
			say(c.processes != 1 && (c.processes != 0 || c.violation == nil), "%d processes", c.processes)
			say(at(event.TypeSandboxApplied) > at(event.TypeToolProgress), "the sandbox comes after it runs")
		}
	}
	violated := c.failed != nil && c.failed.ErrorCategory == "sandbox_violation"
	say(violated && c.violation == nil, "the failure names a boundary, and no sandbox.violation does")
	if c.violation != nil {
		say(c.violation.Boundary == "" || c.violation.Detail == "", "the violation names no boundary or says nothing: %+v", c.violation)
		say(at(event.TypeSandboxViolation) > max(at(event.TypeToolFailed), at(event.TypeToolResult)), "the violation comes after the end")
	}
	return out
}

// wrongSandbox holds sandbox.applied against what the kernel was asked for.
func (c *call) wrongSandbox(p *sandbox.Plan) []string { return wrongBoundary(c.applied, p) }

func wrongBoundary(a *event.SandboxApplied, p *sandbox.Plan) []string {
	if a == nil {
		return []string{"no sandbox.applied"}
	}
	if a.Mode != string(p.Profile.Mode) || a.Enforcement != event.Enforcement(p.Enforcement) || !slices.Equal(a.NotEnforced, p.NotEnforced) ||
		!slices.Equal(a.WriteRoots, p.WriteRoots) || !slices.Equal(a.ReadRoots, p.ReadRoots) || !holdsAll(a.Hidden, p.Hidden) ||
		!holdsAll(a.Protected, p.Protected()) || a.Network != string(p.Profile.Network) {
		return []string{fmt.Sprintf("sandbox.applied says %+v, the plan is %+v", a, p)}
	}
	return nil
}

// holdsAll says that a list has all of some texts: a real server hides and protects
// more than the test asks for.
func holdsAll(list, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(list, s) })
}

// how says in a word what stopped the call.
func (c *call) how() string {
	switch {
	case c.violation != nil:
		return "sandbox: " + c.violation.Boundary
	case c.failed != nil && !c.runs && c.permission != nil && c.permission.Decision != "allow":
		return "permission"
	case c.failed != nil:
		return "tool: " + c.failed.ErrorCategory
	case c.result != nil && c.result.ExitCode.Present:
		return fmt.Sprintf("exit code %d", c.result.ExitCode.Value)
	}
	return "found nothing"
}

// finalText is what the call said at its end.
func (c *call) finalText() string {
	switch {
	case c.failed != nil:
		return c.failed.ErrorCategory + ": " + c.failed.Message
	case c.result != nil:
		return c.result.Preview
	}
	return "nothing"
}

// protectsRules tells whether a plan keeps the rules of the workspace from changes.
func protectsRules(p *sandbox.Plan) bool {
	return p.Enforcement.Filesystem != sandbox.None && !strings.Contains(strings.Join(p.NotEnforced, "\n"), "can be changed")
}
