package evidence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"agentd/event"
	"agentd/state"
	"agentd/store"
)

// ReviewFormat is the first member of a review.
const ReviewFormat = "agentd-review-1"

// Statement is one sentence of a review, and the fact that it rests on.
type Statement struct {
	At time.Time `json:"at"`
	// Diff shows the change that the statement is about, if the facts have it.
	Diff     string   `json:"diff,omitempty"`
	EventID  string   `json:"eventId"`
	Refs     []string `json:"refs,omitempty"`
	Says     string   `json:"says"`
	Sequence uint64   `json:"sequence"`
}

// Chapter is a part of a review.
type Chapter struct {
	Name       string      `json:"name"`
	Statements []Statement `json:"statements"`
	Title      string      `json:"title"`
	// Left counts the statements that are not shown.
	Left int `json:"left,omitempty"`
}

// Review is a page for people, made of the same facts as the evidence.
type Review struct {
	Chapters   []*Chapter `json:"chapters"`
	EvidenceID string     `json:"evidenceId"`
	ExportedAt time.Time  `json:"exportedAt"`
	// Facts are those that statements rest on, in their order.
	Facts  []Cited `json:"facts"`
	Format string  `json:"format"`
	HTML   string  `json:"html"`
	// Integrity is the proof, which [Verify] checks.
	Integrity          json.RawMessage `json:"integrity,omitempty"`
	Markdown           string          `json:"markdown"`
	RuntimeCorrelation Correlation     `json:"runtimeCorrelation"`
	Scope              Scope           `json:"scope"`
	Title              string          `json:"title"`
}

// chapters are the parts of a review, in order.
var chapters = []struct{ name, title string }{
	{"asked", "What was asked"},
	{"done", "What was done"},
	{"decided", "What was decided, by whom and why"},
	{"changed", "What changed"},
	{"costs", "What it cost"},
	{"failures", "What failed"},
	{"open", "What is open"},
}

// maxStatements bounds a chapter: a page is for reading.
const maxStatements = 500

// ExportReview writes the review of a scope as JSON, with the page in it as
// Markdown and as HTML.
func ExportReview(ctx context.Context, facts Facts, scope Scope, opt Options, w io.Writer) (*Exported, error) {
	scope, err := scope.resolved(ctx, facts, opt.Before)
	if err != nil {
		return nil, err
	}
	through, err := lastFact(ctx, facts, scope, opt.Before)
	if err != nil {
		return nil, err
	}
	r := &reviewing{
		scope: scope, chapters: map[string]*Chapter{}, open: map[string]openPoint{}, cited: map[uint64]Cited{},
		calls: calls{args: map[string]event.Raw{}, agents: map[string]string{}},
	}
	for _, c := range chapters {
		r.chapters[c.name] = &Chapter{Name: c.name, Title: c.title, Statements: []Statement{}}
	}
	base, err := Removed(ctx, facts, scope.SessionID)
	if err != nil {
		return nil, err
	}
	if base.Sequence > 0 {
		r.open["removed"] = openPoint{Statement: Statement{At: opt.At.UTC(), Says: "What happened before is not known: " + RemovedNote(&base), Sequence: base.Sequence}}
	}
	res := &Exported{}
	for rec, err := range facts.Read(ctx, scope.SessionID, store.Range{After: base.Sequence, Before: through + 1}) {
		if err != nil {
			return nil, fmt.Errorf("evidence: read: %w", err)
		}
		e, err := store.DecodeFact(ctx, facts, rec.Data)
		if err != nil {
			return nil, fmt.Errorf("evidence: fact %d: %w", rec.Sequence, err)
		}
		res.Through, res.Head = rec.Sequence, rec.Hash
		if scope.has(e) {
			res.Events++
			r.data = rec.Data
			r.foldFact(e)
		}
	}
	page, err := r.page(opt)
	if err != nil {
		return nil, err
	}
	res.Correlation, res.Summary = page.RuntimeCorrelation, []byte(`{"partial":true,"format":"`+ReviewFormat+`"}`)
	b, err := Sealed(page, res.seal(ReviewFormat, scope, opt))
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, fmt.Errorf("evidence: review: %w", err)
	}
	return res, nil
}

// reviewing is a review that is being made.
type reviewing struct {
	scope     Scope
	ids       correlation
	runtimeID string
	title     string
	chapters  map[string]*Chapter
	// open are statements about what has not ended, by what it is.
	open  map[string]openPoint
	calls calls
	// data is the fact that is looked at, cited are those that statements rest on.
	data  []byte
	cited map[uint64]Cited
	spent spent
}

// openPoint is a statement that holds until something ends.
type openPoint struct {
	Statement
	fact Cited
}

// spent is what all turns used together.
type spent struct {
	turns, in, out int64
	usd            float64
	unpriced       bool
	last           *event.Event
	fact           Cited
}

