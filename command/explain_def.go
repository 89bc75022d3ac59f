package command

// explainDefs are the catalogue's entries for explanations.
func explainDefs() []Def {
	return []Def{
		{
			Name: "explain", Noun: "explain", Form: formOf[Explain, ExplainResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Answers why something was allowed, blocked, routed or failed.",
			Doc:     "The answer is made of facts that name each other; nothing is joined by nearness in time.",
			Example: `{"sessionId":"sess_docs","toolCallId":"tool_1"}`,
		},
	}
}
