package turntext

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
	"agentd/model"
)

// showAside says in a line what happens beside answer and tools.
func (v *View) showAside(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.RateLimitHit:
		v.limited(p)
	case *event.RoutingDecision:
		if e.Type == event.TypeRoutingFallbackApplied {
			v.Warn(fmt.Sprintf("falling back from %s to %s/%s: %s", p.FromModel, p.SelectedProvider, p.SelectedModel, p.DecisionReason))
		}
	case *event.RoutingCandidates:
		if e.Type == event.TypeRoutingNotPossible {
			v.Note(terminal.Red, MarkWarn, "no model can do this: "+p.DecisionReason)
			for _, x := range p.Excluded {
				v.Stage.Print(v.Ink.Paint(terminal.Dim, "  "+terminal.Plain(x.Model+": "+x.Reason)))
			}
		}
	case *event.QuotaState:
		v.quota(e, p)
	case *event.RuntimeNotice:
		v.Warn(terminal.JoinDots(p.Message, p.Advice))
	case *event.ThreadUpdated:
		v.showBlock(e, p)
	case *event.HistoryReconstructed:
		for _, r := range p.Recovered {
			v.Note(terminal.Yellow, MarkNote, r)
		}
	case *event.RollbackCompleted:
		v.Note(terminal.Cyan, "↩", terminal.Plural(int64(len(p.RemovedTurns)), "turn")+" taken back")
	default:
		v.showGovernance(e)
	}
}

// WaitsForFiles reports whether a thread waits for files that no live node reaches. It goes
// on by itself when one does, so that those who follow it wait, too.
func WaitsForFiles(p *event.ThreadUpdated) bool {
	return p.Status == "blocked" && p.Code == event.PlaceUnreachable
}

// showBlock says that the thread waits, what for, and that it goes on.
func (v *View) showBlock(e *event.Event, p *event.ThreadUpdated) {
	switch {
	case WaitsForFiles(p):
		v.filesAway = true
		v.SetStatus("waiting for the node with the files", e.Time)
		v.Warn("waiting: " + p.Reason)
	case p.Status == "blocked" && len(p.ActionIDs) == 0:
		v.SetStatus("", time.Time{})
		reason := p.Reason
		if v.Prompts { // in a conversation there is a command for it
			reason = strings.ReplaceAll(reason, "use resume_thread", "use /resume")
		}
		v.Warn("blocked: " + reason)
	case p.Status != "blocked" && v.filesAway:
		v.filesAway = false
		v.SetStatus("", time.Time{})
		v.Info("going on: " + p.Reason)
	}
}

// showGovernance says what hooks, sandbox, compaction and helpers did.
func (v *View) showGovernance(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.SandboxViolation:
		where := p.Path
		if where == "" {
			where = p.Host
		}
		v.Note(terminal.Red, MarkWarn, terminal.JoinDots("sandbox: "+p.Boundary, where, p.Detail))
	case *event.SandboxApplied:
		for _, missing := range p.NotEnforced {
			v.noteOnce(terminal.Yellow, MarkWarn, "sandbox: not enforced on this machine: "+missing)
		}
	case *event.HookCompleted:
		if p.Decision == "block" || p.Decision == "deny" || p.Decision == "ask" {
			v.Warn(terminal.JoinDots("hook "+p.HandlerRef+": "+p.Decision, p.Reason))
		}
	case *event.HookFailed:
		v.Warn(terminal.JoinDots("hook "+p.HandlerRef+" failed ("+p.FailureBehavior+")", p.Message))
	case *event.CompactionCompleted:
		v.Info(fmt.Sprintf("context compacted: %s to %s tokens", terminal.Count(p.TokensBefore), terminal.Count(p.TokensAfter)))
	case *event.CompactionFailed:
		v.Warn("compaction failed: " + p.Error.Message)
	case *event.OutputRedacted:
		v.Note(terminal.Yellow, MarkNote, terminal.Plural(p.Count, "secret")+" taken out of the output")
	case *event.SubagentSpawned:
		v.Info("agent " + strings.TrimSpace(p.Nickname+" "+p.Role) + " began")
	case *event.SubagentEnded:
		v.subagent(p)
	case *event.RunStatus:
		if p.Phase == "retrying" {
			v.SetStatus(strings.TrimSpace("waiting to try again "+p.Detail), e.Time)
		}
	}
}

func (v *View) limited(p *event.RateLimitHit) {
	who := p.Provider
	if p.Source == "client" && p.LimitName != model.LimitRest { // a model rests because its provider said so
		who = "the configured limit of " + p.Provider
	}
	text := "rate limited by " + who
	if p.RetryAfterMs != nil {
		text += ", waiting " + terminal.Took(*p.RetryAfterMs)
	}
	v.Warn(text)
}

func (v *View) quota(e *event.Event, p *event.QuotaState) {
	text := "budget nearly spent"
	if e.Type == event.TypeQuotaBlocked {
		text = "budget spent"
	}
	if p.Used != nil && p.Limit != nil {
		text += fmt.Sprintf(": %s of %s", terminal.Money(*p.Used), terminal.Money(*p.Limit))
	}
	v.Warn(terminal.JoinDots(text, p.Reason))
}

func (v *View) subagent(p *event.SubagentEnded) {
	text := "agent " + p.Status
	if p.Error != nil {
		text += ": " + p.Error.Message
	}
	v.Info(terminal.JoinDots(text, costOf(p.Usage, p.CostUSD)))
}

// InputText returns the text of an input's parts.
func InputText(input event.Raw) string {
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
