package permission

import (
	"fmt"
	"time"

	"agentd/event"
	"agentd/tool/toolkind"
)

// Modes of permission. See [Decide] for what each lets run.
const (
	ModeDefault   = "default"
	ModeUntrusted = "untrusted"
	ModeOnRequest = "on_request"
	ModeOnFailure = "on_failure"
	ModeNever     = "never"
	ModePlan      = "plan"
	ModeBypass    = "bypass"
	ModeAuto      = "auto"
)

// Words of a decision, a rule and a hook.
const (
	Allow = "allow"
	Ask   = "ask"
	Deny  = "deny"
)

// Sources of a decision.
const (
	sourceMode       = "mode"
	sourceRule       = "rule"
	sourceHook       = "hook"
	sourceHuman      = "human"
	sourceClassifier = "classifier"
	sourceDefault    = "default"
)

// Modes returns the modes, in the order of the documentation.
func Modes() []string { return event.EnumValues("@permissionMode") }

// modeWidths orders the modes by what they let happen without asking.
var modeWidths = map[string]int{
	ModePlan: 0, ModeUntrusted: 1, ModeDefault: 2, ModeNever: 3, ModeAuto: 4, ModeOnRequest: 4, ModeOnFailure: 4, ModeBypass: 5,
}

// IsWider reports whether a mode lets more happen without asking than another. An empty
// mode is default; one that isn't known is wider than all that are.
func IsWider(mode, than string) bool { return modeWidth(mode) > modeWidth(than) }

func modeWidth(mode string) int {
	if mode == "" {
		mode = ModeDefault
	}
	if width, ok := modeWidths[mode]; ok {
		return width
	}
	return len(modeWidths)
}

// Question is a tool call that is to be made. Tool and Input are
// required.
type Question struct {
	// Mode is the permission mode; empty is default, an unknown one asks about
	// everything.
	Mode string
	// Interactive says that a person can be asked.
	Interactive bool
	// Tool as the inventory lists it. Its name says how rules are matched (shell,
	// file tools, others), IsReadOnly that it only reads.
	Tool event.ToolInfo
	// Input of the call, a JSON object.
	Input event.Raw
	// ToolCallID is the call that is judged; only a grant for once looks at it.
	ToolCallID string
	// Root is the workspace and Cwd the folder that relative paths start from,
	// both absolute. An empty Cwd is Root.
	Root, Cwd string
	// Resolve says where an absolute path leads once symbolic links are followed.
	// Nil judges paths by their names alone.
	Resolve func(path string) string
	// Rules of all sources. Each is held to the same order of strictness.
	Rules []event.PolicyRule
	// Grants are what people allowed before, Now is what their expiry is compared
	// with.
	Grants []Grant
	Now    time.Time
	// Hook is what the hooks before the call say; nil if none has an opinion.
	Hook *Opinion
	// Review is the verdict of a reviewer; nil if none was asked. Reviewer says what one
	// may allow.
	Review   *Review
	Reviewer ReviewBounds
	// Sandbox is what would confine the call.
	Sandbox Sandbox
	// Outside says that the call asks to run outside of the sandbox.
	Outside bool
	// Refused says why the call can't run whatever is decided about it, such as a path
	// that its tool never opens. It is denied for that.
	Refused string
	// Bounds are absolute paths of files and folders that bound the agent: its
	// configuration, hooks, rules. Changing one asks in every mode.
	Bounds []string
	// Contents returns a hash of the content of a regular file, and false if there is
	// none or it can't be read. Nil knows no contents. An approval to run outside is for
	// the contents of the files that the line names.
	Contents func(path string) (hash string, ok bool)
	// Text returns the content of a regular file that is a short text, and false for
	// anything else. Nil knows none. A shell script that a line runs is read by it.
	Text func(path string) (text string, ok bool)
	// Undo says that what is overwritten inside the workspace is kept and can be brought
	// back. Overwriting it is then not destructive; deleting it is.
	Undo bool
}

// Opinion is what hooks say about a call.
type Opinion struct {
	// Decision is allow, deny, ask, block (as deny) or continue (none).
	Decision string
	// Reason for people.
	Reason string
	// HandlerRef names the hook.
	HandlerRef string
}

