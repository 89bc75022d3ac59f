package loop

import (
	"cmp"
	"context"
	"path/filepath"
	"runtime"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/tool"
)

// Register registers the handlers of the commands that need tools, models or processes.
func (l *Loop) Register(t *command.Table) {
	command.Handle(t, l.getToolInventory)
	command.HandleReadModel(t, l.getEnvironment)
	command.Handle(t, l.compactThread)
	command.Handle(t, l.getPolicy)
	command.HandleKept(t, l.setPolicy, l.keepPolicyAnswer)
	command.Handle(t, l.evaluatePermission)
	command.Handle(t, l.writeStdin)
	command.Handle(t, l.resizeProcess)
	command.Handle(t, l.terminateProcess)
	command.Handle(t, l.rollbackThread)
	command.Handle(t, l.getDiff)
	command.Handle(t, l.testPolicy)
	command.Handle(t, l.suggestPolicy)
	command.Handle(t, l.testReviewer)
	command.Handle(t, l.listModels)
}

// subject is what a question about tools, policy or environment is about.
type subject struct {
	mode  string
	rules []event.PolicyRule
	place workplace
	state *state.Session
	sel   tool.Selection
}

// withSubject finds the session and thread of a question; without a session it is the host.
func (l *Loop) withSubject(ctx context.Context, caller command.Caller, sessionID, threadID, mode string, with func(*subject) error) error {
	if sessionID == "" {
		s := state.New("")
		return with(l.subject(s, &state.Thread{}, mode))
	}
	return l.m.ViewAs(ctx, caller, sessionID, func(s *state.Session) error {
		t := s.MainThread()
		if threadID != "" {
			if t = s.Thread(threadID); t == nil {
				return fault.New(fault.NotFound, "there is no open thread %s in session %s", threadID, sessionID)
			}
		}
		if t == nil {
			t = &state.Thread{}
		}
		return with(l.subject(s, t, mode))
	})
}

func (l *Loop) subject(s *state.Session, t *state.Thread, mode string) *subject {
	if mode == "" {
		mode = l.modeOf(s, t, t.Active)
	}
	x := &subject{mode: mode, rules: l.rulesOf(s), place: l.workplace(s, t, t.Active), state: s, sel: l.toolSelection(s, t, t.Active)}
	x.sel.Policy, x.sel.Escalate, x.sel.Planning = l.policyOf(x.mode, x.rules), l.mayEscalate(x.mode), l.mayPlan(x.mode, t, nil)
	x.sel.Extra = clientTools(s)
	return x
}

