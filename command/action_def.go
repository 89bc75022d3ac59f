package command

// actionDefs are the catalogue's entries for actions.
func actionDefs() []Def {
	return []Def{
		{
			Name: "respond_action", Noun: "action", Form: formOf[RespondAction, RespondActionResult](),
			Mutates: true, EndsWork: true, Destructive: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Answers an action.",
			Doc:     "The same answer twice is fine; another answer to a resolved action is a conflict. scope: session lets an allow hold for the rest of the session, scope: project keeps the rules of the action (keepRules) for its project: they hold in all sessions of the account there, until forget_project_rule. An allowed plan may come with the payload {\"permissionMode\":…} that it is carried out in (default default). A credential is given as a reference, such as the payload \"env:NAME\", never as a value.",
			Example: `{"actionId":"action_1","decision":"allow","scope":"once"}`,
		},
		{
			Name: "list_actions", Noun: "action", Form: formOf[ListActions, ListActionsResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Lists actions.",
			Doc:     "An action stays pending, across restarts, until it is answered or expires. " + listDoc,
			Example: `{"status":"pending","tool":"shell","sort":"created"}`,
		},
	}
}
