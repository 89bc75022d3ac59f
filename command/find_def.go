package command

// findDefs are the catalogue's entries for questions over many sessions.
func findDefs() []Def {
	return []Def{
		{
			Name: "list_turns", Noun: "find", Form: formOf[ListTurns, ListTurnsResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Lists the turns of all sessions that the caller may see, with what they cost, used and came to.",
			Doc:     "Everything that was durable before the call is in the answer. Filters add up. The newest come first, unless sort and order say otherwise; turns that are alike are ordered by session and sequence. A cursor keeps its place, also when the turn that it was made at is gone. Turns whose first event was removed by retention are not listed. In query at most 16 words are looked for.",
			Example: `{"status":"failed","from":"2026-01-01T00:00:00Z","sort":"cost","limit":50}`,
		},
		{
			Name: "search", Noun: "find", Form: formOf[Search, SearchResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Finds where words were said or done: in inputs, answers, arguments and outputs of tools, and names of files.",
			Doc:     "Everything that was durable before the call is found. A word is a run of letters and digits; in scripts without spaces every character is one. Events in which the words are more frequent come first, short texts before long ones, then the newest. Of a long text the first 64 KiB are searched. What is redacted in events can't be found. A cursor keeps its place while events are added and removed.",
			Example: `{"query":"timeout retry*","types":["tool.*"],"limit":20}`,
		},
		{
			Name: "find_id", Noun: "find", Form: formOf[FindID, FindIDResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Finds what an id names: which kind of thing it is, in which session, and the first event that names it.",
			Doc:     "Sessions, tasks, actions, processes, subagents, jobs, schedules, trials and channels are found by an index, whoever chose their ids. An id that agentd made says when that was, so all others (threads, turns, runs, steps, tool calls, artifacts, packs, items, requests, events) are looked for in what the sessions wrote at that time, and turns with an id that a caller chose in the newest sessions. At most 500 sessions and 100,000 events are looked at. What belongs to another account isn't found.",
			Example: `{"id":"tool_01"}`,
		},
	}
}
