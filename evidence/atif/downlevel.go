package atif

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Downlevel writes a document of the current version as one of [Level14]. What
// that version has no place for moves to the steps' own extra, or is left out; the
// notes say what.
func Downlevel(doc []byte) ([]byte, error) {
	if err := Validate(doc); err != nil {
		return nil, err
	}
	t := &Trajectory{}
	if err := json.Unmarshal(doc, t); err != nil {
		return nil, fmt.Errorf("atif: %w", err)
	}
	tail := *t
	tail.Subagents = nil
	for _, s := range t.Subagents {
		tail.Notes += leftOut(s.TrajectoryID)
	}
	t.SchemaVersion, t.TrajectoryID, t.Agent.ToolDefinitions = Level14, "", nil
	var out bytes.Buffer
	w, err := NewWriter(&out, t)
	if err != nil {
		return nil, err
	}
	for _, s := range t.Steps {
		downlevel(s)
		if err := w.Step(s); err != nil {
			return nil, err
		}
	}
	err = w.Close(&tail)
	return out.Bytes(), err
}

func leftOut(id string) string {
	return "The trajectory of subagent " + id + " is left out: this version has no place for it. "
}

// downlevel takes out of a step what version 1.4 has no place for. What is said
// about calls and results moves to the step's own extra.
func downlevel(step *Step) {
	step.LLMCallCount = nil
	if step.Extra == nil {
		step.Extra = Extra{}
	}
	step.flatten()
	calls := Extra{}
	for _, c := range step.ToolCalls {
		if len(c.Extra) > 0 {
			calls[c.ToolCallID] = c.Extra
			c.Extra = nil
		}
	}
	if len(calls) > 0 {
		step.Extra["tool_calls"] = calls
	}
	if step.Observation == nil {
		return
	}
	results := []Extra{}
	var kept []*Result
	for _, r := range step.Observation.Results {
		if len(r.Extra) > 0 {
			results = append(results, Extra{"source_call_id": r.SourceCallID, "extra": r.Extra})
			r.Extra = nil
		}
		for _, ref := range r.SubagentRefs {
			results = append(results, Extra{"source_call_id": r.SourceCallID, "subagent_id": ref.TrajectoryID})
		}
		r.SubagentRefs = nil
		if r.Content == nil {
			r.Content = Text("")
		}
		kept = append(kept, r)
	}
	step.Observation.Results = kept
	if len(results) > 0 {
		step.Extra["results"] = results
	}
}

// flatten makes the message a text; what was beside the text is only named.
func (s *Step) flatten() {
	var others []any
	for _, p := range s.Message.Parts {
		if p.Type != "text" {
			others = append(others, p.Type)
			continue
		}
		if s.Message.Text != "" {
			s.Message.Text += "\n\n"
		}
		s.Message.Text += p.Text
	}
	s.Message.Parts = nil
	if len(others) > 0 {
		named, _ := s.Extra["other_parts"].([]any)
		s.Extra["other_parts"] = append(others, named...)
	}
}
