package command

// evidenceDefs are the catalogue's entries for exports.
func evidenceDefs() []Def {
	return []Def{
		{
			Name: "export_evidence", Noun: "evidence", New: func() Params { return &ExportEvidence{} }, Result: (*ExportResult)(nil),
			Mutates: true, Scope: RoleClient, Since: "0.1",
			Means:   "Exports an evidence pack.",
			Doc:     "The pack carries the head of the session's hash chain, signed, so that a third party can verify it offline.",
			Example: `{"sessionId":"sess_docs"}`,
		},
		{
			Name: "export_replay", Noun: "evidence", New: func() Params { return &ExportReplay{} }, Result: (*ExportResult)(nil),
			Mutates: true, Scope: RoleClient, Since: "0.1",
			Means:   "Exports a replay case.",
			Doc:     "The case runs again on its recordings with \"agentd replay\".",
			Example: `{"sessionId":"sess_docs","turnId":"turn_1"}`,
		},
		{
			Name: "export_review", Noun: "evidence", New: func() Params { return &ExportReview{} }, Result: (*ExportResult)(nil),
			Mutates: true, Scope: RoleClient, Since: "0.1",
			Means:   "Exports a review.",
			Doc:     "The review is made from the same facts as the evidence.",
			Example: `{"sessionId":"sess_docs","taskId":"task_review"}`,
		},
	}
}
