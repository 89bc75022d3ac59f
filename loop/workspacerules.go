package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
	"agentd/tool/toolkind"
)

// RulesFile is where a workspace keeps permission rules of its own.
const RulesFile = ".agentd-permissions.yaml"

// unreadable is the rule that stands for a file which can't be used.
const unreadable = "unreadable"

// adoptRules makes the rules of a turn's workspace facts of the session, if they
// aren't. They come with a checked-out repository, so they may only narrow what is
// allowed, unless the host trusts its workspaces.
func (l *Loop) adoptRules(k key, turnID string) error {
	if l.opt.ParseRules == nil {
		return nil
	}
	var root string
	if err := l.m.View(l.ctx, k.session, func(s *state.Session) error {
		t := s.Thread(k.thread)
		if t == nil || t.Turn(turnID) == nil {
			return errMoved
		}
		root = l.workplace(s, t, t.Turn(turnID)).root
		return nil
	}); err != nil {
		return err
	}
	return l.adoptRulesOf(l.ctx, k.session, root)
}

// adoptRulesOf is adoptRules for a session and a folder. Who changed the file
// isn't known, and it may have been a program of an agent: so a change that narrows
// counts at once, and one that widens not before a person accepts it.
func (l *Loop) adoptRulesOf(ctx context.Context, sessionID, root string) error {
	found := l.workspaceRules(root)
	var own *state.Policy
	if err := l.m.View(ctx, sessionID, func(s *state.Session) error {
		own = workspacePolicy(s)
		return nil
	}); err != nil {
		return err
	}
	p := l.heldRules(ctx, root, own, found)
	if samePolicy(own, p) {
		return nil
	}
	return l.m.Emit(ctx, sessionID, event.BySession|event.ByLoop, func(tx *session.Tx) error {
		if samePolicy(workspacePolicy(tx.State), p) {
			return nil
		}
		tx.Emit(event.Event{Type: event.TypePolicyChanged, Payload: p})
		for _, w := range found.warnings(root, p.Held) {
			tx.Emit(event.Event{Type: event.TypeRuntimeWarning, Payload: w})
		}
		return nil
	})
}

// heldRules is what a session is held to: what was found, and what was known before
// and isn't there any more. What is known of a folder is kept in the runtime's own
// session, so that a new session doesn't begin with what an earlier one's programs
// left.
func (l *Loop) heldRules(ctx context.Context, root string, own *state.Policy, found foundRules) *event.PolicyChanged {
	known, pinned := l.pins.get(root)
	p, learned := l.tightenedRules(known, pinned, own, found)
	if !learned {
		return p
	}
	if err := l.m.WriteInRuntime(ctx, func(tx *session.Tx) error {
		if pin := pinOf(tx.State, root); pin != nil { // another node may have learned it just now
			known, pinned = pin.Rules, true
		}
		if p, learned = l.tightenedRules(known, pinned, own, found); !learned {
			return nil
		}
		pin := *p
		pin.Workspace = root
		tx.Emit(event.Event{Type: event.TypePolicyChanged, Payload: &pin})
		return nil
	}); err != nil {
		l.opt.Logger.Warn("the rules of a workspace could not be stored", "workspace", root, "error", err)
	}
	return p
}

// tightenedRules is heldRules for what is known of the folder, if anything is: it says whether
// there is something new to remember of it.
func (l *Loop) tightenedRules(known []event.PolicyRule, pinned bool, own *state.Policy, found foundRules) (p *event.PolicyChanged, learned bool) {
	p = &event.PolicyChanged{Source: "workspace", Rules: found.rules, Reason: "what " + RulesFile + " says"}
	if pinned || own != nil {
		if !pinned { // a file that can't be used says nothing that could be missed later
			known = slices.DeleteFunc(slices.Clone(own.Rules), func(r event.PolicyRule) bool { return r.RuleID == unreadable })
		}
		p.Rules, p.Held = permission.Tighten(known, found.rules)
	}
	p.Rules = append([]event.PolicyRule{}, p.Rules...)
	if found.broken || pinned && slices.Equal(known, p.Rules) || !pinned && len(p.Rules) == 0 && !l.opt.TrustRules {
		return p, false // nothing was learned; and without trust what isn't there can only be narrowed
	}
	return p, true
}

// acceptRules takes the rules of a workspace as its file has them now, because a
// person says so.
func (l *Loop) acceptRules(ctx context.Context, caller command.Caller, p *command.SetPolicy) error {
	if l.opt.ParseRules == nil {
		return fault.New(fault.Unavailable, "this runtime accepts no rules from workspaces")
	}
	id := p.SessionID
	if id == event.RuntimeSession {
		id = ""
	}
	var root string
	if err := l.withSubject(ctx, caller, id, "", "", func(s *subject) error {
		root = s.place.root
		return nil
	}); err != nil {
		return err
	}
	found := l.workspaceRules(root)
	if found.broken {
		return fault.New(fault.Conflict, "%s", found.rules[0].Reason)
	}
	fact := event.PolicyChanged{
		Source: "workspace", Rules: append([]event.PolicyRule{}, found.rules...), ChangedBy: session.ActorOf(caller),
		Reason: cmp.Or(l.redactText(p.Reason), "what "+RulesFile+" says was accepted"),
	}
	pin := fact
	pin.Workspace = root
	if id == "" {
		return l.writePolicy(ctx, caller, p, event.RuntimeSession, &pin)
	}
	if err := l.m.Report(ctx, event.TypePolicyChanged, &pin); err != nil {
		return err
	}
	return l.writePolicy(ctx, caller, p, id, &fact)
}

