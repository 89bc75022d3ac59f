package usage

import (
	"cmp"
	"math"
	"time"

	"agentd/event"
	"agentd/index"
)

// types are the facts that are counted, and those that say which model and which tool
// others belong to.
var types = []event.Type{
	event.TypeTurnStarted, event.TypeModelRequested, event.TypeModelCompleted, event.TypeModelFailed, event.TypeCostRecorded,
	event.TypeToolStarted, event.TypeToolFailed, event.TypeTurnCompleted, event.TypeTurnFailed,
	event.TypeActionRequired, event.TypeActionResolved, event.TypeSessionDeleted,
}

// openSession is what is to be known of a session's unfinished work: which model works on
// a turn, and since when an action waits.
type openSession struct {
	// Models are the turns' models, Requests the models of the last requests.
	Models   map[string]string     `json:"models,omitempty"`
	Requests []openRequest         `json:"requests,omitempty"`
	Actions  map[string]openAction `json:"actions,omitempty"`
	// Workspace is where the turns of a session work that was created without one.
	Workspace string `json:"workspace,omitempty"`
}

type openRequest struct {
	ID    string `json:"id"`
	Model string `json:"model"`
}

type openAction struct {
	At    time.Time `json:"at"`
	Model string    `json:"model,omitempty"`
	Tool  string    `json:"tool,omitempty"`
}

// maxOpenRequests is how many requests are remembered: the cost of one follows it closely.
const maxOpenRequests = 8

func (o *openSession) empty() bool { return len(o.Models)+len(o.Requests)+len(o.Actions) == 0 }

// count folds one fact: it returns what it counts, and the model and the tool that it
// counts for; false if it counts nothing.
func (o *openSession) count(e *index.Event) (f Figures, model, tool string, counts bool) {
	model = o.Models[e.TurnID]
	switch p := e.Payload.(type) {
	case *event.ModelRequested:
		o.request(e, p)
		return f, "", "", false
	case *event.ModelCompleted:
		model = o.modelOf(p.ModelRequestID, p.Provider, p.Model, model)
		f[ModelCalls] = 1
		f[InputTokens], f[CachedInputTokens] = p.Usage.InputTokens, p.Usage.CachedInputTokens
		f[OutputTokens], f[ReasoningTokens] = p.Usage.OutputTokens, p.Usage.ReasoningTokens
	case *event.ModelFailed:
		model = o.modelOf(p.ModelRequestID, p.Provider, p.Model, model)
		f[ModelCalls], f[ModelFailures] = 1, 1
	case *event.CostRecorded:
		if p.CostUSD == nil {
			return f, "", "", false
		}
		model = o.modelOf(p.ModelRequestID, "", "", model)
		f[CostNanoUSD] = int64(math.Round(*p.CostUSD * nano))
	case *event.ToolStarted:
		if p.AttemptCount > 1 { // a fact of an older version: the call was counted
			return f, "", "", false
		}
		f[ToolCalls], tool = 1, p.ToolName
	case *event.ToolFailed:
		f[ToolFailures], tool = 1, p.ToolName
	case *event.TurnCompleted:
		f[Turns] = 1
		o.endTurn(e.TurnID)
	case *event.TurnFailed:
		f[Turns] = 1
		if p.Status == "cancelled" {
			f[Cancelled] = 1
		} else {
			f[Failures] = 1
		}
		o.endTurn(e.TurnID)
	case *event.ActionRequired:
		o.ask(e, p, model)
		return f, "", "", false
	case *event.ActionResolved:
		asked, ok := o.Actions[e.ActionID]
		if !ok {
			return f, "", "", false
		}
		delete(o.Actions, e.ActionID)
		f[Approvals], f[ApprovalWaitMs] = 1, max(e.Time.Sub(asked.At).Milliseconds(), 0)
		model, tool = asked.Model, asked.Tool
	default:
		return f, "", "", false
	}
	return f, model, tool, true
}

const nano = 1e9

// begin remembers where a turn works, until it ends.
func (o *openSession) begin(e *index.Event, p *event.TurnStarted) {
	if p.Environment == nil || !inTurn(e) {
		return
	}
	if o.Models == nil {
		o.Models = map[string]string{}
	}
	o.Models[e.TurnID] += "" // it is open, also before it asks a model
	o.Workspace = p.Environment.WorkspaceRoot
}

func (o *openSession) request(e *index.Event, p *event.ModelRequested) {
	name := modelName(p.Provider, p.Model)
	if inTurn(e) {
		if o.Models == nil {
			o.Models = map[string]string{}
		}
		o.Models[e.TurnID] = name
	}
	o.Requests = append(o.Requests, openRequest{p.ModelRequestID, name})
	if len(o.Requests) > maxOpenRequests {
		o.Requests = o.Requests[len(o.Requests)-maxOpenRequests:]
	}
}

func (o *openSession) ask(e *index.Event, p *event.ActionRequired, model string) {
	if p.ActionType == "client_tool" { // a client carries out a call; no one is asked
		return
	}
	if o.Actions == nil {
		o.Actions = map[string]openAction{}
	}
	o.Actions[e.ActionID] = openAction{e.Time, model, p.ToolName}
}

// endTurn forgets a turn. Without others, its requests are over too.
func (o *openSession) endTurn(turnID string) {
	if delete(o.Models, turnID); len(o.Models) == 0 {
		o.Requests = nil
	}
}

// modelOf returns the model of a request: as the fact says, as its request said, or the
// turn's.
func (o *openSession) modelOf(requestID, provider, model, ofTurn string) string {
	if model != "" {
		return modelName(provider, model)
	}
	for _, r := range o.Requests {
		if r.ID == requestID {
			return r.Model
		}
	}
	return ofTurn
}

func modelName(provider, model string) string {
	if provider == "" {
		return model
	}
	return provider + "/" + model
}

func inTurn(e *index.Event) bool { return e.TurnID != "" && e.TurnID != event.NotApplicable }

// keyOf returns what a fact's figures are about.
func keyOf(f *index.Fact, workspace, model, tool string) Key {
	return Key{Account: f.Account, Workspace: cmp.Or(f.Workspace, workspace), Session: f.SessionID, Model: model, Tool: tool}
}
