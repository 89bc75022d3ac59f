package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agentd/event"
)

// aside says in a line what happens beside answer and tools.
func (v *view) aside(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.RateLimitHit:
		v.limited(p)
	case *event.RoutingDecision:
		if e.Type == event.TypeRoutingFallbackApplied {
			v.note(yellow, markWarn, fmt.Sprintf("falling back from %s to %s/%s: %s", p.FromModel, p.SelectedProvider, p.SelectedModel, p.DecisionReason))
		}
	case *event.RoutingCandidates:
		if e.Type == event.TypeRoutingNotPossible {
			v.note(red, markWarn, "no model can do this: "+p.DecisionReason)
			for _, x := range p.Excluded {
				v.stage.print(v.ink.paint(dim, "  "+plainText(x.Model+": "+x.Reason)))
			}
		}
	case *event.QuotaState:
		v.quota(e, p)
	case *event.RuntimeNotice:
		v.note(yellow, markWarn, facets(p.Message, p.Advice))
	case *event.ThreadUpdated:
		if p.Status == "blocked" && len(p.ActionIDs) == 0 {
			v.work("", time.Time{})
			v.note(yellow, markWarn, "blocked: "+p.Reason)
		}
	case *event.HistoryReconstructed:
		for _, r := range p.Recovered {
			v.note(yellow, markNote, r)
		}
	case *event.RollbackCompleted:
		v.note(cyan, "↩", plural(int64(len(p.RemovedTurns)), "turn")+" taken back")
	default:
		v.governance(e)
	}
}

// governance says what hooks, sandbox, compaction and helpers did.
func (v *view) governance(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.SandboxViolation:
		where := p.Path
		if where == "" {
			where = p.Host
		}
		v.note(red, markWarn, facets("sandbox: "+p.Boundary, where, p.Detail))
	case *event.SandboxApplied:
		for _, missing := range p.NotEnforced {
			v.once(yellow, markWarn, "sandbox: not enforced on this machine: "+missing)
		}
	case *event.HookCompleted:
		if p.Decision == "block" || p.Decision == "deny" || p.Decision == "ask" {
			v.note(yellow, markWarn, facets("hook "+p.HandlerRef+": "+p.Decision, p.Reason))
		}
	case *event.HookFailed:
		v.note(yellow, markWarn, facets("hook "+p.HandlerRef+" failed ("+p.FailureBehavior+")", p.Message))
	case *event.CompactionCompleted:
		v.note(cyan, markNote, fmt.Sprintf("context compacted: %s to %s tokens", count(p.TokensBefore), count(p.TokensAfter)))
	case *event.CompactionFailed:
		v.note(yellow, markWarn, "compaction failed: "+p.Error.Message)
	case *event.OutputRedacted:
		v.note(yellow, markNote, plural(p.Count, "secret")+" taken out of the output")
	case *event.SubagentSpawned:
		v.note(cyan, markNote, "agent "+strings.TrimSpace(p.Nickname+" "+p.Role)+" began")
	case *event.SubagentEnded:
		v.subagent(p)
	case *event.RunStatus:
		if p.Phase == "retrying" {
			v.work(strings.TrimSpace("waiting to try again "+p.Detail), e.Time)
		}
	}
}

func (v *view) limited(p *event.RateLimitHit) {
	who := p.Provider
	if p.Source == "client" {
		who = "the configured limit of " + p.Provider
	}
	text := "rate limited by " + who
	if p.RetryAfterMs != nil {
		text += ", waiting " + took(*p.RetryAfterMs)
	}
	v.note(yellow, markWarn, text)
}

func (v *view) quota(e *event.Event, p *event.QuotaState) {
	text := "budget nearly spent"
	if e.Type == event.TypeQuotaBlocked {
		text = "budget spent"
	}
	if p.Used != nil && p.Limit != nil {
		text += fmt.Sprintf(": %s of %s", money(*p.Used), money(*p.Limit))
	}
	v.note(yellow, markWarn, facets(text, p.Reason))
}

func (v *view) subagent(p *event.SubagentEnded) {
	text := "agent " + p.Status
	if p.Error != nil {
		text += ": " + p.Error.Message
	}
	v.note(cyan, markNote, facets(text, costOf(p.Usage, p.CostUSD)))
}

// inputText returns the text of an input's parts.
func inputText(input event.Raw) string {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(input, &parts) != nil {
		return ""
	}
	var out []string
	for _, p := range parts {
		if p.Text != "" {
			out = append(out, p.Text)
		} else {
			out = append(out, "["+p.Type+"]")
		}
	}
	return strings.Join(out, "\n")
}
