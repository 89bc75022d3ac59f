package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agentd/event"
	"agentd/hook"
	"agentd/permission"
	"agentd/sandbox"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// toolRun is one tool call on its way.
type toolRun struct {
	l *Loop
	k key
	// call is the state of the call as it was looked at, request what the model asked for.
	call    state.ToolCall
	request event.ToolCallRequest
	entry   *tool.Entry
	input   event.Raw
	scope   event.Scope
	trace   event.Trace
	place   workplace
	mode    string
	// credentials are the references that people gave in the session.
	credentials map[string]string
	// links are the facts that the call rests on.
	links event.ToolLinks
	// rewritten is where the input is that a hook put in the place of the model's.
	rewritten string
	// refused is why the call doesn't run at all.
	refused *tool.Error
	// opinion is what hooks say about it.
	opinion *permission.Opinion
	// confined and disk are what the last question about it depended on.
	confined Confinement
	disk     *lookups
	// planned is the plan that it was made by; nil if there is none.
	planned *sandbox.Plan
	// decision is nil for a call that was already approved.
	decision  *permission.Decision
	confining confining
	started   bool
	// moved says that the call isn't this process's any more: it recorded facts that were
	// lost before its command ran.
	moved bool
	// running is the fact that says so.
	running factRef
	// guard is what rules demand of the call's commands.
	guard guarded
	// refs are what hooks are referred to.
	refs hookRefs
	// alone says that no other call runs beside it.
	alone bool
	began time.Time

	host *toolHost
	// changed is what the call changed before it failed, partial what it gave.
	changed []event.FileChange
	partial string
}

// knowsCalls reports whether a group of tool calls can be decided about while the answer that
// asked for them is on its way to the store: this runner got it, nothing was decided yet, and no
// hook is asked before the decision is recorded. Then one commit holds the answer and the
// decision.
func (l *Loop) knowsCalls(k key, s *state.Session, e RunTools) bool {
	t := s.Thread(k.thread)
	if t == nil || t.Active == nil || len(t.Active.Tools) < e.To {
		return false
	}
	kept := l.answerKept(k)
	for _, c := range t.Active.Tools[e.From:e.To] {
		if _, ok := kept.call(c.ToolCallID); !ok || c.Decision != "" || l.hasHooks(hook.PreToolUse, c.ToolName) || l.hasHooks(hook.PermissionRequest, c.ToolName) {
			return false
		}
	}
	return true
}

