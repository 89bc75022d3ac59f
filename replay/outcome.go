package replay

import (
	"fmt"
	"slices"
	"strings"

	"agentd/event"
)

// Outcome is what a turn came to, for runs whose steps may differ: another model
// says the same in other words.
type Outcome struct {
	Turn int `json:"turn"`
	// Status is completed, or the category of the failure.
	Status string `json:"status"`
	// Answer is the last text of the model.
	Answer string `json:"answer"`
	// Calls are the tools that were called, with how each ended.
	Calls []string `json:"calls"`
	// Steps are the answers of models; Refused the calls that were not allowed.
	Steps   int `json:"steps"`
	Refused int `json:"refused"`
}

// outcomes returns what each turn of a session came to, without those of subagents.
func outcomes(facts []*event.Event, read func(ref string) ([]byte, error)) []Outcome {
	var out []Outcome
	turns := map[string]int{}
	for _, e := range facts {
		if e.Type == event.TypeTurnSubmitted && (e.SubagentID == "" || e.SubagentID == event.NotApplicable) {
			out = append(out, Outcome{Turn: len(out) + 1, Status: "not ended", Calls: []string{}})
			turns[e.TurnID] = len(out)
		}
		if n := turns[e.TurnID]; n > 0 {
			out[n-1].learn(e, read)
		}
	}
	return out
}

// learn adds what a fact says about the outcome.
func (o *Outcome) learn(e *event.Event, read func(ref string) ([]byte, error)) {
	switch p := e.Payload.(type) {
	case *event.ModelCompleted:
		o.Steps++
		m, err := p.Whole(read)
		if err != nil {
			m = &event.ModelMessage{Text: p.Preview} // that is all that is left of it
		}
		if m != nil && m.Text != "" {
			o.Answer = m.Text
		}
	case *event.ToolResult:
		o.Calls = append(o.Calls, p.ToolName+" "+p.Status)
	case *event.ToolFailed:
		o.Calls = append(o.Calls, p.ToolName+" "+p.ErrorCategory)
	case *event.PermissionEvaluated:
		if p.Decision == "deny" {
			o.Refused++
		}
	case *event.TurnCompleted:
		o.Status = "completed"
	case *event.TurnFailed:
		o.Status = p.FailureCategory
	}
}

// OutcomeDifference is a turn that came to something else.
type OutcomeDifference struct {
	Expected Outcome `json:"expected"`
	Got      Outcome `json:"got"`
	// Same says that both ended the same way; what they said and did may differ.
	Same bool `json:"same"`
	// Says is for people.
	Says string `json:"says"`
}

// compareOutcomes checks what the turns of two runs came to against each other.
func compareOutcomes(want, have []Outcome) []OutcomeDifference {
	out := make([]OutcomeDifference, 0, len(want))
	for i := range want {
		d := OutcomeDifference{Expected: want[i], Got: Outcome{Turn: i + 1, Status: "not run", Calls: []string{}}}
		if i < len(have) {
			d.Got = have[i]
		}
		d.Same = d.Expected.Status == d.Got.Status
		d.Says = d.describe()
		out = append(out, d)
	}
	return out
}

// describe says what differs, the most important first.
func (d *OutcomeDifference) describe() string {
	var parts []string
	part := func(differs bool, format string, args ...any) {
		if differs {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	w, g := &d.Expected, &d.Got
	part(w.Status != g.Status, "ended %s instead of %s", g.Status, w.Status)
	part(w.Refused != g.Refused, "%d calls were refused instead of %d", g.Refused, w.Refused)
	part(!slices.Equal(w.Calls, g.Calls), "called %s instead of %s", joinCalls(g.Calls), joinCalls(w.Calls))
	part(w.Answer != g.Answer, "answered in other words")
	part(w.Steps != g.Steps, "took %d steps instead of %d", g.Steps, w.Steps)
	if len(parts) == 0 {
		return "the same"
	}
	return strings.Join(parts, "; ")
}

func joinCalls(calls []string) string {
	if len(calls) == 0 {
		return "nothing"
	}
	return strings.Join(calls, ", ")
}