func (l *Loop) getToolInventory(ctx context.Context, caller command.Caller, p *command.GetToolInventory) (*command.GetToolInventoryResult, error) {
	res := &command.GetToolInventoryResult{}
	err := l.withSubject(ctx, caller, p.SessionID, p.ThreadID, p.PermissionMode, func(s *subject) error {
		res.Tools = l.opt.Tools.Resolve(s.sel).Payload().Tools
		return nil
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// shell is what runs the commands of the shell tool.
const shell = "/bin/sh"

// environment is the answer of get_execution_environment.
type environment struct {
	command.EnvironmentRead
	// WorkspaceID is the workspace's id, or not_applicable.
	WorkspaceID string `json:"workspaceId"`
	// AdditionalRoots are the folders outside of the workspace that can be changed.
	AdditionalRoots []string `json:"additionalRoots"`
	// Shell runs the commands of the shell tool.
	Shell string `json:"shell"`
	// OS is the operating system.
	OS string `json:"os"`
	// Arch is the processor architecture.
	Arch string `json:"arch"`
	// EnvRef is where the environment of processes is described, or not_applicable until a
	// command ran in it.
	EnvRef string `json:"envRef"`
	// Env are the names of the variables that processes get.
	Env []string `json:"env"`
	// PermissionMode that holds.
	PermissionMode string `json:"permissionMode"`
	// TurnID is the turn whose environment it is, if one was asked for.
	TurnID string `json:"turnId,omitempty"`
	// SandboxMode is the mode of the sandbox.
	SandboxMode string `json:"sandboxMode"`
	// NetworkProfile says whether connections are allowed.
	NetworkProfile string `json:"networkProfile"`
	// SandboxProfile is what the standard calls the sandbox.
	SandboxProfile *event.SandboxApplied `json:"sandboxProfile"`
	// ResourceLimits are the limits that hold for processes, by name.
	ResourceLimits map[string]int64 `json:"resourceLimits"`
}

func (l *Loop) getEnvironment(ctx context.Context, caller command.Caller, p *command.GetExecutionEnvironment) (*environment, error) {
	if p.TurnID != "" {
		return l.getTurnEnvironment(ctx, caller, p)
	}
	var out *environment
	err := l.withSubject(ctx, caller, p.SessionID, p.ThreadID, p.PermissionMode, func(s *subject) error {
		out = l.environment(s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (l *Loop) environment(s *subject) *environment {
	applied := l.commandBoundary(s.place, s.rules)
	out := &environment{
		EnvironmentRead: command.EnvironmentRead{
			Cwd: s.place.cwd, WorkspaceRoots: []string{s.place.root}, Sandbox: applied, Processes: processesOf(s.state),
		},
		WorkspaceID: event.NotApplicable, AdditionalRoots: []string{}, Shell: shell, OS: runtime.GOOS, Arch: runtime.GOARCH,
		EnvRef: event.NotApplicable, Env: l.envNames(), PermissionMode: s.mode, NetworkProfile: applied.Network, ResourceLimits: applied.ProcessLimits,
		SandboxProfile: applied,
	}
	if w := s.state.Workspace; w != nil && w.WorkspaceID != "" {
		out.WorkspaceID = w.WorkspaceID
	}
	out.SandboxMode, out.AdditionalRoots = applied.Mode, state.AdditionalRoots(s.place.root, applied.WriteRoots)
	if _, ref := l.knownEnvironment(s.state); ref != "" {
		out.EnvRef, applied.EnvironmentID = ref, ref
	}
	if out.ResourceLimits == nil {
		out.ResourceLimits = map[string]int64{} // without a sandbox nothing is limited
	}
	return out
}

func processesOf(s *state.Session) []command.ProcessRecord {
	var out []command.ProcessRecord
	for _, x := range s.Environment.Active {
		out = append(out, session.ProcessRecord(x))
	}
	return out
}

// getPolicy returns the mode and all rules that hold.
func (l *Loop) getPolicy(ctx context.Context, caller command.Caller, p *command.GetPolicy) (*command.PolicyResult, error) {
	res := &command.PolicyResult{}
	id := p.SessionID
	if id == event.RuntimeSession {
		id = ""
	}
	err := l.withSubject(ctx, caller, id, "", "", func(s *subject) error {
		rules, err := l.withProject(ctx, s.state, s.rules)
		res.Mode, res.Rules = s.mode, append([]event.PolicyRule{}, rules...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// setPolicy replaces the policy of a session, or the host's.
func (l *Loop) setPolicy(ctx context.Context, caller command.Caller, p *command.SetPolicy) (*command.PolicyResult, error) {
	source, id := policySubject(p.SessionID)
	parsed := *p
	var err error
	if parsed.Rules, err = permission.ParseRules(source, p.Rules); err != nil {
		return nil, fault.Param("rules", "%s", err)
	}
	if parsed.AddRules, err = permission.ParseRules(source, p.AddRules); err != nil {
		return nil, fault.Param("addRules", "%s", err)
	}
	if p.AcceptWorkspace {
		return &command.PolicyResult{}, l.acceptRules(ctx, caller, p)
	}
	return session.Write(ctx, l.m, caller, p, id, event.BySession, func(tx *session.Tx) (*command.PolicyResult, error) {
		fact, err := l.changedPolicy(tx, source, &parsed, caller)
		if err != nil {
			return nil, err
		}
		tx.Emit(event.Event{Type: event.TypePolicyChanged, Payload: fact})
		return &command.PolicyResult{}, nil
	})
}

// policySubject returns whose policy a command is about, and where that is recorded.
func policySubject(sessionID string) (source, recordedIn string) {
	if sessionID == "" || sessionID == event.RuntimeSession {
		return "host", event.RuntimeSession
	}
	return "session", sessionID
}

// keepPolicyAnswer answers set_policy with the policy after it, and a repeated call with
// what the first was told. Until the answer is kept there is an empty one: no caller was
// told anything yet.
func (l *Loop) keepPolicyAnswer(ctx context.Context, caller command.Caller, p *command.SetPolicy, kept *command.PolicyResult) (*command.PolicyResult, error) {
	if kept.Mode != "" {
		return kept, nil
	}
	now, err := l.getPolicy(ctx, caller, &command.GetPolicy{SessionID: p.SessionID})
	if err != nil {
		return nil, err
	}
	_, id := policySubject(p.SessionID)
	return session.Answered(ctx, l.m, caller, p, id, now)
}

// changedPolicy is the policy of a source after set_policy: a mode or rules that aren't given
// stay.
func (l *Loop) changedPolicy(tx *session.Tx, source string, p *command.SetPolicy, caller command.Caller) (*event.PolicyChanged, error) {
	out := &event.PolicyChanged{Source: source, Mode: p.Mode, Reason: l.redactText(p.Reason), ChangedBy: session.ActorOf(caller)}
	if source == "host" {
		stored, _ := recordedHost(tx.State)
		rules, err := changedRules(source, p, stored.Rules)
		newHostPolicy(l.host.Load().configured, stored).changed(p.Mode, rules).describe(out)
		return out, err
	}
	var old state.Policy
	if i := slices.IndexFunc(tx.State.Permission.Policies, func(x state.Policy) bool { return x.Source == source }); i >= 0 {
		old = tx.State.Permission.Policies[i]
	}
	rules, err := changedRules(source, p, old.Rules)
	if rules == nil {
		rules = old.Rules
	}
	out.Mode = cmp.Or(out.Mode, old.Mode)
	out.Rules = append([]event.PolicyRule{}, rules...)
	for i := range out.Rules {
		out.Rules[i].Reason = l.redactText(out.Rules[i].Reason)
	}
	return out, err
}

// mostRules is how many rules a policy has that grows rule by rule, as many as one command
// can give.
const mostRules = 10_000

// changedRules are the rules that set_policy makes of the stored ones; nil if they stay.
func changedRules(source string, p *command.SetPolicy, stored []event.PolicyRule) ([]event.PolicyRule, error) {
	if len(p.AddRules)+len(p.RemoveRules) == 0 {
		return p.Rules, nil
	}
	has := func(rules []event.PolicyRule, r *event.PolicyRule) bool {
		return slices.ContainsFunc(rules, func(x event.PolicyRule) bool { return sameRule(&x, r) })
	}
	out := slices.DeleteFunc(append([]event.PolicyRule{}, stored...), func(r event.PolicyRule) bool { return has(p.RemoveRules, &r) })
	for _, r := range p.AddRules {
		if !has(out, &r) {
			out = append(out, r)
		}
	}
	if len(out) > mostRules {
		return nil, fault.Param("addRules", "make %d rules of the policy; it can have %d", len(out), mostRules)
	}
	if _, err := permission.ParseRules(source, out); err != nil {
		return nil, fault.Param("addRules", "don't fit the stored rules: %s", err)
	}
	return out, nil
}

// adoptRulesAs makes the rules of a session's workspace its facts before it is asked
// about them.
func (l *Loop) adoptRulesAs(ctx context.Context, caller command.Caller, sessionID string) error {
	if l.opt.ParseRules == nil || sessionID == "" || sessionID == event.RuntimeSession {
		return nil
	}
	var root string
	if err := l.m.OwnAs(ctx, caller, sessionID, func(s *state.Session) error {
		t := s.MainThread()
		if t == nil {
			t = &state.Thread{}
		}
		root = l.workplace(s, t, nil).root
		return nil
	}); err != nil {
		return err
	}
	return l.adoptRulesOf(command.PassOver(ctx), sessionID, root)
}

// compactThread asks for a compaction and waits for its end.
func (l *Loop) compactThread(ctx context.Context, caller command.Caller, p *command.CompactThread) (*command.CompactThreadResult, error) {
	var id string
	var from uint64
	_, err := session.Write(ctx, l.m, caller, &command.CompactThread{SessionID: p.SessionID, ThreadID: p.ThreadID}, p.SessionID, event.BySession, func(tx *session.Tx) (*struct{}, error) {
		t := tx.State.Thread(p.ThreadID)
		switch {
		case t == nil:
			return nil, fault.New(fault.NotFound, "there is no open thread %s in session %s", p.ThreadID, p.SessionID)
		case t.Context != nil && t.Context.Running != nil:
			return nil, fault.New(fault.Conflict, "thread %s is already being compacted", p.ThreadID)
		case t.Routing == nil || t.Routing.Decision == nil || t.ModelCalls == 0:
			return nil, fault.New(fault.Conflict, "thread %s has nothing to compact: no model has answered yet", p.ThreadID)
		}
		turns, running := turnsSince(t), ""
		if t.Active != nil && t.Active.Status == state.TurnRunning {
			running = t.Active.TurnID
		}
		scope := compactionScope(t, running)
		id, from = tx.NewID(event.PrefixCompaction), tx.Sequence()
		l.markOwnCall(id, true) // until it was carried out
		tx.Emit(event.Event{Type: event.TypeContextCompactionStarted, Scope: scope, Payload: &event.CompactionStarted{
			CompactionID: id, Trigger: "requested", AffectedTurns: turns, TokensBefore: t.ContextTokens, Attempt: 1,
		}})
		return &struct{}{}, nil
	})
	if err != nil {
		l.markOwnCall(id, false)
		return nil, err
	}
	done, err := l.awaitCompaction(ctx, p.SessionID, id, from)
	if err != nil {
		return nil, err
	}
	return session.Write(ctx, l.m, caller, p, p.SessionID, event.BySession, func(*session.Tx) (*command.CompactThreadResult, error) {
		return &command.CompactThreadResult{Boundary: *done}, nil
	})
}

// turnsSince lists the thread's turns after its last boundary, as far as the state
// still has them.
func turnsSince(t *state.Thread) []string {
	out := []string{}
	for _, turn := range t.Recent {
		if t.Context == nil || t.Context.Boundary == nil || turn.EndSequence > t.Context.Boundary.Sequence {
			out = append(out, turn.TurnID)
		}
	}
	if t.Active != nil {
		out = append(out, t.Active.TurnID)
	}
	return out
}

// awaitCompaction follows a session until a compaction ended.
func (l *Loop) awaitCompaction(ctx context.Context, sessionID, id string, from uint64) (*event.CompactionCompleted, error) {
	sub, err := l.m.Subscribe(ctx, sessionID, from)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "the compaction is still running; follow the events of session %s for its end", sessionID)
		}
		for _, rec := range records {
			e := &event.Event{}
			payload, err := event.DecodeHeader(rec.Data, e)
			if err != nil || (e.Type != event.TypeContextCompactionCompleted && e.Type != event.TypeContextCompactionFailed) {
				continue
			}
			if err := store.DecodeFactPayload(ctx, l.opt.Store, e, payload); err != nil {
				return nil, fault.Wrap(fault.Internal, err, "a fact can't be read")
			}
			switch p := e.Payload.(type) {
			case *event.CompactionCompleted:
				if p.CompactionID == id {
					return p, nil
				}
			case *event.CompactionFailed:
				if p.CompactionID == id {
					return nil, fault.New(fault.Unavailable, "the compaction failed and the thread is unchanged: %s", p.Error.Message)
				}
			}
		}
	}
}

// CheckTurn refuses options that can't work: an unknown model or tool.
func (l *Loop) CheckTurn(o *event.TurnOptions) error {
	if o.Model != "" || o.Provider != "" {
		if !model.Known(l.offer.Load().Models, o.Provider, o.Model) {
			return fault.Param("options.model", "%q is not a configured model; use one of %s", o.Provider+joiner(o)+o.Model, l.modelNames())
		}
	}
	if o.Cwd != "" && !filepath.IsAbs(o.Cwd) && !filepath.IsLocal(o.Cwd) {
		return fault.Param("options.cwd", "%q leaves the workspace", o.Cwd)
	}
	if missing := slices.DeleteFunc(l.opt.Tools.Unmatched(o.Tools), l.clients.has); len(missing) > 0 {
		return fault.Param("options.tools", "there is no tool %q", missing[0])
	}
	if len(o.OutputSchema) > 0 {
		if err := tool.CheckSchema(o.OutputSchema); err != nil {
			return fault.Param("options.outputSchema", "is not a usable JSON Schema: %s", err)
		}
	}
	return nil
}

func joiner(o *event.TurnOptions) string {
	if o.Provider != "" && o.Model != "" {
		return "/"
	}
	return ""
}

func (l *Loop) modelNames() string {
	var names []string
	for _, i := range l.offer.Load().Models {
		names = append(names, i.ID())
	}
	slices.Sort(names)
	out := ""
	for i, n := range names {
		if i == 20 {
			return out + " and more"
		}
		if i > 0 {
			out += ", "
		}
		out += n
	}
	return out
}
