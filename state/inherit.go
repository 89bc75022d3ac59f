package state

import "agentd/event"

// inherit notes the turns that a fork has from other sessions.
func (f *fold) inherit(p *event.HistoryWindowLoaded) {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return
	}
	n := max(0, len(p.Turns)-keepTurns)
	t.Inherited, t.MoreInherited = nil, p.MoreTurns || n > 0
	for _, x := range p.Turns[n:] {
		x.SubmittedAt, x.StartedAt, x.CompletedAt = journalTime(x.SubmittedAt), journalTime(x.StartedAt), journalTime(x.CompletedAt)
		t.Inherited = append(t.Inherited, x)
	}
}

// passInherited forgets the inherited turns once a turn of the thread's own is not
// shown any more: what is shown has no hole.
func (t *Thread) passInherited() {
	if len(t.Inherited) > 0 {
		t.Inherited, t.MoreInherited = nil, true
	}
}

// leave takes inherited turns back: the newest of them, and with them where the
// history ends in another session.
func (t *Thread) leave(p *event.RollbackCompleted) {
	t.Base = p.Origin
	kept := max(0, len(t.Inherited)-int(max(0, p.InheritedTurns)))
	t.Inherited = firstN(t.Inherited, kept)
	if p.Origin.Sequence == 0 {
		t.MoreInherited = false
	}
}

// Origin returns where the thread's history begins in another session; nil if it
// has nothing from there. The first thread of a fork is the one that has.
func (s *Session) Origin(t *Thread) *event.ForkPoint {
	from := s.ForkedFrom
	if t.Role != "main" && t.Role != "fork" {
		return nil
	}
	if t.Base != nil {
		from = t.Base
	}
	if from == nil || from.Sequence == 0 {
		return nil
	}
	return from
}

// TurnOrigin is where the facts of an inherited turn are.
type TurnOrigin struct {
	SessionID string `json:"sessionId"`
	ThreadID  string `json:"threadId"`
	// SubmittedSequence is where they begin.
	SubmittedSequence uint64 `json:"submittedSequence,omitempty"`
	EndSequence       uint64 `json:"endSequence,omitempty"`
}

// inheritedView is the wire form of an inherited turn.
func inheritedView(x *event.InheritedTurn) TurnView {
	v := TurnView{
		TurnID: x.TurnID, ThreadID: x.ThreadID, TaskID: x.TaskID, RunID: x.RunID, Status: x.Status, Phase: x.Status,
		Source: orUnknown(x.Source), Preview: x.Preview, SubmittedSequence: x.SubmittedSequence,
		SubmittedAt: x.SubmittedAt, StartedAt: x.StartedAt, CompletedAt: x.CompletedAt, Waiting: []string{}, StepCount: x.Steps,
		Outcome: x.Outcome, FailureCategory: x.FailureCategory, Inherited: true,
		Origin: &TurnOrigin{
			SessionID: x.SessionID, ThreadID: x.ThreadID, SubmittedSequence: x.SubmittedSequence, EndSequence: x.EndSequence,
		},
	}
	if x.Usage != nil {
		v.Usage = *x.Usage
	}
	if x.CostUSD > 0 {
		usd := x.CostUSD
		v.CostState.CostUSD = &usd
	}
	return v
}
