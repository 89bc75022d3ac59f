package state

import "slices"

// keptCalls adds the calls of an answer to those of the answers before it. When there
// are too many the oldest that ended well goes first: a failed call must not vanish from
// a snapshot while its turn runs.
func keptCalls(earlier, calls []*ToolCall) []*ToolCall {
	if len(calls) == 0 {
		return earlier
	}
	all := slices.Concat(earlier, calls)
	for len(all) > keepRecent {
		oldest := max(0, indexWhere(all, func(c *ToolCall) bool { return c.Status != ToolFailed }))
		all = append(all[:oldest:oldest], all[oldest+1:]...)
	}
	return all
}

// failedCalls adds the failed calls of a turn that ends to those of earlier turns.
func failedCalls(failed []ToolCall, turn *Turn) []ToolCall {
	for _, c := range append(slices.Clip(turn.EarlierTools), turn.Tools...) {
		if c.Status == ToolFailed {
			kept := *c
			kept.TurnID = turn.TurnID
			failed = pushed(failed, kept, keepRecent)
		}
	}
	return failed
}

// toolCalls returns the tool calls of a turn, oldest first.
func toolCalls(x *Turn) []ToolCall {
	if x == nil {
		return []ToolCall{}
	}
	return copied(func(*ToolCall) bool { return true }, x.EarlierTools, x.Tools)
}

// failedTools returns the thread's last failed calls, those of the active turn last.
func failedTools(t *Thread, calls []ToolCall) []ToolCall {
	failed := chosen(calls, func(c *ToolCall) bool { return c.Status == ToolFailed })
	return append(listCopy(t.FailedTools), failed...)
}
