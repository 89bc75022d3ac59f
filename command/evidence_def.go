package command

// evidenceDefs are the catalogue's entries for exports.
func evidenceDefs() []Def {
	return []Def{
		{
			Name: "export_evidence", Noun: "evidence", Form: formOf[ExportEvidence, ExportResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Exports an evidence pack.",
			Doc:     "The pack carries its facts with their place in the session's hash chain, signed with the runtime's key, so that a third party can verify it offline with \"agentd evidence verify\". The same scope gives the same pack but for id, time and signature. A pack over 4 MiB is behind ref alone: pack is then its summary and has the member partial. Exports at the end of the scope are not part of it.",
			Example: `{"sessionId":"sess_docs"}`,
		},
		{
			Name: "export_replay", Noun: "evidence", Form: formOf[ExportReplay, ExportResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Exports a replay case.",
			Doc:     "The case has the turns of the scope with their input and options, what models, tools and people answered, and the facts that must come out without ids and times. It runs again on its recordings with \"agentd replay\". Where the recordings can't bring everything back, its determinism is approximate and its limits say why. A scope without a turn is not found.",
			Example: `{"sessionId":"sess_docs","turnId":"turn_1"}`,
		},
		{
			Name: "export_review", Noun: "evidence", Form: formOf[ExportReview, ExportResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Exports a review.",
			Doc:     "The review is made from the same facts as the evidence. The pack has the page as markdown and as html; each statement names its event.",
			Example: `{"sessionId":"sess_docs","taskId":"task_review"}`,
		},
		{
			Name: "record_review", Noun: "evidence", Form: formOf[RecordReview, ReviewResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Records verdicts of checks and notes of reviewers.",
			Doc:     "What is recorded is the word of who calls, not of the runtime: it decides nothing. It stands in the evidence of the session and, with taskId, of the task, and in every pack, review and summary made from then on. Without a scope beyond the session it is about all of it.",
			Example: `{"sessionId":"sess_docs","taskId":"task_review","verificationOutcomes":[{"name":"links","status":"passed"}],"note":"Reads well."}`,
		},
		{
			Name: "list_exports", Noun: "evidence", Form: formOf[ListExports, ListExportsResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Lists what was exported: evidence packs, replay cases, reviews and trials.",
			Doc:     listDoc,
			Example: `{"sessionId":"sess_docs","type":"evidence","sort":"created"}`,
		},
	}
}
