package command

// taskDefs are the catalogue's entries for tasks.
func taskDefs() []Def {
	return []Def{
		{
			Name: "create_task", Noun: "task", Form: formOf[CreateTask, TaskResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Creates a task.",
			Doc:     "With worker: runtime agentd runs the objective in a thread of its own; with worker: external the caller works and reports with append_task_progress, complete_task and fail_task, and silence past heartbeatTimeoutMs is task.lost, after which another attempt begins if retryPolicy has one left. A draft is defined but not taken on: start_task accepts it and starts it. A dependency on a task that doesn't exist is not found, a cycle is a conflict.",
			Example: `{"taskId":"task_review","objective":"Review the reference pages.","acceptance":["every example was run"],"worker":"external","heartbeatTimeoutMs":60000,"retryPolicy":{"maxAttempts":3,"backoffMs":1000}}`,
		},
		{
			Name: "update_task", Noun: "task", Form: formOf[UpdateTask, TaskResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Changes fields of a task.",
			Doc:     "What is absent stays. A task that has ended takes changes of its delivery, validation, artifacts, evidence and metadata only.",
			Example: `{"taskId":"task_review","title":"Review","priority":"high"}`,
		},
		{
			Name: "start_task", Noun: "task", Form: formOf[StartTask, TaskRunResult](),
			Mutates: true, Destructive: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Starts a task.",
			Doc:     "A task whose dependencies are not completed becomes blocked and starts by itself when they are.",
			Example: `{"taskId":"task_review"}`,
		},
		{
			Name: "retry_task", Noun: "task", Form: formOf[RetryTask, TaskRunResult](),
			Mutates: true, Destructive: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Starts a new attempt at a task.",
			Doc:     "Nothing of an earlier attempt is overwritten. A task whose own work is done and that is blocked by its children, its criteria or its delivery may be tried again, too; one that waits for another task to be completed, or whose attempt goes on, is refused.",
			Example: `{"taskId":"task_review","reason":"the network is back"}`,
		},
		{
			Name: "append_task_progress", Noun: "task", Form: formOf[AppendTaskProgress, TaskResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Reports progress on a task.",
			Doc:     "It is the heartbeat of an external worker. A report for an attempt that is over is kept as late and changes nothing else.",
			Example: `{"taskId":"task_review","progress":{"phase":"working","percent":40,"counters":{"pages":4}}}`,
		},
	}
}

// taskStateDefs are the catalogue's entries that change a task's state or its edges.
func taskStateDefs() []Def {
	return []Def{
		{
			Name: "pause_task", Noun: "task", Form: formOf[PauseTask, TaskResult](),
			Mutates: true, EndsWork: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Holds a task.",
			Doc:     "The running step reaches its next durable fact first.",
			Example: `{"taskId":"task_review","reason":"waiting for the release"}`,
		},
		{
			Name: "resume_task", Noun: "task", Form: formOf[ResumeTask, TaskResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Lets a paused task go on.",
			Doc:     "With recovery: manual a task that would go on by itself is paused at every start of the runtime, and the thread of one at work is blocked: resume_task lets both go on. Any other task that isn't paused is a conflict.",
			Example: `{"taskId":"task_review"}`,
		},
		{
			Name: "cancel_task", Noun: "task", Form: formOf[CancelTask, TaskResult](),
			Mutates: true, EndsWork: true, Destructive: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Stops a task.",
			Doc:     "The intent is recorded first, then it reaches children, jobs, processes and subagents, unless propagate is false. The task is cancelling until all of them have settled, then cancelled, also if the runtime is restarted in between. No new work starts under a task that is being cancelled.",
			Example: `{"taskId":"task_review","propagate":true}`,
		},
		{
			Name: "complete_task", Noun: "task", Form: formOf[CompleteTask, TaskResult](),
			Mutates: true, EndsWork: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Ends a task well.",
			Doc:     "A task with open acceptance criteria is a conflict: satisfy or waive each with a reason.",
			Example: `{"taskId":"task_review","summary":"All pages read.","artifacts":[{"artifactId":"artifact_report","uri":"report.md","mediaType":"text/markdown"}]}`,
		},
		{
			Name: "fail_task", Noun: "task", Form: formOf[FailTask, TaskResult](),
			Mutates: true, EndsWork: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Ends an attempt at a task with an error.",
			Doc:     "If the error is retryable and the retry policy allows it, another attempt follows; else the task has failed.",
			Example: `{"taskId":"task_review","error":{"message":"a page is missing","category":"not_found","retryable":false}}`,
		},
		{
			Name: "archive_task", Noun: "task", Form: formOf[ArchiveTask, TaskResult](),
			Mutates: true, EndsWork: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Takes an ended task out of the lists.",
			Doc:     "A task that hasn't ended is a conflict.",
			Example: `{"taskId":"task_review"}`,
		},
		{
			Name: "link_tasks", Noun: "task", Form: formOf[LinkTasks, RelationshipsResult](),
			Mutates: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Adds an edge to the task graph.",
			Doc:     "A dependency cycle is a conflict.",
			Example: `{"taskId":"task_review","kind":"blocked_by","targetId":"task_write"}`,
		},
		{
			Name: "unlink_tasks", Noun: "task", Form: formOf[UnlinkTasks, RelationshipsResult](),
			Mutates: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Takes an edge out of the task graph.",
			Doc:     "An edge that isn't there is not found. A task that was blocked by the edge alone starts.",
			Example: `{"taskId":"task_review","kind":"blocked_by","targetId":"task_write"}`,
		},
	}
}

// taskReadDefs are the catalogue's entries that read tasks.
func taskReadDefs() []Def {
	return []Def{
		{
			Name: "get_task", Noun: "task", Form: formOf[GetTask, TaskRecord](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Returns the record of a task.",
			Doc:     "The record has all attempts, edges and references of the task; fields beyond those shown here are in the read model.",
			Example: `{"taskId":"task_review"}`,
		},
		{
			Name: "list_tasks", Noun: "task", Form: formOf[ListTasks, ListTasksResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Lists tasks.",
			Doc:     "The list of one session has the implicit tasks of its newest turns too; their visibility is internal. Archived tasks are listed only if status asks for them. " + listDoc,
			Example: `{"sessionId":"sess_docs","status":"running","sort":"updated"}`,
		},
	}
}
