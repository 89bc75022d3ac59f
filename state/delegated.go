package state

import "iter"

// maxAncestors bounds how far a chain of parents is followed: nothing is nested deeper,
// and a chain in foreign facts may lead back to where it began.
const maxAncestors = 64

// From returns a task and those above it, the nearest first, as far as they are in the
// working set.
func (t *Tasks) From(id string) iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for range maxAncestors {
			x := t.Find(id)
			if x == nil || !yield(x) {
				return
			}
			id = x.ParentTaskID
		}
	}
}

// From returns a child and those above it, the nearest first, as far as they are in the
// working set.
func (s *Subagents) From(id string) iter.Seq[*Subagent] {
	return func(yield func(*Subagent) bool) {
		for range maxAncestors {
			x := s.Find(id)
			if x == nil || !yield(x) {
				return
			}
			id = x.ParentSubagentID
		}
	}
}

// delegatedCost adds the cost of a request to the tasks above the one that it was made
// for, whose budgets it spends too.
func (f *fold) delegatedCost(usd float64) {
	for t := range f.s.Tasks.From(f.e.ParentTaskID) {
		t.DelegatedCostUSD += usd
	}
}

// TaskSpending is what a task has cost with all that was delegated for it, as far as
// prices are known.
func (s *Session) TaskSpending(t *Task) float64 {
	sum := t.CostUSD + t.DelegatedCostUSD
	for _, list := range [...][]*Subagent{s.Subagents.Open, s.Subagents.Recent} {
		for _, a := range list {
			// What is below a child counts in the child.
			if a.ParentSubagentID == "" && s.taskIsWithin(a.TaskID, t.TaskID) {
				sum += a.CostUSD
			}
		}
	}
	return sum
}

// taskIsWithin reports whether a task is another one or lies below it.
func (s *Session) taskIsWithin(id, whole string) bool {
	if id == whole {
		return true
	}
	for t := range s.Tasks.From(id) {
		if t.ParentTaskID == whole {
			return true
		}
	}
	return false
}

// BudgetedTasks are the tasks with a limit on their cost that a thread's turn counts
// against: its own, those above it, and those that the agents above the thread work for.
func (s *Session) BudgetedTasks(t *Thread) []*Task {
	var out []*Task
	add := func(id string) {
		for task := range s.Tasks.From(id) {
			if contains(out, task) {
				return
			}
			if c := task.Constraints; c != nil && c.MaxCostUSD > 0 {
				out = append(out, task)
			}
		}
	}
	if t.Active != nil {
		add(t.Active.TaskID)
	}
	for a := range s.Subagents.From(t.SubagentID) {
		add(a.TaskID)
	}
	return out
}

func contains(list []*Task, t *Task) bool {
	return indexWhere(list, func(x *Task) bool { return x == t }) >= 0
}
