package permission

import "agentd/event"

// Policy is a mode and rules to be tried.
type Policy struct {
	// Mode replaces the recorded one; empty leaves it.
	Mode string
	// Rules replace the recorded ones, of all sources. Nil leaves them as they
	// were; an empty list removes them.
	Rules []event.PolicyRule
}

// Recorded is a decision of the past, with what it was about.
type Recorded struct {
	// Ref names it, such as its event's id.
	Ref string
	// Question as it was asked, as far as the facts tell. Without an input it can't
	// be asked again.
	Question Question
	// Decision and Reason as they were recorded.
	Decision, Reason string
}

// Change is a decision that a new policy would make otherwise.
type Change struct {
	Ref, ToolName string
	// Before is the recorded decision, After the new one.
	Before       string
	After        Decision
	BeforeReason string
}

// Comparison is what a new policy would have done.
type Comparison struct {
	// Same counts the decisions that stay.
	Same int
	// Changes are those that don't, in the order of the record.
	Changes []Change
	// Skipped are the refs of decisions whose input was not kept.
	Skipped []string
}

// Reconsider decides recorded questions again under a new policy. Nothing runs. Grants apply
// as they did then.
func Reconsider(record []Recorded, policy Policy) Comparison {
	var out Comparison
	for _, r := range record {
		if len(r.Question.Input) == 0 {
			out.Skipped = append(out.Skipped, r.Ref)
			continue
		}
		q := r.Question
		if policy.Mode != "" {
			q.Mode = policy.Mode
		}
		if policy.Rules != nil {
			q.Rules = policy.Rules
		}
		d := Decide(q)
		if d.Decision == r.Decision {
			out.Same++
			continue
		}
		out.Changes = append(out.Changes, Change{Ref: r.Ref, ToolName: q.Tool.ToolName, Before: r.Decision, BeforeReason: r.Reason, After: d})
	}
	return out
}
