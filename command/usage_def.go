package command

// usageDefs are the catalogue's entries for figures.
func usageDefs() []Def {
	return []Def{
		{
			Name: "usage", Noun: "usage", Form: formOf[Usage, UsageResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Says what was used: turns, tokens, cost, tool calls, failures, and approvals with the time they waited.",
			Doc:     "Everything that was durable before the call is counted, in the hour in which it happened; a turn counts when it ends. Rows add up: what belongs to none of the keys is a row without them. An account sees its own figures, an admin those of all accounts. What was counted stays when sessions are deleted or their events are removed.",
			Example: `{"groupBy":["model"],"bucket":"day","from":"2026-01-01T00:00:00Z"}`,
		},
	}
}
