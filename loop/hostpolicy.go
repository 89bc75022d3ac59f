package loop

import (
	"context"
	"fmt"
	"slices"

	"agentd/event"
	"agentd/permission"
)

// HostPolicy is what the configuration says about permissions, for all sessions.
// set_policy can add to it and take away what it added; what the configuration says
// stays.
type HostPolicy struct {
	Mode string
	// DefaultMode says that Mode is a default that was not written down on purpose. A
	// mode that was is the widest that a stored policy has after a start.
	DefaultMode bool
	Rules       []event.PolicyRule
}

// Origins of a host's mode and rules.
const (
	originConfiguration = "configuration"
	originStored        = "stored"
)

// hostPolicy is the host's policy in force, with its parts. It never changes.
type hostPolicy struct {
	configured, stored HostPolicy
	mode               string
	rules              []event.PolicyRule
}

func newHostPolicy(configured, stored HostPolicy) *hostPolicy {
	h := &hostPolicy{configured: configured, mode: configured.Mode, rules: withOrigin(configured.Rules, originConfiguration)}
	if stored.Mode != "" {
		h.mode = stored.Mode
	}
	// Who changes a list of rules sends those back that were read with it.
	stored.Rules = slices.DeleteFunc(withOrigin(stored.Rules, originStored), func(r event.PolicyRule) bool {
		return slices.ContainsFunc(h.rules, func(c event.PolicyRule) bool { return sameRule(&c, &r) })
	})
	h.stored = stored
	h.rules = append(h.rules, stored.Rules...)
	return h
}

// HostRules are rules as the host's configuration has them.
func HostRules(rules []event.PolicyRule) []event.PolicyRule {
	return withOrigin(rules, originConfiguration)
}

func withOrigin(rules []event.PolicyRule, origin string) []event.PolicyRule {
	out := slices.Clone(rules)
	for i := range out {
		out[i].Origin = origin
	}
	return out
}

// sameRule reports whether two rules decide the same under the same name.
func sameRule(a, b *event.PolicyRule) bool {
	return a.RuleID == b.RuleID && a.Decision == b.Decision && a.Tool == b.Tool && a.Match == b.Match
}

// storedHost is the part of a host's recorded policy that was stored by command.
// Facts of earlier releases don't say, and hold what a command stored.
func storedHost(mode, modeOrigin string, rules []event.PolicyRule) HostPolicy {
	out := HostPolicy{Rules: slices.DeleteFunc(slices.Clone(rules), func(r event.PolicyRule) bool { return r.Origin == originConfiguration })}
	if modeOrigin != originConfiguration {
		out.Mode = mode
	}
	return out
}

// changed is the policy after set_policy: a mode or rules that aren't given stay.
func (h *hostPolicy) changed(mode string, rules []event.PolicyRule) *hostPolicy {
	stored := h.stored
	if mode != "" {
		stored.Mode = mode
	}
	if rules != nil {
		stored.Rules = storedHost("", "", rules).Rules
	}
	return newHostPolicy(h.configured, stored)
}

// tooWide reports whether the stored mode lets more happen than the configuration
// says on purpose.
func (h *hostPolicy) tooWide() bool {
	return h.configured.Mode != "" && !h.configured.DefaultMode && h.stored.Mode != "" && permission.IsWider(h.stored.Mode, h.configured.Mode)
}

// describe fills a fact in with the policy.
func (h *hostPolicy) describe(p *event.PolicyChanged) {
	p.Source, p.Mode, p.Rules = "host", h.mode, append([]event.PolicyRule{}, h.rules...)
	if p.ModeOrigin = originConfiguration; h.stored.Mode != "" {
		p.ModeOrigin = originStored
	}
}

// takeStoredHost makes what was stored part of the host's policy.
func (l *Loop) takeStoredHost(stored HostPolicy) {
	l.hostMu.Lock()
	defer l.hostMu.Unlock()
	l.host.Store(newHostPolicy(l.host.Load().configured, stored))
}

// Reconfigure makes another configuration the host's, and records it. What was stored
// by command stays, but for a mode that is wider than the new one.
func (l *Loop) Reconfigure(ctx context.Context, configured HostPolicy) error {
	fact := &event.PolicyChanged{Reason: "the configuration was reloaded"}
	newHostPolicy(configured, l.host.Load().stored).describe(fact)
	if err := l.m.Report(ctx, event.TypePolicyChanged, fact); err != nil {
		return fmt.Errorf("loop: the host's policy: %w", err)
	}
	l.hostMu.Lock()
	l.host.Store(newHostPolicy(configured, l.host.Load().stored))
	l.hostMu.Unlock()
	return l.limitStoredMode(ctx, fact.Reason)
}

// limitStoredMode gives a stored mode up that is wider than the configuration's, and
// says so: an operator who restarts with a mode in the configuration relies on it.
func (l *Loop) limitStoredMode(ctx context.Context, reason string) error {
	h := l.host.Load()
	if !h.tooWide() {
		return nil
	}
	wide := h.stored.Mode
	kept := h.stored
	kept.Mode = ""
	l.takeStoredHost(kept)
	l.opt.Logger.Warn("a stored permission mode is wider than the configuration's and is not used", "stored", wide, "configured", h.configured.Mode)
	if err := l.m.Report(ctx, event.TypeRuntimeWarning, &event.RuntimeNotice{
		Code:    "stored_mode_too_wide",
		Message: fmt.Sprintf("%s: the stored permission mode %s allows more than %s of the configuration and is no longer used", reason, wide, h.configured.Mode),
		Advice:  "change permissions.mode of the configuration, or set the mode again with set_policy, which holds until the next start",
	}); err != nil {
		return fmt.Errorf("loop: the host's policy: %w", err)
	}
	fact := &event.PolicyChanged{Reason: "the stored mode " + wide + " is wider than the configuration's"}
	l.host.Load().describe(fact)
	if err := l.m.Report(ctx, event.TypePolicyChanged, fact); err != nil {
		return fmt.Errorf("loop: the host's policy: %w", err)
	}
	return nil
}
