package permission

import (
	"fmt"
	"strings"
)

// byMode is the mode's voice.
func (q *Question) byMode(f *facts) outcome {
	say := func(decision, format string, args ...any) outcome {
		return outcome{decision: decision, source: sourceMode, reason: "in mode " + q.Mode + " " + fmt.Sprintf(format, args...)}
	}
	what := q.name(f)
	if f.kind == kindHandOver {
		return q.handOver(say)
	}
	// A plan and a question are not reads, though they touch nothing: the modes that let
	// them run name them. A rule can let them run, too.
	reads := f.reads && f.unclear == "" && f.kind != kindTalk
	if reads && f.kind == kindShell && q.readsUnconfined() != "" && (q.Mode == ModeDefault || q.Mode == ModeUntrusted) {
		return say(Ask, "commands that only read run inside the sandbox, but %s", q.readsUnconfined())
	}
	switch q.Mode {
	case ModeDefault:
		if f.kind == kindTalk {
			return say(Allow, "%s runs: it touches nothing", q.Tool.ToolName)
		}
		if reads {
			return say(Allow, "reads run, and %s", what)
		}
		return say(Ask, "only reads run by themselves, and %s", what)
	case ModeUntrusted:
		if reads && f.inside {
			return say(Allow, "reads inside the workspace run, and %s", what)
		}
		if reads {
			what = q.Tool.ToolName + " may read outside of it"
		}
		return say(Ask, "only reads inside the workspace run by themselves, and %s", what)
	case ModePlan:
		if reads && f.kind != kindShell {
			return say(Allow, "reads run, and %s", what)
		}
		if reads {
			return say(Deny, "only tools that read run, and no commands, also if they only read")
		}
		return say(Deny, "only reads run, and %s", what)
	case ModeBypass:
		return say(Allow, "everything runs that no rule speaks against")
	case ModeAuto, ModeOnRequest, ModeOnFailure, ModeNever:
		return q.bySandbox(f, say)
	}
	return outcome{decision: Ask, source: sourceDefault, reason: fmt.Sprintf("the mode %q is not known", q.Mode)}
}

// onlyReads says that a command is allowed for no other reason than that it only reads:
// the mode wouldn't let it write.
func (q *Question) onlyReads(f *facts, o outcome) bool {
	if f.kind != kindShell || !f.reads || o.decision != Allow || o.source != sourceMode || q.Sandbox.lifted() {
		return false
	}
	write := *f
	write.reads, write.inside = false, false
	return q.byMode(&write).decision != Allow
}

// handOver is the mode's voice about a plan that is handed over. Approving it ends
// the mode plan, so nothing but an answer to the very question allows it.
func (q *Question) handOver(say func(string, string, ...any) outcome) outcome {
	if q.Mode == ModePlan {
		return say(Ask, "only reads run until the plan is approved")
	}
	return say(Deny, "there is no plan to approve outside mode %s", ModePlan)
}

// canAsk says that the mode allows asking. In mode plan that is so for the
// plan alone.
func (q *Question) canAsk(f *facts) bool {
	return q.Mode != ModeNever && (q.Mode != ModePlan || f.kind == kindHandOver)
}

// bySandbox is the voice of the modes in which the sandbox is the boundary.
func (q *Question) bySandbox(f *facts, say func(string, string, ...any) outcome) outcome {
	what := q.name(f)
	switch {
	case f.unclear != "":
		return say(Ask, "what runs must be known, and %s", what)
	case f.kind == kindTalk:
		return say(Allow, "%s runs: it touches nothing", q.Tool.ToolName)
	case f.kind == kindShell && q.exposed() != "":
		return say(Ask, "commands run by themselves where they can reach neither the runtime's own data nor what bounds agents, but here %s", q.exposed())
	case f.reads:
		return say(Allow, "reads run, and %s", what)
	case f.kind == kindShell && q.Sandbox.Unheld != "":
		return say(Ask, "commands that write run by themselves where they can't change what bounds agents, but here %s", q.Sandbox.Unheld)
	case f.kind == kindAgent:
		return say(Allow, "agents start: each call of theirs is judged by itself")
	case f.leaves:
		return say(Ask, "writes inside the sandbox run, and %s, which is outside of it", what)
	case f.kind == kindFileWrite:
		return say(Allow, "writes inside the workspace run, and %s", what)
	case f.kind == kindOther:
		return say(Ask, "what runs inside the sandbox runs by itself, and %s is not confined by it", what)
	case q.Sandbox.lifted():
		return say(Allow, "commands run: the sandbox is lifted by danger_full_access")
	case q.Sandbox.confines():
		return say(Allow, "commands inside the sandbox run")
	}
	return say(Ask, "commands inside the sandbox run by themselves, but %s", q.missing())
}

