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
	}
}