// addSentence puts a sentence into a chapter.
func (r *reviewing) addSentence(chapter string, e *event.Event, says string, refs ...string) {
	c := r.chapters[chapter]
	if says == "" {
		return
	}
	if len(c.Statements) == maxStatements {
		c.Left++
		return
	}
	c.Statements = append(c.Statements, statement(e, r.calls.who(e)+says, refs...))
	r.cited[e.Sequence] = cite(e, r.data)
}

// opens says what has not ended, until something ends it.
func (r *reviewing) opens(what string, e *event.Event, says string) {
	r.open[what] = openPoint{statement(e, r.calls.who(e)+says), cite(e, r.data)}
}

func statement(e *event.Event, says string, refs ...string) Statement {
	return Statement{At: e.Time, EventID: e.ID, Sequence: e.Sequence, Says: says, Refs: refs}
}

func (r *reviewing) foldFact(e *event.Event) {
	r.ids.countFact(e)
	if r.runtimeID == "" {
		r.runtimeID = e.RuntimeID
	}
	r.calls.recordCallFact(e)
	says, _ := describeFact(e)
	switch p := e.Payload.(type) {
	case *event.SessionCreated:
		r.title = p.Title
	case *event.TurnSubmitted, *event.TurnSteered:
		r.addSentence("asked", e, says)
		r.opens("turn "+e.TurnID, e, "The turn "+e.TurnID+" has not ended.")
	case *event.ModelCompleted:
		r.answer(e, p)
	case *event.TurnCompleted:
		r.addSentence("done", e, says)
		r.cost(e, p.Usage, p.CostUSD)
	case *event.TurnFailed:
		r.addSentence("failures", e, says)
		r.cost(e, p.Usage, p.CostUSD)
	case *event.ToolResult:
		r.addSentence("done", e, r.calls.appendCalled(says, e))
		r.changes(e, p.ToolName, p.ChangedFiles)
	case *event.ToolFailed:
		r.addSentence("failures", e, r.calls.appendCalled(says, e))
		r.changes(e, p.ToolName, p.ChangedFiles)
	case *event.ArtifactChanged:
		r.addSentence("changed", e, fmt.Sprintf("The artifact %s was %s.", e.ArtifactID, p.Change), nonempty(p.DiffRef, p.ReadRef, p.URI)...)
	default:
		r.others(e, says)
	}
	r.ends(e)
}

// answer says what a model answered, if that was more than calls of tools.
func (r *reviewing) answer(e *event.Event, p *event.ModelCompleted) {
	switch {
	case p.Message != nil && p.Message.Text != "":
		r.addSentence("done", e, fmt.Sprintf("The model %s answered: %q.", p.Model, clipText(p.Message.Text)))
	case p.Preview != "":
		r.addSentence("done", e, fmt.Sprintf("The model %s answered at length: %q.", p.Model, clipText(p.Preview)), p.MessageRef)
	case p.MessageRef != "":
		r.addSentence("done", e, fmt.Sprintf("The model %s answered at length.", p.Model), p.MessageRef)
	}
}

// others puts the remaining facts into chapters by their kind.
func (r *reviewing) others(e *event.Event, says string) {
	switch p := e.Payload.(type) {
	case *event.PermissionEvaluated:
		r.addSentence("decided", e, r.calls.appendCalled(says, e))
	case *event.PermissionResolved, *event.RoutingDecision, *event.PolicyChanged, *event.HookCompleted, *event.SandboxApplied, *event.TurnInterruptRequested:
		r.addSentence("decided", e, says)
	case *event.ActionRequired:
		r.addSentence("decided", e, says)
		r.opens("action "+e.ActionID, e, fmt.Sprintf("The action %s waits for an answer: %s", e.ActionID, clipText(p.Prompt)))
	case *event.ActionResolved:
		r.addSentence("decided", e, says)
	case *event.ModelFailed, *event.SandboxViolation, *event.HookFailed, *event.ProcessFailed, *event.CompactionFailed, *event.TaskAttemptFailed, *event.JobItemFailed:
		r.addSentence("failures", e, says)
	case *event.RoutingCandidates:
		if e.Type == event.TypeRoutingNotPossible {
			r.addSentence("failures", e, says)
		}
	case *event.RuntimeNotice:
		r.addSentence("failures", e, p.Message)
	case *event.QuotaState, *event.RateLimitHit:
		r.addSentence("costs", e, says)
	case *event.EvidenceChanged:
		for _, o := range p.VerificationOutcomes {
			r.addSentence("decided", e, fmt.Sprintf("The verification %s says: %s.", o.Name, o.Status))
		}
		r.addSentence("decided", e, p.Note)
	default:
		r.work(e, says)
	}
}