// Sandbox is what would confine a command.
type Sandbox struct {
	// Mode is the profile: read_only, workspace_write or danger_full_access. The
	// last one lifts the sandbox: then everything counts as inside.
	Mode string
	// Filesystem and Network say that the kernel enforces the boundary that the
	// profile asks for.
	Filesystem, Network bool
	// WriteRoots are absolute folders beside the workspace that may be written to.
	WriteRoots []string
	// Missing says, for people, what isn't enforced and why.
	Missing string
	// Exposed says, for people, that the runtime's own data can be read, or that
	// something which bounds the agent can be replaced.
	Exposed string
	// Uncovered says, for people, why files that a deny rule is about can't be kept
	// from commands; Unheld, that commands can change what bounds the agent.
	Uncovered, Unheld string `json:",omitempty"`
}

// lifted says that the owner of the machine asked for no sandbox at all.
func (s *Sandbox) lifted() bool { return s.Mode == "danger_full_access" }

// confines says that a command is confined as the profile says.
func (s *Sandbox) confines() bool { return s.lifted() || (s.Filesystem && s.Network) }

// Decision is the answer to a [Question].
type Decision struct {
	// PermissionEvaluated is the fact to record. The caller adds what only it has
	// (SafeArgs, refs, the action's id), and redacts Scope and Subcommands: they
	// quote the command.
	event.PermissionEvaluated
	// CannotAsk says that it is a denial because no one can be asked.
	CannotAsk bool
	// NeedsOutside says that the call can't do its work inside the sandbox: an
	// approval is one to run outside.
	NeedsOutside bool
	// GrantID is the grant that answered an ask.
	GrantID string
	// Key is what a grant for this very call is made of; see [Grant].
	Key string
	// SessionScope says that an approval may be given for the session. Outside of the
	// sandbox that takes a line of which all is known, and files whose content is.
	SessionScope bool
	// Reviewable says that a reviewer may answer in the place of the person.
	Reviewable bool
	// ReadOnly says that the mode lets the command run because it only reads, which is
	// what its words say and no proof: it has to run where it can do no more.
	ReadOnly bool
}

// Decide answers a question. What each mode lets run:
//
//   - default: reads, update_plan and request_input; the rest asks.
//   - untrusted: reads inside the workspace; the rest asks.
//   - auto, on_request, on_failure: reads, and writes and commands inside the
//     sandbox; what needs to leave it asks, such as a command that writes to a path
//     outside by its words, and so does a command of which can't be told what it runs.
//   - never: as auto, and what would ask is denied.
//   - plan: reads; the rest is denied. present_plan asks whether the
//     plan is approved, which ends the mode; no rule, hook or grant answers that.
//   - bypass: everything but what a rule says. Leaving the sandbox asks even here:
//     only an approval lifts it.
func Decide(q Question) (d Decision) {
	defer func() {
		if failure := recover(); failure != nil {
			d = undecided(&q, failure)
		}
	}()
	if q.Mode == "" {
		q.Mode = ModeDefault
	}
	if q.Cwd == "" {
		q.Cwd = q.Root
	}
	q.Resolve = remembering(q.Resolve)
	f := gatherFacts(&q)
	r := matchRules(&q, f)
	o := q.settle(f, r)
	d = Decision{Key: f.key, NeedsOutside: q.Outside || f.leaves, SessionScope: !f.onlyOnce, ReadOnly: q.onlyReads(f, o)}
	if o.decision == Ask {
		if f.leaves && !q.Outside {
			o.reason += "; what it writes to is outside of the sandbox, so an approval is one to run outside"
		}
		d.Reviewable = q.reviewable(f, r)
		o = q.answer(f, o, &d)
	}
	d.PermissionEvaluated = event.PermissionEvaluated{
		Decision: o.decision, DecisionSource: o.source, DecisionReason: o.reason, RuleRefs: o.refs,
		Scope: f.scope(&q), Destructive: f.destructive, ToolName: q.Tool.ToolName, PermissionMode: q.Mode,
		Impact: f.impact, RollbackAdvice: f.rollback, Subcommands: f.subcommands(), ExpiresAt: o.expires,
	}
	d.PermissionEvaluated.GrantID = d.GrantID
	if d.RuleRefs == nil {
		d.RuleRefs = []string{}
	}
	return d
}

