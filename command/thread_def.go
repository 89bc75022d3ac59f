package command

// threadDefs are the catalogue's entries for threads.
func threadDefs() []Def {
	return []Def{
		{
			Name: "get_thread_read", Noun: "thread", Form: formOf[GetThreadRead, ThreadRead](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Returns the read model of a thread.",
			Doc:     "Status is coarse, phase is fine: a thread that waits for an approval is blocked, in the phase waiting_permission. With atSequence it is as it was after that event; a sequence that is past the end, or that retention removed, is refused with those that there are.",
			Example: `{"sessionId":"sess_docs","threadId":"thread_main"}`,
		},
		{
			Name: "update_thread", Noun: "thread", Form: formOf[UpdateThread, UpdateThreadResult](),
			Mutates: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Pins a thread, or takes the pin away.",
			Doc:     "The change is the fact session.updated, with all threads that are pinned from then on.",
			Example: `{"sessionId":"sess_docs","threadId":"thread_main","pinned":true}`,
		},
		{
			Name: "resume_thread", Noun: "thread", Form: formOf[ResumeThread, ResumeThreadResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Lets a blocked thread go on.",
			Doc:     "What was in flight when the runtime stopped became facts first; recovered lists them. A thread that waits for an action stays blocked and says for which; it goes on by itself once that is answered.",
			Example: `{"sessionId":"sess_docs","threadId":"thread_main"}`,
		},
		{
			Name: "compact_thread", Noun: "thread", Form: formOf[CompactThread, CompactThreadResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Replaces earlier turns by a summary in the context.",
			Doc:     "The log keeps every event: only what the model is shown changes. Unresolved actions and active incidents are kept.",
			Example: `{"sessionId":"sess_docs","threadId":"thread_main"}`,
		},
		{
			Name: "rollback_thread", Noun: "thread", Form: formOf[RollbackThread, RollbackThreadResult](),
			Mutates: true, Destructive: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Takes back the turns after a given one.",
			Doc:     "The removed turns stay in the log and leave the thread's history. files: restore puts back the files that they changed, and reports a conflict for each that was changed by something else since. preview changes nothing.",
			Example: `{"sessionId":"sess_docs","threadId":"thread_main","toTurnId":"turn_1","files":"restore","preview":true}`,
		},
		{
			Name: "fork_thread", Noun: "thread", Form: formOf[ForkThread, ForkThreadResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Opens a session with another's history up to a point.",
			Doc:     "The fork refers to the history of its source and copies nothing.",
			Example: `{"sessionId":"sess_docs","threadId":"thread_main","atSequence":42}`,
		},
	}
}