// exposed says what a command can reach although it must not; empty if nothing.
func (q *Question) exposed() string {
	if q.Sandbox.Exposed == "" && q.Sandbox.Uncovered != "" && NewCover(q.Rules, q.Root) != nil {
		return "files that a rule denies can't be kept from commands: " + q.Sandbox.Uncovered
	}
	return q.Sandbox.Exposed
}

// readsUnconfined says why a command that only reads isn't confined; empty if it is.
func (q *Question) readsUnconfined() string {
	switch {
	case q.exposed() != "":
		return q.exposed()
	case !q.Sandbox.confines():
		return q.missing()
	}
	return ""
}

// runsByMode says that the mode lets one command of a line run by itself.
func (q *Question) runsByMode(f *facts, c *Command) bool {
	reads := c.ReadOnly && c.Unknown == ""
	switch q.Mode {
	case ModeDefault:
		return reads && q.readsUnconfined() == ""
	case ModeUntrusted:
		return reads && q.readsUnconfined() == "" && c.readsWithin(q.from(f.cwd), f.line.moved)
	case ModeBypass:
		return true
	case ModeAuto, ModeOnRequest, ModeOnFailure, ModeNever:
		return q.exposed() == "" && (reads || q.Sandbox.confines() && q.Sandbox.Unheld == "")
	}
	return false
}

// writesByMode says that the mode lets a redirection write a file by itself.
func (q *Question) writesByMode(f *facts, w Write) bool {
	switch q.Mode {
	case ModeBypass:
		return true
	case ModeAuto, ModeOnRequest, ModeOnFailure, ModeNever:
		return q.exposed() == "" && q.Sandbox.confines() && q.Sandbox.Unheld == "" && (!w.Known || q.writable(q.from(f.cwd).placeOf(w.Path)))
	}
	return false
}

// missing says what the sandbox doesn't enforce.
func (q *Question) missing() string {
	if q.Sandbox.Missing != "" {
		return "it doesn't hold here: " + q.Sandbox.Missing
	}
	var parts []string
	if !q.Sandbox.Filesystem {
		parts = append(parts, "files")
	}
	if !q.Sandbox.Network {
		parts = append(parts, "the network")
	}
	return "it doesn't hold here for " + strings.Join(parts, " and ")
}

// name says what the call is, for people.
func (q *Question) name(f *facts) string {
	switch {
	case f.unclear != "":
		return f.unclear
	case f.kind == kindShell && f.reads && f.inside:
		return "this command only reads, inside the workspace"
	case f.kind == kindShell && f.reads:
		return "this command only reads"
	case f.kind == kindShell && f.leaving != "":
		return f.leaving
	case f.kind == kindShell:
		return f.line.why()
	case f.kind == kindFileRead && f.inside:
		return f.place.abs + " is inside the workspace"
	case f.kind == kindFileRead:
		return f.place.abs + " is outside of the workspace"
	case f.kind == kindFileWrite:
		return q.Tool.ToolName + " changes " + f.place.abs
	case f.kind == kindTalk:
		return q.Tool.ToolName + " is not a read, although it changes nothing"
	case f.reads:
		return q.Tool.ToolName + " only reads"
	}
	return q.Tool.ToolName + " may change something"
}