// work puts tasks, jobs, subagents and processes into chapters. What lives in the
// background is open until it ends.
func (r *reviewing) work(e *event.Event, says string) {
	switch p := e.Payload.(type) {
	case *event.SubagentSpawned:
		r.addSentence("done", e, says)
		r.opens("subagent "+e.SubagentID, e, "The subagent "+e.SubagentID+" has not ended.")
	case *event.SubagentEnded, *event.CompactionCompleted, *event.JobStatusChanged, *event.JobHeld:
		r.addSentence("done", e, says)
	case *event.RollbackCompleted:
		r.addSentence("done", e, fmt.Sprintf("%d turns were taken back.", len(p.RemovedTurns)))
	case *event.TaskCreated:
		if p.TaskKind != "turn" {
			r.addSentence("asked", e, says)
			r.opens("task "+e.TaskID, e, "The task "+e.TaskID+" has not ended.")
		}
	case *event.JobCreated:
		r.addSentence("asked", e, says)
		r.opens("job "+e.JobID, e, "The job "+e.JobID+" has not ended.")
	case *event.ProcessStarted:
		r.opens("process "+p.ProcessID, e, fmt.Sprintf("The process %s has not ended: %s", p.ProcessID, clipText(strings.Join(p.Command, " "))))
	case *event.BenchmarkRewardRecorded:
		r.addSentence("decided", e, fmt.Sprintf("The trial was scored: %g.", p.Value))
	}
}

// ends removes what a fact ends from the open points.
func (r *reviewing) ends(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.TurnCompleted, *event.TurnFailed:
		delete(r.open, "turn "+e.TurnID)
	case *event.ActionResolved:
		delete(r.open, "action "+e.ActionID)
	case *event.SubagentEnded:
		delete(r.open, "subagent "+e.SubagentID)
	case *event.TaskCompleted:
		delete(r.open, "task "+e.TaskID)
	case *event.TaskStatusChanged:
		if state.TaskEnded(p.Status) {
			delete(r.open, "task "+e.TaskID)
		}
	case *event.JobStatusChanged:
		if state.JobEnded(p.Status) {
			delete(r.open, "job "+e.JobID)
		}
	case *event.ProcessCompleted, *event.ProcessTerminated, *event.ProcessFailed:
		delete(r.open, "process "+e.ProcessID)
	}
}

func (r *reviewing) changes(e *event.Event, tool string, files []event.FileChange) {
	c := r.chapters["changed"]
	for i := range files {
		f := &files[i]
		shown := len(c.Statements)
		r.addSentence("changed", e, fmt.Sprintf("%s: %s was %s.", tool, f.Path, f.Change))
		if len(c.Statements) > shown {
			c.Statements[shown].Diff = fileDiff(tool, r.calls.args[e.ToolCallID], f)
		}
	}
	delete(r.calls.args, e.ToolCallID)
}

func (r *reviewing) cost(e *event.Event, u *event.Usage, usd float64) {
	if u == nil || u.InputTokens == 0 && u.OutputTokens == 0 {
		return // no model answered: there is nothing that could have a price
	}
	says := fmt.Sprintf("The turn used %d tokens in and %d out", u.InputTokens, u.OutputTokens)
	if usd > 0 {
		says += fmt.Sprintf(", which cost %.6g USD", usd)
	} else {
		says += "; no price is known"
	}
	r.addSentence("costs", e, says+".")
	t := &r.spent
	t.turns, t.in, t.out, t.usd, t.unpriced = t.turns+1, t.in+u.InputTokens, t.out+u.OutputTokens, t.usd+usd, t.unpriced || usd == 0
	t.last, t.fact = e, cite(e, r.data)
}

// total says what all turns used, if there were several. It rests on their ends, of
// which the last is named.
func (r *reviewing) total() {
	t := &r.spent
	if t.turns < 2 {
		return
	}
	says := fmt.Sprintf("The %d turns together used %d tokens in and %d out", t.turns, t.in, t.out)
	if t.usd > 0 {
		says += fmt.Sprintf(", which cost %.6g USD", t.usd)
	}
	if t.unpriced {
		says += "; of some no price is known"
	}
	c := r.chapters["costs"]
	c.Statements = append(c.Statements, statement(t.last, says+"."))
	r.cited[t.last.Sequence] = t.fact
}

func nonempty(list ...string) []string {
	var out []string
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// page completes the review.
func (r *reviewing) page(opt Options) (*Review, error) {
	r.total()
	for _, s := range sortedBy(r.open, func(s openPoint) uint64 { return s.Sequence }) {
		c := r.chapters["open"]
		c.Statements = append(c.Statements, s.Statement)
		if s.EventID != "" {
			r.cited[s.Sequence] = s.fact
		}
	}
	page := &Review{
		Format: ReviewFormat, EvidenceID: opt.EvidenceID, ExportedAt: opt.At.UTC(), Scope: r.scope,
		RuntimeCorrelation: r.ids.result(r.scope, r.runtimeID), Title: r.title,
		Facts: slices.AppendSeq([]Cited{}, maps.Values(r.cited)),
	}
	slices.SortFunc(page.Facts, func(a, b Cited) int { return cmp.Compare(a.Sequence, b.Sequence) })
	for _, c := range chapters {
		page.Chapters = append(page.Chapters, r.chapters[c.name])
	}
	var md, web strings.Builder
	err := errors.Join(markdownPage.Execute(&md, page), htmlPage.Execute(&web, page))
	if err != nil {
		return nil, fmt.Errorf("evidence: review: %w", err)
	}
	page.Markdown, page.HTML = md.String(), web.String()
	return page, nil
}
