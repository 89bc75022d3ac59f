package loop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/workspace"
)

// takenBack is what a rollback takes back.
type takenBack struct {
	root     string
	rules    []event.PolicyRule
	toTurn   string
	baseline uint64
	turns    []string
	changes  []workspace.Turned
	// inherited is what is rolled back of a fork's inherited history; nil if nothing is.
	inherited *inheritedRollback
	tools     []string
	artefact  []string
	children  []string
	jobs      []string
	// found is what turns did that may have been taken back before.
	found []finding
	// since is the fact that gave the session the place that it has; 0 if it always had it.
	since uint64
}

// finding is something that a turn did, and the list that it belongs to if the turn is
// taken back now.
type finding struct {
	turnID, id string
	list       *[]string
}

// rollbackThread takes turns back, with the files that they changed if that is
// wanted. Nothing is deleted: the facts stay, and the rollback is one of them.
func (l *Loop) rollbackThread(ctx context.Context, caller command.Caller, p *command.RollbackThread) (*command.RollbackThreadResult, error) {
	b, err := l.toTakeBack(ctx, caller, p)
	if err != nil {
		return nil, err
	}
	if p.Preview {
		return l.previewRollback(ctx, b, p)
	}
	policy := p.Files
	if policy == "" {
		policy = "keep"
	}
	id := l.m.NewID(event.PrefixRollback)
	l.markOwnCall(id, true)
	defer l.markOwnCall(id, false)
	intent := *p
	intent.IdempotencyKey = "" // the key belongs to the outcome
	if _, err := session.Write(ctx, l.m, caller, &intent, p.SessionID, event.BySession, func(tx *session.Tx) (*struct{}, error) {
		t := tx.State.Thread(p.ThreadID)
		if err := requireQuietThread(tx.State, t, p.ThreadID); err != nil {
			return nil, err
		}
		tx.Emit(event.Event{Type: event.TypeHistoryRollbackStarted, Scope: event.Scope{ThreadID: p.ThreadID}, Payload: &event.RollbackStarted{
			RollbackID: id, ToTurnID: b.toTurn, RemovedTurns: b.removed(), Files: policy, Force: p.Force, BaselineSequence: b.baseline,
			Origin: b.inherited.point(), InheritedTurns: b.inherited.count(), RequestedBy: session.ActorOf(caller),
		}})
		return &struct{}{}, nil
	}); err != nil {
		return nil, err
	}
	// The intent is recorded: from here on it is carried out, whether or not the caller still waits.
	ctx = context.WithoutCancel(ctx)
	files, err := l.takeBack(ctx, b, policy, p.Force)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the rollback was started and will be finished when agentd restarts")
	}
	return session.Write(ctx, l.m, caller, p, p.SessionID, event.BySession, func(tx *session.Tx) (*command.RollbackThreadResult, error) {
		tx.Emit(b.completed(id, p.ThreadID, files))
		return &command.RollbackThreadResult{RemovedTurns: b.removed(), Files: files}, nil
	})
}

// requireQuietThread refuses to take back turns of a thread at work.
func requireQuietThread(s *state.Session, t *state.Thread, threadID string) error {
	switch {
	case t == nil:
		return fault.New(fault.NotFound, "there is no open thread %s in session %s", threadID, s.SessionID)
	case t.Busy():
		return fault.New(fault.Conflict, "thread %s is running; use interrupt_turn with queue: clear first", threadID)
	case s.History.RollingBack(threadID) != nil:
		return fault.New(fault.Conflict, "a rollback of thread %s is already running", threadID)
	case t.Context != nil && t.Context.Running != nil:
		return fault.New(fault.Conflict, "thread %s is being compacted", threadID)
	}
	return nil
}

