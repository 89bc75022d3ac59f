package loop

import (
	"context"
	"slices"

	"agentd/event"
	"agentd/state"
)

// traceEnv is the variable that commands find their trace context in, if the
// sandbox lets them see it.
const traceEnv = "TRACEPARENT"

// trace tells the model's provider where in the trace of the active turn the call is.
func (c *call) trace(t *state.Thread) {
	tr := t.Trace(c.k.session, t.Active).Span(c.k.session, c.req.RequestID)
	c.req.TraceParent, c.req.TraceState = tr.Parent(), tr.State
}

// withTrace puts the trace of a turn into the context. A turn that is over has none.
func (l *Loop) withTrace(ctx context.Context, k key, turnID string) context.Context {
	var tr event.Trace
	err := l.m.View(ctx, k.session, func(s *state.Session) error {
		if t := s.Thread(k.thread); t != nil {
			if turn := t.Turn(turnID); turn != nil {
				tr = t.Trace(k.session, turn)
			}
		}
		return nil
	})
	if err != nil || tr.TraceID == "" {
		return ctx
	}
	return event.WithTrace(ctx, tr)
}

// processTrace is the environment that tells a command where in the trace it is:
// empty unless the sandbox's settings name the variable, since a command's
// environment is otherwise clean.
func (r *toolRun) processTrace(processID string) []string {
	if !slices.Contains(r.l.opt.Sandbox.Env, traceEnv) || r.trace.TraceID == "" {
		return nil
	}
	return []string{traceEnv + "=" + r.trace.Span(r.k.session, processID).Parent()}
}
