package evidence

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"agentd/event"
)

// triggerRequested is the trigger of a compaction that somebody asked for.
const triggerRequested = "requested"

// steps collects what was done from outside. Input that was added to a turn stands
// where the turn takes it up: before the next call of the model, or at its end.
func (p *Projection) steps(e *event.Event, turn int) {
	switch x := e.Payload.(type) {
	case *event.TurnStarted:
		p.begun = turn
	case *event.TurnSteered:
		if turn > 0 {
			p.steering = append(p.steering, Fact{
				Type: e.Type, Of: fmt.Sprintf("turn %d", turn), EventID: e.ID, Says: map[string]string{"input": saidWords(x.Input, x.Preview)},
			})
		}
	case *event.ModelRequested:
		if x.Purpose != "compaction" {
			p.taken(turn)
		}
	case *event.TurnCompleted, *event.TurnFailed:
		p.taken(turn)
	}
	if says := comparedAct(e, p.turns); says != nil && applicable(e.TurnID) == "" {
		p.main[p.begun] = append(p.main[p.begun], Fact{Type: e.Type, Of: "session", EventID: e.ID, Says: says})
	}
}

// taken places the input that a turn takes up.
func (p *Projection) taken(turn int) {
	of := fmt.Sprintf("turn %d", turn)
	for _, f := range p.steering {
		if f.Of == of {
			p.main[turn] = append(p.main[turn], f)
			p.reaches(of)
		}
	}
	p.steering = slices.DeleteFunc(p.steering, func(f Fact) bool { return f.Of == of })
}

// comparedAct returns what is compared of a fact that tells of an act; nil if it
// doesn't.
func comparedAct(e *event.Event, turns map[string]int) map[string]string {
	switch x := e.Payload.(type) {
	case *event.TurnInterruptRequested:
		return map[string]string{"reason": x.Reason, "cause": x.Cause}
	case *event.PolicyChanged:
		if !setsPolicy(x) {
			return nil
		}
		rules, _ := json.Marshal(x.Rules) //nolint:errchkjson // rules always encode
		return map[string]string{"source": x.Source, "mode": x.Mode, "rules": meaning(rules)}
	case *event.CompactionCompleted:
		if x.Trigger == triggerRequested {
			return map[string]string{"turns": strconv.Itoa(len(x.AffectedTurns))}
		}
	case *event.CompactionFailed:
		if x.Trigger == triggerRequested {
			return map[string]string{"category": x.Error.Category}
		}
	case *event.RollbackCompleted:
		var files []string
		for _, f := range x.Files {
			files = append(files, f.Path)
		}
		slices.Sort(files)
		return map[string]string{"to": strconv.Itoa(turns[x.ToTurnID]), "removed": strconv.Itoa(len(x.RemovedTurns)), "files": strings.Join(files, " ")}
	}
	return nil
}

// saidWords are the words of an input, whichever form it has.
func saidWords(input event.Raw, preview string) string {
	if len(input) == 0 {
		return preview
	}
	return meaning(input)
}

// Within returns the facts of a replay without those that a turn got after its
// recording had ended.
func Within(c *Case, got []Fact) []Fact {
	left := map[string]int{}
	for _, f := range c.Expected {
		left[f.Of]++
	}
	for i, t := range c.Turns {
		if t != nil && t.Open {
			got = within(fmt.Sprintf("turn %d", i+1), maps.Clone(left), got)
		}
	}
	if c.Parties != nil {
		for _, t := range c.Parties.Open {
			got = within(t.Of, maps.Clone(left), got)
		}
	}
	return got
}

// within returns facts without those of a turn beyond so many of each kind.
func within(of string, left map[string]int, got []Fact) []Fact {
	return slices.DeleteFunc(slices.Clone(got), func(f Fact) bool {
		if f.Of != of && !strings.HasPrefix(f.Of, of+",") {
			return false
		}
		left[f.Of]--
		return left[f.Of] < 0
	})
}
