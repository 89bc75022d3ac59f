package loop

import (
	"context"
	"errors"
	"strings"
	"time"

	"agentd/event"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// Outputs bounds what facts and the store keep of a tool's output.
type Outputs struct {
	// InlineBytes is the largest output that a fact holds; more goes behind a
	// reference. Default 4096.
	InlineBytes int
	// PreviewBytes is what a fact shows of an output behind a reference. Default 1024.
	PreviewBytes int
	// MaxBytes is the most that is kept of one output: the beginning and the end.
	// Default 8 MiB.
	MaxBytes int64
	// ExpireAfter is how long outputs behind references are kept; 0 is for ever.
	ExpireAfter time.Duration
}

// expiry is when an output that is stored now may be deleted; zero if never.
func (o *Outputs) expiry(now time.Time) time.Time {
	if o.ExpireAfter <= 0 {
		return time.Time{}
	}
	return now.Add(o.ExpireAfter)
}

func (o *Outputs) defaults() {
	if o.InlineBytes == 0 {
		o.InlineBytes = 4096
	}
	if o.PreviewBytes == 0 {
		o.PreviewBytes = 1024
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 8 << 20
	}
}

// recordResult records a result.
func (r *toolRun) recordResult(ctx context.Context, res *tool.Result) error {
	r.runPostHooks(ctx, res)
	changed, kept := r.host.changes(ctx, res.Changed)
	return r.emitResult(func(tx *session.Tx, t *state.Thread) {
		r.host.emitEnds(tx)
		for _, b := range kept {
			tx.Keep(b)
		}
		r.offerAnew(tx, t)
		p := &event.ToolResult{
			ToolName: r.request.ToolName, Status: "ok", DurationMs: time.Since(r.began).Milliseconds(),
			ProcessID: res.ProcessID, ChangedFiles: changed, Links: linksOf(r.links),
		}
		switch {
		case res.Background:
			p.Status, p.ExitCode = "background", event.NullInt()
		case res.ExitCode != nil:
			p.ExitCode = event.Int(int64(*res.ExitCode))
		case res.IsError:
			p.Status = "error"
		}
		r.emitOutput(tx, p, res)
		for _, m := range res.Media {
			p.ImageRefs = append(p.ImageRefs, tx.Blob(m.Data, m.MediaType))
		}
		tx.Emit(event.Event{Type: event.TypeToolResult, Scope: r.scope, Payload: p})
	})
}

// emitOutput puts the output into the result: whole, or a preview and a reference.
func (r *toolRun) emitOutput(tx *session.Tx, p *event.ToolResult, res *tool.Result) {
	clean, found := r.l.redactBytes(res.Output)
	structured, more := r.l.redactJSON(res.Structured)
	found = found.Add(more)
	text := strings.ToValidUTF8(string(clean), "\uFFFD")
	p.Preview = text
	if len(structured) <= r.l.opt.Outputs.InlineBytes {
		p.StructuredContent = structured
	} else {
		p.StructuredRef = tx.Blob(structured, "application/json")
	}
	if len(clean) > r.l.opt.Outputs.InlineBytes || res.Dropped > 0 {
		media := res.MediaType
		if media == "" {
			media = "text/plain; charset=utf-8"
		}
		p.OutputRef, p.SizeBytes, p.MediaType = tx.Blob(clean, media), int64(len(clean))+res.Dropped, media
		p.Preview, p.Truncated = tool.Preview(text, r.l.opt.Outputs.PreviewBytes), true
		stored := event.Event{Type: event.TypeOutputSpilled, Scope: r.scope, Payload: &event.OutputStored{
			OutputRef: p.OutputRef, SizeBytes: p.SizeBytes, MediaType: media, Preview: p.Preview, DroppedBytes: res.Dropped, Owner: r.call.ToolCallID,
			RedactedCount: found.Count, ExpiresAt: r.l.opt.Outputs.expiry(tx.Now()),
		}}
		if res.Dropped > 0 {
			stored.Type = event.TypeOutputTruncated
		}
		tx.Emit(stored)
	}
	if found.Count > 0 {
		tx.Emit(event.Event{Type: event.TypeOutputRedacted, Scope: r.scope, Payload: found.Payload(p.OutputRef, "tool output")})
	}
	if res.Preview != "" {
		preview := r.l.redactText(res.Preview)
		if p.OutputRef != "" {
			p.Preview = tool.Preview(preview, r.l.opt.Outputs.PreviewBytes)
		}
	}
}

// recordFailure records a call without a result. What it gave before it failed is kept.
// A boundary that was hit is a fact of its own, and in mode on_failure a question.
func (r *toolRun) recordFailure(ctx context.Context, err error, partial *tool.Result) error {
	var failed *tool.Error
	if !errors.As(err, &failed) {
		failed = tool.Errorf(tool.Execution, "%v", err)
	}
	r.afterFailure(ctx, failed)
	changed, kept := r.host.changes(ctx, nil)
	return r.emitWhileRunning(func(tx *session.Tx, t *state.Thread) {
		r.host.emitEnds(tx)
		for _, b := range kept {
			tx.Keep(b)
		}
		r.changed = changed
		if partial != nil && len(partial.Output) > 0 {
			clean, _ := r.l.redactBytes(partial.Output)
			r.partial = tx.Blob(clean, "text/plain; charset=utf-8")
		}
		if failed.Category == tool.SandboxViolation {
			r.emitViolation(tx, failed)
			if r.l.modeOf(tx.State, t, t.Active) == permission.ModeOnFailure && !r.l.opt.NobodyToAsk && r.confining != lifted && r.worksOutside(failed) {
				r.askOutside(tx, t, failed)
				return
			}
		} else if failed.Boundary != "" {
			// Another category says more of the call, such as one that may have had
			// effects; the boundary was hit all the same.
			r.emitViolation(tx, failed)
		}
		if c := findCall(t.Active, r.call.ToolCallID); failed.Category == tool.Lost && r.l.opt.Policy.runsAgain(c) {
			tx.Emit(lostCall(r.scope, c, r.l.redactText(failed.Message)))
			return
		}
		if !r.askCredential(tx, t, failed) {
			r.emitFailed(tx, failed)
		}
	})
}

// worksOutside reports whether the call would work outside of the sandbox: a command
// would wherever its workspace is still there, a file tool stays in the workspace.
func (r *toolRun) worksOutside(err *tool.Error) bool {
	return err.Liftable || r.entry.Kind() == toolkind.Shell && err.Boundary != "workspace" && !err.Permanent
}

func (r *toolRun) emitViolation(tx *session.Tx, err *tool.Error) {
	boundary := err.Boundary
	if boundary == "" {
		boundary = "filesystem"
	}
	detail := r.l.redactText(err.Message)
	tx.Emit(event.Event{Type: event.TypeSandboxViolation, Scope: r.scope, Payload: &event.SandboxViolation{
		Boundary: boundary, Path: err.Path, Host: err.Host, Detail: detail, ToolName: r.request.ToolName,
	}})
}

// askOutside asks whether the call may run again without the sandbox.
func (r *toolRun) askOutside(tx *session.Tx, t *state.Thread, err *tool.Error) {
	q := r.permissionQuestion(tx, t)
	q.Outside = true
	d := permission.Decide(q)
	p := r.l.redactDecision(d.PermissionEvaluated)
	p.SafeArgs, p.InputRef = r.safeArgs(tx)
	p.ExpiresAt = r.l.decisionEnds(tx, &d)
	if d.Decision != permission.Ask {
		r.emitEvaluated(tx, &p)
		r.emitFailed(tx, err)
		return
	}
	p.ApprovalActionID = tx.NewID(event.PrefixAction)
	r.emitEvaluated(tx, &p)
	r.emitAction(tx, "sandbox_escape", "the call hit the sandbox ("+err.Message+"); it can only succeed outside of it", &d, &p)
}