// WasRefused reports whether a recorded decision denied a call that could not run whatever
// was decided about it; see [Question.Refused].
func WasRefused(p *event.PermissionEvaluated) bool {
	return p.Decision == Deny && p.DecisionSource == sourceDefault
}

// remembering looks each path up once: a line may name the same file thousands of times,
// and many rules ask for it.
func remembering(resolve func(path string) string) func(path string) string {
	if resolve == nil {
		return nil
	}
	known := map[string]string{}
	return func(path string) string {
		to, ok := known[path]
		if !ok {
			to = resolve(path)
			known[path] = to
		}
		return to
	}
}

// undecided denies a call whose judging failed. A call is the model's words, which must
// not end the program that judges them.
func undecided(q *Question, failure any) Decision {
	return Decision{PermissionEvaluated: event.PermissionEvaluated{
		Decision: Deny, DecisionSource: sourceDefault, DecisionReason: fmt.Sprintf("the call can't be judged, so it is denied: %v", failure),
		RuleRefs: []string{}, Scope: event.Raw("{}"), Destructive: true, ToolName: q.Tool.ToolName, PermissionMode: q.Mode,
	}}
}

// outcome is a decision on its way.
type outcome struct {
	decision, source, reason string
	refs                     []string
	expires                  time.Time
}

// settle finds the strictest voice.
func (q *Question) settle(f *facts, r *ruling) outcome {
	base := q.byMode(f)
	hook := q.byHook()
	switch {
	case q.Refused != "":
		return outcome{decision: Deny, source: sourceDefault, reason: q.Refused + ": no approval lets the call run"}
	case r.deny != nil:
		return *r.deny
	case hook.decision == Deny:
		return hook
	case base.decision == Deny:
		return base
	case r.ask != nil:
		return *r.ask
	case f.bound != "":
		return f.askAboutBound()
	case hook.decision == Ask:
		return hook
	case q.Outside:
		return outcome{decision: Ask, source: sourceMode, reason: "the call asks to run outside of the sandbox, and only an approval lifts it"}
	case q.waitsForNobody(f):
		return outcome{decision: Ask, source: sourceMode, reason: "request_input waits for a person"}
	case f.kind == kindHandOver:
		return base
	case r.allow != nil:
		return *r.allow
	case hook.decision == Allow:
		return hook
	default:
		return base
	}
}

// waitsForNobody says that the call asks a person who isn't there.
func (q *Question) waitsForNobody(f *facts) bool {
	return f.kind == kindTalk && toolkind.Of(q.Tool.ToolName) == toolkind.RequestInput && (!q.Interactive || !q.canAsk(f))
}

// byHook is the hook's voice; the zero outcome if it has none.
func (q *Question) byHook() outcome {
	if q.Hook == nil {
		return outcome{}
	}
	decision := q.Hook.Decision
	switch decision {
	case Allow, Ask, Deny:
	case "block":
		decision = Deny
	default:
		return outcome{}
	}
	reason := "a hook says " + q.Hook.Decision
	if q.Hook.HandlerRef != "" {
		reason = "the hook " + q.Hook.HandlerRef + " says " + q.Hook.Decision
	}
	if q.Hook.Reason != "" {
		reason += ": " + q.Hook.Reason
	}
	return outcome{decision: decision, source: sourceHook, reason: reason}
}

// answer replaces an ask: by a grant that covers it, by what a reviewer says, or by a
// denial where no one can be asked.
func (q *Question) answer(f *facts, o outcome, d *Decision) outcome {
	if g := q.granted(d.Key); g != nil && !q.waitsForNobody(f) && f.kind != kindHandOver {
		d.GrantID = g.ID
		return outcome{
			decision: Allow, source: sourceHuman, refs: o.refs, expires: g.ExpiresAt,
			reason: "it was approved before (" + g.describe() + "); it would ask because " + o.reason,
		}
	}
	if d.Reviewable && q.Review != nil && q.Review.Allow {
		return outcome{decision: Allow, source: sourceClassifier, reason: q.Review.describeVerdict() + "; it would ask because " + o.reason}
	}
	switch {
	case !q.canAsk(f):
		o.reason = "mode " + q.Mode + " can't ask, so it is denied; it would ask because " + o.reason
	case !q.Interactive:
		o.reason = "no one can be asked, so it is denied; it would ask because " + o.reason
	default:
		return o
	}
	o.decision, d.CannotAsk = Deny, true
	return o
}
