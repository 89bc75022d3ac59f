package evidence

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"agentd/event"
	"agentd/store"
)

// ReplayFormat is the format of a replay case.
const ReplayFormat = "agentd-replay-1"

// Case is what is needed to run turns again on their recordings, and what must
// come out.
type Case struct {
	EvidenceID         string      `json:"evidenceId"`
	ExportedAt         time.Time   `json:"exportedAt"`
	Format             string      `json:"format"`
	RuntimeCorrelation Correlation `json:"runtimeCorrelation"`
	Scope              Scope       `json:"scope"`
	// Determinism is deterministic, or approximate: Limits then say what the
	// recordings can't bring back.
	Determinism string   `json:"determinism"`
	Limits      []string `json:"limits"`
	// Environment is what held at the export, as far as decisions depend on it.
	Environment CaseEnvironment `json:"environment"`
	Turns       []*CaseTurn     `json:"turns"`
	// Answers are those of models, Results those of tools, Decisions those of people
	// and hosts, each in the order in which they came.
	Answers   []CaseAnswer   `json:"answers"`
	Results   []CaseResult   `json:"results"`
	Decisions []CaseDecision `json:"decisions"`
	// Acts are what was done to the session from outside, in order.
	Acts []CaseAct `json:"acts,omitempty"`
	// Inherited are the turns before the recording that a rollback of a fork tells of,
	// oldest first.
	Inherited []CaseInherited `json:"inherited,omitempty"`
	// Parties are the others who had a part in the turns; absent if nobody had.
	Parties *CaseParties `json:"parties,omitempty"`
	// Tools are the tools of the turns; ContextRefs and InventoryRefs point to what
	// the model was given.
	Tools         []event.ToolInfo `json:"tools"`
	ContextRefs   []string         `json:"contextRefs"`
	InventoryRefs []string         `json:"inventoryRefs"`
	// Expected are the assertions: the facts without ids and times.
	Expected []Fact `json:"expected"`
	// Integrity is the proof, which [Verify] checks; a case that was made by hand
	// has none.
	Integrity json.RawMessage `json:"integrity,omitempty"`
}

// CaseEnvironment is what decisions depend on beside the facts.
type CaseEnvironment struct {
	PermissionMode string             `json:"permissionMode,omitempty"`
	Rules          []event.PolicyRule `json:"rules"`
	Workspace      string             `json:"workspace,omitempty"`
	// RulesChanged says that the host's rules changed after the session began.
	RulesChanged bool `json:"rulesChanged,omitempty"`
	// NobodyToAsk says that no person could answer.
	NobodyToAsk bool `json:"nobodyToAsk,omitempty"`
	// Sandbox is what confined commands, as the facts say, or read_only if the runtime
	// has that; absent if none ran.
	Sandbox *CaseSandbox `json:"sandbox,omitempty"`
	// Limits are those of turns that the runtime had, in a form of its own.
	Limits event.Raw `json:"limits,omitempty"`
	// Windows are the context windows of models, where a turn names them.
	Windows map[string]int64 `json:"windows,omitempty"`
	// Candidates are the models that a turn could have been given, each as
	// provider/model: whether there was a choice is a fact too.
	Candidates []string `json:"candidates,omitempty"`
	// Catalog is what the runtime knew of models and money; absent from a case that
	// was made without it.
	Catalog *CaseCatalog `json:"catalog,omitempty"`
	// Earlier are the models that could be asked at the beginning, if they were others
	// than those of the catalog; the first one was the default.
	Earlier []CaseModel `json:"earlier,omitempty"`
}

// CaseSandbox is what confined commands.
type CaseSandbox struct {
	Mode string `json:"mode"`
	// Filesystem and Network say that the kernel enforced what the mode asks for.
	Filesystem bool     `json:"filesystem"`
	Network    bool     `json:"network"`
	WriteRoots []string `json:"writeRoots,omitempty"`
}

// CaseTurn is a turn that is run again.
type CaseTurn struct {
	Input   event.Raw          `json:"input"`
	Options *event.TurnOptions `json:"options,omitempty"`
	// Tools are the names of those that the turn had; absent if it got to none.
	Tools  []string `json:"tools,omitempty"`
	TurnID string   `json:"turnId"`
	// Thread is the one that the turn is in; absent if that is the main one.
	Thread string `json:"thread,omitempty"`
	// Open says that the recording ends before the turn does, Unstarted that the turn
	// never started.
	Open      bool `json:"open,omitempty"`
	Unstarted bool `json:"unstarted,omitempty"`
	ended     bool
	started   bool
}

