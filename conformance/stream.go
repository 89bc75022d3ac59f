package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// lifecycle is the order in which facts about one thing come.
type lifecycle struct {
	name string
	// id is what the facts carry of it.
	id string
	// begins, goesOn and ends are the types of facts, againWith those after which it may end
	// once more.
	begins, goesOn, ends, againWith []string
	// alone are ends that may come without a beginning.
	alone     []string
	paragraph string
	says      string
}

var lifecycles = []lifecycle{
	{
		name: "turn", id: "turnId", begins: []string{"turn.submitted"}, goesOn: []string{"turn.started"}, ends: []string{"turn.completed", "turn.failed"},
		paragraph: "Runtime model, Identities (turn)", says: "A turn is submitted, then started, then ends, once each",
	},
	{
		name: "model_request", id: "modelRequestId", begins: []string{"model.requested"}, ends: []string{"model.completed", "model.failed"},
		paragraph: "Runtime event stream, Provider adaptation", says: "A provider's call begins, and ends once",
	},
	{
		name: "tool_call", id: "toolCallId", begins: []string{"tool.started"}, goesOn: []string{"tool.progress"}, ends: []string{"tool.result", "tool.failed"},
		paragraph: "Specification, Standard event classes (tool)", says: "A tool call is started, and ends once, with a result or a failure",
	},
	{
		name: "action", id: "actionId", begins: []string{"action.required"}, ends: []string{"action.resolved"},
		paragraph: "Control plane, Action requests", says: "An action is required, and resolved once",
	},
	{
		name: "process", id: "processId", begins: []string{"process.started"}, goesOn: []string{"process.input"},
		ends:  []string{"process.completed", "process.failed", "process.terminated"},
		alone: []string{"process.failed"}, paragraph: "Execution environment, Process lifecycle", says: "A process is started, and ends once",
	},
	{
		name: "task", id: "taskId", begins: []string{"task.created"}, ends: []string{"task.completed", "task.failed", "task.cancelled", "task.timed_out"},
		againWith: []string{"task.retrying", "task.started", "task.queued", "task.resumed"},
		paragraph: "Agent task, Status model", says: "A task is created, and has one terminal status until it is taken up again",
	},
	{
		name: "attempt", id: "runId", begins: []string{"task.attempt.started"}, ends: []string{"task.attempt.completed", "task.attempt.failed"},
		paragraph: "Control plane, Tasks", says: "An attempt is started, and ends once: a retry is another run",
	},
	{
		name: "job", id: "jobId", begins: []string{"job.created"}, ends: []string{"job.completed", "job.failed", "job.cancelled"},
		againWith: []string{"job.started", "job.progress", "job.item.started"},
		paragraph: "Control plane, Jobs", says: "A job is created, and ends once until it is taken up again",
	},
	{
		name: "compaction", id: "threadId", begins: []string{"context.compaction.started"}, againWith: []string{"context.compaction.started"},
		ends:      []string{"context.compaction.completed", "context.compaction.failed"},
		paragraph: "Tool and context, Compaction", says: "A compaction is started before it is completed or fails",
	},
	{
		name: "rollback", id: "threadId", begins: []string{"history.rollback.started"}, againWith: []string{"history.rollback.started"},
		ends: []string{"history.rollback.completed"}, paragraph: "History and recovery, Rollback", says: "A rollback is started before it is completed",
	},
}

// joins are ids that belong to one other.
var joins = []struct{ id, of, paragraph string }{
	{"threadId", "sessionId", "Specification, Required identity model (thread_id)"},
	{"turnId", "threadId", "Specification, Required identity model (turn_id)"},
	{"runId", "taskId", "Specification, Required identity model (run_id)"},
	{"toolCallId", "turnId", "Specification, Required identity model (tool_call_id)"},
	{"toolCallId", "stepId", "Specification, Required identity model (tool_call_id)"},
	{"actionId", "turnId", "Specification, Required identity model (action_id)"},
}

func streamChecks() []Check {
	out := []Check{
		{ID: "stream.order", Scope: Stream, Level: Must, Paragraph: "Runtime event stream, Ordering", Says: "Events of a session come in the order of their sequences; one that is delivered again is the same.", stream: func(l Limits) observer {
			return &ordered{last: newMemory[int64](l.Remembered)}
		}},
		{ID: "stream.event_ids", Scope: Stream, Level: Must, Paragraph: "Specification, Event envelope", Says: "An event id is unique.", stream: func(l Limits) observer {
			return &unique{seen: newMemory[string](l.Remembered)}
		}},
		{ID: "stream.gate", Scope: Stream, Level: Must, Paragraph: "Control plane, Action requests", Says: "A tool call with an unresolved action has no result: what isn't resolved is not approved.", stream: func(l Limits) observer {
			return &gate{open: newMemory[string](l.Remembered), calls: newMemory[string](l.Remembered)}
		}},
	}
	out = append(out, gapChecks()...)
	for _, l := range lifecycles {
		out = append(out, Check{ID: "stream." + l.name, Scope: Stream, Level: Must, Paragraph: l.paragraph, Says: l.says + ".", stream: func(lim Limits) observer {
			return &progress{lifecycle: l, at: newMemory[string](lim.Remembered), whole: map[string]bool{}}
		}})
	}
	for _, j := range joins {
		out = append(out, Check{ID: "join." + j.id + "." + j.of, Scope: Stream, Level: Must, Paragraph: j.paragraph, Says: fmt.Sprintf("A %s belongs to one %s.", j.id, j.of), stream: func(l Limits) observer {
			return &joined{id: j.id, of: j.of, known: newMemory[string](l.Remembered)}
		}})
	}
	return out
}

