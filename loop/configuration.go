package loop

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"agentd/event"
	"agentd/model"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// Configuration is what the decisions about a session's work depend on beside its
// facts. A decision is a pure function of both. Facts refer to the configuration they
// were decided under, so that a replay can decide again.
type Configuration struct {
	// Limits are those of turns.
	Limits Policy `json:"limits"`
	// Mode and Rules are the host's permission policy.
	Mode  string             `json:"permissionMode,omitempty"`
	Rules []event.PolicyRule `json:"rules,omitempty"`
	// Workspace is the folder of sessions that name none.
	Workspace string `json:"workspace"`
	// NobodyToAsk says that no person can answer.
	NobodyToAsk bool `json:"nobodyToAsk,omitempty"`
	// Escalation says that calls may ask to run outside of the sandbox, in the
	// permission mode that has such questions.
	Escalation bool `json:"escalation,omitempty"`
	// Models are those that turns can be routed to; see [Offer].
	Models       []model.Info `json:"models"`
	DefaultModel string       `json:"defaultModel,omitempty"`
	Fallback     []string     `json:"fallback,omitempty"`
	Budget       model.Budget `json:"budget"`
	// Reviewer is the model that is asked about calls before a person is; nil if none is.
	Reviewer *Reviewer `json:"reviewer,omitempty"`
	// Undo says that what is overwritten in workspaces is kept, so that overwriting isn't
	// destructive. A configuration from before that doesn't, and what was decided under
	// it stays right.
	Undo bool `json:"undo,omitempty"`
	// TaskBudgets says that the budgets of tasks are checked before each request. A
	// configuration from before that doesn't, and what was decided under it stays right.
	TaskBudgets bool `json:"taskBudgets,omitempty"`
}

// Confinement is what confines commands in a workspace, and what bounds agents there.
type Confinement struct {
	Sandbox permission.Sandbox `json:"sandbox"`
	Bounds  []string           `json:"bounds,omitempty"`
}

// configured is the configuration in force, with the parts that can be replaced.
type configured struct {
	Configuration
	host  *hostPolicy
	offer *Offer
	// content is the configuration as it is stored, ref its reference.
	content []byte
	ref     string
}

// Configuration returns the configuration in force. It must not be changed.
func (l *Loop) Configuration() *Configuration { return &l.configured().Configuration }

func (l *Loop) configured() *configured {
	host, offer := l.host.Load(), l.offer.Load()
	if c := l.config.Load(); c != nil && c.host == host && c.offer == offer {
		return c
	}
	c := &configured{host: host, offer: offer, Configuration: Configuration{
		Limits: l.opt.Policy, Mode: host.mode, Rules: host.rules, Workspace: l.homes.workspace, NobodyToAsk: l.opt.NobodyToAsk,
		Escalation: l.offersEscalation(), Models: offer.Models, DefaultModel: offer.DefaultModel, Fallback: offer.Fallback, Budget: l.opt.Budget,
		TaskBudgets: true, Undo: l.opt.Vault != nil, Reviewer: l.opt.Reviewer,
	}}
	content, err := json.Marshal(&c.Configuration) //nolint:musttag // the parts are stored in a form of their own
	if err != nil {
		l.opt.Logger.Error("the configuration could not be encoded; facts don't refer to it", "error", err)
	} else {
		c.content, c.ref = content, store.RefOf(sum(content))
	}
	l.config.Store(c)
	return c
}

// configurationRef returns the reference to the configuration in force if the
// session's facts refer to another one or none, and stores it then.
func (l *Loop) configurationRef(tx *session.Tx) string {
	c := l.configured()
	if c.ref == "" || tx.State.ConfigurationRef == c.ref {
		return ""
	}
	return tx.Blob(c.content, "application/json")
}

// confinementRef does for what confines commands what configurationRef does for the
// configuration.
func (l *Loop) confinementRef(tx *session.Tx, c *Confinement) string {
	last := l.confined.Load()
	if last == nil || !reflect.DeepEqual(&last.Confinement, c) { // mostly it is what it was
		content, err := json.Marshal(c) //nolint:musttag // as above
		if err != nil {
			return ""
		}
		last = &storedConfinement{Confinement: *c, content: content, ref: store.RefOf(sum(content))}
		l.confined.Store(last)
	}
	if tx.State.ConfinementRef == last.ref {
		return ""
	}
	return tx.Blob(last.content, "application/json")
}

