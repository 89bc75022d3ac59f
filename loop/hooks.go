package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"agentd/event"
	"agentd/hook"
	"agentd/internal/place"
	"agentd/permission"
	"agentd/process"
	"agentd/sandbox"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
)

// hookRecorder turns what hooks do into facts.
type hookRecorder struct {
	l     *Loop
	k     key
	scope event.Scope
}

// Report implements [hook.Recorder].
func (h *hookRecorder) Report(_ context.Context, fact event.Payload) error {
	e := event.Event{Scope: h.scope, Payload: fact}
	switch p := fact.(type) {
	case *event.HookStarted:
		e.Type = event.TypeHookStarted
		h.l.markOwnCall(p.HookRunID, true)
	case *event.SandboxApplied:
		e.Type = event.TypeSandboxApplied
	case *event.HookCompleted:
		e.Type = event.TypeHookCompleted
		p.Reason = h.l.redactText(p.Reason)
		defer h.l.markOwnCall(p.HookRunID, false)
	case *event.HookFailed:
		e.Type = event.TypeHookFailed
		p.Message = h.l.redactText(p.Message)
		defer h.l.markOwnCall(p.HookRunID, false)
	default:
		return fmt.Errorf("loop: %T is not a fact about a hook", fact)
	}
	return h.l.m.Emit(context.WithoutCancel(h.l.ctx), h.k.session, event.ByLoop, func(tx *session.Tx) error {
		tx.Emit(e)
		if p, ok := fact.(*event.HookFailed); ok && p.FailureBehavior == hook.FailOpen {
			tx.Emit(event.Event{Type: event.TypeRuntimeWarning, Scope: h.scope, Payload: &event.RuntimeNotice{
				Code: codeHookOpen, Message: "the hook " + p.HandlerRef + " failed at " + p.Point + ", and the work went on without it: " + p.Message,
				Advice: "mend the hook; with failure: closed what it guards is blocked instead",
			}})
		}
		return nil
	})
}

// codeHookOpen marks the warning that work went on without a hook's word.
const codeHookOpen = "hook_failed_open"

// Keep implements [hook.Recorder].
func (h *hookRecorder) Keep(_ context.Context, mediaType string, content []byte) (string, error) {
	var ref string
	clean := h.l.redactRaw(content)
	err := h.l.m.Emit(context.WithoutCancel(h.l.ctx), h.k.session, event.ByLoop, func(tx *session.Tx) error {
		ref = tx.Blob(clean, mediaType)
		return nil
	})
	return ref, err
}

// hasHooks reports whether hooks run at a point.
func (l *Loop) hasHooks(p hook.Point, toolName string) bool {
	return l.opt.Hooks != nil && l.opt.Hooks.Has(p, toolName)
}

// runTurnHooks runs the hooks of a point of a turn.
func (l *Loop) runTurnHooks(ctx context.Context, k key, p hook.Point, in hook.Input, scope event.Scope) (hook.Outcome, error) {
	in.SessionID, in.ThreadID, in.TurnID, in.TaskID, in.RunID = k.session, k.thread, scope.TurnID, scope.TaskID, scope.RunID
	in.SubagentID = scope.SubagentID
	in.Input, _ = l.redactJSON(in.Input)
	in.Output, _ = l.redactJSON(in.Output)
	out, err := l.opt.Hooks.Run(l.withTrace(ctx, k, scope.TurnID), p, in, &hookRecorder{l: l, k: k, scope: scope})
	if err != nil && ctx.Err() != nil {
		err = errMoved // the turn was interrupted, or the loop is stopping
	}
	return out, err
}

// hookInput is what hooks of a turn get to know about it.
func (l *Loop) hookInput(s *state.Session, t *state.Thread, turn *state.Turn) (hook.Input, event.Scope) {
	w := l.workplace(s, t, turn)
	in := hook.Input{
		Cwd: w.cwd, Workspace: w.root, PermissionMode: l.modeOf(s, t, turn), Sandbox: l.commandBoundary(w, l.rulesOf(s)),
	}
	refsOf(s, t).addTo(&in)
	return in, scopeOf(t, turn)
}

