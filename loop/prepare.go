package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"agentd/event"
	"agentd/fault"
	"agentd/model"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
)

// maxContextFile bounds a file of the workspace that goes into the context.
const maxContextFile = 64 << 10

// contextFiles are read from the workspace into every turn's context.
var contextFiles = []string{"AGENTS.md"}

// preparation is what a turn is prepared with, gathered before it is recorded.
type preparation struct {
	position
	root, cwd string
	rules     []event.PolicyRule
	// instructions stand above the conversation, files below them.
	instructions contextFile
	files        []contextFile
	omissions    []event.ContextOmission
	history      int64 // tokens of the conversation so far
	turns        int
	input        int64 // tokens of the turn's input
	vision       bool
	inventory    *tool.Inventory
}

// contextFile is a text that goes into the context: a file, or the instructions.
type contextFile struct {
	name    string
	content []byte
	digest  string
}

// workplace is where a turn works.
type workplace struct{ root, cwd string }

// gatherPreparation collects what a turn needs: files of the workspace, tools, the size of
// what was said so far. Nothing is recorded yet.
func (l *Loop) gatherPreparation(k key, turnID string) (*preparation, error) {
	p := &preparation{}
	var sel tool.Selection
	if err := l.m.View(l.ctx, k.session, func(s *state.Session) error {
		t := s.Thread(k.thread)
		if t == nil || t.Turn(turnID) == nil {
			return errMoved
		}
		turn := t.Turn(turnID)
		w := l.workplace(s, t, turn)
		p.root, p.cwd, p.position = w.root, w.cwd, positionOf(s, t)
		p.rules = l.rulesOf(s)
		sel = l.toolSelection(s, t, turn)
		return nil
	}); err != nil {
		return nil, err
	}
	conv, err := l.transcripts.conversationAt(l.ctx, k, p.position)
	if err != nil {
		return nil, err
	}
	p.history, p.turns = conv.tokens, len(conv.marks)
	if in, ok := conv.inputs[turnID]; ok {
		m, err := userMessage(l.ctx, l.opt.Store, in)
		if err != nil {
			return nil, err
		}
		p.input = model.EstimateMessage(m)
		p.vision = hasPicture(m)
	}
	p.inventory = l.opt.Tools.Resolve(sel)
	p.instructions = l.contextText("instructions", l.opt.Instructions)
	l.readContextFiles(p)
	return p, nil
}

func hasPicture(m *model.Message) bool {
	for _, x := range m.Media {
		if strings.HasPrefix(x.MediaType, "image/") {
			return true
		}
	}
	return false
}

// workplace is where a turn works.
func (l *Loop) workplace(s *state.Session, t *state.Thread, turn *state.Turn) workplace {
	return l.Configuration().workplace(s, t, turn)
}

// CheckCwd refuses a folder that no turn of a session would work in.
func (l *Loop) CheckCwd(s *state.Session, cwd string) error {
	if root := l.Configuration().rootOf(s); !pathWithin(root, pathBelow(root, cwd)) {
		return fault.Param("options.cwd", "%q is not in the workspace %s; use a path relative to it", cwd, root)
	}
	return nil
}

// pathWithin reports whether a path is a folder or lies below it.
func pathWithin(root, path string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, string(filepath.Separator))+string(filepath.Separator))
}

// pathBelow is a path as it is meant within a folder.
func pathBelow(root, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(root, path)
}

// optionsOf returns the turn's options, or none.
func optionsOf(turn *state.Turn) event.TurnOptions {
	if turn == nil || turn.Options == nil {
		return event.TurnOptions{}
	}
	return *turn.Options
}

// readContextFiles reads the files that every turn's context has, if they are there.
func (l *Loop) readContextFiles(p *preparation) {
	if !slices.ContainsFunc(contextFiles, func(name string) bool { return !lacks(p.root, name) }) {
		return
	}
	root, err := l.openRoot(p.root)
	if err != nil {
		p.omissions = append(p.omissions, event.ContextOmission{Kind: "file", Ref: p.root, Reason: "the workspace can't be read: " + fileErrorReason(err)})
		return
	}
	defer func() { _ = root.Close() }() // it was only read
	denied := permission.NewCover(p.rules, p.root)
	for _, name := range contextFiles {
		b, err := l.readSmall(root, p.root, name, denied)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			p.omissions = append(p.omissions, event.ContextOmission{Kind: "file", Ref: name, Reason: fileErrorReason(err)})
		default:
			p.files = append(p.files, l.contextText(name, string(b)))
		}
	}
}

