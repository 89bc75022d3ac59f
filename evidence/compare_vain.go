package evidence

import (
	"slices"

	"agentd/event"
)

// A crash may come when hooks had answered and nothing was done yet with what they
// said. The step is decided anew then, and its hooks are asked again; or it is a call
// whose result is lost, and with it what hooks said of that. A replay knows no crash:
// what was said in vain is left out of what is compared, and of what is played.

// inVain removes from the facts of a turn or a call those of hooks that a further one
// makes vain, and returns the others. In a replay nothing is in vain: a hook that is
// asked twice there is a difference.
func (p *Projection) inVain(list []Fact, e *event.Event, f *Fact) []Fact {
	top := p
	for top.above != nil {
		top = top.above
	}
	if !top.recorded {
		return list
	}
	first := len(list)
	for i, g := range slices.Backward(list) {
		if g.Type != event.TypeHookCompleted && g.Type != event.TypeHookFailed {
			break
		}
		if isLost(e) && g.Says["point"] == afterTool || g.Says["hook"] != "" && g.Says["hook"] == f.Says["hook"] && g.Says["point"] == f.Says["point"] {
			first = i
		}
	}
	for _, g := range list[first:] {
		if top.vain == nil {
			top.vain = map[string]bool{}
		}
		top.vain[g.EventID] = true
		p.reached[g.Of]--
		if p.above != nil {
			p.above.reached[p.prefix+g.Of]--
		}
	}
	return list[:first]
}

// afterTool is the point at which hooks are asked about a result.
const afterTool = "post_tool_use"

// isLost reports whether a fact is the end of a call that a crash cut off.
func isLost(e *event.Event) bool {
	failed, ok := e.Payload.(*event.ToolFailed)
	return ok && failed.ErrorCategory == categoryLost
}

// hooksEnd leaves out the runs of hooks that were in vain.
func (r *recording) hooksEnd() {
	if r.c.Parties == nil {
		return
	}
	r.c.Parties.Hooks = slices.DeleteFunc(r.c.Parties.Hooks, func(h CaseHook) bool { return r.projected.vain[h.EventID] })
}
