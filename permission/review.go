package permission

// Review is a reviewer's verdict about one call: a model's word, given before a person is
// asked. It can turn an ask into an allow, where [Decision.Reviewable] says so, and
// nothing else.
type Review struct {
	// Allow says that the reviewer would let the call run. False leaves it to the person.
	Allow bool
	// Reason is the reviewer's own, Model names who it is.
	Reason, Model string
}

func (v *Review) describeVerdict() string {
	out := "the reviewer"
	if v.Model != "" {
		out += " " + v.Model
	}
	out += " allows it"
	if v.Reason != "" {
		out += ": " + v.Reason
	}
	return out
}

// ReviewBounds say what a reviewer may allow beside what changes nothing for good inside
// the sandbox. The zero value is the narrowest.
type ReviewBounds struct {
	// Destructive lets it allow calls that destroy something.
	Destructive bool `json:"destructive,omitempty"`
	// Outside lets it allow calls that run outside of the sandbox, or aren't confined by
	// it, such as those of tools that run elsewhere.
	Outside bool `json:"outside,omitempty"`
}

// reviewable says that a reviewer may answer the question. A rule, a hook, what bounds the
// agent, a plan and a call that can't be judged stay with the person, and so does
// everything where no person could be asked: a reviewer stands before a person, not in
// the place of one.
func (q *Question) reviewable(f *facts, r *ruling) bool {
	switch {
	case !q.Interactive || !q.canAsk(f):
		return false
	case r.deny != nil || r.ask != nil || q.byHook().decision == Ask:
		return false
	case f.bound != "" || f.unclear != "":
		return false
	case f.kind == kindHandOver || f.kind == kindTalk:
		return false
	case f.destructive && !q.Reviewer.Destructive:
		return false
	}
	return q.Reviewer.Outside || !q.runsOutside(f)
}

// runsOutside says that nothing confines the call.
func (q *Question) runsOutside(f *facts) bool {
	switch {
	case q.Outside || f.leaves || f.kind == kindOther:
		return true
	case f.kind == kindShell:
		return q.Sandbox.lifted() || q.readsUnconfined() != ""
	}
	return false
}