// digestPrefix is before every digest in facts. Those of contexts lacked it once.
const digestPrefix = "sha256:"

// contextText is a text as it goes into the context: without secrets.
func (l *Loop) contextText(name, text string) contextFile {
	clean := []byte(l.redactText(text))
	digest := sha256.Sum256(clean)
	return contextFile{name: name, content: clean, digest: digestPrefix + hex.EncodeToString(digest[:])}
}

// fileErrorReason is the part of a file error that says what is wrong, without the path.
func fileErrorReason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// emitPrepared records the turn's context, tools and model. configurationRef is the
// configuration's if no fact of the same decision names it.
func (l *Loop) emitPrepared(tx *session.Tx, t *state.Thread, turn *state.Turn, p *preparation, configurationRef string) {
	scope := scopeOf(t, turn)
	conf, resting := l.Configuration(), l.limiter.Resting()
	ask := conf.Ask(tx.State, t, turn, resting, tx.Now()).ForTask(TaskProfile(tx.State, turn))
	ask = p.needs(ask, turn)
	routing := model.Route(conf.Models, ask)
	if routing.Selected != nil && !routing.Selected.Can(model.CapTools) {
		without := *p
		without.inventory = l.opt.Tools.Resolve(tool.Selection{Tools: []string{}}) // none is sent to it
		p = &without
	}
	resolved := p.resolved(tx, t)
	if routing.Selected != nil {
		resolved.ContextWindow = routing.Selected.ContextWindow
	}
	tx.Emit(event.Event{Type: event.TypeContextResolved, Scope: scope, Payload: resolved})
	toolScope := scope
	toolScope.ToolCallID, toolScope.StepID = event.NotApplicable, event.NotApplicable
	tx.Emit(event.Event{Type: event.TypeToolCatalogResolved, Scope: toolScope, Payload: p.catalogue(tx, t)})
	tx.Emit(event.Event{Type: event.TypeTaskProfileResolved, Scope: scope, Payload: ask.Profile()})
	set := routing.CandidateSet()
	set.Resting, set.ConfigurationRef = restingModels(resting, tx.Now()), configurationRef
	tx.Emit(event.Event{Type: event.TypeRoutingCandidatesResolved, Scope: scope, Payload: set})
	decided, payload := routing.Event()
	tx.Emit(event.Event{Type: decided, Scope: scope, Payload: payload})
	if routing.Selected == nil && ask.Cost == model.BudgetBlocked {
		l.outOfBudget(tx, scope, routing.Excluded)
	}
}

// outOfBudget says that it is the spent budget which leaves a turn without a model.
func (l *Loop) outOfBudget(tx *session.Tx, scope event.Scope, excluded []event.Exclusion) {
	for _, x := range excluded {
		if x.Category == model.ExcludedQuota {
			cost := &tx.State.Routing.Cost
			tx.Emit(event.Event{Type: event.TypeQuotaBlocked, Scope: scope, Payload: l.opt.Budget.Standing(cost.TotalUSD, cost.Unpriced).Blocked("")})
			return
		}
	}
}

// needs adds what the turn needs of a model. Tools that it asked for are indispensable;
// those that are merely offered it goes on without if no model can use them.
func (p *preparation) needs(ask model.Ask, turn *state.Turn) model.Ask {
	if p.vision {
		ask = ask.Needing([]string{model.CapVision}, nil, 0)
	}
	tools := []string{model.CapTools}
	switch {
	case len(optionsOf(turn).Tools) > 0:
		ask = ask.Needing(tools, nil, 0)
	case len(p.inventory.Offered()) > 0:
		ask = ask.Needing(tools, tools, 0)
	}
	return ask.Needing(nil, nil, p.history+p.input)
}

