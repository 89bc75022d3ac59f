package command

// processDefs are the catalogue's entries for processes.
func processDefs() []Def {
	return []Def{
		{
			Name: "write_process_stdin", Noun: "process", Form: formOf[WriteProcessStdin, WriteProcessStdinResult](),
			Mutates: true, Destructive: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Writes to a process.",
			Doc:     "A process that can no longer be reached is unavailable, and a runtime.warning says so.",
			Example: `{"processId":"proc_shell","data":"yes\n"}`,
		},
		{
			Name: "terminate_process", Noun: "process", Form: formOf[TerminateProcess, ProcessResult](),
			Mutates: true, EndsWork: true, Destructive: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Ends a process and what it started.",
			Doc:     "What remains some time after the signal is killed. A process that can no longer be reached is unavailable.",
			Example: `{"processId":"proc_shell","reason":"no longer needed"}`,
		},
		{
			Name: "resize_process", Noun: "process", Form: formOf[ResizeProcess, ProcessResult](),
			Mutates: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Changes the size of a process's terminal.",
			Doc:     "A process without a terminal is a conflict.",
			Example: `{"processId":"proc_shell","rows":40,"cols":120}`,
		},
		{
			Name: "list_processes", Noun: "process", Form: formOf[ListProcesses, ListProcessesResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Lists processes.",
			Doc:     "The list is the ledger that is written before a process runs, so it survives a crash. " + listDoc,
			Example: `{"sessionId":"sess_docs","status":"running"}`,
		},
	}
}
