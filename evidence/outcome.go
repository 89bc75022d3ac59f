package evidence

import (
	"fmt"
	"slices"
	"strconv"
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

// Outcomes returns what each turn of a run came to.
func Outcomes(facts []Fact) []Outcome {
	var out []Outcome
	for i := range facts {
		f := &facts[i]
		turn := turnOf(f.Of)
		for len(out) < turn {
			out = append(out, Outcome{Turn: len(out) + 1, Status: "not ended", Calls: []string{}})
		}
		if turn > 0 {
			out[turn-1].take(f)
		}
	}
	return out
}

// turnOf reads the number out of "turn 2, call 1".
func turnOf(of string) int {
	text, _, _ := strings.Cut(strings.TrimPrefix(of, "turn "), ",")
	n, _ := strconv.Atoi(text) // what isn't a number belongs to no turn
	return n
}

func (o *Outcome) take(f *Fact) {
	switch f.Type { //nolint:exhaustive // other facts say nothing about an outcome
	case event.TypeModelCompleted:
		o.Steps++
		if text := f.Says["text"]; text != "" {
			o.Answer = text
		}
	case event.TypeToolResult:
		o.Calls = append(o.Calls, f.Says["tool"]+" "+f.Says["status"])
	case event.TypeToolFailed:
		o.Calls = append(o.Calls, f.Says["tool"]+" "+f.Says["category"])
	case event.TypePermissionEvaluated:
		if f.Says["decision"] == "deny" {
			o.Refused++
		}
	case event.TypeTurnCompleted:
		o.Status = "completed"
	case event.TypeTurnFailed:
		o.Status = f.Says["category"]
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

// CompareOutcomes holds what the turns of two runs came to against each other.
func CompareOutcomes(expected, got []Fact) []OutcomeDifference {
	want, have := Outcomes(expected), Outcomes(got)
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
	add := func(differs bool, format string, args ...any) {
		if differs {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	w, g := &d.Expected, &d.Got
	add(w.Status != g.Status, "ended %s instead of %s", g.Status, w.Status)
	add(w.Refused != g.Refused, "%d calls were refused instead of %d", g.Refused, w.Refused)
	add(!slices.Equal(w.Calls, g.Calls), "called %s instead of %s", list(g.Calls), list(w.Calls))
	add(w.Answer != g.Answer, "answered in other words")
	add(w.Steps != g.Steps, "took %d steps instead of %d", g.Steps, w.Steps)
	if len(parts) == 0 {
		return "the same"
	}
	return strings.Join(parts, "; ")
}

func list(calls []string) string {
	if len(calls) == 0 {
		return "nothing"
	}
	return strings.Join(calls, ", ")
}

// CompareDecisions returns every permission decision that is another one in the
// second run, in the order of the first. Decisions of calls that only one of the
// runs has are no difference: the runs went apart before.
func CompareDecisions(expected, got []Fact) []Difference {
	have := map[string]*Fact{}
	for i := range got {
		if f := &got[i]; f.Type == event.TypePermissionEvaluated {
			if _, ok := have[f.Of]; !ok {
				have[f.Of] = f
			}
		}
	}
	out := []Difference{}
	seen := map[string]bool{}
	for i := range expected {
		f := &expected[i]
		g := have[f.Of]
		if f.Type != event.TypePermissionEvaluated || seen[f.Of] || g == nil || f.Says["tool"] != g.Says["tool"] {
			continue
		}
		seen[f.Of] = true
		if f.Says["decision"] != g.Says["decision"] {
			out = append(out, Difference{Expected: f, Got: g, Says: fmt.Sprintf("%s: %s would be %s instead of %s (%s)",
				f.Of, f.Says["tool"], g.Says["decision"], f.Says["decision"], decidedBy(g))})
		}
	}
	return out
}

// decidedBy names what decided.
func decidedBy(f *Fact) string {
	if f.Says["rules"] != "" {
		return f.Says["rules"]
	}
	return f.Says["source"]
}