// resolved says what goes into the context. A file that didn't change is not
// stored again.
func (p *preparation) resolved(tx *session.Tx, t *state.Thread) *event.ContextResolved {
	out := &event.ContextResolved{Items: []event.ContextItem{p.instructions.item(tx, t, "instructions")}, Omissions: p.omissions}
	out.Items = append(out.Items, roleOf(tx.State, t)...)
	if p.turns > 0 {
		out.Items = append(out.Items, event.ContextItem{Kind: "history", Title: fmt.Sprintf("%d earlier turns", p.turns), Tokens: p.history})
	}
	if c := t.Context; c != nil && c.Boundary != nil && !c.Boundary.Stale {
		out.Items = append(out.Items, event.ContextItem{Kind: "summary", Title: "earlier turns in short", Ref: c.Boundary.SummaryRef})
	}
	for _, f := range p.files {
		item := f.item(tx, t, "file")
		out.Items = append(out.Items, item)
		out.EstimatedTokens += item.Tokens
	}
	out.Items = append(out.Items, event.ContextItem{Kind: "tool_inventory", Title: fmt.Sprintf("%d tools", len(p.inventory.Entries)), Digest: p.inventory.Digest})
	out.EstimatedTokens += p.history + p.input
	return out
}

// item is the text as an item of the context.
func (f contextFile) item(tx *session.Tx, t *state.Thread, kind string) event.ContextItem {
	item := event.ContextItem{Kind: kind, Title: f.name, Digest: f.digest, Tokens: model.EstimateText(string(f.content))}
	if item.Ref = earlierRef(t, kind, f); item.Ref == "" {
		item.Ref = tx.Blob(f.content, "text/plain; charset=utf-8")
	}
	return item
}

// earlierRef is where an item's text is stored, if the turn before had the same.
func earlierRef(t *state.Thread, kind string, f contextFile) string {
	if t.Context == nil || t.Context.Resolved == nil {
		return ""
	}
	for _, item := range t.Context.Resolved.Items {
		if item.Kind == kind && item.Title == f.name && strings.TrimPrefix(item.Digest, digestPrefix) == strings.TrimPrefix(f.digest, digestPrefix) {
			return item.Ref
		}
	}
	return ""
}

// catalogue says which tools the turn may use: the whole list when it changed, a
// reference to it otherwise.
func (p *preparation) catalogue(tx *session.Tx, t *state.Thread) *event.ToolCatalogResolved {
	if inv := t.Inventory; inv != nil && inv.Digest == p.inventory.Digest && inv.InventoryRef != "" {
		return &event.ToolCatalogResolved{ToolCount: int64(len(p.inventory.Entries)), Digest: inv.Digest, InventoryRef: inv.InventoryRef}
	}
	out := p.inventory.Payload()
	full, err := p.inventory.JSON()
	if err == nil { // a schema that isn't JSON keeps its tool out of the inventory
		out.InventoryRef = tx.Blob(full, "application/json")
	}
	for i := range out.Tools {
		out.Tools[i].InputSchema, out.Tools[i].Description = nil, "" // they are behind the reference
	}
	return out
}

// emitFallback chooses the next model of the chain.
func (l *Loop) emitFallback(tx *session.Tx, t *state.Thread, e Fallback) {
	turn, resting := t.Active, l.limiter.Resting()
	next, ok := l.Configuration().FallbackFor(tx.State, t, e.Cause, resting, tx.Now())
	if !ok {
		l.emitTurnFailed(tx, t, FailTurn{turn.TurnID, "model_failed", e.Cause + ": " + turn.Call.Message})
		return
	}
	p := next.Decision()
	p.Resting, p.ConfigurationRef = restingModels(resting, tx.Now()), l.configurationRef(tx)
	tx.Emit(event.Event{Type: event.TypeRoutingFallbackApplied, Scope: scopeOf(t, turn), Payload: p})
	emitRunStatus(tx, scopeOf(t, turn), "retrying", "another model is asked: "+p.DecisionReason, "")
}

// findModel finds a model that was chosen.
func (l *Loop) findModel(provider, name string) (model.Info, model.Provider, error) {
	for _, i := range l.offer.Load().Models {
		if i.Provider == provider && i.Model == name {
			if p := l.providers[provider]; p != nil {
				return i, p, nil
			}
		}
	}
	return model.Info{}, nil, fmt.Errorf("%w: %s/%s", errNoModel, provider, name)
}

// errNoModel says that a model was chosen that the configuration has no more.
var errNoModel = errors.New("loop: the model is no longer configured")

// rerouteTurn chooses another model for a turn whose model is gone from the
// configuration since it was chosen.
func (l *Loop) rerouteTurn(k key, decided Effect, turnID string) error {
	p, err := l.gatherPreparation(k, turnID)
	if err != nil {
		return err
	}
	return l.emitIfNext(k, decided, func(tx *session.Tx, t *state.Thread) error {
		l.emitPrepared(tx, t, t.Active, p, l.configurationRef(tx))
		return nil
	})
}