// toTakeBack finds the turns after the one that stays, and what they did.
func (l *Loop) toTakeBack(ctx context.Context, caller command.Caller, p *command.RollbackThread) (*takenBack, error) {
	b := &takenBack{toTurn: p.ToTurnID}
	var through uint64
	var origin *event.ForkPoint
	if err := l.m.OwnAs(ctx, caller, p.SessionID, func(s *state.Session) error {
		t := s.Thread(p.ThreadID)
		if err := requireQuietThread(s, t, p.ThreadID); err != nil {
			return err
		}
		b.root, through, origin = l.workplace(s, t, nil).root, s.Sequence, s.Origin(t)
		b.rules, b.since = l.rulesOf(s), s.FilesSince
		for _, turn := range t.Recent {
			if turn.TurnID == p.ToTurnID {
				b.baseline = turn.EndSequence
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	switch {
	case p.ToStart:
		b.toTurn = event.NotApplicable
	case b.baseline == 0:
		turn, err := l.oldTurn(ctx, p)
		if err != nil && (origin == nil || fault.KindOf(err) != fault.NotFound) {
			return nil, err
		}
		if turn != nil {
			b.baseline = turn.EndSequence
		}
	}
	if origin != nil && b.baseline == 0 {
		var err error
		if b.inherited, err = l.findInherited(ctx, origin, b.toTurn); err != nil {
			return nil, err
		}
	}
	if err := l.readBack(ctx, b, p.SessionID, p.ThreadID, through); err != nil {
		return nil, err
	}
	return b, nil
}

// oldTurn finds a turn that left the working set.
func (l *Loop) oldTurn(ctx context.Context, p *command.RollbackThread) (*state.Turn, error) {
	missing := fault.New(fault.NotFound, "there is no finished turn %s in thread %s", p.ToTurnID, p.ThreadID)
	turn, err := oldTurn(ctx, l.opt.Store, p.SessionID, p.ToTurnID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, missing
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the turn can't be read")
	}
	if turn.ThreadID != p.ThreadID || turn.EndSequence == 0 {
		return nil, missing
	}
	return turn, nil
}

// readBack collects what the turns after the baseline did.
func (l *Loop) readBack(ctx context.Context, b *takenBack, sessionID, threadID string, through uint64) error {
	gone := map[string]bool{}
	for rec, err := range l.opt.Store.Read(ctx, sessionID, store.Range{After: b.baseline, Before: through + 1}) {
		if errors.Is(err, store.ErrTrimmed) {
			return fault.Wrap(fault.Conflict, err, "the earlier events of thread %s were removed by retention, so its turns can't be rolled back", threadID)
		}
		if err != nil {
			return fault.Wrap(fault.Unavailable, err, "the session's facts can't be read")
		}
		e, err := decodeIf(ctx, l.opt.Store, rec, threadID, takesPart)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "a fact can't be read")
		}
		if e == nil {
			continue
		}
		b.recordFact(e, gone)
	}
	if gone[b.toTurn] && b.inherited == nil {
		return fault.New(fault.NotFound, "turn %s was rolled back and is no longer part of thread %s", b.toTurn, threadID)
	}
	b.turns = slices.DeleteFunc(b.turns, func(id string) bool { return gone[id] })
	b.changes = slices.DeleteFunc(b.changes, func(t workspace.Turned) bool { return gone[t.TurnID] })
	for _, f := range b.found {
		if !gone[f.turnID] {
			*f.list = append(*f.list, f.id)
		}
	}
	if b.turns == nil {
		b.turns = []string{}
	}
	return nil
}

// takesPart reports whether facts of a type say what a turn did.
func takesPart(t event.Type) bool {
	switch t { //nolint:exhaustive // the rest leaves nothing to take back
	case event.TypeTurnStarted, event.TypeToolResult, event.TypeToolFailed, event.TypeArtifactChanged, event.TypeSubagentSpawned,
		event.TypeJobCreated, event.TypeHistoryRollbackCompleted:
		return true
	}
	return false
}

func (b *takenBack) recordFact(e *event.Event, gone map[string]bool) {
	switch p := e.Payload.(type) {
	case *event.TurnStarted:
		b.turns = append(b.turns, e.TurnID)
		b.changes = append(b.changes, workspace.Turned{TurnID: e.TurnID})
	case *event.ToolResult:
		b.recordFinding(e, e.ToolCallID, &b.tools)
		b.changed(e, p.ChangedFiles)
	case *event.ToolFailed:
		b.recordFinding(e, e.ToolCallID, &b.tools)
		b.changed(e, p.ChangedFiles)
	case *event.ArtifactChanged:
		b.recordFinding(e, e.ArtifactID, &b.artefact)
	case *event.SubagentSpawned:
		b.recordFinding(e, e.SubagentID, &b.children)
	case *event.JobCreated:
		b.recordFinding(e, e.JobID, &b.jobs)
	case *event.RollbackCompleted:
		for _, id := range ownTurns(p) {
			// Taken back before. Whether its files were is another matter: if they were
			// kept, they are still there to be taken back with.
			gone[id] = true
		}
	}
}

// recordFinding keeps what a turn did until it is known which turns are taken back now.
func (b *takenBack) recordFinding(e *event.Event, id string, list *[]string) {
	b.found = append(b.found, finding{e.TurnID, id, list})
}

func (b *takenBack) changed(e *event.Event, files []event.FileChange) {
	i := len(b.changes) - 1
	if i < 0 || len(files) == 0 || b.changes[i].TurnID != e.TurnID {
		return
	}
	elsewhere := elsewhereBefore(b.since, e.Sequence)
	if len(b.changes[i].Files) > 0 && b.changes[i].Elsewhere != elsewhere {
		b.changes = append(b.changes, workspace.Turned{TurnID: e.TurnID}) // the session was moved in the middle of the turn
		i++
	}
	b.changes[i].Files, b.changes[i].Elsewhere = append(b.changes[i].Files, files...), elsewhere
}

// elsewhereBefore says why what a fact tells of files is not about the place that the session
// has since another fact; empty if it is.
func elsewhereBefore(since, sequence uint64) string {
	if sequence >= since {
		return ""
	}
	return fmt.Sprintf("it was changed in the place that the session had until event %d, which can't be seen from here", since)
}

// previewRollback says what would happen.
func (l *Loop) previewRollback(ctx context.Context, b *takenBack, p *command.RollbackThread) (*command.RollbackThreadResult, error) {
	res := &command.RollbackThreadResult{RemovedTurns: b.removed(), Files: []event.RollbackFile{}}
	var err error
	switch {
	case p.Files != "restore":
		res.Files = b.kept()
	case l.opt.Vault == nil:
		res.Files = b.unavailable()
	default:
		if res.Files, err = l.opt.Vault.Preview(ctx, b.root, b.changes, workspace.ApplyOptions{Force: p.Force}); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "the workspace can't be read")
		}
		res.Files = b.inherited.beside(res.Files)
	}
	if p.Diff && l.opt.Vault != nil {
		if res.Diff, err = l.opt.Vault.Diff(ctx, b.root, b.changes, workspace.DiffOptions{Redact: l.redactText, Hidden: b.hides()}); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "the workspace can't be compared")
		}
	}
	if res.Files == nil {
		res.Files = []event.RollbackFile{}
	}
	return res, nil
}

