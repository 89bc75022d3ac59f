package atif

import (
	"context"
	"errors"
	"fmt"
	"io"

	"agentd/event"
	"agentd/evidence"
	"agentd/store"
)

// ErrNothing says that no fact of the session is about the thread or the turn.
var ErrNothing = errors.New("atif: no fact is in the scope")

// Scope says what a trajectory is about: a thread, or one turn of it. The
// subagents that were spawned there belong to it.
type Scope struct {
	SessionID string
	ThreadID  string
	// TurnID narrows it to a turn; all turns of the thread if empty.
	TurnID string
}

// Options of an export. Every field has a default.
type Options struct {
	// AgentName and AgentVersion say who acted; "agentd" and "unknown" if empty.
	AgentName, AgentVersion string
	// TrajectoryID names the document; the turn's or the thread's id if empty.
	TrajectoryID string
	// Version is [Version] if empty, or [Level14], which leaves out what that
	// version had no place for and says so in the notes.
	Version string
	// Before bounds the facts that are looked at; 0 means all.
	Before uint64
	// Contents reads at most max bytes of what is behind a reference. If nil, or
	// if it fails, the trajectory has what the facts themselves show.
	Contents func(ref string, limit int64) ([]byte, error)
}

// Summary says what an exported trajectory holds, its subagents included.
type Summary struct {
	// Steps counts those of the document itself.
	Steps int64
	// ModelCalls and ToolCalls count calls, Unanswered those tool calls that have no
	// result.
	ModelCalls, ToolCalls, Unanswered int64
	// DeniedEffects counts tool calls that were denied and had an effect nevertheless.
	DeniedEffects int64
	Usage         event.Usage
	// CostUSD is the sum of what is known; Unpriced counts the calls of which the
	// price isn't.
	CostUSD  float64
	Priced   int64
	Unpriced int64
	// Through is the last fact in it.
	Through uint64
	// TraceID is the only trace that its facts belong to; empty if there is none, or
	// more than one.
	TraceID string
	// Turns are the turns of the document itself that ended, in order.
	Turns []TurnEnd
	// Files are the files that were changed, Outputs what was stored of outputs.
	Files   []File
	Outputs []Output
	// Redactions counts the secrets that were taken out of what is shown here.
	Redactions int64
}

// Cost is what all calls cost; nil if that isn't known of every one.
func (s *Summary) Cost() *float64 {
	if s.Priced == 0 || s.Unpriced > 0 {
		return nil
	}
	cost := s.CostUSD
	return &cost
}

// TurnEnd says how a turn ended; FailureCategory is empty for one that completed.
type TurnEnd struct {
	TurnID, Status, FailureCategory, Error string
}

// File is a file that a call changed.
type File struct {
	Path, Change, ToolCallID, Hash string
}

// Output is a stored output.
type Output struct {
	Ref, MediaType, ToolCallID string
	SizeBytes                  int64
	Redacted                   bool
}

// Export writes the trajectory of a scope.
func Export(ctx context.Context, facts evidence.Facts, scope Scope, opt Options, w io.Writer) (*Summary, error) {
	x := &exporting{scope: scope, opt: opt, stories: map[string]*story{}, purposes: map[string]string{}, denied: map[string]bool{}, redacted: map[string]bool{}}
	x.setDefaults()
	if err := x.forEachFact(ctx, facts, x.survey); err != nil {
		return nil, err
	}
	root := x.stories[scope.ThreadID]
	if root == nil || x.sum.Through == 0 {
		return nil, ErrNothing
	}
	out, err := x.begin(root, w)
	if err != nil {
		return nil, err
	}
	if err := x.forEachFact(ctx, facts, x.addFactToStory); err != nil {
		return nil, err
	}
	for _, s := range x.order {
		s.finishStory()
	}
	tail := x.mergeStories(root)
	if err := errors.Join(root.err, out.Close(tail)); err != nil {
		return nil, err
	}
	x.sum.Steps = out.Steps()
	return &x.sum, nil
}

// exporting is an export under way.
type exporting struct {
	scope Scope
	opt   Options
	// stories are those of the threads in scope, order in which they began.
	stories map[string]*story
	order   []*story
	// purposes are those of model calls, denied the calls that must not run,
	// redacted the outputs that secrets were taken out of.
	purposes map[string]string
	denied   map[string]bool
	redacted map[string]bool
	traces   []string
	// removed says which facts are missing; empty if none are.
	removed string
	sum     Summary
}

