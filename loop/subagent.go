package loop

import (
	"strings"

	"agentd/event"
	"agentd/model"
	"agentd/state"
)

// quotaShare is the name of a child's share of its parent's budget in facts.
const quotaShare = "subagent_cost"

// share is a child's part of its parent's budget.
type share struct{ model.BudgetStanding }

// Blocked is the payload of quota.blocked.
func (s *share) Blocked(requestID string) *event.QuotaState {
	p := s.BudgetStanding.Blocked(requestID)
	p.QuotaName = quotaShare
	return p
}

// shareSpent returns the budget that a child, or one above it, has used up; nil if
// none is.
func shareSpent(s *state.Session, t *state.Thread) *share {
	for a := range s.Subagents.From(t.SubagentID) {
		if a.Isolation == nil || a.Isolation.BudgetUSD <= 0 {
			continue
		}
		b := model.Budget{SessionCostUSD: a.Isolation.BudgetUSD}.Standing(a.CostUSD, 0)
		if b.Status == model.BudgetBlocked {
			return &share{b}
		}
	}
	return nil
}

// roleTitle begins the title of the context item that tells a child its role.
const roleTitle = "role: "

// roleOf is the context item that tells a child its role, if it has one.
func roleOf(s *state.Session, t *state.Thread) []event.ContextItem {
	a := s.Subagents.Find(t.SubagentID)
	if a == nil || a.Role == "" {
		return nil
	}
	return []event.ContextItem{{Kind: "instructions", Title: roleTitle + a.Role}}
}

// roleText says to a child what it is; empty for what is no role.
func roleText(item event.ContextItem) string {
	role, ok := strings.CutPrefix(item.Title, roleTitle)
	if !ok || item.Kind != "instructions" {
		return ""
	}
	return "\nAnother agent gave you a part of its work. Your role: " + role + ". Your last answer is what it gets.\n"
}
