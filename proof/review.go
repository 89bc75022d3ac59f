package proof

import (
	"context"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/store/storefault"
)

// checkScope refuses a scope that the caller may not see, or that no fact is about.
func (r *Reporter) checkScope(ctx context.Context, caller command.Caller, p *command.ExportScope) error {
	known := false
	if err := r.manager.ViewAs(ctx, caller, p.SessionID, func(s *state.Session) error {
		known = p.TurnID == "" && (p.ThreadID == "" || s.Thread(p.ThreadID) != nil) && (p.TaskID == "" || s.Tasks.Find(p.TaskID) != nil)
		return nil
	}); err != nil || known {
		return err
	}
	scope := exportScope(*p)
	for e, err := range r.facts(ctx, p.SessionID) {
		if err != nil {
			return storefault.Read(err, "the session's facts can't be read")
		}
		if scope.Has(e) {
			return nil
		}
	}
	return fault.New(fault.NotFound, "no fact of session %s is about this thread, turn or task", p.SessionID)
}

// recordReview puts verdicts and notes of others into the session's facts.
func (r *Reporter) recordReview(ctx context.Context, caller command.Caller, p *command.RecordReview) (*command.ReviewResult, error) {
	if err := r.checkScope(ctx, caller, &p.ExportScope); err != nil {
		return nil, err
	}
	return session.Write(ctx, r.manager, caller, p, p.SessionID, event.ByEvidence, func(tx *session.Tx) (*command.ReviewResult, error) {
		fact := &event.EvidenceChanged{
			Kind: "note", VerificationOutcomes: p.VerificationOutcomes, Note: p.Note, ReviewRef: p.ReviewRef, RecordedBy: session.ActorOf(caller),
		}
		if len(p.VerificationOutcomes) > 0 {
			fact.Kind = "verification"
		}
		id, sequence := tx.NewID(event.PrefixEvidence), tx.Sequence()
		tx.Emit(event.Event{
			Type: event.TypeEvidenceChanged, Scope: event.Scope{ThreadID: p.ThreadID, TurnID: p.TurnID, TaskID: p.TaskID, EvidenceID: id}, Payload: fact,
		})
		return &command.ReviewResult{EvidenceID: id, Sequence: sequence}, nil
	})
}
