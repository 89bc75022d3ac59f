package permission

import (
	"agentd/event"
)

// Policies of a tool in an inventory.
const (
	PolicyAllowed     = "allowed"
	PolicyAsk         = "ask"
	PolicyDenied      = "denied"
	PolicySandboxed   = "sandboxed"
	PolicyUnavailable = "unavailable"
)

// Inventory says, before there is a call, what a tool's calls can expect, and why.
// It looks at rules that are about every call of the tool; one with a pattern may
// make a single call stricter or freer.
func Inventory(mode string, rules []event.PolicyRule, info event.ToolInfo) (policy, reason string) {
	if info.Policy == PolicyUnavailable {
		return PolicyUnavailable, info.Reason
	}
	if mode == "" {
		mode = ModeDefault
	}
	q := Question{Mode: mode, Interactive: true, Tool: info, Root: "/", Sandbox: Sandbox{Mode: "workspace_write", Filesystem: true, Network: true}}
	f := &facts{kind: kindOf(&info), reads: info.IsReadOnly, place: &place{abs: "a file", inside: true}, line: &Line{}}
	f.inside = info.IsReadOnly && f.kind != kindOther
	if f.kind == kindFileRead {
		f.reads, f.inside = true, true
	}
	var whole []event.PolicyRule
	for _, r := range rules {
		if c := compileRules([]event.PolicyRule{r})[0]; c.coversKind(f.kind) && c.applies(info.ToolName) {
			whole = append(whole, r)
		}
	}
	q.Rules = whole
	r := matchRules(&q, f)
	o := q.settle(f, r)
	if f.kind == kindShell && r.deny == nil && r.ask == nil && r.allow == nil {
		return shellPolicy(mode)
	}
	if o.decision == Ask && !q.canAsk(f) {
		return PolicyDenied, "mode " + mode + " can't ask; " + o.reason
	}
	switch o.decision {
	case Allow:
		return PolicyAllowed, o.reason
	case Deny:
		return PolicyDenied, o.reason
	}
	return PolicyAsk, o.reason
}

// shellPolicy is what the shell can expect where no rule speaks of all its calls.
func shellPolicy(mode string) (policy, reason string) {
	switch mode {
	case ModeAuto, ModeOnRequest, ModeOnFailure:
		return PolicySandboxed, "in mode " + mode + " commands run inside the sandbox; leaving it asks"
	case ModeNever:
		return PolicySandboxed, "in mode never commands run inside the sandbox; leaving it is denied"
	case ModeBypass:
		return PolicySandboxed, "in mode bypass commands run, inside the sandbox"
	case ModePlan:
		return PolicyDenied, "in mode plan only reads run, and commands are denied"
	}
	if mode == ModeUntrusted {
		return PolicyAsk, "in mode untrusted commands ask, unless they only read, inside the workspace"
	}
	return PolicyAsk, "in mode " + mode + " commands ask, unless they only read"
}