// takeBack restores the files, if that is wanted.
func (l *Loop) takeBack(ctx context.Context, b *takenBack, policy string, force bool) ([]event.RollbackFile, error) {
	switch {
	case policy != "restore":
		return b.kept(), nil
	case l.opt.Vault == nil:
		return b.unavailable(), nil
	}
	files, err := l.opt.Vault.Apply(ctx, b.root, b.changes, workspace.ApplyOptions{Force: force})
	if err != nil {
		return nil, fmt.Errorf("loop: rollback: %w", err)
	}
	files = b.inherited.beside(files)
	if files == nil {
		files = []event.RollbackFile{}
	}
	return files, nil
}

// hides reports the paths that a rule denies reading: what a tool may not read, its
// earlier contents don't tell either.
func (b *takenBack) hides() func(path string) bool {
	denied := (&guarded{rules: b.rules}).denied(b.root)
	if denied == nil {
		return nil
	}
	return func(path string) bool { return denied(filepath.Join(b.root, path)) }
}

func (b *takenBack) kept() []event.RollbackFile { return b.listFiles("kept", "") }

func (b *takenBack) unavailable() []event.RollbackFile {
	return b.listFiles("unavailable", "this runtime keeps no earlier contents")
}

// listFiles lists every changed file once, with the same outcome.
func (b *takenBack) listFiles(change, why string) []event.RollbackFile {
	out := []event.RollbackFile{}
	for _, t := range b.changes {
		for _, f := range t.Files {
			if !slices.ContainsFunc(out, func(x event.RollbackFile) bool { return x.Path == f.Path }) {
				out = append(out, event.RollbackFile{Path: f.Path, Change: change, Reason: why})
			}
		}
	}
	if change == "kept" {
		return b.inherited.kept(out)
	}
	return b.inherited.beside(out)
}

// removed lists the turns that go, the inherited ones first.
func (b *takenBack) removed() []string {
	if b.inherited == nil {
		return b.turns
	}
	return slices.Concat(b.inherited.turns, b.turns, []string{})
}

func (b *takenBack) completed(id, threadID string, files []event.RollbackFile) event.Event {
	return event.Event{Type: event.TypeHistoryRollbackCompleted, Scope: event.Scope{ThreadID: threadID}, Payload: &event.RollbackCompleted{
		RollbackID: id, ToTurnID: b.toTurn, RemovedTurns: b.removed(), BaselineSequence: b.baseline,
		Origin: b.inherited.point(), InheritedTurns: b.inherited.count(),
		AffectedTools: b.tools, AffectedArtifacts: b.artefact, AffectedSubagents: b.children, AffectedJobs: b.jobs,
		Files: files, ReadModelRepaired: true,
	}}
}

// recoverRollbacks finishes the rollbacks of a session that were begun.
func (l *Loop) recoverRollbacks(ctx context.Context, sessionID string) error {
	var begun []state.Rollback
	var root string
	var since uint64
	origins := map[string]*event.ForkPoint{}
	err := l.m.View(ctx, sessionID, func(s *state.Session) error {
		begun, since = slices.Clone(s.History.RunningRollbacks), s.FilesSince
		for _, r := range begun {
			if t := s.Thread(r.ThreadID); t != nil {
				root, origins[r.ThreadID] = l.workplace(s, t, nil).root, s.Origin(t)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range begun {
		if l.isOurs(r.RollbackID) {
			continue
		}
		b := &takenBack{root: root, toTurn: r.ToTurnID, baseline: r.BaselineSequence, since: since}
		if origin := origins[r.ThreadID]; r.Origin != nil && origin != nil {
			if b.inherited, err = l.findInherited(ctx, origin, r.ToTurnID); err != nil {
				return err
			}
		}
		if err := l.readBack(ctx, b, sessionID, r.ThreadID, r.Sequence); err != nil {
			return err
		}
		files, err := l.takeBack(ctx, b, r.FilesPolicy, r.Force)
		if err != nil {
			return err
		}
		if err := l.m.Emit(ctx, sessionID, event.BySession, func(tx *session.Tx) error {
			if tx.State.History.RollingBack(r.ThreadID) != nil {
				tx.Emit(b.completed(r.RollbackID, r.ThreadID, files))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