// CaseAnswer is an answer of a model, or its failure.
type CaseAnswer struct {
	// Acts is how many acts came before it.
	Acts          int    `json:"acts,omitempty"`
	ErrorCategory string `json:"errorCategory,omitempty"`
	ErrorMessage  string `json:"errorMessage,omitempty"`
	EventID       string `json:"eventId"`
	// Held says that an act came while the turn waited to ask again, Lost that the call was
	// interrupted although nobody had stopped its turn.
	Held bool `json:"held,omitempty"`
	Lost bool `json:"lost,omitempty"`
	// Malformed are the arguments that are no JSON, by the call.
	Malformed  map[string]string   `json:"malformed,omitempty"`
	Message    *event.ModelMessage `json:"message,omitempty"`
	Model      string              `json:"model"`
	Provider   string              `json:"provider"`
	Retryable  bool                `json:"retryable,omitempty"`
	StopReason string              `json:"stopReason,omitempty"`
	// TurnID is the turn that asked.
	TurnID string      `json:"turnId,omitempty"`
	Usage  event.Usage `json:"usage"`
}

// CaseResult is what a tool gave. Output is what the fact shows of it.
type CaseResult struct {
	// Acts is how many acts came before it.
	Acts int `json:"acts,omitempty"`
	// Changed are the files that the call changed.
	Changed   []event.FileChange `json:"changed,omitempty"`
	Advice    string             `json:"advice,omitempty"`
	Arguments event.Raw          `json:"arguments,omitempty"`
	// Background says that a command went on when the call ended.
	Background bool `json:"background,omitempty"`
	// Boundary and Path say what of the sandbox the call hit.
	Boundary      string `json:"boundary,omitempty"`
	ErrorCategory string `json:"errorCategory,omitempty"`
	ErrorMessage  string `json:"errorMessage,omitempty"`
	EventID       string `json:"eventId"`
	ExitCode      *int   `json:"exitCode,omitempty"`
	IsError       bool   `json:"isError,omitempty"`
	// Lost says that the call was interrupted although nobody had stopped its turn.
	Lost      bool   `json:"lost,omitempty"`
	Output    string `json:"output,omitempty"`
	Path      string `json:"path,omitempty"`
	Retryable bool   `json:"retryable,omitempty"`
	// Credential is what the call was refused for want of, and CredentialRefs which
	// could be given.
	Credential     string   `json:"credential,omitempty"`
	CredentialRefs []string `json:"credentialRefs,omitempty"`
	// ToolCallID is the call that it ended.
	ToolCallID string `json:"toolCallId,omitempty"`
	ToolName   string `json:"toolName"`
}

// CaseDecision is the answer to an action.
type CaseDecision struct {
	// Acts is how many acts came before it.
	Acts int `json:"acts,omitempty"`
	// Status is expired or cancelled if nobody answered, and open if nobody had when the
	// recording ended. Expires says that the approval ends.
	Status     string    `json:"status,omitempty"`
	Expires    bool      `json:"expires,omitempty"`
	ActionType string    `json:"actionType"`
	Decision   string    `json:"decision"`
	EventID    string    `json:"eventId"`
	Payload    event.Raw `json:"payload,omitempty"`
	Scope      string    `json:"scope,omitempty"`
	// Source says who decided: human, or host_policy.
	Source   string `json:"source,omitempty"`
	ToolName string `json:"toolName,omitempty"`
	// ToolCallID is the call that it is about.
	ToolCallID string `json:"toolCallId,omitempty"`
}

