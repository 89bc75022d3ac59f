package command

// permissionDefs are the catalogue's entries for permissions.
func permissionDefs() []Def {
	return []Def{
		{
			Name: "evaluate_permission", Noun: "permission", Form: formOf[EvaluatePermission, EvaluatePermissionResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Asks what would be decided about a tool call.",
			Doc:     "Nothing is executed. The decision is a fact: permission.evaluated.",
			Example: `{"sessionId":"sess_docs","toolName":"shell","input":{"command":"rm -r build"}}`,
		},
		{
			Name: "resolve_permission", Noun: "permission", Form: formOf[ResolvePermission, RespondActionResult](),
			Mutates: true, EndsWork: true, Destructive: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Answers a request for permission as the host's policy.",
			Doc:     "The answer's source is host_policy; the fact names the caller.",
			Example: `{"actionId":"action_1","decision":"deny","reason":"outside of working hours"}`,
		},
		{
			Name: "get_policy", Noun: "permission", Form: formOf[GetPolicy, PolicyResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Returns the policy of a session, or the host's.",
			Doc:     "A session's policy lists the host's rules too; the source of each says whose it is, and the origin of a host's rule whether it is configured or stored.",
			Example: `{"sessionId":"sess_docs"}`,
		},
		{
			Name: "set_policy", Noun: "permission", Form: formOf[SetPolicy, PolicyResult](),
			Mutates: true, Destructive: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Changes the policy of a session, or the host's.",
			Doc:     "Without a session it is the host's policy, and the caller must be an admin; rules of the configuration always stay, and a mode that is wider than the configuration's applies until a server with that configuration starts or reads it again, over a database until any of its nodes does. A session's rules add to the host's: the strictest match wins. With rules all stored rules are replaced; addRules and removeRules change single ones, and leave those that another caller changes at the same time. With acceptWorkspace it accepts the rules of the workspace as they are now in .agentd-permissions.yaml: changes to that file that allow more have no effect before that.",
			Example: `{"sessionId":"sess_docs","mode":"auto","rules":[{"decision":"deny","tool":"shell","match":"git push *","reason":"pushes are manual"}]}`,
		},
		{
			Name: "test_policy", Noun: "permission", Form: formOf[TestPolicy, TestPolicyResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Decides past tool calls again under another policy, and says what would change.",
			Doc:     "Nothing runs, and nothing is written. Approvals hold as they did then, and the sandbox is taken to hold unless the facts say that it didn't. Decisions that follow from an answer to this very call are left out.",
			Example: `{"rules":[{"decision":"deny","tool":"shell","match":"git push *"}],"limit":20}`,
		},
		{
			Name: "suggest_policy", Noun: "permission", Form: formOf[SuggestPolicy, SuggestPolicyResult](),
			Scope: RoleObserver, Available: true, Since: "0.2",
			Means:   "Suggests rules that would have saved most questions, from past decisions.",
			Doc:     "Nothing is written. A rule is suggested only if it allows nothing that was denied, by a person or by the policy. The counts are those of the recorded decisions.",
			Example: `{"workspace":"/srv/project","limit":5}`,
		},
		{
			Name: "test_reviewer", Noun: "permission", Form: formOf[TestReviewer, TestReviewerResult](),
			Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Runs a reviewer over recorded questions and compares it with the people who answered.",
			Doc:     "The model is asked about each question that a reviewer could answer, which costs; nothing else runs, and nothing is written. It works without a configured reviewer if a model is named.",
			Example: `{"model":"local/small","limit":20}`,
		},
		{
			Name: "list_project_rules", Noun: "permission", Form: formOf[ListProjectRules, ListProjectRulesResult](),
			Scope: RoleObserver, Available: true, Since: "0.2",
			Means:   "Lists the rules that people kept for projects by answering actions.",
			Doc:     "Such a rule holds for the sessions of one account in one folder, and only allows: by prefix, and never what destroys something.",
			Example: `{"workspace":"/srv/project"}`,
		},
		{
			Name: "forget_project_rule", Noun: "permission", Form: formOf[ForgetProjectRule, ForgetProjectRuleResult](),
			Mutates: true, Destructive: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.2",
			Means:   "Removes a rule that was kept for a project.",
			Doc:     "The next call in the project is decided without it, in all sessions. The fact is policy.changed, in each of them.",
			Example: `{"ruleId":"rule_1f0c2b7d9a3e"}`,
		},
	}
}