// beforeTurn asks the hooks before a turn begins. One that blocks ends the turn
// through its fact.
func (l *Loop) beforeTurn(k key, e StartTurn) error {
	if !l.hasHooks(hook.SessionStart, "") && !l.hasHooks(hook.UserPromptSubmit, "") {
		return nil
	}
	ctx, done := l.interruptible(l.ctx, k)
	defer done()
	var in hook.Input
	var scope event.Scope
	var at position
	first := false
	if err := l.viewIfNext(ctx, k, e, func(s *state.Session, t *state.Thread) {
		in, scope = l.hookInput(s, t, t.Turn(e.TurnID))
		first = t.TurnCount == 1 && (t.Role == "main" || t.Role == "fork")
		at = positionOf(s, t)
	}); err != nil {
		return err
	}
	if first && l.hasHooks(hook.SessionStart, "") {
		if _, err := l.runTurnHooks(ctx, k, hook.SessionStart, in, scope); err != nil {
			return err
		}
	}
	if !l.hasHooks(hook.UserPromptSubmit, "") {
		return nil
	}
	return l.promptSubmitted(ctx, k, e.TurnID, at, in, scope)
}

// promptSubmitted shows the hooks what the user wants.
func (l *Loop) promptSubmitted(ctx context.Context, k key, turnID string, at position, in hook.Input, scope event.Scope) error {
	conv, err := l.transcripts.conversationAt(ctx, k, at)
	if err != nil {
		return err
	}
	said := conv.inputs[turnID]
	if in.Input = said.parts; said.ref != "" {
		text, err := readBlob(ctx, l.opt.Store, said.ref, 1<<20)
		if err != nil {
			return err
		}
		if in.Input = event.Raw(text); !json.Valid(in.Input) {
			in.Input, in.TranscriptRef = nil, said.ref // too long to be sent whole
		}
	}
	_, err = l.runTurnHooks(ctx, k, hook.UserPromptSubmit, in, scope)
	return err
}

// tellHooks tells the hooks what the model said. The fact of the last one says
// that it was done; until then it is the next effect, also after a restart.
func (l *Loop) tellHooks(k key, e TellHooks) error {
	ctx, done := l.interruptible(l.ctx, k)
	defer done()
	var in hook.Input
	var scope event.Scope
	var at position
	if err := l.viewIfNext(ctx, k, e, func(s *state.Session, t *state.Thread) {
		in, scope = l.hookInput(s, t, t.Active)
		at = positionOf(s, t)
	}); err != nil {
		return err
	}
	conv, err := l.transcripts.conversationAt(ctx, k, at)
	if err != nil {
		return err
	}
	calls := slices.Clone(conv.asked)
	for i := range calls {
		if calls[i].ArgumentsRef != "" {
			calls[i].Arguments = nil // too long to be sent, or not JSON
		}
	}
	if in.Output, err = json.Marshal(event.ModelMessage{Text: conv.answer, ToolCalls: calls}); err != nil {
		return fmt.Errorf("loop: answer: %w", err)
	}
	_, err = l.runTurnHooks(ctx, k, hook.PostSampling, in, scope)
	return err
}

// viewIfNext reads the state if the effect is still the next one. A goroutine that took an
// interruptible context before is not asked to do what was interrupted.
func (l *Loop) viewIfNext(ctx context.Context, k key, e Effect, read func(*state.Session, *state.Thread)) error {
	return l.m.View(ctx, k.session, l.ifNext(k, e, read))
}

// ifNext returns a look at the state that reads it if the effect is still the next one.
func (l *Loop) ifNext(k key, e Effect, read func(*state.Session, *state.Thread)) func(*state.Session) error {
	return func(s *state.Session) error {
		if l.opt.Policy.Next(s, k.thread, l.opt.Clock()) != e {
			return errMoved
		}
		read(s, s.Thread(k.thread))
		return nil
	}
}

// maxStops bounds how often hooks may keep a turn from ending.
const maxStops = 3

// beforeEnd asks the hooks whether the turn may end. One that doesn't want it to
// says so by its fact, and the end is not the next effect any more.
func (l *Loop) beforeEnd(k key, e Effect, outcome string) error {
	if !l.hasHooks(hook.Stop, "") {
		return nil
	}
	ctx, done := l.interruptible(l.ctx, k)
	defer done()
	var in hook.Input
	var scope event.Scope
	stops := int64(0)
	if err := l.viewIfNext(ctx, k, e, func(s *state.Session, t *state.Thread) {
		in, scope = l.hookInput(s, t, t.Active)
		stops = t.Active.Stops
	}); err != nil || stops >= maxStops {
		return err
	}
	in.Reason = outcome
	_, err := l.runTurnHooks(ctx, k, hook.Stop, in, scope)
	return err
}