// ExportReplay writes the replay case of a scope.
func ExportReplay(ctx context.Context, facts Facts, scope Scope, opt Options, env CaseEnvironment, w io.Writer) (*Exported, error) {
	scope, err := scope.resolved(ctx, facts, opt.Before)
	if err != nil {
		return nil, err
	}
	through, err := lastFact(ctx, facts, scope, opt.Before)
	if err != nil {
		return nil, err
	}
	r := &recording{scope: scope, turns: map[string]*CaseTurn{}, args: map[string]event.Raw{}, asked: map[string]*event.ActionRequired{}, limits: map[string]bool{}, content: opt.Content, tools: map[string]event.ToolInfo{}, projected: Projection{recorded: true}}
	r.c = &Case{
		Format: ReplayFormat, EvidenceID: opt.EvidenceID, ExportedAt: opt.At.UTC(), Scope: scope, Determinism: "deterministic", Environment: env,
		Limits: []string{}, Turns: []*CaseTurn{}, Answers: []CaseAnswer{}, Results: []CaseResult{}, Decisions: []CaseDecision{},
		Tools: []event.ToolInfo{}, ContextRefs: []string{}, InventoryRefs: []string{},
	}
	base, err := Removed(ctx, facts, scope.SessionID)
	if err != nil {
		return nil, err
	}
	if base.Sequence > 0 {
		r.limit(RemovedNote(&base))
	}
	res := &Exported{Summary: []byte(`{"partial":true,"format":"` + ReplayFormat + `"}`)}
	for rec, err := range facts.Read(ctx, scope.SessionID, store.Range{After: base.Sequence, Before: through + 1}) {
		if err != nil {
			return nil, fmt.Errorf("evidence: read: %w", err)
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			return nil, fmt.Errorf("evidence: fact %d: %w", rec.Sequence, err)
		}
		res.Through, res.Head = rec.Sequence, rec.Hash
		if scope.has(e) {
			res.Events++
			r.take(e)
		} else {
			r.peer(e)
			r.beyond(e)
		}
	}
	if res.Correlation = r.finish(); len(r.c.Turns) == 0 && (r.c.Parties == nil || len(r.c.Parties.Agents) == 0) {
		return nil, ErrNoTurns
	}
	b, err := Sealed(r.c, res.seal(ReplayFormat, scope, opt))
	if err == nil {
		_, err = w.Write(b)
	}
	if err != nil {
		return nil, fmt.Errorf("evidence: replay case: %w", err)
	}
	return res, nil
}

// recording is a case that is being made.
type recording struct {
	c         *Case
	scope     Scope
	ids       correlation
	runtimeID string
	turns     map[string]*CaseTurn
	args      map[string]event.Raw
	asked     map[string]*event.ActionRequired
	// violated is the last call that hit a boundary.
	violated  *CaseResult
	limits    map[string]bool
	projected Projection
	// content reads what is behind a reference; nil if nothing can be read.
	content func(ref string) ([]byte, error)
	// tools are all that the turns had, models all that could be asked, shells the
	// calls of commands; decided says that a decision was made.
	tools   map[string]event.ToolInfo
	models  []string
	shells  map[string]bool
	decided bool
	// sandboxed says that a fact told what confines commands.
	sandboxed bool
	// window is that of the model which the turn will be given.
	window int64
	party  partyFacts
	act    actFacts
}

// limit notes why a replay can only be approximate.
func (r *recording) limit(why string) {
	if !r.limits[why] {
		r.limits[why] = true
		r.c.Determinism, r.c.Limits = "approximate", append(r.c.Limits, why)
	}
}

func (r *recording) take(e *event.Event) {
	r.ids.take(e)
	r.runtimeID = e.RuntimeID
	r.turnTo(e)
	if agentOf(e) != "" {
		r.agent(e)
		return
	}
	r.beforeFact(e)
	defer r.afterFact(e)
	r.projected.Take(e)
	r.others(e)
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		t := &CaseTurn{TurnID: e.TurnID, Thread: r.beside(e.ThreadID), Input: p.Input, Options: p.Options}
		if len(p.Input) == 0 && !r.read(p.InputRef, &t.Input) {
			r.limit("a large input is only there as its preview")
			t.Input, _ = plainJSON(p.Preview) // a string always encodes
		}
		r.turns[e.TurnID] = t
		r.c.Turns = append(r.c.Turns, t)
	case *event.TurnCompleted:
		r.ended(e.TurnID)
	case *event.TurnFailed:
		r.ended(e.TurnID)
		r.failed(p)
	case *event.ContextResolved:
		r.window = p.ContextWindow
		r.c.ContextRefs = append(r.c.ContextRefs, nonempty(p.ContextRef)...)
	case *event.ToolCatalogResolved:
		r.c.InventoryRefs = append(r.c.InventoryRefs, nonempty(p.InventoryRef)...)
		r.inventory(e.TurnID, p)
	case *event.RoutingCandidates:
		r.candidates(e, p)
	case *event.RoutingDecision:
		r.selected(p)
	default:
		r.bounds(e)
		r.answers(e)
	}
}

