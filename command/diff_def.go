package command

// diffDefs are the catalogue's entries for what was changed in the workspace.
func diffDefs() []Def {
	return []Def{
		{
			Name: "get_diff", Noun: "diff", Form: formOf[GetDiff, GetDiffResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Returns what a turn, a tool call or a range of events changed in the workspace, as a unified diff.",
			Doc:     "The diff leads from the files before the first change to the files after the last one, whatever became of them since. Contents are redacted; binary files, files that a rule keeps from tools and contents that are no longer known are named with the reason. A diff of more than 256 KiB is cut, and diffRef has all of it.",
			Example: `{"sessionId":"sess_docs","turnId":"turn_1"}`,
		},
	}
}
