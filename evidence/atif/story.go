package atif

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"agentd/event"
)

// inlineBytes bounds what is shown of one output; the rest is behind its reference.
const inlineBytes = 256 << 10

// story is what happened in one thread, step by step.
type story struct {
	x        *exporting
	id       string
	threadID string
	role     string
	parent   *story
	model    string
	defs     []ToolDefinition
	// write takes finished steps; without it they are kept.
	write func(*Step) error
	steps []*Step
	count int64
	err   error

	// open is the agent's step whose results are still to come.
	open *openStep
	// inputs are those of turns that haven't begun, later what was said in the meantime.
	inputs map[string]*Step
	waits  []string
	later  []*Step
	// steers are shown with the next call, or at the end of their turn.
	steers []*Step
	// costs came before the answer that they are of.
	costs map[string]*float64

	ids      event.Scope
	runtime  string
	outcome  Extra
	turns    []TurnEnd
	final    FinalMetrics
	calls    int64
	asides   int64
	unpriced int64
}

// openStep is an agent's step, with what came of its calls by their ids.
type openStep struct {
	*Step
	requestID string
	results   map[string]*Result
	refs      map[string][]SubagentRef
}

func (s *story) trajectoryHead() *Trajectory {
	t := &Trajectory{SchemaVersion: s.x.opt.Version, SessionID: s.x.scope.SessionID, TrajectoryID: s.id}
	t.Agent = Agent{Name: s.x.opt.AgentName, Version: s.x.opt.AgentVersion, ModelName: s.model, ToolDefinitions: s.defs}
	if s.role != "" {
		t.Agent.Extra = Extra{"role": s.role}
	}
	return t
}

// tail is the whole document of a subagent; of the exported thread, what stands
// after the steps.
func (s *story) tail() *Trajectory {
	t := s.trajectoryHead()
	t.Steps = s.steps
	for i, step := range t.Steps {
		step.StepID = int64(i + 1)
	}
	f := s.final
	f.Steps, f.Extra = s.count, Extra{"llm_calls": s.calls}
	t.Notes += s.x.removed
	if s.asides > 0 {
		t.Notes += fmt.Sprintf("%d calls of models made summaries or judged; they are in the totals and in no metrics of a step. ", s.asides)
	}
	if s.unpriced > 0 {
		t.Notes += fmt.Sprintf("No price is known for %d of the calls. ", s.unpriced)
	}
	t.FinalMetrics = &f
	t.Extra = Extra{"runtime_id": s.runtime, "thread_id": s.threadID}
	for name, id := range map[string]string{"turn_id": s.ids.TurnID, "task_id": s.ids.TaskID, "run_id": s.ids.RunID, "subagent_id": s.ids.SubagentID} {
		if id != "" && id != event.NotApplicable {
			t.Extra[name] = id
		}
	}
	maps.Copy(t.Extra, s.outcome)
	if len(s.turns) > 1 {
		t.Extra["turns"] = s.severalTurns()
	}
	return t
}

// tools keeps the definitions of the tools that the model is offered. The fact says
// which they are; their descriptions are in the inventory that it names.
func (s *story) tools(p *event.ToolCatalogResolved) {
	list, told := p.Tools, map[string]*event.ToolInfo{}
	inventory := s.inventory(p.InventoryRef)
	for i := range inventory {
		told[inventory[i].ToolName] = &inventory[i]
	}
	if len(list) == 0 {
		list = inventory
	}
	if len(list) == 0 {
		return
	}
	s.defs = nil
	for i := range list {
		t := &list[i]
		if t.Policy == "unavailable" {
			continue
		}
		if whole := told[t.ToolName]; whole != nil && t.Description == "" && len(t.InputSchema) == 0 {
			t = whole
		}
		d := ToolDefinition{Type: "function", Function: Function{Name: t.ToolName, Description: t.Description, Parameters: t.InputSchema}}
		if len(t.InputSchema) == 0 && t.InputSchemaRef != "" {
			if raw, ok := s.x.read(t.InputSchemaRef, 1<<20); ok && json.Valid(raw) {
				d.Function.Parameters = raw
			}
		}
		s.defs = append(s.defs, d)
	}
}

// inventory reads the tools behind a reference; none if they can't be read.
func (s *story) inventory(ref string) (list []event.ToolInfo) {
	raw, ok := s.x.read(ref, 8<<20)
	if !ok {
		return nil
	}
	var inventory struct {
		Tools []event.ToolInfo `json:"tools"`
	}
	if json.Unmarshal(raw, &list) != nil && json.Unmarshal(raw, &inventory) == nil {
		list = inventory.Tools
	}
	return list
}

// read returns what is behind a reference, as far as it can be read.
func (x *exporting) read(ref string, limit int64) ([]byte, bool) {
	if x.opt.Contents == nil || ref == "" {
		return nil, false
	}
	b, err := x.opt.Contents(ref, limit)
	return b, err == nil
}

// foldFact adds a fact.
func (s *story) foldFact(e *event.Event) {
	s.runtime = e.RuntimeID
	for _, id := range []struct{ to, from *string }{
		{&s.ids.TurnID, &e.TurnID}, {&s.ids.TaskID, &e.TaskID}, {&s.ids.RunID, &e.RunID}, {&s.ids.SubagentID, &e.SubagentID},
	} {
		if *id.from != "" && (s.parent != nil || id.to != &s.ids.SubagentID) {
			*id.to = *id.from
		}
	}
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted, *event.TurnStarted, *event.TurnSteered, *event.TurnCompleted, *event.TurnFailed:
		s.followTurn(e)
	case *event.ModelRequested, *event.ModelCompleted, *event.ModelFailed, *event.CostRecorded:
		s.modelCall(e)
	case *event.ToolResult, *event.ToolFailed, *event.OutputStored:
		s.toolEnd(e)
	case *event.SubagentSpawned:
		s.spawned(e, p)
	case *event.CompactionCompleted:
		s.compacted(e, p)
	case *event.RollbackCompleted:
		s.aside(&Step{
			Source: SourceSystem, Timestamp: eventTime(e), Message: *Text(fmt.Sprintf("%d turns were taken back.", len(p.RemovedTurns))),
			Extra: Extra{"event_id": e.ID, "context_management": Extra{"type": "pruning", "boundary": "truncate", "removed_turns": p.RemovedTurns}},
		})
	default:
		s.govern(e)
	}
}

