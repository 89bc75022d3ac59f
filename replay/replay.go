// Package replay decides again what a session's facts say was decided.
//
// # Contract
//
// [Walk] folds recorded facts. Before each fact that begins or ends an effect it asks
// [loop.Policy.Next], [permission.Decide], [model.Route] and the schemas of tools what
// they say on the facts before it, under the configuration that the facts refer to, and
// compares that with what was recorded. The first decision that is another one is a
// [Difference]. With another configuration ([Options]) the same walk answers what would
// have been decided under it.
//
// Nothing is run: no runtime is started, no clock is read, nothing is waited for. What
// models, tools, people and hooks said is taken from the facts.
//
// [Live] is something else: it submits the recorded inputs to a runtime.
//
// # Concurrency
//
// A walk is for one goroutine.
package replay

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"agentd/event"
	"agentd/hook"
	"agentd/loop"
	"agentd/model"
	"agentd/permission"
	"agentd/state"
	"agentd/tool"
)

// Recording is what is decided again.
type Recording struct {
	SessionID string
	// Base is the state before the first fact; nil if that is the session's first. It is
	// changed by the walk.
	Base *state.Session
	// Facts are those of the session, in order and without gaps.
	Facts iter.Seq2[*event.Event, error]
	// Has says which facts are compared; nil compares all. The others are only folded.
	Has func(*event.Event) bool
	// Content returns what is behind a reference of a fact.
	Content func(ref string) ([]byte, error)
	// Configuration is that of facts which name none: they were recorded before facts
	// did. Decisions that depend on it are passed over if it is nil.
	Configuration *loop.Configuration
}

// Options say what is tried. The zero value tries nothing.
type Options struct {
	// Change makes another configuration of a recorded one.
	Change func(*loop.Configuration)
	// Mode, if set, is the permission mode of every call.
	Mode string
	// All goes on after the first difference.
	All bool
}

// Difference is a decision that is another one than the recorded one.
type Difference struct {
	// Sequence, EventID and Type are those of the recorded fact.
	Sequence uint64     `json:"sequence"`
	EventID  string     `json:"eventId"`
	Type     event.Type `json:"type"`
	// Of says what the fact belongs to: "turn 1", or "turn 1, call 2".
	Of string `json:"of"`
	// Expected is what is decided now, Found what was recorded.
	Expected string `json:"expected"`
	Found    string `json:"found"`
	// Permission is set if it is a permission that differs.
	Permission *PermissionChange `json:"permission,omitempty"`
	// Says is for people.
	Says string `json:"says"`
}

// PermissionChange is a permission that would be another one.
type PermissionChange struct {
	ToolName string `json:"toolName"`
	// Recorded is the decision that was made, Decision the one that would be.
	Recorded string `json:"recorded"`
	Decision string `json:"decision"`
	// By names the rules or the source that would decide.
	By string `json:"by"`
}

// Report is what a walk came to.
type Report struct {
	// Facts were read, Decisions compared, Turns submitted.
	Facts     int `json:"facts"`
	Decisions int `json:"decisions"`
	Turns     int `json:"turns"`
	// Differences are in the order of the facts.
	Differences []Difference `json:"differences"`
	// Missing says what decisions depended on and can't be read any more. Those were not
	// compared.
	Missing []string `json:"missing"`
}

// deciders are the functions that decide; tests replace them.
type deciders struct {
	Next     func(*loop.Policy, *state.Session, string, time.Time) loop.Effect
	Decide   func(permission.Question) permission.Decision
	Route    func([]model.Info, model.Ask) model.Routing
	Validate func(*tool.Entry, event.Raw) error
	// opinion and clientFailure are what the words of hooks and of clients mean.
	Opinion       func(hook.Outcome) *permission.Opinion
	ClientFailure func(*state.Action, *state.ToolCall) *tool.Error
}

