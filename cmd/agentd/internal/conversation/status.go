package conversation

import (
	"strconv"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
	"agentd/state"
)

// Status is what a status line tells of a conversation.
type Status struct {
	// Model that answers, and Mode that calls are judged in; empty if not known yet.
	Model, Mode string
	// ContextTokens is what the last request took, ContextWindow what it may take; 0 if
	// not known.
	ContextTokens, ContextWindow int64
	CostUSD                      float64
	Queued                       int
	// WaitsFor is what the turn waits for: you, a model, a tool; empty if nothing runs.
	WaitsFor string
	// Lost says that the server can't be reached.
	Lost bool

	defaultModel, defaultMode string
}

// Status tells the status line.
func (c *Conversation) Status() Status {
	s := c.status
	if c.options.Model != "" {
		s.Model = c.options.Model
	}
	if c.options.PermissionMode != "" {
		s.Mode = c.options.PermissionMode
	}
	s.Queued = len(c.queue)
	switch {
	case s.Lost:
		s.WaitsFor = "the server"
	case c.asking != nil || c.questions.Due() != nil:
		s.WaitsFor = "you"
	case c.active == "":
		s.WaitsFor = ""
	}
	return s
}

// takePast takes what the read model of a thread knows.
func (s *Status) takePast(t *state.ThreadReadModel) {
	if t.CostState.TotalUSD != nil {
		s.CostUSD = *t.CostState.TotalUSD
	}
	if r := t.ContextBoundary.Resolved; r != nil {
		s.ContextTokens, s.ContextWindow = r.EstimatedTokens, r.ContextWindow
	}
	if t.ModelRouting.SelectedModel != "" {
		s.Model = t.ModelRouting.SelectedProvider + "/" + t.ModelRouting.SelectedModel
	}
	if m := t.PermissionState.Mode; m != "" && m != "unknown" {
		s.Mode = m
	}
}

// track takes what a fact of the thread says.
func (s *Status) track(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.RoutingDecision:
		s.Model = p.SelectedProvider + "/" + p.SelectedModel
	case *event.CostRecorded:
		s.CostUSD = p.SessionCostUSD
	case *event.ContextResolved:
		s.ContextTokens = max(s.ContextTokens, p.EstimatedTokens)
		if p.ContextWindow > 0 {
			s.ContextWindow = p.ContextWindow
		}
	case *event.CompactionCompleted:
		s.ContextTokens = p.TokensAfter
	case *event.PermissionEvaluated:
		if p.PermissionMode != "" {
			s.Mode = p.PermissionMode
		}
	case *event.PolicyChanged:
		if p.Mode != "" {
			s.Mode = p.Mode
		}
	default:
		s.trackWait(e)
	}
}

// trackWait keeps what the turn waits for.
func (s *Status) trackWait(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ModelRequested:
		s.WaitsFor = p.Provider + "/" + p.Model
	case *event.ModelCompleted:
		if p.Purpose == "" || p.Purpose == "turn" {
			s.ContextTokens = p.Usage.InputTokens + p.Usage.OutputTokens
		}
	case *event.RateLimitHit:
		s.WaitsFor = p.Provider + "'s rate limit"
	case *event.ToolProgress:
		if p.Phase == event.PhaseRunning {
			s.WaitsFor = p.ToolName
		}
	case *event.SubagentSpawned:
		s.WaitsFor = "subagents"
	case *event.TurnCompleted, *event.TurnFailed:
		s.WaitsFor = ""
	}
}

// Context says how full the context is; empty if that isn't known.
func (s *Status) Context() string {
	switch {
	case s.ContextTokens == 0:
		return ""
	case s.ContextWindow == 0:
		return terminal.Count(s.ContextTokens) + " ctx"
	}
	return strconv.FormatInt(min(s.ContextTokens*100/s.ContextWindow, 100), 10) + "% ctx"
}
