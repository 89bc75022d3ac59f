package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// kindProjectRule: rule id → the rule that a person kept for a project. It is written
// with the answer that kept it, and no fact derives it: a session that is imported
// brings facts about rules, and must not bring rules.
const kindProjectRule = "project_rule"

const (
	// scopeProject is the scope of an answer that is kept for the project.
	scopeProject = "project"
	// maxProjectRules bounds what is kept for one project of one account.
	maxProjectRules = 500
)

// projectPrefix is what the ids of a project's rules begin with.
func projectPrefix(account, root string) string {
	return "rule_" + shortHash(account, root)
}

func shortHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:4])
}

// ProjectRules returns the rules that were kept for a project, in the order of their
// ids. They hold for the sessions of the account in the folder, on all nodes.
func (m *Manager) ProjectRules(ctx context.Context, account, root string) ([]event.PolicyRule, error) {
	kept, err := m.projectRules(ctx, account, root)
	var out []event.PolicyRule
	for i := range kept {
		out = append(out, kept[i].Rule)
	}
	return out, err
}

// projectCache has the rules of projects as they are stored, so that a turn doesn't look
// for them. It is for a store that no other node writes to.
type projectCache struct {
	mu sync.Mutex
	// writes counts the batches that changed rules: what was read before one isn't kept.
	writes uint64
	rules  map[string][]command.ProjectRule
}

// maxProjectsCached bounds the projects whose rules are remembered.
const maxProjectsCached = 1024

func (c *projectCache) get(key string) (rules []command.ProjectRule, writes uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rules, ok = c.rules[key]
	return rules, c.writes, ok
}

// put keeps what was read, unless rules were written since.
func (c *projectCache) put(key string, rules []command.ProjectRule, writes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes != writes {
		return
	}
	if c.rules == nil || len(c.rules) >= maxProjectsCached {
		c.rules = map[string][]command.ProjectRule{}
	}
	c.rules[key] = rules
}

// wrote forgets everything if a batch changed rules. It is called before the batch's
// caller is answered, whatever became of the batch.
func (c *projectCache) wrote(b *store.Batch) {
	if !slices.ContainsFunc(b.Index, func(op store.IndexOp) bool { return op.Kind == kindProjectRule }) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	c.rules = nil
}

// projectRules returns the rules of a project, which the caller must not change.
func (m *Manager) projectRules(ctx context.Context, account, root string) ([]command.ProjectRule, error) {
	key := account + "\x00" + root
	if m.shared != nil {
		return m.readingRules.read(ctx, key, func() ([]command.ProjectRule, error) { return m.readProjectRules(ctx, account, root) })
	}
	out, writes, ok := m.projects.get(key)
	if ok {
		return out, nil
	}
	out, err := m.readProjectRules(ctx, account, root)
	if err == nil {
		m.projects.put(key, out, writes)
	}
	return out, err
}

func (m *Manager) readProjectRules(ctx context.Context, account, root string) ([]command.ProjectRule, error) {
	var out []command.ProjectRule
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindProjectRule, Prefix: projectPrefix(account, root)}) {
		if err != nil {
			return nil, storeFault(err)
		}
		r, err := readProjectRule(&e)
		if err != nil {
			return nil, err
		}
		if r.Account == account && r.Workspace == root {
			out = append(out, *r)
		}
	}
	return out, nil
}

func readProjectRule(e *store.Entry) (*command.ProjectRule, error) {
	r := &command.ProjectRule{}
	if err := json.Unmarshal(e.Value, r); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the project rule %s can't be read", e.Key)
	}
	return r, nil
}

// checkProjectScope refuses an answer for the project where none is offered.
func checkProjectScope(a *state.Action, p *command.RespondAction) error {
	switch {
	case p.Scope != scopeProject:
		return nil
	case p.Decision != "allow":
		return fault.Param("scope", "project is for the decision allow; a denial is never kept")
	case p.Peer != nil:
		return fault.Param("scope", "a peer can't keep rules for a project; use once or session")
	case len(a.KeepRules) == 0 || a.KeepFor == "":
		return fault.Param("scope", "action %s has no rules that could be kept for the project (keepRules); use once or session", a.ActionID)
	}
	return nil
}

