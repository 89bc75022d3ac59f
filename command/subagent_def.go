package command

// subagentDefs are the catalogue's entries for subagents.
func subagentDefs() []Def {
	return []Def{
		{
			Name: "spawn_subagent", Noun: "subagent", Form: formOf[SpawnSubagent, SpawnSubagentResult](),
			Mutates: true, Destructive: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Creates a child with a thread of its own.",
			Doc:     "The child's thread is in the parent's session, and its events carry the subagentId. Isolation can only narrow what the parent may do.",
			Example: `{"sessionId":"sess_docs","threadId":"thread_main","role":"reviewer","input":"Read every page.","isolation":{"tools":["read_file"],"permissionMode":"plan"}}`,
		},
		{
			Name: "send_subagent_input", Noun: "subagent", Form: formOf[SendSubagentInput, SubagentResult](),
			Mutates: true, Destructive: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Gives a child another turn.",
			Doc:     "A closed child is a conflict: resume it first.",
			Example: `{"subagentId":"sub_reviewer","input":"Start with the tutorial."}`,
		},
		{
			Name: "wait_subagents", Noun: "subagent", Form: formOf[WaitSubagents, WaitSubagentsResult](),
			Waits: true, Scope: RoleObserver, Since: "0.1", Available: true,
			Means:   "Waits until children have nothing left to do.",
			Doc:     "timedOut says that not all of them were done in time; their work continues.",
			Example: `{"subagentIds":["sub_reviewer"],"timeoutMs":30000}`,
		},
		{
			Name: "resume_subagent", Noun: "subagent", Form: formOf[ResumeSubagent, SubagentResult](),
			Mutates: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Lets a child go on.",
			Doc:     "It works for a child that is blocked, interrupted or closed.",
			Example: `{"subagentId":"sub_reviewer"}`,
		},
		{
			Name: "close_subagent", Noun: "subagent", Form: formOf[CloseSubagent, SubagentResult](),
			Mutates: true, EndsWork: true, Destructive: true, Repeatable: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Stops a child and releases what it holds.",
			Doc:     "Its thread and its facts stay readable.",
			Example: `{"subagentId":"sub_reviewer","reason":"done"}`,
		},
		{
			Name: "list_subagents", Noun: "subagent", Form: formOf[ListSubagents, ListSubagentsResult](),
			Scope: RoleObserver, Since: "0.1", Available: true,
			Means:   "Lists the children of a session or a thread.",
			Doc:     "descendants lists the children's children too.",
			Example: `{"sessionId":"sess_docs","descendants":true}`,
		},
	}
}