// completeTurn ends a turn well.
func (l *Loop) completeTurn(k key, e CompleteTurn) error {
	if err := l.beforeEnd(k, e, e.Outcome); err != nil {
		return err
	}
	answer, err := l.lastAnswer(k, e)
	if err != nil {
		return err
	}
	return l.emitIfNext(k, e, func(tx *session.Tx, t *state.Thread) error {
		l.emitTurnCompleted(tx, t, e.Outcome, answer, nil)
		return nil
	})
}

// input is what hooks get to know about a call.
func (r *toolRun) hookInput(mode string) hook.Input {
	in := hook.Input{
		ToolCallID: r.call.ToolCallID, Cwd: r.place.cwd, Workspace: r.place.root, PermissionMode: mode,
		Sandbox: r.commandBoundary(), ToolName: r.request.ToolName, Input: r.input,
	}
	r.refs.addTo(&in)
	return in
}

// consultHooks asks the hooks before a call: they may rewrite its input, refuse it, or
// have a say in the permission.
func (r *toolRun) consultHooks(ctx context.Context) error {
	name := r.request.ToolName
	pre, asked := r.l.hasHooks(hook.PreToolUse, name), r.l.hasHooks(hook.PermissionRequest, name)
	if r.refused != nil || (!pre && !asked) {
		return nil //nolint:nilerr // why the call is refused is recorded, not returned
	}
	if r.call.Decision == permission.Allow {
		return r.rewrittenBefore(ctx)
	}
	if r.call.Decision != "" {
		return nil
	}
	if pre {
		if err := r.preToolUse(ctx); err != nil || r.refused != nil {
			return err
		}
	}
	if asked {
		return r.permissionRequest(ctx)
	}
	return nil
}

func (r *toolRun) preToolUse(ctx context.Context) error {
	out, err := r.l.runTurnHooks(ctx, r.k, hook.PreToolUse, r.hookInput(r.mode), r.scope)
	if err != nil {
		return err
	}
	if out.Rewritten {
		r.input, r.rewritten = out.Input, out.InputRef
		err := r.l.refusesCall(r.entry, r.input, r.mode, r.place, resolveBelow(r.place.root))
		var refusal *tool.Error
		switch {
		case errors.As(err, &refusal) && refusal.Category == tool.SandboxViolation:
			r.refuseCall(refusal)
		case err != nil:
			r.refuseCall(tool.Errorf(tool.HookBlocked, "a hook rewrote the input into one that the tool doesn't accept: %v", err))
		}
	}
	if out.Decision == hook.Block {
		r.refused = tool.Errorf(tool.HookBlocked, "%s", hookReason(out))
		r.refused.Advice = "Do not try the same in another way; say what you need and why."
	}
	if opinion := HookOpinion(out); opinion != nil {
		r.opinion = opinion
	}
	return nil
}

// HookOpinion is what the word of hooks before a call means for its permission; nil if
// it means nothing. A replay asks the same.
func HookOpinion(out hook.Outcome) *permission.Opinion {
	if out.Decision == hook.Continue {
		return nil
	}
	return &permission.Opinion{Decision: out.Decision, Reason: out.Reason, HandlerRef: out.HandlerRef}
}

func hookReason(out hook.Outcome) string {
	why := "the hook " + out.HandlerRef + " blocked it"
	if out.Failed {
		why = "the hook " + out.HandlerRef + " failed, and what it guards is blocked then"
	}
	if out.Reason != "" {
		why += ": " + out.Reason
	}
	return why
}

// permissionRequest lets hooks answer before a person is asked.
func (r *toolRun) permissionRequest(ctx context.Context) error {
	ask := false
	if err := r.l.m.View(ctx, r.k.session, func(s *state.Session) error {
		t := s.Thread(r.k.thread)
		if t == nil || t.Active == nil {
			return errMoved
		}
		d := permission.Decide(r.questionOf(s, t, r.l.opt.Clock()))
		ask = d.Decision == permission.Ask || d.CannotAsk
		return nil
	}); err != nil || !ask {
		return err
	}
	out, err := r.l.runTurnHooks(ctx, r.k, hook.PermissionRequest, r.hookInput(r.mode), r.scope)
	if err != nil {
		return err
	}
	if opinion := HookOpinion(out); opinion != nil {
		r.opinion = opinion
	}
	return nil
}