func eventTime(e *event.Event) string { return e.Time.UTC().Format(time.RFC3339Nano) }

// followTurn follows the turns of the thread.
func (s *story) followTurn(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		if s.inputs == nil {
			s.inputs = map[string]*Step{}
		}
		s.inputs[e.TurnID] = s.addInputStep(e, p.Input, p.InputRef, p.Preview)
		s.waits = append(s.waits, e.TurnID)
	case *event.TurnStarted:
		s.close()
		if step := s.inputs[e.TurnID]; step != nil {
			delete(s.inputs, e.TurnID)
			s.emitStep(step)
		}
	case *event.TurnSteered:
		s.steers = append(s.steers, s.addInputStep(e, p.Input, p.InputRef, p.Preview))
	case *event.TurnCompleted:
		s.endTurn(TurnEnd{TurnID: e.TurnID, Status: p.Status}, Extra{"status": p.Status, "outcome": p.Outcome})
	case *event.TurnFailed:
		s.endTurn(TurnEnd{TurnID: e.TurnID, Status: p.Status, FailureCategory: p.FailureCategory, Error: p.Error.Message},
			Extra{"status": p.Status, "outcome": p.Outcome, "failure_category": p.FailureCategory, "error": p.Error.Message})
	}
}

func (s *story) endTurn(turn TurnEnd, outcome Extra) {
	s.close()
	s.steered() // no call came any more that could have been told
	s.outcome = outcome
	s.turns = append(s.turns, turn)
	if s.parent == nil {
		s.x.sum.Turns = append(s.x.sum.Turns, turn)
	}
}

// severalTurns lists the turns of a document that has more than one: where it ended
// is then only the last one's end.
func (s *story) severalTurns() []Extra {
	var out []Extra
	for _, t := range s.turns {
		x := Extra{"turn_id": t.TurnID, "status": t.Status}
		if t.FailureCategory != "" {
			x["failure_category"], x["error"] = t.FailureCategory, t.Error
		}
		out = append(out, x)
	}
	return out
}

// addInputStep is the step of an input.
func (s *story) addInputStep(e *event.Event, input event.Raw, ref, preview string) *Step {
	step := &Step{Source: SourceUser, Timestamp: eventTime(e), Message: *Text(preview), Extra: Extra{"event_id": e.ID, "turn_id": e.TurnID}}
	if len(input) == 0 {
		if raw, ok := s.x.read(ref, 8<<20); ok {
			input = raw
		} else {
			step.Extra["input_ref"] = ref
		}
	}
	var parts []inputPart
	if len(input) == 0 || json.Unmarshal(input, &parts) != nil {
		return step
	}
	var others []string
	step.Message, others = s.x.shown(parts)
	if len(others) > 0 {
		step.Extra["other_parts"] = others
	}
	return step
}

// emitStep finishes a step.
func (s *story) emitStep(step *Step) {
	s.count++
	if s.x.opt.Version == Level14 {
		downlevel(step)
	}
	if s.write == nil {
		s.steps = append(s.steps, step)
		return
	}
	if err := s.write(step); err != nil && s.err == nil {
		s.err = err
	}
}

// steered tells what was said to a turn while it ran.
func (s *story) steered() {
	steers := s.steers
	s.steers = nil
	for _, step := range steers {
		s.emitStep(step)
	}
}

// aside adds a step that isn't a call of the agent: now, or after the step whose
// results are still to come.
func (s *story) aside(step *Step) {
	if s.open != nil {
		s.later = append(s.later, step)
		return
	}
	s.emitStep(step)
}

// close finishes the agent's step: results in the order of their calls.
func (s *story) close() {
	if o := s.open; o != nil {
		s.open = nil
		o.observe()
		for _, c := range o.ToolCalls {
			if o.results[c.ToolCallID] == nil {
				s.x.sum.Unanswered++
			}
		}
		s.emitStep(o.Step)
	}
	later := s.later
	s.later = nil
	for _, step := range later {
		s.emitStep(step)
	}
}

// observe puts the results of a step's calls into it.
func (o *openStep) observe() {
	var results []*Result
	for _, c := range o.ToolCalls {
		r := o.results[c.ToolCallID]
		if refs := o.refs[c.ToolCallID]; len(refs) > 0 {
			if r == nil {
				r = &Result{SourceCallID: c.ToolCallID}
			}
			r.SubagentRefs = refs
		}
		if r != nil {
			results = append(results, r)
		}
	}
	if len(results) > 0 {
		o.Observation = &Observation{Results: results}
	}
}

// finishStory finishes the story. A turn that never began is still what was asked.
func (s *story) finishStory() {
	s.close()
	s.steered()
	for _, id := range s.waits {
		if step := s.inputs[id]; step != nil && s.count == 0 {
			s.emitStep(step)
		}
	}
	if s.count == 0 && s.parent != nil {
		// What refers to it must find something.
		s.emitStep(&Step{Source: SourceSystem, Message: *Text("The subagent had not begun.")})
	}
}
