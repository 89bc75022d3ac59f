package command

// bulkDefs are the catalogue's entries for commands that do the same to several.
func bulkDefs() []Def {
	const rest = "At most 1,000 are done at a time; a filter that keeps more says how many remain. Each has a result of its own, with the code and the reason if it failed: one that fails doesn't keep the others from being done. The facts are those of the command for one. The same idempotency key gives the whole first result again; after a crash it goes on with what was chosen the first time."
	return []Def{
		{
			Name: "interrupt_turns", Noun: "turn", Form: formOf[InterruptTurns, InterruptTurnsResult](),
			Mutates: true, EndsWork: true, Destructive: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.2",
			Means:   "Stops several turns.",
			Doc:     rest,
			Example: `{"sessionIds":["sess_docs","sess_code"],"reason":"the release is out"}`,
		},
		{
			Name: "respond_actions", Noun: "action", Form: formOf[RespondActions, RespondActionsResult](),
			Mutates: true, EndsWork: true, Destructive: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.2",
			Means:   "Approves or denies several actions.",
			Doc:     "Actions that ask for an input are answered one by one, with respond_action. " + rest,
			Example: `{"actionIds":["action_1","action_2"],"decision":"deny","reason":"not on a Friday"}`,
		},
		{
			Name: "archive_sessions", Noun: "session", Form: formOf[ArchiveSessions, ArchiveSessionsResult](),
			Mutates: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.2",
			Means:   "Archives several sessions, or brings them back.",
			Doc:     rest,
			Example: `{"filter":{"tags":["release"],"to":"2026-01-01T00:00:00Z"}}`,
		},
	}
}
