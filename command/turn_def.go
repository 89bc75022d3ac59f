package command

// turnDefs are the catalogue's entries for turns.
func turnDefs() []Def {
	return []Def{
		{
			Name: "submit_turn", Noun: "turn", Form: formOf[SubmitTurn, SubmitTurnResult](),
			Mutates: true, Destructive: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Accepts or queues a turn.",
			Doc:     "The turn is durable when the command returns, before any work on it. Without a sessionId a new session is opened; an unknown one is not found unless create is true. On a busy thread options.queuePolicy decides: queue (the default), reject (policy_rejected), interrupt, or steer, which adds the input to the running turn and conflicts if that is not options.expectedTurnId. The same turnId again returns the first result.",
			Example: `{"sessionId":"sess_docs","create":true,"input":"List the files in docs.","options":{"permissionMode":"auto","maxSteps":10}}`,
		},
		{
			Name: "interrupt_turn", Noun: "turn", Form: formOf[InterruptTurn, InterruptTurnResult](),
			Mutates: true, EndsWork: true, Destructive: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Stops a turn.",
			Doc:     "With nothing running the answer is interrupted: false, not an error. The turn ends in turn.failed with the status cancelled once its current step has reached a durable fact.",
			Example: `{"sessionId":"sess_docs","reason":"wrong folder","queue":"keep"}`,
		},
		{
			Name: "remove_queued_turn", Noun: "turn", Form: formOf[RemoveQueuedTurn, QueueResult](),
			Mutates: true, EndsWork: true, Destructive: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Takes a waiting turn out of the queue.",
			Doc:     "A turn that runs already is a conflict: interrupt it.",
			Example: `{"sessionId":"sess_docs","turnId":"turn_2"}`,
		},
		{
			Name: "promote_queued_turn", Noun: "turn", Form: formOf[PromoteQueuedTurn, QueueResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Moves a waiting turn.",
			Doc:     "Without a position the turn goes to the front. A position past the end is the end.",
			Example: `{"sessionId":"sess_docs","turnId":"turn_3","position":1}`,
		},
	}
}
