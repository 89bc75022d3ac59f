package command

// benchmarkDefs are the catalogue's entries for benchmarks.
func benchmarkDefs() []Def {
	return []Def{
		{
			Name: "start_benchmark_trial", Noun: "benchmark", Form: formOf[StartBenchmarkTrial, StartBenchmarkTrialResult](),
			Mutates: true, Destructive: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Binds a trial to a session and runs its turn.",
			Doc:     "agentd doesn't score: it makes the trial reproducible and attributable. Without input the caller submits the turn itself.",
			Example: `{"benchmark":{"datasetId":"small-fixes","datasetVersion":"1.0","taskId":"fix-7","configurationId":"baseline","role":"baseline"},"input":"Fix the failing test.","timeoutMs":600000}`,
		},
		{
			Name: "record_benchmark_reward", Noun: "benchmark", Form: formOf[RecordBenchmarkReward, TrialResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Attaches a score to a trial.",
			Doc:     "The score is kept as it is given.",
			Example: `{"trialId":"trial_1","reward":{"value":0.75,"criteria":["tests pass"]},"verifier":{"name":"unit-tests","version":"1","status":"completed"}}`,
		},
		{
			Name: "end_benchmark_trial", Noun: "benchmark", Form: formOf[EndBenchmarkTrial, TrialResult](),
			Mutates: true, EndsWork: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Ends a trial of several turns, or records why a trial has no score.",
			Doc:     "Other trials end with their turn; with a failure category one of them that ended well and has no score becomes a failed one. It is a conflict while a turn of the trial runs or waits; to end a trial that has ended is fine.",
			Example: `{"trialId":"trial_1"}`,
		},
		{
			Name: "export_benchmark_trial", Noun: "benchmark", Form: formOf[ExportBenchmarkTrial, ExportBenchmarkTrialResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Exports a trial's pack and trajectory.",
			Doc:     "The trajectory is in the format ATIF.",
			Example: `{"trialId":"trial_1"}`,
		},
		{
			Name: "compare_benchmark_runs", Noun: "benchmark", Form: formOf[CompareBenchmarkRuns, CompareBenchmarkRunsResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Holds two configurations against each other.",
			Doc:     "Trials of different data sets or verifiers are a conflict.",
			Example: `{"baseline":{"configurationId":"baseline","trialIds":["trial_1"]},"candidate":{"configurationId":"candidate","trialIds":["trial_2"]},"decision":"promote"}`,
		},
		{
			Name: "list_trials", Noun: "benchmark", Form: formOf[ListTrials, ListTrialsResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Lists benchmark trials with their scores.",
			Doc:     listDoc,
			Example: `{"datasetId":"docs-tasks","configurationId":"candidate","sort":"created"}`,
		},
	}
}