// runTools judges a group of tool calls, records the decisions, and runs those
// that may, side by side. If it begins ahead, the answer that asked for them may not be
// durable yet.
func (l *Loop) runTools(k key, e RunTools, ahead bool) error {
	ctx, done := l.interruptible(l.tools, k)
	defer done()
	if err := l.adoptProject(ctx, k.session); err != nil {
		return err
	}
	runs, err := l.collectRequested(ctx, k, e, ahead)
	if err != nil {
		return err
	}
	l.oursAll(runs, true)
	defer l.oursAll(runs, false)
	for _, r := range runs {
		if err := r.consultHooks(ctx); err != nil {
			return err
		}
		if err := r.consultReviewer(ctx); err != nil {
			return err
		}
	}
	if err := l.beginTools(k, e, runs); err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(runs))
	for i, r := range runs {
		if r.started {
			r.alone = len(runs) == 1
			wg.Go(func() {
				roomy(false)
				if errs[i] = r.runCall(ctx); errs[i] != nil {
					l.markOwnCall(r.call.ToolCallID, false) // no longer, though the others still run
				}
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// oursAll remembers that this process carries calls out.
func (l *Loop) oursAll(runs []*toolRun, on bool) {
	for _, r := range runs {
		l.markOwnCall(r.call.ToolCallID, on)
	}
}

// collectRequested collects the calls of a group that are to be judged or run.
func (l *Loop) collectRequested(ctx context.Context, k key, e RunTools, ahead bool) ([]*toolRun, error) {
	var runs []*toolRun
	var at position
	var inv *tool.Inventory
	var offered *state.ToolInventory
	look := l.m.View
	if ahead {
		look = l.m.Peek
	}
	if err := look(ctx, k.session, func(s *state.Session) error {
		t := s.Thread(k.thread)
		if t == nil || t.Active == nil || t.Active.TurnID != e.TurnID || len(t.Active.Tools) < e.To {
			return errMoved
		}
		at, offered = positionOf(s, t), t.Inventory
		inv = l.opt.Tools.Resolve(l.toolSelection(s, t, t.Active))
		w, given := l.workplace(s, t, t.Active), credentialsOf(s)
		for _, c := range t.Active.Tools[e.From:e.To] {
			if l.opt.Policy.ended(c) || c.Status == state.ToolRunning || c.Decision == permission.Ask {
				continue
			}
			r := &toolRun{l: l, k: k, call: *c, place: w, mode: l.modeOf(s, t, t.Active), scope: toolScope(t, t.Active, c), trace: t.Trace(k.session, t.Active)}
			if c.StepID == "" { // an older version recorded the answer
				r.scope.StepID = l.m.NewID(event.PrefixStep)
			}
			r.links, r.credentials = c.Links, given
			r.guard.rules, r.refs = l.rulesOf(s), refsOf(s, t)
			if a := s.Actions.Find(c.ActionID); a != nil {
				r.confining, r.guard.answered = confinedBy(a), a.RuleRefs
			}
			runs = append(runs, r)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	requested, err := l.requestedCalls(ctx, k, at, ahead)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		request, ok := requested(r.call.ToolCallID)
		if !ok && ahead {
			return nil, errMoved // the session came back with another answer
		}
		if !ok {
			return nil, fmt.Errorf("loop: no model requested tool call %s", r.call.ToolCallID)
		}
		r.request, r.input = request, request.Arguments
		r.checkCall(inv)
		r.explainMissingTool(offered)
		if toolkind.Of(r.request.ToolName) == toolkind.Shell && l.opt.Processes != nil {
			r.guard.prepare(r.place.root)
		}
	}
	return runs, nil
}

// requestedCalls returns what finds the request of a call: in the answer that is kept, or in
// the conversation.
func (l *Loop) requestedCalls(ctx context.Context, k key, at position, ahead bool) (func(string) (event.ToolCallRequest, bool), error) {
	if ahead {
		kept := l.answerKept(k)
		return kept.call, nil
	}
	conv, err := l.transcripts.conversationAt(ctx, k, at)
	if err != nil {
		return nil, err
	}
	return conv.call, nil
}

// checkCall finds the tool and checks the input against its schema.
func (r *toolRun) checkCall(inv *tool.Inventory) {
	if len(r.input) == 0 && r.request.ArgumentsRef == "" {
		r.input = event.Raw("{}")
	}
	entry, err := inv.Lookup(r.request.ToolName)
	if err == nil {
		r.entry = entry
		err = r.l.refusesCall(entry, r.input, r.mode, r.place, resolveBelow(r.place.root))
	}
	if err != nil {
		r.refuseCall(err)
	}
}

// refusesCall says why a call can't run whatever is decided about it; nil if it can. It
// answers for the calls of models and for evaluate_permission, so that no question is
// answered otherwise than the call.
func (l *Loop) refusesCall(entry *tool.Entry, input event.Raw, mode string, w workplace, resolve func(path string) string) error {
	if err := checkInput(&entry.Info, entry.Validate, input); err != nil {
		return err
	}
	if err := checkEscalation(&entry.Info, input, mode, l.Configuration()); err != nil {
		return err
	}
	if err := l.checkPlace(&entry.Info, w); err != nil {
		return err
	}
	return tool.CheckPath(entry.Info.ToolName, w.root, w.cwd, input, resolve)
}

// checkInput checks an input against a tool's schema, and refuses one that a secret was
// taken out of.
func checkInput(info *event.ToolInfo, validate func(event.Raw) error, input event.Raw) error {
	if !json.Valid(input) {
		return tool.Errorf(tool.InvalidInput, "the arguments are not valid JSON: %s", tool.Preview(string(input), 200))
	}
	if err := validate(input); err != nil {
		return err
	}
	if !info.IsReadOnly && bytes.Contains(input, []byte("[redacted:")) {
		// What was taken out of the arguments is gone. Going on with what is left would
		// write or run something that wasn't asked for.
		refused := tool.Errorf(tool.InvalidInput, "the arguments hold what looks like a secret; it was taken out, so the call can't be carried out as it was meant")
		refused.Advice = "Leave the secret out: name the variable or the file that holds it."
		return refused
	}
	return nil
}

// checkEscalation refuses a request to leave the sandbox where no one would be asked.
func checkEscalation(info *event.ToolInfo, input event.Raw, mode string, c *Configuration) error {
	_, asked := tool.Escalation(input)
	if toolkind.Of(info.ToolName) != toolkind.Shell || !asked || c.mayEscalate(mode) {
		return nil
	}
	err := tool.Errorf(tool.InvalidInput, "%s", notEscalated(mode))
	err.Advice = "Leave escalate out. If the command can't do its work inside of the sandbox, say what it needs and why."
	return err
}

// notEscalated says why a call can't ask to leave the sandbox.
func notEscalated(mode string) string {
	if mode == permission.ModeOnRequest {
		return "escalate has no use here: commands are not confined"
	}
	return "escalate is for the permission mode on_request, and the mode is " + mode
}

// mayEscalate reports whether calls may ask to run outside of the sandbox.
func (l *Loop) mayEscalate(mode string) bool { return l.Configuration().mayEscalate(mode) }

// offersEscalation says that there is a sandbox that a call could ask to leave.
func (l *Loop) offersEscalation() bool {
	return l.opt.Processes != nil && l.opt.Sandbox.Mode != sandbox.DangerFullAccess
}

func (r *toolRun) refuseCall(err error) {
	if !errors.As(err, &r.refused) {
		r.refused = tool.Errorf(tool.Execution, "%v", err)
	}
}

// judgeCall decides on one call and records what follows: it starts, it is asked
// about, or it is refused.
func (r *toolRun) judgeCall(tx *session.Tx, t *state.Thread) {
	r.started, r.decision, r.planned = false, nil, nil
	r.emitBegin(tx, t)
	switch {
	case r.refused != nil && r.refused.Category != tool.HookBlocked && (r.call.Decision != "" || r.refused.Category != tool.SandboxViolation):
		r.emitRefused(tx)
		return
	case r.call.Decision == permission.Allow:
		// A person was asked and allowed it, or gave what it lacked.
		if r.wasRevoked(tx, t) {
			return
		}
	case r.call.Decision == "":
		d := permission.Decide(r.permissionQuestion(tx, t))
		r.decision = &d
	default:
		r.emitFailed(tx, r.permissionRefusal(tx))
		return
	}
	if d := r.decision; d != nil {
		r.emitDecision(tx, d)
		if d.Decision != permission.Allow {
			return
		}
		r.confining = confiningOf(d)
		if d.GrantID != "" {
			r.guard.answered = d.RuleRefs
		}
	}
	if r.refused != nil {
		r.emitRefused(tx)
		return
	}
	r.emitRunning(tx)
}

// emitRefused ends a call that doesn't run at all.
func (r *toolRun) emitRefused(tx *session.Tx) {
	if r.refused.Category == tool.SandboxViolation {
		r.emitViolation(tx, r.refused)
	}
	r.emitFailed(tx, r.refused)
}

// permissionQuestion is what has to be decided about the call.
func (r *toolRun) permissionQuestion(tx *session.Tx, t *state.Thread) permission.Question {
	return r.questionOf(tx.State, t, tx.Now())
}

func (r *toolRun) questionOf(s *state.Session, t *state.Thread, now time.Time) permission.Question {
	call := &Call{ToolCallID: r.call.ToolCallID, Tool: r.entry.Info, Input: r.input, Opinion: r.opinion}
	r.confined, r.planned = r.l.confinementBy(r.place)
	r.disk = newLookups(r.l.callFiles(r.place.root, r.l.rulesOf(s)))
	q := r.l.Configuration().Question(s, t, call, &r.confined, r.disk, now)
	if r.refused != nil && r.refused.Category == tool.SandboxViolation {
		q.Refused = r.refused.Message
	}
	return q
}

// emitEvaluated records a decision with what it depends on beside the facts.
func (r *toolRun) emitEvaluated(tx *session.Tx, p *event.PermissionEvaluated) {
	p.ConfigurationRef, p.ConfinementRef, p.Lookups = r.l.configurationRef(tx), r.l.confinementRef(tx, &r.confined), r.disk.facts(r.l.redactText)
	r.links.PermissionEventID = tx.EmitNamed(event.Event{Type: event.TypePermissionEvaluated, Scope: r.scope, Payload: p})
	if p.ApprovalActionID != "" {
		r.links.ApprovalActionID = p.ApprovalActionID
	}
}

// emitDecision records the decision and, if a person has to be asked, the request.
func (r *toolRun) emitDecision(tx *session.Tx, d *permission.Decision) {
	p := r.l.redactDecision(d.PermissionEvaluated)
	p.SafeArgs, p.InputRef = r.safeArgs(tx)
	p.UpdatedInputRef, p.ExpiresAt = r.rewritten, r.l.decisionEnds(tx, d)
	if d.Decision == permission.Ask && r.refused == nil {
		p.ApprovalActionID = tx.NewID(event.PrefixAction)
	}
	r.emitEvaluated(tx, &p)
	if d.Decision != permission.Allow && r.refused != nil {
		r.emitRefused(tx) // a hook said so, or its tool never does it; no approval would help
		return
	}
	switch d.Decision {
	case permission.Deny:
		err := tool.Errorf(tool.Denied, "%s", p.DecisionReason)
		err.Advice = "Do not try the same in another way; say what you need and why."
		r.emitFailed(tx, err)
	case permission.Ask:
		r.emitRequest(tx, d, &p)
	}
}

// redactDecision takes secrets out of a decision: all that it says may quote the call.
func (l *Loop) redactDecision(p event.PermissionEvaluated) event.PermissionEvaluated {
	p.Scope, _ = l.redactJSON(p.Scope)
	p.DecisionReason = l.redactText(p.DecisionReason)
	p.Impact = l.redactText(p.Impact)
	p.Subcommands = slices.Clone(p.Subcommands)
	for i := range p.Subcommands {
		p.Subcommands[i] = l.redactText(p.Subcommands[i])
	}
	return p
}

// safeArgs are the call's arguments as facts show them: inline, or by reference.
func (r *toolRun) safeArgs(tx *session.Tx) (inline event.Raw, ref string) {
	return r.inlineArgs(tx, r.input)
}

func (r *toolRun) inlineArgs(tx *session.Tx, args event.Raw) (inline event.Raw, ref string) {
	clean, _ := r.l.redactJSON(args)
	if len(clean) <= r.l.opt.Outputs.InlineBytes {
		return clean, ""
	}
	return nil, tx.Blob(clean, "application/json")
}

// emitFailed ends the call without a result.
func (r *toolRun) emitFailed(tx *session.Tx, err *tool.Error) {
	message := r.l.redactText(err.Message)
	advice := r.l.redactText(err.Advice)
	p := &event.ToolFailed{
		ToolName: r.request.ToolName, ErrorCategory: err.Category, Message: message, Advice: advice, Retryable: err.Retryable, ChangedFiles: r.changed,
		OutputRef: r.partial, Links: linksOf(r.links),
	}
	if !r.began.IsZero() {
		p.DurationMs = time.Since(r.began).Milliseconds()
	}
	tx.Emit(event.Event{Type: event.TypeToolFailed, Scope: r.scope, Payload: p})
}

// runCall carries the call out and records how it ended.
func (r *toolRun) runCall(group context.Context) error {
	ctx, cancel := r.callContext(group)
	defer cancel()
	r.began = time.Now()
	r.host = newToolHost(r)
	var bounds map[string]boundState
	if !r.entry.Info.IsReadOnly { // what only reads changes none
		bounds = r.l.boundStates(r.place.root)
	}
	res, err := r.entry.Tool.Run(ctx, &tool.Call{
		SessionID: r.k.session, ThreadID: r.k.thread, TurnID: r.scope.TurnID, ToolCallID: r.call.ToolCallID, Input: r.input,
		Root: r.place.root, Cwd: r.place.cwd, MaxOutput: r.l.opt.Outputs.MaxBytes, Outside: r.confining == lifted || r.l.opt.Sandbox.Mode == sandbox.DangerFullAccess, Denied: r.guard.denied(r.place.root), Host: r.host, Credentials: r.credentials,
		TraceParent: r.trace.Span(r.k.session, event.ToolSpanKey(r.call.ToolCallID, r.call.SpanNumber())).Parent(),
		TraceState:  r.trace.State,
	})
	r.host.close()
	r.tellChangedBounds(bounds)
	switch {
	case r.moved:
		return errMoved
	case err == nil && res == nil:
		err = tool.Errorf(tool.Execution, "%s returned neither a result nor an error", r.request.ToolName)
	case err != nil && ctx.Err() != nil:
		err = r.stopReason(ctx, err)
	}
	if err != nil {
		return r.host.settleEnds(r.recordFailure(ctx, err, res))
	}
	return r.host.settleEnds(r.recordResult(ctx, res))
}

// callContext ends with the group's if the tool takes an interrupt at once; others
// finish first.
func (r *toolRun) callContext(group context.Context) (context.Context, context.CancelFunc) {
	if r.entry.Info.InterruptBehavior == "cancel" {
		return context.WithCancel(group)
	}
	return context.WithCancel(context.WithoutCancel(group))
}

// stopReason says why a call was stopped.
func (r *toolRun) stopReason(ctx context.Context, err error) error {
	var failed *tool.Error
	if errors.As(err, &failed) && failed.Category != tool.Interrupted && failed.Category != tool.Execution {
		return err
	}
	category := tool.Interrupted
	if errors.Is(context.Cause(ctx), errDeadline) {
		category = tool.Timeout
	}
	return tool.Errorf(category, "%v", context.Cause(ctx))
}

// emitWhileRunning records facts of the call while it runs.
func (r *toolRun) emitWhileRunning(facts func(*session.Tx, *state.Thread)) error {
	return r.l.emitKnown(r.k.session, r.decideWhileRunning(facts))
}

// emitResult records the end of a call. What a call only read can be read again: its
// result may wait for the next fact. What others changed is recorded at once.
func (r *toolRun) emitResult(facts func(*session.Tx, *state.Thread)) error {
	if r.alone && r.entry.Info.IsReadOnly {
		return r.l.decideSoon(context.WithoutCancel(r.l.ctx), r.k, r.decideWhileRunning(facts))
	}
	return r.emitWhileRunning(facts)
}

// decideWhileRunning is a decision that holds only while the call runs.
func (r *toolRun) decideWhileRunning(facts func(*session.Tx, *state.Thread)) func(*session.Tx) error {
	return func(tx *session.Tx) error {
		t := tx.State.Thread(r.k.thread)
		if t == nil || t.Active == nil {
			return errMoved
		}
		if c := findCall(t.Active, r.call.ToolCallID); c == nil || c.Status != state.ToolRunning {
			return errMoved
		}
		facts(tx, t)
		return nil
	}
}

// findCall returns a tool call of the turn's last answer, or nil.
func findCall(turn *state.Turn, toolCallID string) *state.ToolCall {
	for _, c := range turn.Tools {
		if c.ToolCallID == toolCallID {
			return c
		}
	}
	return nil
}