func (x *exporting) setDefaults() {
	o := &x.opt
	for _, d := range []struct {
		field *string
		value string
	}{{&o.AgentName, "agentd"}, {&o.AgentVersion, "unknown"}, {&o.TrajectoryID, x.scope.TurnID}, {&o.TrajectoryID, x.scope.ThreadID}, {&o.Version, Version}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
}

// forEachFact hands all facts of the session to a function.
func (x *exporting) forEachFact(ctx context.Context, facts evidence.Facts, take func(*event.Event)) error {
	base, err := evidence.Removed(ctx, facts, x.scope.SessionID)
	if err != nil {
		return err
	}
	if base.Sequence > 0 {
		x.removed = evidence.RemovedNote(&base) + ". "
	}
	for rec, err := range facts.Read(ctx, x.scope.SessionID, store.Range{After: base.Sequence, Before: x.opt.Before}) {
		if err != nil {
			return fmt.Errorf("atif: read: %w", err)
		}
		e, err := store.DecodeFact(ctx, facts, rec.Data)
		if err != nil {
			return fmt.Errorf("atif: fact %d: %w", rec.Sequence, err)
		}
		take(e)
	}
	return nil
}

// storyOf returns the story that a fact belongs to; nil if it isn't in scope.
func (x *exporting) storyOf(e *event.Event) *story {
	s := x.stories[e.ThreadID]
	if s == nil || (e.ThreadID == x.scope.ThreadID && x.scope.TurnID != "" && e.TurnID != x.scope.TurnID) {
		return nil
	}
	return s
}

// survey finds the threads in scope, and what stands at the head of a document.
func (x *exporting) survey(e *event.Event) {
	if e.ThreadID == x.scope.ThreadID && x.stories[e.ThreadID] == nil {
		x.addStory(e.ThreadID, &story{x: x, id: x.opt.TrajectoryID})
	}
	s := x.storyOf(e)
	if s == nil {
		return
	}
	x.sum.Through = e.Sequence
	if e.TraceID != "" && (len(x.traces) == 0 || x.traces[0] != e.TraceID) && len(x.traces) < 2 {
		x.traces = append(x.traces, e.TraceID)
	}
	switch p := e.Payload.(type) {
	case *event.SubagentSpawned:
		x.addStory(p.ChildThreadID, &story{x: x, id: e.SubagentID, parent: s, role: p.Role})
	case *event.ModelRequested:
		x.purposes[p.ModelRequestID] = p.Purpose
		if s.model == "" {
			s.model = p.Provider + "/" + p.Model
		}
	case *event.ToolCatalogResolved:
		s.tools(p)
	case *event.OutputRedacted:
		x.sum.Redactions += p.Count
		x.redacted[p.OutputRef] = true
	}
}

func (x *exporting) addStory(threadID string, s *story) {
	if x.stories[threadID] != nil {
		return
	}
	s.threadID = threadID
	x.stories[threadID] = s
	x.order = append(x.order, s)
}

// begin writes the head of the document; the steps of its thread follow as they
// come.
func (x *exporting) begin(root *story, w io.Writer) (*Writer, error) {
	if len(x.traces) == 1 {
		x.sum.TraceID = x.traces[0]
	}
	head := root.trajectoryHead()
	if x.opt.Version == Level14 {
		head.TrajectoryID, head.Agent.ToolDefinitions = "", nil
	}
	out, err := NewWriter(w, head)
	if err != nil {
		return nil, err
	}
	root.write = out.Step
	return out, nil
}

// addFactToStory adds a fact to its story.
func (x *exporting) addFactToStory(e *event.Event) {
	if s := x.storyOf(e); s != nil {
		s.foldFact(e)
	}
}

// mergeStories puts the stories of subagents into those of their parents and returns the
// end of the document.
func (x *exporting) mergeStories(root *story) *Trajectory {
	docs := map[*story]*Trajectory{}
	for _, s := range x.order {
		docs[s] = s.tail()
	}
	for _, s := range x.order {
		if s.parent == nil || len(docs[s].Steps) == 0 {
			continue
		}
		if x.opt.Version == Level14 {
			docs[root].Notes += leftOut(s.id)
			continue
		}
		docs[s.parent].Subagents = append(docs[s.parent].Subagents, docs[s])
	}
	return docs[root]
}