// storedConfinement is what confines commands, as it is stored.
type storedConfinement struct {
	Confinement
	content []byte
	ref     string
}

// ModeOf is the permission mode that holds for a turn. That of a child is never
// wider than its parent's, also when the parent's changes.
func (c *Configuration) ModeOf(s *state.Session, t *state.Thread, turn *state.Turn) string {
	own := c.ownMode(s, t, turn)
	if t == nil || t.SubagentID == "" {
		return own
	}
	parent := s.Thread(t.ParentThreadID)
	if parent == nil || parent == t {
		return own
	}
	if above := c.ModeOf(s, parent, parent.Active); permission.IsWider(own, above) {
		return above
	}
	return own
}

// ownMode is a turn's own permission mode, its thread's, the session's, the host's.
func (c *Configuration) ownMode(s *state.Session, t *state.Thread, turn *state.Turn) string {
	if turn != nil && turn.PermissionMode != "" {
		return turn.PermissionMode // its plan was approved
	}
	if m := optionsOf(turn).PermissionMode; m != "" {
		return m
	}
	if t != nil && t.PermissionMode != "" {
		return t.PermissionMode
	}
	for _, p := range s.Permission.Policies {
		if p.Source == "session" && p.Mode != "" {
			return p.Mode
		}
	}
	if s.PermissionMode != "" {
		return s.PermissionMode
	}
	if c.Mode != "" {
		return c.Mode
	}
	return permission.ModeDefault
}

// rulesOf are the rules that hold in a session: the host's and its own.
func (c *Configuration) rulesOf(s *state.Session) []event.PolicyRule {
	rules := c.Rules
	for _, p := range s.Permission.Policies {
		if p.Workspace == "" { // the runtime's session remembers those of workspaces
			rules = append(slices.Clip(rules), p.Rules...)
		}
	}
	return rules
}

// workplace is where a turn works: the session's workspace, and within it the folder
// that the turn or its thread names.
func (c *Configuration) workplace(s *state.Session, t *state.Thread, turn *state.Turn) workplace {
	w := workplace{root: c.rootOf(s)}
	w.cwd = w.root
	for _, cwd := range []string{t.Cwd, optionsOf(turn).Cwd} {
		if cwd == "" {
			continue
		}
		// A folder outside of the workspace is no place to work in.
		if dir := pathBelow(w.root, cwd); pathWithin(w.root, dir) {
			w.cwd = dir
		}
	}
	return w
}

// rootOf is the workspace of a session: its own, which was resolved when the session
// was created, or the runtime's.
func (c *Configuration) rootOf(s *state.Session) string {
	if s.Workspace == nil || s.Workspace.Root == "" {
		return c.Workspace
	}
	if abs, err := filepath.Abs(s.Workspace.Root); err == nil {
		return abs
	}
	return s.Workspace.Root
}

// mayEscalate reports whether calls may ask to run outside of the sandbox.
func (c *Configuration) mayEscalate(mode string) bool {
	return mode == permission.ModeOnRequest && c.Escalation
}

// Call is a tool call that has to be decided about.
type Call struct {
	ToolCallID string
	Tool       event.ToolInfo
	Input      event.Raw
	// Opinion is what hooks say about it.
	Opinion *permission.Opinion
}

// Disk is what decisions ask of the file system: where a path leads, and the hash of a
// file's content.
type Disk interface {
	Resolve(path string) string
	Content(path string) (hash string, ok bool)
	Script(path string) (text string, ok bool)
}

// Question is what has to be decided about a call of a thread's active turn.
func (c *Configuration) Question(s *state.Session, t *state.Thread, call *Call, confined *Confinement, disk Disk, now time.Time) permission.Question {
	_, outside := tool.Escalation(call.Input)
	w := c.workplace(s, t, t.Active)
	review, bounds := c.reviewOf(t.Active, call)
	return permission.Question{
		Undo: c.Undo, Review: review, Reviewer: bounds,
		Outside: outside && toolkind.Of(call.Tool.ToolName) == toolkind.Shell, Mode: c.ModeOf(s, t, t.Active), Interactive: !c.NobodyToAsk, Tool: call.Tool, Input: call.Input,
		ToolCallID: call.ToolCallID, Root: w.root, Cwd: w.cwd, Resolve: disk.Resolve,
		Rules: c.rulesOf(s), Grants: grantsOf(s), Now: now, Hook: call.Opinion, Sandbox: confined.Sandbox,
		Bounds: confined.Bounds, Contents: disk.Content, Text: disk.Script,
	}
}

