package loop

import (
	"fmt"

	"agentd/event"
	"agentd/model"
	"agentd/session"
	"agentd/state"
)

// QuotaTask is the name of a task's own budget in facts.
const QuotaTask = "task_cost"

// taskStanding is how a task's budget stands.
type taskStanding struct {
	model.BudgetStanding
	taskID string
}

// standingOf says how a task's budget stands after some more was spent.
func standingOf(s *state.Session, t *state.Task, lowAt, more float64) taskStanding {
	b := model.Budget{SessionCostUSD: t.Constraints.MaxCostUSD, LowAt: lowAt}
	return taskStanding{b.Standing(s.TaskSpending(t)+more, 0), t.TaskID}
}

// quota is the payload of quota.low and quota.blocked.
func (b taskStanding) quota(requestID string) *event.QuotaState {
	p := b.Blocked(requestID)
	p.QuotaName, p.Reason = QuotaTask, fmt.Sprintf("task %s: %s", b.taskID, p.Reason)
	return p
}

// taskSpent returns the task's budget that a thread's turn has used up; nil if none is.
func taskSpent(s *state.Session, t *state.Thread, requestID string) *event.QuotaState {
	for _, task := range s.BudgetedTasks(t) {
		if b := standingOf(s, task, 0, 0); b.Status == model.BudgetBlocked {
			return b.quota(requestID)
		}
	}
	return nil
}

// exceeds returns the task's budget that is too small for a request of so many tokens,
// whatever the answer will cost; nil if none is. Of the input the least price counts: all
// of it may be cached.
func exceeds(s *state.Session, t *state.Thread, info model.Info, requestID string, tokens int64) *event.QuotaState {
	for _, task := range s.BudgetedTasks(t) {
		least, _ := model.Cost(info, event.Usage{InputTokens: tokens, CachedInputTokens: tokens})
		b := standingOf(s, task, 0, 0)
		if least == nil || b.Used+*least <= b.Limit {
			continue
		}
		p := b.quota(requestID)
		p.Reason += fmt.Sprintf(", and the next request costs at least %.6f USD", *least)
		return p
	}
	return nil
}

// tellTaskBudgets says that little is left of the budgets of tasks that a request counts
// against, once for each. A spent budget blocks the next request, not this one.
func (c *call) tellTaskBudgets(tx *session.Tx, costUSD *float64) {
	t := tx.State.Thread(c.k.thread)
	if t == nil || costUSD == nil {
		return
	}
	lowAt := c.l.opt.Budget.LowAt
	for _, task := range tx.State.BudgetedTasks(t) {
		before, after := standingOf(tx.State, task, lowAt, 0), standingOf(tx.State, task, lowAt, *costUSD)
		if before.Status == model.BudgetOK && after.Status != model.BudgetOK {
			tx.Emit(event.Event{Type: event.TypeQuotaLow, Scope: c.scope, Payload: after.quota(c.req.RequestID)})
		}
	}
}