func (l *Loop) writePolicy(ctx context.Context, caller command.Caller, p *command.SetPolicy, id string, fact *event.PolicyChanged) error {
	_, err := session.Write(ctx, l.m, caller, p, id, event.BySession, func(tx *session.Tx) (*struct{}, error) {
		tx.Emit(event.Event{Type: event.TypePolicyChanged, Payload: fact})
		return &struct{}{}, nil
	})
	return err
}

// pins are the rules that are known of workspaces, by folder: what the runtime's own
// session says, at hand for every turn.
type pins struct {
	sync.Mutex
	byRoot map[string]pin
}

// pin is what one fact of the runtime's own session says of a folder.
type pin struct {
	rules    []event.PolicyRule
	sequence uint64
}

// maxPins bounds the workspaces that are remembered.
const maxPins = 1000

func (p *pins) get(root string) (rules []event.PolicyRule, known bool) {
	p.Lock()
	defer p.Unlock()
	at, known := p.byRoot[root]
	return at.rules, known
}

// set takes over what a fact says, unless a later one is known.
func (p *pins) set(root string, rules []event.PolicyRule, sequence uint64) {
	p.Lock()
	defer p.Unlock()
	if p.byRoot == nil {
		p.byRoot = map[string]pin{}
	}
	now, known := p.byRoot[root]
	if known && sequence <= now.sequence {
		return
	}
	if !known && len(p.byRoot) >= maxPins {
		for some := range p.byRoot { // which one doesn't matter: it is learned again
			delete(p.byRoot, some)
			break
		}
	}
	p.byRoot[root] = pin{rules, sequence}
}

// pinOf is what the runtime's own session has of a folder; nil if nothing.
func pinOf(s *state.Session, root string) *state.Policy {
	for i := range s.Permission.Policies {
		if p := &s.Permission.Policies[i]; p.Source == "workspace" && p.Workspace == root {
			return p
		}
	}
	return nil
}

func workspacePolicy(s *state.Session) *state.Policy {
	for _, p := range s.Permission.Policies {
		if p.Source == "workspace" && p.Workspace == "" {
			return &p
		}
	}
	return nil
}

// samePolicy tells that a session knows already what holds.
func samePolicy(own *state.Policy, p *event.PolicyChanged) bool {
	if own == nil {
		return len(p.Rules) == 0 && len(p.Held) == 0
	}
	return slices.Equal(own.Rules, p.Rules) && slices.Equal(own.Held, p.Held)
}

// foundRules are the rules of a workspace as its file has them.
type foundRules struct {
	rules []event.PolicyRule
	// ignored counts allow rules that don't count.
	ignored int
	// broken says that the file can't be used; the one rule asks about everything.
	broken bool
}

// warnings say what of the file doesn't count.
func (f foundRules) warnings(root string, held []string) []*event.RuntimeNotice {
	var out []*event.RuntimeNotice
	if f.ignored > 0 {
		out = append(out, &event.RuntimeNotice{
			Code: "workspace_rules_ignored", Message: fmt.Sprintf("%d allow rules of %s don't count: a workspace may only deny and ask", f.ignored, RulesFile),
			Advice: "put them into the configuration, or set workspace.trustRules",
		})
	}
	if len(held) > 0 {
		out = append(out, &event.RuntimeNotice{
			Code:    "workspace_rules_held",
			Message: fmt.Sprintf("%s in %s was changed, and it is unknown by whom; rules that would allow more are ignored: %s", RulesFile, root, strings.Join(held, "; ")),
			Advice:  "if a person meant it: agentd policy accept, or set_policy with acceptWorkspace",
		})
	}
	return out
}

// workspaceRules reads the rules of a workspace. A file that can't be used asks
// about everything: what it would have denied isn't known.
func (l *Loop) workspaceRules(root string) foundRules {
	var found foundRules
	content, err := l.readRules(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return found
	case err == nil:
		var all []event.PolicyRule
		if all, err = l.opt.ParseRules(content); err == nil {
			all, err = permission.ParseRules("workspace", all)
		}
		for _, r := range all {
			if r.Decision == permission.Allow && !l.opt.TrustRules {
				found.ignored++
				continue
			}
			r.Reason = l.redactText(r.Reason)
			found.rules = append(found.rules, r)
		}
	}
	if err != nil {
		return foundRules{broken: true, rules: []event.PolicyRule{{
			RuleID: unreadable, Decision: permission.Ask, Tool: "*", Source: "workspace",
			Reason: l.redactText(RulesFile + " can't be used: " + fileErrorReason(err)),
		}}}
	}
	for _, kind := range []toolkind.Kind{toolkind.WriteFile, toolkind.EditFile} {
		found.rules = append(found.rules, event.PolicyRule{
			RuleID: "rules_file_" + string(kind), Decision: permission.Ask, Tool: string(kind), Match: RulesFile, Source: "workspace",
			Reason: "it holds the rules of the workspace",
		})
	}
	return found
}

func (l *Loop) readRules(root string) ([]byte, error) {
	if lacks(root, RulesFile) {
		return nil, fs.ErrNotExist
	}
	dir, err := l.openRoot(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("the workspace can't be read: %w", err)
	}
	defer func() { _ = dir.Close() }() // it was only read
	return l.readSmall(dir, root, RulesFile, nil)
}
