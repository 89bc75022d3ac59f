package command

// jobDefs are the catalogue's entries for jobs.
func jobDefs() []Def {
	return []Def{
		{
			Name: "create_job", Noun: "job", Form: formOf[CreateJob, JobResult](),
			Mutates: true, Destructive: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Creates a batch of items that are worked on side by side.",
			Doc:     "A job has at most 100,000 items. Unless start is false it starts at once. With taskId it belongs to a task, in whose session it is: cancel_task stops it, and none is created for a task that is over or being cancelled. A job ends as failed if more items failed than failuresAllowed, which is 0 unless it is given.",
			Example: `{"instruction":"Translate the sentence to French.","items":[{"itemId":"item_1","input":"Good morning."},{"itemId":"item_2","input":"Good night."}],"concurrency":2}`,
		},
		{
			Name: "start_job", Noun: "job", Form: formOf[StartJob, JobRecord](),
			Mutates: true, Destructive: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Starts a job that waits.",
			Doc:     "A job waits that was created with start: false or, with recovery: manual, that was running when the runtime was started again; its items go on where they were. Starting a job that runs already changes nothing. The answer is the job after it.",
			Example: `{"jobId":"job_french"}`,
		},
		{
			Name: "get_job", Noun: "job", Form: formOf[GetJob, JobRecord](),
			Scope: RoleObserver, Since: "0.1", Available: true,
			Means:   "Returns a job with a page of its items.",
			Doc:     "limit and cursor page through the items.",
			Example: `{"jobId":"job_french","limit":100}`,
		},
		{
			Name: "list_jobs", Noun: "job", Form: formOf[ListJobs, ListJobsResult](),
			Scope: RoleObserver, Since: "0.1", Available: true,
			Means:   "Lists jobs.",
			Doc:     "Each job has its first 20 items; get_job has all of them; continue with the job's nextCursor. " + listDoc,
			Example: `{"status":"running","sort":"created"}`,
		},
		{
			Name: "cancel_job", Noun: "job", Form: formOf[CancelJob, JobRecord](),
			Mutates: true, EndsWork: true, Destructive: true, Repeatable: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Stops a job.",
			Doc:     "Items that are done stay as they are. The answer is the job after it.",
			Example: `{"jobId":"job_french","reason":"wrong language"}`,
		},
		{
			Name: "retry_job_item", Noun: "job", Form: formOf[RetryJobItem, JobRecord](),
			Mutates: true, Destructive: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Starts a new attempt at an item that failed.",
			Doc:     "An item that hasn't failed is a conflict. A retry makes no second output. A job that ended goes on with it, one that failed too. The answer is the job after it.",
			Example: `{"jobId":"job_french","itemId":"item_2"}`,
		},
		{
			Name: "report_job_item", Noun: "job", Form: formOf[ReportJobItem, JobRecord](),
			Mutates: true, Destructive: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Records the result of an item that was worked out elsewhere.",
			Doc:     "The item becomes reported and counts as done; the turn that works on it is stopped, and an attempt that waits is dropped. An item that is done, or that was not given out yet, is a conflict. A job that ended with failed items goes on and ends anew. The answer is the job after it.",
			Example: `{"jobId":"job_french","itemId":"item_2","output":"Bonne nuit."}`,
		},
	}
}