func productDeciders() deciders {
	return deciders{
		Next: func(p *loop.Policy, s *state.Session, threadID string, now time.Time) loop.Effect {
			return p.Next(s, threadID, now)
		},
		Decide: permission.Decide, Route: model.Route, Validate: (*tool.Entry).Validate,
		Opinion: loop.HookOpinion, ClientFailure: loop.ClientFailure,
	}
}

// Walk decides again what was recorded.
func Walk(r *Recording, opt Options) (*Report, error) { return walkWith(r, opt, productDeciders()) }

func walkWith(r *Recording, opt Options, d deciders) (*Report, error) {
	w := newWalk(r, opt, d)
	for e, err := range r.Facts {
		if err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
		if err := w.walkFact(e); err != nil {
			return nil, fmt.Errorf("replay: fact %d: %w", e.Sequence, err)
		}
		if len(w.report.Differences) > 0 && !opt.All {
			break
		}
	}
	w.report.Missing = slices.AppendSeq(w.report.Missing, maps.Keys(w.missing))
	slices.Sort(w.report.Missing)
	return w.report, nil
}

// walk is a walk under way.
type walk struct {
	rec    *Recording
	opt    Options
	decide deciders
	report *Report
	// s is the state before the fact that is looked at.
	s *state.Session
	// configuration and confinement are those that the facts referred to last; nil if
	// they can't be known.
	configuration *loop.Configuration
	confinement   *loop.Confinement
	missing       map[string]bool
	// calls are the tool calls of turns that run, answers the last words of models, and
	// routings what was chosen for a turn whose choice is about to be told.
	calls    map[string]*toolCall
	answers  map[string]string
	routings map[string]*model.Routing
	// taken are the turns that left the queue last, by their thread.
	taken  map[string]string
	tools  map[string]map[string]*tool.Entry
	places places
}

func newWalk(r *Recording, opt Options, d deciders) *walk {
	w := &walk{
		rec: r, opt: opt, decide: d, s: r.Base, report: &Report{Differences: []Difference{}, Missing: []string{}}, missing: map[string]bool{},
		calls: map[string]*toolCall{}, answers: map[string]string{}, routings: map[string]*model.Routing{}, tools: map[string]map[string]*tool.Entry{},
		taken: map[string]string{}, places: newPlaces(),
	}
	if w.s == nil {
		w.s = state.New(r.SessionID)
	}
	w.configuration = w.withChanges(r.Configuration)
	w.readConfiguration(w.s.ConfigurationRef)
	w.readConfinement(w.s.ConfinementRef)
	return w
}

// walkFact looks at a fact, and folds it.
func (w *walk) walkFact(e *event.Event) error {
	w.report.Facts++
	w.places.count(e)
	w.readConfiguration(event.ConfigurationOf(e.Payload))
	if p, ok := e.Payload.(*event.PermissionEvaluated); ok {
		w.readConfinement(p.ConfinementRef)
	}
	if w.rec.Has == nil || w.rec.Has(e) {
		w.checkFact(e)
	}
	w.rememberFact(e)
	_, err := w.s.Apply(e)
	return err
}

