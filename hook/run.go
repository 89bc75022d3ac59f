package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"agentd/event"
)

// Input is what a hook receives. The caller leaves out or redacts what is secret.
type Input struct {
	SessionID  string `json:"sessionId,omitempty"`
	ThreadID   string `json:"threadId,omitempty"`
	TurnID     string `json:"turnId,omitempty"`
	TaskID     string `json:"taskId,omitempty"`
	RunID      string `json:"runId,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
	ActionID   string `json:"actionId,omitempty"`
	SubagentID string `json:"subagentId,omitempty"`
	// Cwd and Workspace are absolute.
	Cwd            string `json:"cwd,omitempty"`
	Workspace      string `json:"workspace,omitempty"`
	PermissionMode string `json:"permissionMode,omitempty"`
	// Sandbox is the boundary that holds.
	Sandbox *event.SandboxApplied `json:"sandbox,omitempty"`
	// ToolName of the call; empty at points that have none.
	ToolName string `json:"toolName,omitempty"`
	// Input is the tool's input, or what the user submitted.
	Input event.Raw `json:"input,omitempty"`
	// Output is what the tool gave, or what the model said.
	Output event.Raw `json:"output,omitempty"`
	// Error says why a tool failed.
	Error string `json:"error,omitempty"`
	// Reason says why permission is asked, or why the turn stops.
	Reason string `json:"reason,omitempty"`
	// Refs to what is too large or too private to be sent.
	TranscriptRef string   `json:"transcriptRef,omitempty"`
	RoutingRef    string   `json:"routingRef,omitempty"`
	PolicyRefs    []string `json:"policyRefs,omitempty"`
}

// Outcome is what the hooks of a point say together.
type Outcome struct {
	// Decision is the strictest of all; continue if there were none.
	Decision string
	// Reason and HandlerRef are those of the hook that decided.
	Reason, HandlerRef string
	// Failed says that the decision is a failure of a hook that fails closed.
	Failed bool
	// Input is the input after all hooks and Before the one that was given; they
	// are the same unless Rewritten.
	Input, Before event.Raw
	Rewritten     bool
	InputRef      string
	// Output is the output after all hooks; nil unless one rewrote it.
	Output    event.Raw
	OutputRef string
	// Context is what hooks add for the model, in order, and ContextRefs where it
	// is kept.
	Context, ContextRefs []string
	// SuppressOutput says that the output is not to be shown.
	SuppressOutput bool
	AuditRefs      []string
	// Runs counts the hooks that ran.
	Runs int
}

// rank orders decisions by strictness.
func rank(decision string) int {
	return slices.Index([]string{Continue, Allow, Ask, Deny, Block}, decision)
}

// Stricter reports whether a decision of a hook is stricter than another: of several
// hooks the strictest decides.
func Stricter(decision, than string) bool { return rank(decision) > rank(than) }

// Run runs the hooks of a point. An error means that a fact couldn't be recorded
// or that the context ended; a hook's own failure is part of the outcome.
func (r *Runner) Run(ctx context.Context, point Point, in Input, rec Recorder) (Outcome, error) {
	out := Outcome{Decision: Continue, Input: in.Input, Before: in.Input}
	for i := range r.hooks {
		h := &r.hooks[i]
		if !h.matches(point, in.ToolName) {
			continue
		}
		o := &one{r: r, h: h, rec: rec, id: r.opt.NewID(), in: in, last: !r.anyOf(r.hooks[i+1:], point, in.ToolName)}
		o.in.Input = out.Input
		if out.Output != nil {
			o.in.Output = out.Output
		}
		out.Runs++
		if err := o.run(ctx, &out); err != nil {
			return out, err
		}
		if rank(out.Decision) >= rank(Deny) {
			break
		}
	}
	return out, nil
}

// one is one run of a hook.
type one struct {
	r   *Runner
	h   *Hook
	rec Recorder
	id  string
	in  Input
	// last says that no other hook of the point comes after it.
	last bool
}

// run tells, runs, reads and tells again.
func (o *one) run(ctx context.Context, out *Outcome) error {
	stdin, err := o.message()
	if err != nil {
		return fmt.Errorf("hook %s: encode its input: %w", o.h.Name, err)
	}
	if err := o.rec.Report(ctx, &event.HookStarted{
		HookRunID: o.id, Point: string(o.h.Point), HandlerRef: o.h.Name, TimeoutMs: o.h.Timeout.Milliseconds(), Preview: o.in.ToolName,
	}); err != nil {
		return fmt.Errorf("hook %s: record its start: %w", o.h.Name, err)
	}
	began := o.r.opt.Now()
	a, failed := o.ask(ctx, stdin)
	ms := o.r.opt.Now().Sub(began).Milliseconds()
	// What was begun is recorded as ended, also after the caller gave up.
	rctx := context.WithoutCancel(ctx)
	if failed != nil {
		return o.fail(ctx, rctx, failed, ms, out)
	}
	return o.complete(rctx, a, ms, out)
}

// message is what the hook reads.
func (o *one) message() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(struct {
		HookRunID string `json:"hookRunId"`
		Point     Point  `json:"point"`
		Input
	}{o.id, o.h.Point, o.in})
	return b.Bytes(), err
}

// ask runs the hook within its time.
func (o *one) ask(ctx context.Context, stdin []byte) (*answer, *failure) {
	tctx, cancel := context.WithTimeoutCause(ctx, o.h.Timeout, errTimeout)
	defer cancel()
	var a *answer
	var failed *failure
	if o.h.URL != "" {
		a, failed = o.post(tctx, stdin)
	} else {
		a, failed = o.exec(tctx, stdin)
	}
	if failed != nil && tctx.Err() != nil {
		if errors.Is(context.Cause(tctx), errTimeout) {
			return nil, &failure{category: "timeout", message: fmt.Sprintf("no answer within %v", o.h.Timeout), retryable: true}
		}
		return nil, &failure{category: "lost", message: "the work that it was part of was interrupted", retryable: true}
	}
	if failed == nil {
		failed = a.fits(o.h.Point)
	}
	return a, failed
}

var errTimeout = errors.New("the hook timed out")

// failure is a hook without an answer.
type failure struct {
	category, message string
	retryable         bool
}

// fail records a failure and applies what it means.
func (o *one) fail(ctx, rctx context.Context, f *failure, ms int64, out *Outcome) error {
	if err := o.rec.Report(rctx, &event.HookFailed{
		HookRunID: o.id, Point: string(o.h.Point), HandlerRef: o.h.Name, ErrorCategory: f.category, Message: f.message,
		Retryable: f.retryable, FailureBehavior: o.h.Failure, DurationMs: ms, Last: o.last,
	}); err != nil {
		return fmt.Errorf("hook %s: record its failure: %w", o.h.Name, err)
	}
	if o.h.Failure == FailClosed {
		out.Decision, out.HandlerRef, out.Failed = Block, o.h.Name, true
		out.Reason = "the hook failed and fails closed: " + f.category + ": " + f.message
	}
	if ctx.Err() != nil {
		return fmt.Errorf("hook %s: %w", o.h.Name, context.Cause(ctx))
	}
	return nil
}

// complete keeps what the hook gave, records it and merges it.
func (o *one) complete(ctx context.Context, a *answer, ms int64, out *Outcome) error {
	p := &event.HookCompleted{
		HookRunID: o.id, Point: string(o.h.Point), HandlerRef: o.h.Name, Decision: a.decision, DurationMs: ms, Reason: a.reason,
		SuppressOutput: a.suppress, AuditRefs: a.audit, Last: o.last,
	}
	k := keeper{ctx: ctx, rec: o.rec}
	if a.input != nil {
		p.OriginalInputRef, p.UpdatedInputRef = k.storeContent("application/json", o.in.Input), k.storeContent("application/json", a.input)
	}
	if a.output != nil {
		p.UpdatedToolOutputRef = k.storeContent("application/json", a.output)
	}
	for _, text := range a.context {
		p.AdditionalContext = append(p.AdditionalContext, k.storeContent("text/plain; charset=utf-8", []byte(text)))
	}
	if k.err != nil {
		return fmt.Errorf("hook %s: keep what it gave: %w", o.h.Name, k.err)
	}
	if err := o.rec.Report(ctx, p); err != nil {
		return fmt.Errorf("hook %s: record its answer: %w", o.h.Name, err)
	}
	o.merge(a, p, out)
	return nil
}

// merge adds an answer to the outcome.
func (o *one) merge(a *answer, p *event.HookCompleted, out *Outcome) {
	if rank(a.decision) > rank(out.Decision) {
		out.Decision, out.Reason, out.HandlerRef = a.decision, a.reason, o.h.Name
	}
	if a.input != nil {
		out.Input, out.InputRef, out.Rewritten = a.input, p.UpdatedInputRef, true
	}
	if a.output != nil {
		out.Output, out.OutputRef = a.output, p.UpdatedToolOutputRef
	}
	out.Context = append(out.Context, a.context...)
	out.ContextRefs = append(out.ContextRefs, p.AdditionalContext...)
	out.SuppressOutput = out.SuppressOutput || a.suppress
	out.AuditRefs = append(out.AuditRefs, a.audit...)
}

// keeper keeps contents until the first error.
type keeper struct {
	ctx context.Context
	rec Recorder
	err error
}

func (k *keeper) storeContent(mediaType string, content []byte) string {
	if k.err != nil {
		return ""
	}
	var ref string
	ref, k.err = k.rec.Keep(k.ctx, mediaType, content)
	return ref
}
