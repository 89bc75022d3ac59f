package command

// environmentDefs are the catalogue's entries for environments.
func environmentDefs() []Def {
	return []Def{
		{
			Name: "get_tool_inventory", Noun: "environment", Form: formOf[GetToolInventory, GetToolInventoryResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Lists the tools that a session has.",
			Doc:     "Each tool says whether it is allowed, asked for, denied or unavailable under the mode.",
			Example: `{"sessionId":"sess_docs","permissionMode":"plan"}`,
		},
		{
			Name: "get_execution_environment", Noun: "environment", Form: formOf[GetExecutionEnvironment, EnvironmentRead](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Says where commands run, and under which boundaries.",
			Doc:     "enforcement names the mechanism that the kernel really enforces, or none.",
			Example: `{"sessionId":"sess_docs"}`,
		},
	}
}