// CheckInput checks the input of a call against what its tool takes, as validate says
// for the schema, and against where the turn works. The error is a [*tool.Error].
func (c *Configuration) CheckInput(s *state.Session, t *state.Thread, info *event.ToolInfo, validate func(event.Raw) error, input event.Raw, disk Disk) error {
	if err := checkInput(info, validate, input); err != nil {
		return err
	}
	if err := checkEscalation(info, input, c.ModeOf(s, t, t.Active), c); err != nil {
		return err
	}
	w := c.workplace(s, t, t.Active)
	return tool.CheckPath(info.ToolName, w.root, w.cwd, input, disk.Resolve)
}

// Spent says which budget keeps a model from being asked; nil if none does. It is the
// same for every request, whatever its model costs.
func (c *Configuration) Spent(s *state.Session, t *state.Thread, requestID string) *event.QuotaState {
	cost := &s.Routing.Cost
	if b := c.Budget.Standing(cost.TotalUSD, cost.Unpriced); b.Status == model.BudgetBlocked {
		return b.Blocked(requestID)
	}
	if b := shareSpent(s, t); b != nil {
		return b.Blocked(requestID)
	}
	if c.TaskBudgets {
		return taskSpent(s, t, requestID)
	}
	return nil
}

// Ask is what a turn asks of routing, but for the size and the kind of its input and for
// its task's profile; see [TaskProfile].
func (c *Configuration) Ask(s *state.Session, t *state.Thread, turn *state.Turn, resting map[string]model.Rest, now time.Time) model.Ask {
	o := optionsOf(turn)
	cost := &s.Routing.Cost
	a := model.Ask{
		Provider: o.Provider, Model: o.Model, ThreadModel: t.Model,
		Default: c.DefaultModel, Fallback: c.Fallback, FallbackOn: c.Limits.FallbackOn,
		Cost: c.Budget.Standing(cost.TotalUSD, cost.Unpriced).Status, Resting: resting, Now: now,
		TaskKind: "turn",
	}
	if t.Routing != nil && t.Routing.Decision != nil {
		a.LastModel = t.Routing.Decision.SelectedProvider + "/" + t.Routing.Decision.SelectedModel
	}
	if task := s.Tasks.Find(turn.TaskID); task != nil && task.TaskKind != "turn" {
		a.TaskKind = task.TaskKind
	}
	return a
}

// TaskProfile is what a turn's task was given to be routed by; nil if nothing.
func TaskProfile(s *state.Session, turn *state.Turn) *event.TaskProfile {
	if task := s.Tasks.Find(turn.TaskID); task != nil {
		return task.GivenProfile()
	}
	return nil
}

// FallbackFor chooses the model that a turn is given after its own failed for a cause; it
// reports false if there is none.
func (c *Configuration) FallbackFor(s *state.Session, t *state.Thread, cause string, resting map[string]model.Rest, now time.Time) (model.Routing, bool) {
	turn, d := t.Active, t.Routing.Decision
	ask := c.Ask(s, t, turn, resting, now)
	// A turn that was routed before needs what it needed then.
	var waived []string
	if p := t.Routing.Profile; p != nil {
		if d.CapabilityGap != "none" {
			waived = p.WaivableCapabilities // it goes on without them already
		}
		if p.Source == event.ProfileFromTask {
			ask = ask.ForTask(TaskProfile(s, turn))
		}
		ask = ask.Needing(p.RequiredCapabilities, waived, 0)
	}
	if len(optionsOf(turn).Tools) > 0 {
		ask = ask.Needing([]string{model.CapTools}, nil, 0)
	}
	ask.InputTokens = max(t.ContextTokens, estimateOf(t))
	failed := append(slices.Clone(d.Failed), d.SelectedProvider+"/"+d.SelectedModel)
	return model.Fallback(model.Route(c.Models, ask), failed, cause)
}

// restingModels are the models that aren't used at a time, according to the facts.
func restingModels(resting map[string]model.Rest, now time.Time) []event.RestingModel {
	var out []event.RestingModel
	for _, id := range slices.Sorted(maps.Keys(resting)) {
		if r := resting[id]; r.Until.After(now) {
			out = append(out, event.RestingModel{Model: id, Until: r.Until, Category: r.Category})
		}
	}
	return out
}
