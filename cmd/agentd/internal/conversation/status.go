package conversation

import (
	"cmp"
	"strconv"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
	"agentd/state"
)

// Status is what a status line tells of a conversation.
type Status struct {
	// Model that answers, and Mode that calls are judged in: those of the turn that runs,
	// or of the next one; empty if not known yet.
	Model, Mode string
	// NextModel and NextMode are those of the next turn, if one runs that has others.
	NextModel, NextMode string
	// ContextTokens is what the last request took, ContextWindow what it may take; 0 if
	// not known.
	ContextTokens, ContextWindow int64
	CostUSD                      float64
	Queued                       int
	// WaitsFor is what the turn waits for: you, a model, a tool; empty if nothing runs.
	WaitsFor string
	// Lost says that the server can't be reached.
	Lost bool

	// lastModel answered last. turnModel and turnMode are those of the turn that runs,
	// sessionMode is that of turns which choose none.
	lastModel, turnModel, turnMode, sessionMode string
	// turnChose and sessionChose say that the mode is their own, not that of what is above.
	turnChose, sessionChose   bool
	defaultModel, defaultMode string
}

// Status tells the status line.
func (c *Conversation) Status() Status {
	s := c.status
	s.Model = cmp.Or(c.options.Model, s.defaultModel, s.lastModel)
	s.Mode = cmp.Or(c.options.PermissionMode, s.sessionMode, s.defaultMode)
	if c.active != "" {
		s.Model, s.NextModel = inForce(s.turnModel, s.Model)
		s.Mode, s.NextMode = inForce(s.turnMode, s.Mode)
	}
	if c.options.Model == "" {
		s.NextModel = "" // it is chosen when the turn begins
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

// inForce is what a running turn has, and what the next one will have if that is another.
func inForce(now, next string) (inForce, then string) {
	if now == "" || now == next {
		return next, ""
	}
	return now, next
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
		s.lastModel = t.ModelRouting.SelectedProvider + "/" + t.ModelRouting.SelectedModel
		s.turnModel = s.lastModel
	}
	switch p := &t.PermissionState; p.ModeSource {
	case modeOfTurn:
		s.turnMode, s.turnChose = p.Mode, true
	case "thread", "session_policy", "session":
		s.sessionMode, s.sessionChose = p.Mode, true
	}
}

// modeOfTurn says that a mode is the turn's own, and ends with it.
const modeOfTurn = "turn"

// track takes what a fact of the thread says.
func (s *Status) track(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.RoutingDecision:
		s.lastModel = p.SelectedProvider + "/" + p.SelectedModel
		s.turnModel = s.lastModel
	case *event.CostRecorded:
		s.CostUSD = p.SessionCostUSD
	case *event.ContextResolved:
		s.ContextTokens = max(s.ContextTokens, p.EstimatedTokens)
		if p.ContextWindow > 0 {
			s.ContextWindow = p.ContextWindow
		}
	case *event.CompactionCompleted:
		s.ContextTokens = p.TokensAfter
	default:
		s.trackMode(e)
		s.trackWait(e)
	}
}

// trackMode keeps the modes of the session and of the turn that runs, also when another
// client set them.
func (s *Status) trackMode(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.SessionCreated:
		s.setSessionMode(p.PermissionMode, true)
	case *event.SessionUpdated:
		s.setSessionMode(p.PermissionMode, true)
	case *event.TurnStarted:
		if s.turnModel, s.turnMode, s.turnChose = "", "", false; p.Policy == nil {
			return
		}
		if s.turnMode, s.turnChose = p.Policy.Mode, p.Policy.ModeSource == modeOfTurn; !s.turnChose {
			s.sessionMode, s.sessionChose = p.Policy.Mode, p.Policy.ModeSource != "host"
		}
	case *event.PermissionEvaluated:
		s.turnMode = cmp.Or(p.PermissionMode, s.turnMode)
	case *event.PolicyChanged:
		if p.Source == modeOfTurn {
			s.turnMode, s.turnChose = p.Mode, true
			return
		}
		s.setSessionMode(p.Mode, p.Source == "session")
	case *event.TurnCompleted, *event.TurnFailed:
		s.turnModel, s.turnMode, s.turnChose = "", "", false
	}
}

// setSessionMode takes the mode of turns that choose none: that of the session itself, or of
// what is above it. A running turn that chose none follows.
func (s *Status) setSessionMode(mode string, own bool) {
	if mode == "" || s.sessionChose && !own {
		return
	}
	s.sessionMode, s.sessionChose = mode, own
	if s.turnMode != "" && !s.turnChose {
		s.turnMode = mode
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
