package evidence

import (
	"cmp"
	"slices"

	"agentd/event"
)

// turnFacts are what a recording remembers of the turn that a thread is at.
type turnFacts struct {
	// thread is the thread, main the one that its turns are in the end for: its own, or
	// that of the turn which began to start subagents.
	thread, main string
	// parent is the thread whose subagent works here, agent that subagent, depth its
	// generation; closed says that it was, given is the turn that its next input began, or
	// is for.
	parent, agent string
	depth         int64
	closed        bool
	given         string
	// running is the turn that runs, accepted the one of a subagent that has not started.
	running, accepted string
	// entering is the turn that hooks were asked about before it started, enteringHook
	// the last run of one.
	entering, enteringHook string
	// open is what the turn waits for: answers, results, decisions.
	open map[string]bool
	// retrying says that the turn waits before it asks again, limited that it does so
	// for a limit of the runtime.
	retrying, limited bool
	// calls counts how often the turn asked a model, routed says that it has one to ask,
	// due are the tool calls of the last answer that have not ended, begun says that
	// something was done about one.
	calls  int
	routed bool
	due    map[string]bool
	begun  bool
	// endedTurn is the turn that ended last.
	endedTurn string
	// stopped says that the turn was interrupted, cutting what it waited for then. That of
	// a subagent is also if who it works for was: told says that it was told, stoppedBy
	// which fact began it.
	stopped   bool
	cutting   map[string]bool
	told      bool
	stoppedBy string
	// before is the place before the last thing that came from outside, which is what
	// came says; nil if nothing came in this turn. numbered is how many turns had a number.
	before   map[string]int
	came     func() *int
	numbered int
	// trail are the outcomes that were cut off one after the other, trailed the place
	// before the first of them.
	trail   []func() *int
	trailed map[string]int
	// unexplained says that an action was cancelled, and nothing says yet why.
	unexplained bool
}

// turnTo takes up the thread that a fact is about. One about the session is also about
// the thread that is at work, if that is one alone.
func (r *recording) turnTo(e *event.Event) {
	f := &r.act
	if f.on == nil {
		f.on = map[string]*turnFacts{}
	}
	id := applicable(e.ThreadID)
	if id == "" {
		for _, on := range f.on {
			if on.running != "" && on.main == on.thread {
				id = on.thread
			}
		}
	}
	if f.on[id] == nil {
		f.on[id] = &turnFacts{thread: id, main: id}
	}
	f.turnFacts = f.on[id]
}

// main returns the turn of a main thread that what is at hand is for; none if nothing
// is done in it.
func (r *recording) main() string {
	if on := r.act.on[r.act.turnFacts.main]; on != nil {
		return on.running
	}
	return ""
}

// runs reports whether a thread is at a turn.
func (r *recording) runs(turnID string) bool {
	for _, on := range r.act.on {
		if on.running == turnID {
			return true
		}
	}
	return false
}

// isOpen reports whether a thread waits for something.
func (r *recording) isOpen(id string) bool {
	for _, on := range r.act.on {
		if on.open[id] {
			return true
		}
	}
	return false
}

// threadStarts takes a thread beside the main one: tasks, jobs and trials work in some.
func (r *recording) threadStarts(e *event.Event, p *event.ThreadStarted) {
	if p.Role == "main" || p.Role == "fork" {
		return
	}
	if r.act.others == nil {
		r.act.others = map[string]bool{}
	}
	r.act.others[e.ThreadID] = true
}

// beside returns a thread if it is not the main one.
func (r *recording) beside(threadID string) string {
	if r.act.others[threadID] {
		return threadID
	}
	return ""
}

// limitThreads says that a replay, which runs the turns of all threads one after the
// other, has no place for what was done while several were at work.
const limitThreads = "what was done to one of several threads is not done again"

// besideOthers notes an act that is about more than a turn, if several threads were at
// work.
func (r *recording) besideOthers(a *CaseAct) {
	if a.Kind == ActSteer || a.Kind == ActInterrupt || a.Kind == ActDeadline || a.SubagentID != "" {
		return
	}
	for _, on := range r.act.on {
		if on.running != "" && on.main == on.thread && on.thread != r.act.turnFacts.main {
			r.limit(limitThreads)
		}
	}
}

// mark tells what was recorded last how many acts came before it.
func (r *recording) mark(kind int, acts *int) {
	*acts = len(r.c.Acts)
	r.act.marks[kind] = append(r.act.marks[kind], r.main())
}

// counts are the counts of acts of all that came from outside, by its kind.
func (r *recording) counts() [4][]*int {
	var out [4][]*int
	for i := range r.c.Answers {
		out[0] = append(out[0], &r.c.Answers[i].Acts)
	}
	for i := range r.c.Results {
		out[1] = append(out[1], &r.c.Results[i].Acts)
	}
	for i := range r.c.Decisions {
		out[2] = append(out[2], &r.c.Decisions[i].Acts)
	}
	for p, i := r.c.Parties, 0; p != nil && i < len(p.Hooks); i++ {
		out[3] = append(out[3], &p.Hooks[i].Acts)
	}
	return out
}

// oneAfterTheOther puts the acts into the order of a replay, which runs the turns of all
// threads one after the other, and counts them anew for what came after them.
func (r *recording) oneAfterTheOther() {
	if len(r.c.Acts) == 0 {
		return
	}
	r.spawnsAnywhere()
	place, n := map[string]int{}, 0
	for _, t := range r.c.Turns {
		if !t.Unstarted {
			n++
			place[t.TurnID] = n
		}
	}
	recorded := slices.Clone(r.c.Acts)
	for i := range r.c.Acts {
		if a := &r.c.Acts[i]; a.during != "" {
			a.Turns = place[a.during]
		}
	}
	slices.SortStableFunc(r.c.Acts, func(a, b CaseAct) int {
		if c := cmp.Compare(a.Turns, b.Turns); c != 0 || (a.during == "") == (b.during == "") {
			return c
		}
		if a.during != "" {
			return -1 // what was done when the turn had ended comes after it
		}
		return 1
	})
	for i, list := range r.counts() {
		for j, count := range list {
			if j < len(r.act.marks[i]) && r.act.marks[i][j] != "" {
				*count = r.actsBefore(recorded[:min(*count, len(recorded))], r.act.marks[i][j], place)
			}
		}
	}
}

// spawnsAnywhere has subagents wait for no acts if several threads were at work: the acts
// of the others may come later in a replay.
func (r *recording) spawnsAnywhere() {
	if len(r.act.others) == 0 || r.c.Parties == nil {
		return
	}
	for _, a := range r.c.Parties.Agents {
		if a.Spawn != nil {
			a.Spawn.Acts = 0
		}
	}
}

// actsBefore counts the acts that a replay has done before what came in a turn after
// those that are given.
func (r *recording) actsBefore(given []CaseAct, turn string, place map[string]int) (n int) {
	for _, a := range r.c.Acts {
		if a.during != turn && a.Turns < place[turn] {
			n++
		}
	}
	for _, a := range given {
		if a.during == turn {
			n++
		}
	}
	return n
}
