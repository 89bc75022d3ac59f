package loop

import (
	"context"
	"fmt"
	"slices"

	"agentd/event"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
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
	// sequence is the fact of the runtime's own session that has the stored part.
	sequence uint64
}

func newHostPolicy(configured, stored HostPolicy) *hostPolicy {
	h := &hostPolicy{configured: configured, mode: configured.Mode, rules: withOrigin(configured.Rules, originConfiguration)}
	if stored.Mode != "" {
		h.mode = stored.Mode
	}
	stored.Rules = withOrigin(stored.Rules, originStored)
	h.stored = stored
	h.rules = append(h.rules, h.unconfigured(stored.Rules)...)
	return h
}

// unconfigured are those rules that the configuration doesn't have.
func (h *hostPolicy) unconfigured(rules []event.PolicyRule) []event.PolicyRule {
	return slices.DeleteFunc(slices.Clone(rules), func(r event.PolicyRule) bool {
		return slices.ContainsFunc(h.configured.Rules, func(c event.PolicyRule) bool { return sameRule(&c, &r) })
	})
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

// recordedHost is the part that was stored by command, as the runtime's own session has it,
// and the sequence of the fact that says so.
func recordedHost(s *state.Session) (stored HostPolicy, sequence uint64) {
	for i := range s.Permission.Policies {
		if p := &s.Permission.Policies[i]; p.Source == "host" {
			return storedHost(p.Mode, p.ModeOrigin, p.Rules), p.Sequence
		}
	}
	return HostPolicy{}, 0
}

// changed is the policy after set_policy: a mode or rules that aren't given stay.
func (h *hostPolicy) changed(mode string, rules []event.PolicyRule) *hostPolicy {
	stored := h.stored
	if mode != "" {
		stored.Mode = mode
	}
	if rules != nil {
		// Callers that change a list of rules send those back that they read with it.
		stored.Rules = h.unconfigured(storedHost("", "", rules).Rules)
	}
	return newHostPolicy(h.configured, stored)
}

// tooWide reports whether the stored mode lets more happen than the configuration
// says on purpose.
func (h *hostPolicy) tooWide() bool {
	return h.configured.Mode != "" && !h.configured.DefaultMode && h.stored.Mode != "" && permission.IsWider(h.stored.Mode, h.configured.Mode)
}

// describe fills a fact in with the policy. It has all rules that are stored, also those that
// this node's configuration has too: that of another node may not.
func (h *hostPolicy) describe(p *event.PolicyChanged) {
	p.Source, p.Mode, p.Rules = "host", h.mode, append(withOrigin(h.configured.Rules, originConfiguration), h.stored.Rules...)
	if p.Rules == nil {
		p.Rules = []event.PolicyRule{}
	}
	if p.ModeOrigin = originConfiguration; h.stored.Mode != "" {
		p.ModeOrigin = originStored
	}
}

// takeStoredHost makes what the fact with a sequence says part of the host's policy. What an
// earlier fact says than the one that is known is passed over: facts of other nodes may be
// followed late.
func (l *Loop) takeStoredHost(stored HostPolicy, sequence uint64) {
	l.hostMu.Lock()
	defer l.hostMu.Unlock()
	now := l.host.Load()
	if sequence <= now.sequence {
		return
	}
	next := newHostPolicy(now.configured, stored)
	next.sequence = sequence
	l.host.Store(next)
}

// takeConfiguredHost makes a configuration part of the host's policy.
func (l *Loop) takeConfiguredHost(configured HostPolicy) {
	l.hostMu.Lock()
	defer l.hostMu.Unlock()
	now := l.host.Load()
	next := newHostPolicy(configured, now.stored)
	next.sequence = now.sequence
	l.host.Store(next)
}

// Reconfigure makes another configuration the host's, and records it. What was stored
// by command stays, but for a mode that is wider than the new one.
func (l *Loop) Reconfigure(ctx context.Context, configured HostPolicy) error {
	if err := l.recordConfigured(ctx, configured, "the configuration was reloaded", true); err != nil {
		return err
	}
	l.takeConfiguredHost(configured)
	return nil
}

// limitStoredMode gives a stored mode up that is wider than the configuration's: an operator
// who restarts with a mode in the configuration relies on it.
func (l *Loop) limitStoredMode(ctx context.Context) error {
	h := l.host.Load()
	if !h.tooWide() {
		return nil
	}
	if l.opt.Recovery == "none" { // it is no server, and doesn't end what servers share
		l.limitOwnMode()
		return nil
	}
	return l.recordConfigured(ctx, h.configured, "the runtime was started", false)
}

// limitOwnMode does without the stored mode in this process alone.
func (l *Loop) limitOwnMode() {
	l.hostMu.Lock()
	defer l.hostMu.Unlock()
	now := l.host.Load()
	stored := now.stored
	stored.Mode = ""
	next := newHostPolicy(now.configured, stored)
	next.sequence = now.sequence
	l.host.Store(next)
}

// recordConfigured records the host's policy under a configuration: without a stored mode that
// is wider than it, which is said, and with all else that is stored. It follows from what the
// runtime's own session has: another node may have changed what this one knows. Without such a
// mode it is recorded only if it is to be always.
func (l *Loop) recordConfigured(ctx context.Context, configured HostPolicy, reason string, always bool) error {
	var wide string
	err := l.m.WriteInRuntime(ctx, func(tx *session.Tx) error {
		stored, _ := recordedHost(tx.State)
		h, fact := newHostPolicy(configured, stored), &event.PolicyChanged{Reason: reason}
		wide = ""
		if h.tooWide() {
			wide, stored.Mode = stored.Mode, ""
			h = newHostPolicy(configured, stored)
			tx.Emit(event.Event{Type: event.TypeRuntimeWarning, Payload: &event.RuntimeNotice{
				Code:    "stored_mode_too_wide",
				Message: fmt.Sprintf("%s: the stored permission mode %s allows more than %s of the configuration and is no longer used", reason, wide, configured.Mode),
				Advice:  "change permissions.mode of the configuration, or set the mode again with set_policy, which holds until the next start of a node",
			}})
			fact.Reason += "; the stored mode " + wide + " is wider than the configuration's"
		}
		if always || wide != "" {
			h.describe(fact)
			tx.Emit(event.Event{Type: event.TypePolicyChanged, Payload: fact})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("loop: the host's policy: %w", err)
	}
	if wide != "" {
		l.opt.Logger.Warn("a stored permission mode is wider than the configuration's and is not used", "stored", wide, "configured", configured.Mode)
	}
	return nil
}