// answers records what came from outside.
func (r *recording) answers(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ModelCompleted:
		m := p.Message
		if m == nil {
			m = r.summary(p.MessageRef)
		}
		if m == nil {
			r.limit("a large answer is only behind its reference")
		}
		m, malformed := r.arguments(m)
		r.c.Answers = append(r.c.Answers, CaseAnswer{
			EventID: e.ID, TurnID: e.TurnID, Provider: p.Provider, Model: p.Model, Message: m, Malformed: malformed, StopReason: p.StopReason, Usage: p.Usage,
		})
		r.remember(m)
	case *event.ModelFailed:
		r.c.Answers = append(r.c.Answers, CaseAnswer{
			EventID: e.ID, TurnID: e.TurnID, Provider: p.Provider, Model: p.Model, ErrorCategory: p.ErrorCategory, ErrorMessage: p.Message, Retryable: p.Retryable,
			Lost: p.ErrorCategory == "interrupted" && !r.act.stopped,
		})
	case *event.ToolResult:
		x := CaseResult{EventID: e.ID, ToolCallID: applicable(e.ToolCallID), ToolName: p.ToolName, Arguments: r.args[e.ToolCallID], Output: p.Preview, IsError: p.Status == "error", Background: p.Status == "background"}
		if p.ExitCode.Present && !p.ExitCode.Null {
			code := int(p.ExitCode.Value)
			x.ExitCode = &code
		}
		r.c.Results = append(r.c.Results, x)
	case *event.ToolFailed:
		r.c.Results = append(r.c.Results, CaseResult{
			EventID: e.ID, ToolCallID: applicable(e.ToolCallID), ToolName: p.ToolName, Arguments: r.args[e.ToolCallID], ErrorCategory: p.ErrorCategory, ErrorMessage: p.Message,
			Advice: p.Advice, Retryable: p.Retryable, Lost: p.ErrorCategory == "interrupted" && !r.act.stopped,
		})
	case *event.SandboxViolation:
		r.violated = &CaseResult{
			EventID: e.ID, ToolCallID: applicable(e.ToolCallID), ToolName: p.ToolName, Arguments: r.args[e.ToolCallID], ErrorCategory: categoryViolation,
			ErrorMessage: p.Detail, Boundary: p.Boundary, Path: p.Path,
		}
	case *event.ActionRequired:
		r.asked[e.ActionID] = p
		if p.ActionType == "sandbox_escape" && r.violated != nil {
			// The call is run again if somebody allows it: it had a result before.
			r.c.Results = append(r.c.Results, *r.violated)
			r.violated = nil
		}
	case *event.ActionResolved:
		r.decision(e, p)
	case *event.PermissionEvaluated:
		if t := r.turns[e.TurnID]; t != nil && p.PermissionMode != "" {
			r.mode(t, p.PermissionMode)
		}
	}
}

// mode keeps the permission mode that held for a turn.
func (r *recording) mode(t *CaseTurn, mode string) {
	o := event.TurnOptions{}
	if t.Options != nil {
		o = *t.Options
	}
	if o.PermissionMode == "" {
		o.PermissionMode = mode
		t.Options = &o
	}
}

func (r *recording) decision(e *event.Event, p *event.ActionResolved) {
	if r.peerAnswered(e, p) {
		return
	}
	d := CaseDecision{EventID: e.ID, ToolCallID: applicable(e.ToolCallID), ActionType: p.ActionType, Decision: p.Decision, Payload: p.Payload, Scope: p.Scope, Source: p.DecisionSource}
	if q := r.asked[e.ActionID]; q != nil {
		d.ActionType, d.ToolName = q.ActionType, q.ToolName
	}
	if p.Status != "resolved" {
		r.unanswered(&d, p)
	}
	r.c.Decisions = append(r.c.Decisions, d)
}

// remember keeps the arguments of calls for their results.
func (r *recording) remember(m *event.ModelMessage) {
	if m == nil {
		return
	}
	for _, c := range m.ToolCalls {
		r.args[c.ToolCallID] = c.Arguments
	}
}

// finish completes the case.
func (r *recording) finish() Correlation {
	for _, t := range r.c.Turns {
		if t.Options != nil {
			o := *t.Options
			o.QueuePolicy, o.ExpectedTurnID = "", "" // the turns run one after the other
			t.Options = &o
		}
	}
	r.inputsEnd()
	r.partiesEnd()
	r.actsEnd()
	r.hooksEnd()
	r.modelsEnd()
	for _, name := range slices.Sorted(maps.Keys(r.tools)) {
		r.c.Tools = append(r.c.Tools, r.tools[name])
	}
	r.c.Expected = r.projected.Facts()
	r.c.RuntimeCorrelation = r.ids.result(r.scope, r.runtimeID)
	return r.c.RuntimeCorrelation
}