// rewrittenBefore finds the input that a hook rewrote before permission was asked.
func (r *toolRun) rewrittenBefore(ctx context.Context) error {
	ref := ""
	if err := r.l.m.View(ctx, r.k.session, func(s *state.Session) error {
		for _, h := range s.Permission.HookRuns {
			if h.ToolCallID == r.call.ToolCallID && h.Point == string(hook.PreToolUse) && h.UpdatedInputRef != "" {
				ref = h.UpdatedInputRef
			}
		}
		return nil
	}); err != nil || ref == "" {
		return err
	}
	text, err := readBlob(ctx, r.l.opt.Store, ref, 32<<20)
	if err != nil {
		return err
	}
	r.input = event.Raw(text)
	return nil
}

// runPostHooks gives the result to the hooks; they may replace it.
func (r *toolRun) runPostHooks(ctx context.Context, res *tool.Result) {
	if !r.l.hasHooks(hook.PostToolUse, r.request.ToolName) {
		return
	}
	in := r.hookInput(r.mode)
	in.Output = asJSON(res)
	out, err := r.l.runTurnHooks(context.WithoutCancel(ctx), r.k, hook.PostToolUse, in, r.scope)
	switch {
	case err != nil:
		r.l.opt.Logger.Warn("hooks after a tool call could not be run", "toolCallId", r.call.ToolCallID, "error", err)
	case out.SuppressOutput:
		res.Output, res.Structured, res.Dropped, res.Media = []byte("[a hook withheld the output]"), nil, 0, nil
	case out.Output != nil:
		res.Output, res.Structured = asText(out.Output), nil
	case out.Decision == hook.Block || out.Decision == hook.Deny:
		res.Output = append(res.Output, "\n["+hookReason(out)+"]"...)
		res.IsError = true
	}
}

// asJSON is a result as hooks see it.
func asJSON(res *tool.Result) event.Raw {
	if len(res.Structured) > 0 {
		return res.Structured
	}
	b, err := json.Marshal(string(res.Output))
	if err != nil {
		return nil
	}
	return b
}

// asText is a hook's output as the model sees it.
func asText(v event.Raw) []byte {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return []byte(s)
	}
	return v
}

// afterFailure tells the hooks.
func (r *toolRun) afterFailure(ctx context.Context, failed *tool.Error) {
	if !r.l.hasHooks(hook.PostToolFailure, r.request.ToolName) {
		return
	}
	in := r.hookInput(r.mode)
	in.Error = failed.Category + ": " + failed.Message
	if _, err := r.l.runTurnHooks(context.WithoutCancel(ctx), r.k, hook.PostToolFailure, in, r.scope); err != nil {
		r.l.opt.Logger.Warn("hooks after a failed tool call could not be run", "toolCallId", r.call.ToolCallID, "error", err)
	}
}

// HookExec returns what runs the commands of hooks: each in the sandbox of the
// profile that it names, whose root is the hook's workspace. The boundary is told
// before anything runs; what bounds agents is protected like from tools, and paths are
// what the registry of places knows them as.
func HookExec(m func() *process.Manager, places *place.Places, bounds BoundSet, profiles func(name string) sandbox.Profile) hook.Exec {
	ids := event.NewIDs(nil, nil)
	return func(ctx context.Context, c hook.Command) (hook.Exit, error) {
		profile := profiles(c.Profile)
		profile.Root, profile.Cwd = c.Cwd, c.Cwd
		profile.Protected = Bounds(c.Cwd, bounds)
		profile, err := profile.Fixed(places)
		if err != nil {
			return hook.Exit{}, err
		}
		plan, err := m().Prepare(profile)
		if err == nil && c.Confined != nil {
			err = c.Confined(BoundaryOf(plan, c.Cwd))
		}
		if err != nil {
			return hook.Exit{}, err
		}
		p, err := m().Start(ctx, process.Spec{
			ProcessID: ids.New(event.PrefixHook), Argv: c.Argv, Cwd: c.Cwd, Env: c.Env, Input: true, Plan: plan, MaxOutput: int64(c.MaxOutput) + 1,
		})
		if err != nil {
			return hook.Exit{}, err
		}
		if err := p.Write(ctx, c.Stdin); err == nil {
			err = p.CloseInput()
			if err != nil && !errors.Is(err, process.ErrNoInput) {
				return hook.Exit{}, err
			}
		} // a hook that doesn't read its input is no failure
		exit, err := p.Wait(context.WithoutCancel(ctx))
		if err != nil {
			return hook.Exit{}, err
		}
		if exit.Failure != nil {
			return hook.Exit{}, exit.Failure // nothing of the hook has run
		}
		return hook.Exit{Stdout: joinOutput(exit.Stdout), Stderr: joinOutput(exit.Stderr), Code: exit.Code}, nil
	}
}
