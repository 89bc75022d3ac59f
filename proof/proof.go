// Package proof lets a runtime answer for what it did: it explains single facts and
// exports signed packs of evidence, for replay and for review.
//
// # Contract
//
// Package evidence says what is in a pack and how one is verified; this package reads
// the facts of a running runtime for it, checks the caller's access, stores the pack
// and records the export as a fact. A pack is signed with the runtime's key, which all
// nodes over one store share.
//
// # Concurrency
//
// A [Reporter] has no goroutines. It may be used by many.
package proof

import (
	"agentd/command"
	"agentd/evidence"
	"agentd/session"
	"agentd/store"
)

// Options configure a [Reporter]. All are required.
type Options struct {
	// Sessions has the facts, and records exports.
	Sessions *session.Manager
	// Store is where the facts of Sessions are, and the signing key.
	Store store.Store
	// Case returns what a case to replay has beside the facts: the configuration in
	// force and the workspace of sessions that name none.
	Case func() (evidence.CaseOptions, error)
}

// Reporter explains and exports what a runtime did.
type Reporter struct {
	opt     Options
	manager *session.Manager
}

// New returns a reporter.
func New(opt Options) *Reporter { return &Reporter{opt: opt, manager: opt.Sessions} }

// Register registers the handlers of the commands about evidence.
func (r *Reporter) Register(t *command.Table) {
	command.Handle(t, r.explain)
	command.HandleKept(t, r.exportEvidence, packAnswer[*command.ExportEvidence](r))
	command.HandleKept(t, r.exportReplay, packAnswer[*command.ExportReplay](r))
	command.HandleKept(t, r.exportReview, packAnswer[*command.ExportReview](r))
	command.Handle(t, r.recordReview)
	command.Handle(t, r.listExports)
}