// memory is a map that forgets the oldest entry when it is full.
type memory[V any] struct {
	most   int
	values map[string]V
	order  []string
	next   int
	forgot bool
}

func newMemory[V any](most int) *memory[V] { return &memory[V]{most: most, values: map[string]V{}} }

func (m *memory[V]) put(key string, v V) {
	if _, known := m.values[key]; !known {
		if len(m.order) < m.most {
			m.order = append(m.order, strings.Clone(key))
		} else {
			delete(m.values, m.order[m.next])
			m.order[m.next] = strings.Clone(key)
			m.next, m.forgot = (m.next+1)%m.most, true
		}
	}
	m.values[key] = v
}

func (m *memory[V]) full() bool { return m.forgot }

// ordered checks the sequences of each session.
type ordered struct{ last *memory[int64] }

func (o *ordered) full() bool { return o.last.full() }

func (o *ordered) observe(f *fact) []string {
	if f.session == "" || f.sequence < 0 {
		return nil
	}
	last, known := o.last.values[f.session]
	if known && f.sequence <= last {
		return []string{fmt.Sprintf("sequence %d of session %s comes after %d", f.sequence, f.session, last)}
	}
	o.last.put(f.session, f.sequence)
	return nil
}

// unique checks event ids. The same event again never gets here.
type unique struct{ seen *memory[string] }

func (u *unique) full() bool { return u.seen.full() }

func (u *unique) observe(f *fact) []string {
	if f.id == "" {
		return nil
	}
	mark := fmt.Sprintf("%s, sequence %d", f.typ, f.sequence)
	if before, known := u.seen.values[f.id]; known {
		return []string{fmt.Sprintf("event id %s is also that of %s", f.id, before)}
	}
	u.seen.put(f.id, mark)
	return nil
}

// gate checks that nothing goes on past an open action.
type gate struct {
	// open is the unresolved action of a call; calls is the call of an action.
	open, calls *memory[string]
}

func (g *gate) full() bool { return g.open.full() }

func (g *gate) observe(f *fact) []string {
	call, action := f.ref("toolCallId"), f.ref("actionId")
	key := f.session + "/" + call
	switch f.typ {
	case "action.required":
		if call != "" && action != "" {
			g.open.put(key, action)
			g.calls.put(f.session+"/"+action, key)
		}
	case "action.resolved":
		if of := g.calls.values[f.session+"/"+action]; g.open.values[of] == action {
			g.open.put(of, "")
		}
	case "tool.result":
		if open := g.open.values[key]; open != "" {
			return []string{fmt.Sprintf("tool call %s has a result while action %s is unresolved", call, open)}
		}
	}
	return nil
}

// progress checks one lifecycle.
type progress struct {
	lifecycle
	// at is begun or ended, by session and id.
	at *memory[string]
	// whole are the sessions whose stream begins with them.
	whole map[string]bool
}

const (
	begun = "begun"
	ended = "ended"
)

func (p *progress) full() bool { return p.at.full() }

func (p *progress) observe(f *fact) []string {
	if _, known := p.whole[f.session]; !known && len(p.whole) < p.at.most {
		p.whole[f.session] = f.typ == "session.created"
	}
	id := f.ref(p.id)
	if id == "" {
		return nil
	}
	key := f.session + "/" + id
	at := p.at.values[key]
	again := slices.Contains(p.againWith, f.typ)
	switch {
	case slices.Contains(p.begins, f.typ):
		if at != "" && !again {
			return []string{fmt.Sprintf("%s %s has %s although it had %s", p.id, id, f.typ, at)}
		}
		p.at.put(key, begun)
	case slices.Contains(p.ends, f.typ):
		defer p.at.put(key, ended)
		if at == ended {
			return []string{fmt.Sprintf("%s %s has %s although it had ended", p.id, id, f.typ)}
		}
		if at == "" && !slices.Contains(p.alone, f.typ) {
			return p.unbegun(f, id)
		}
	case slices.Contains(p.goesOn, f.typ):
		if at == ended {
			return []string{fmt.Sprintf("%s %s has %s although it had ended", p.id, id, f.typ)}
		}
		if at == "" {
			return p.unbegun(f, id)
		}
	case again && at == ended:
		p.at.put(key, begun)
	}
	return nil
}

// unbegun is said of a fact whose beginning wasn't seen; of a stream that begins in the
// middle that can't be said.
func (p *progress) unbegun(f *fact, id string) []string {
	if !p.whole[f.session] || p.full() {
		return nil
	}
	return []string{fmt.Sprintf("%s %s has %s without %s before it", p.id, id, f.typ, strings.Join(p.begins, " or "))}
}

// joined checks that an id always belongs to the same other one.
type joined struct {
	id, of string
	known  *memory[string]
}

func (j *joined) full() bool { return j.known.full() }

func (j *joined) observe(f *fact) []string {
	id, of := f.ref(j.id), f.ref(j.of)
	if id == "" || of == "" || j.of == "stepId" && !strings.HasPrefix(f.typ, "tool.") {
		return nil
	}
	key := id
	if j.of != "sessionId" {
		key = f.session + "/" + id
	}
	before, known := j.known.values[key]
	if known && before != of {
		return []string{fmt.Sprintf("%s %s belongs to %s %s, before to %s", j.id, id, j.of, of, before)}
	}
	j.known.put(key, of)
	return nil
}
