package command

// artifactDefs are the catalogue's entries for artifacts.
func artifactDefs() []Def {
	return []Def{
		{
			Name: "list_artifacts", Noun: "artifact", Form: formOf[ListArtifacts, ListArtifactsResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Lists deliverables that were observed or produced.",
			Doc:     listDoc,
			Example: `{"sessionId":"sess_docs","status":"created","sort":"updated"}`,
		},
	}
}