// checkFact compares what a fact says with what is decided now.
func (w *walk) checkFact(e *event.Event) {
	t := w.s.Thread(e.ThreadID)
	if t == nil {
		return
	}
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		if t.SubagentID == "" {
			w.report.Turns++
		}
	case *event.QueueChanged:
		if p.Reason == "started" {
			w.expectEffect(e, loop.StartTurn{TurnID: p.TurnID})
			w.taken[e.ThreadID] = p.TurnID
		}
	case *event.TurnStarted:
		w.checkStarted(e, t)
	case *event.RoutingCandidates:
		w.checkCandidates(e, t, p)
	case *event.RoutingDecision:
		w.checkRouting(e, t, p)
	case *event.CompactionStarted:
		if p.Trigger != "requested" { // compact_thread begins those
			w.expectEffect(e, loop.Compact{TurnID: e.TurnID, Trigger: p.Trigger, Attempt: p.Attempt})
		}
	case *event.ModelRequested:
		w.checkRequest(e, t, p)
	case *event.HookStarted:
		if p.Point == "post_sampling" && t.Active != nil && t.Active.Call != nil {
			w.expectEffect(e, loop.TellHooks{TurnID: e.TurnID, ModelRequestID: t.Active.Call.ModelRequestID})
		}
	case *event.PermissionEvaluated:
		w.checkPermission(e, t, p)
	case *event.ToolStarted:
		if p.Runs() {
			w.checkStart(e, t)
		} else {
			w.checkAsked(e, p)
		}
	case *event.ToolProgress:
		if p.Phase == event.PhaseRunning {
			w.checkStart(e, t)
		}
	case *event.ToolFailed:
		w.checkRefusal(e, t, p)
		w.checkClientFailure(e, t, p)
	case *event.ToolResult:
		w.checkResult(e, t)
	case *event.QuotaState:
		if e.Type == event.TypeQuotaBlocked && saysSpent(p) && w.hasConfiguration() && w.configuration.Spent(w.s, t, "") == nil {
			w.reportDifference(e, "money that is left", p.Reason)
		}
	case *event.ActionRequired:
		if p.ActionType == state.ActionResume {
			w.expectEffect(e, loop.AskResume{TurnID: e.TurnID, ModelRequestID: e.ModelRequestID})
		}
	case *event.ActionResolved:
		if p.Status == "expired" {
			w.expectEffect(e, loop.ExpireAction{ActionID: e.ActionID})
		}
	case *event.TurnCompleted:
		w.checkCompleted(e, t, p)
	case *event.TurnFailed:
		w.checkFailed(e, t, p)
	}
}

// saysSpent reports whether a quota fact is about a budget that is used up. One that is
// only too small for the next request depends on the size of that.
func saysSpent(p *event.QuotaState) bool {
	return (p.QuotaName == model.QuotaBudget || p.QuotaName == loop.QuotaTask) && p.Used != nil && p.Limit != nil && *p.Used >= *p.Limit
}

// rememberFact keeps what facts say that the state doesn't have.
func (w *walk) rememberFact(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ModelCompleted:
		if p.Purpose == "compaction" {
			return
		}
		m, err := p.Whole(w.rec.Content)
		if err != nil {
			m = p.Message // what it said can't be compared
		}
		if m != nil {
			w.answers[e.TurnID] = m.Text
			for _, c := range m.ToolCalls {
				w.calls[c.ToolCallID] = &toolCall{request: c, turnID: e.TurnID, hooks: map[string]*verdict{}}
			}
		}
	case *event.HookStarted:
		w.toolCallOf(e).hookStarted(p)
	case *event.HookCompleted:
		w.toolCallOf(e).hookCompleted(p)
	case *event.HookFailed:
		w.toolCallOf(e).hookFailed(p)
	case *event.PermissionResolved:
		w.toolCallOf(e).answered()
	case *event.ActionResolved:
		w.toolCallOf(e).answered()
	case *event.TurnCompleted, *event.TurnFailed:
		delete(w.answers, e.TurnID)
		delete(w.routings, e.TurnID)
		maps.DeleteFunc(w.calls, func(_ string, c *toolCall) bool { return c.turnID == e.TurnID })
	}
}

// reportDifference reports a decision that is another one.
func (w *walk) reportDifference(e *event.Event, expected, found string) *Difference {
	of := w.places.placeOfFact(e)
	w.report.Differences = append(w.report.Differences, Difference{
		Sequence: e.Sequence, EventID: e.ID, Type: e.Type, Of: of, Expected: expected, Found: found,
		Says: fmt.Sprintf("%s: fact %d (%s): %s was recorded, and %s is decided now", of, e.Sequence, e.Type, found, expected),
	})
	return &w.report.Differences[len(w.report.Differences)-1]
}