// keepProjectRules writes the rules of an answer with its facts. They hold in the
// session from here on, and in others before their next call is decided about.
func (r *request) keepProjectRules(tx *Tx, a *state.Action) ([]command.ProjectRule, error) {
	known, err := r.m.projectRules(tx.Context(), tx.State.Account, a.KeepFor)
	if err != nil {
		return nil, err
	}
	if len(known)+len(a.KeepRules) > maxProjectRules {
		return nil, fault.New(fault.Conflict, "%d rules are kept for %s, which is the most; forget some first (forget_project_rule)", len(known), a.KeepFor)
	}
	all := make([]event.PolicyRule, 0, len(known)+len(a.KeepRules))
	for i := range known {
		all = append(all, known[i].Rule)
	}
	var kept []command.ProjectRule
	for _, rule := range a.KeepRules {
		k := command.ProjectRule{
			RuleID:    projectPrefix(tx.State.Account, a.KeepFor) + shortHash(rule.Decision, rule.Tool, rule.Match),
			Workspace: a.KeepFor, Account: tx.State.Account, Rule: rule, KeptAt: tx.Now(), KeptBy: r.actor(), SessionID: a.SessionID, ActionID: a.ActionID,
		}
		if i := slices.IndexFunc(known, func(x command.ProjectRule) bool { return x.Rule == rule }); i >= 0 {
			kept = append(kept, known[i])
			continue
		}
		v, err := json.Marshal(&k)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "a rule could not be encoded")
		}
		tx.index = append(tx.index, putOp(kindProjectRule, k.RuleID, v))
		kept, all = append(kept, k), append(all, rule)
	}
	tx.Emit(event.Event{Type: event.TypePolicyChanged, Payload: &event.PolicyChanged{
		Source: scopeProject, Rules: all, ChangedBy: r.actor(), ApprovalActionID: a.ActionID, Reason: "kept for the project when an action was answered",
	}})
	return kept, nil
}

// listProjectRules lists the rules that were kept, those of the caller's account.
func (r *request) listProjectRules(ctx context.Context, p *command.ListProjectRules) (*command.ListProjectRulesResult, error) {
	page, err := command.NewOrderedPage(&p.Page, "id", "", projectRuleOrders, projectRulePlace)
	if err != nil {
		return nil, err
	}
	for e, err := range r.m.opt.Store.Scan(ctx, store.Scan{Kind: kindProjectRule}) {
		if err != nil {
			return nil, storeFault(err)
		}
		rule, err := readProjectRule(&e)
		if err != nil {
			return nil, err
		}
		if !r.caller.Sees(rule.Account) || p.Workspace != "" && rule.Workspace != p.Workspace {
			continue
		}
		page.Offer(*rule)
	}
	return &command.ListProjectRulesResult{Rules: page.Things(), Total: page.Total, NextCursor: page.Next()}, nil
}

// projectRuleOrders are the orders of the list of rules.
var projectRuleOrders = command.Orders[command.ProjectRule]{"id": projectRulePlace}

func projectRulePlace(r command.ProjectRule) string { return r.RuleID }

// forgetProjectRule removes a rule. The fact is in the runtime's own session; sessions
// of the project record it before their next call.
func (r *request) forgetProjectRule(ctx context.Context, p *command.ForgetProjectRule) (*command.ForgetProjectRuleResult, error) {
	res := &command.ForgetProjectRuleResult{}
	err := r.m.WriteInRuntime(ctx, func(tx *Tx) error {
		v, found, err := tx.Lookup(kindProjectRule, p.RuleID)
		if err != nil {
			return storeFault(err)
		}
		if !found {
			return fault.New(fault.NotFound, "there is no project rule %s", p.RuleID)
		}
		rule, err := readProjectRule(&store.Entry{Key: p.RuleID, Value: v})
		if err != nil {
			return err
		}
		if !r.caller.Sees(rule.Account) {
			return fault.New(fault.NotFound, "there is no project rule %s", p.RuleID)
		}
		left, err := r.m.projectRules(ctx, rule.Account, rule.Workspace)
		if err != nil {
			return err
		}
		rules := []event.PolicyRule{}
		for i := range left {
			if left[i].RuleID != p.RuleID {
				rules = append(rules, left[i].Rule)
			}
		}
		tx.index = append(tx.index, removeOp(kindProjectRule, p.RuleID))
		tx.Emit(event.Event{Type: event.TypePolicyChanged, Payload: &event.PolicyChanged{
			Source: scopeProject, Workspace: rule.Workspace, Account: rule.Account, Rules: rules, ChangedBy: r.actor(),
			Reason: reasonOr(r.m.redactText(p.Reason), "forgotten: "+rule.Rule.Decision+" "+rule.Rule.Tool+" "+rule.Rule.Match),
		}})
		res.Forgotten = *rule
		r.stampFacts(tx)
		return r.rememberResult(tx, res)
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}
