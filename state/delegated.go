package state

// maxAncestors bounds the tasks above one that a fact is passed on to: tasks are not
// nested deeper.
const maxAncestors = 64

// delegatedCost adds the cost of a request to the tasks above the one that it was made
// for, whose budgets it spends too.
func (f *fold) delegatedCost(usd float64) {
	id := f.e.ParentTaskID
	for range maxAncestors {
		t := f.s.Tasks.Find(id)
		if t == nil {
			return
		}
		t.DelegatedCostUSD += usd
		id = t.ParentTaskID
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
	for range maxAncestors {
		if id == whole {
			return true
		}
		t := s.Tasks.Find(id)
		if t == nil {
			return false
		}
		id = t.ParentTaskID
	}
	return false
}

// BudgetedTasks are the tasks with a limit on their cost that a thread's turn counts
// against: its own, those above it, and those that the agents above the thread work for.
func (s *Session) BudgetedTasks(t *Thread) []*Task {
	var out []*Task
	add := func(id string) {
		for range maxAncestors {
			task := s.Tasks.Find(id)
			if task == nil || contains(out, task) {
				return
			}
			if c := task.Constraints; c != nil && c.MaxCostUSD > 0 {
				out = append(out, task)
			}
			id = task.ParentTaskID
		}
	}
	if t.Active != nil {
		add(t.Active.TaskID)
	}
	for a := s.Subagents.Find(t.SubagentID); a != nil; a = s.Subagents.Find(a.ParentSubagentID) {
		add(a.TaskID)
	}
	return out
}

func contains(list []*Task, t *Task) bool {
	return indexWhere(list, func(x *Task) bool { return x == t }) >= 0
}
