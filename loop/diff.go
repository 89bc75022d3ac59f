package loop

import (
	"context"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/workspace"
)

const (
	// maxDiffShown is how much of a diff is in the answer itself.
	maxDiffShown = 256 << 10
	// maxDiffStored is how much of it stands behind a reference.
	maxDiffStored = 8 << 20
)

// diffQuestion is what get_diff asks about, and what it needs to know of the session.
type diffQuestion struct {
	command.GetDiff
	root  string
	rules []event.PolicyRule
	// from and to bound the facts that are read; head is the session's last one.
	from, to, head uint64
	// since is the fact that gave the session its place.
	since uint64
}

// getDiff returns what was changed in the workspace. It needs no more than the right to
// read the session: what it shows is redacted, and nothing that is kept from tools.
func (l *Loop) getDiff(ctx context.Context, caller command.Caller, p *command.GetDiff) (*command.GetDiffResult, error) {
	q, err := l.askDiff(ctx, caller, p)
	if err != nil {
		return nil, err
	}
	c := &changesRead{l: l, q: q}
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	res, whole, err := c.compare(ctx)
	if err != nil {
		return nil, err
	}
	if len(whole) > maxDiffShown {
		res.Truncated = true
		if res.DiffRef, err = l.storeDiff(ctx, p.SessionID, whole); err != nil {
			return nil, err
		}
	}
	res.Diff = clipLines(whole, maxDiffShown)
	return res, nil
}

// askDiff finds the session and the facts that may tell of the changes.
func (l *Loop) askDiff(ctx context.Context, caller command.Caller, p *command.GetDiff) (*diffQuestion, error) {
	q := &diffQuestion{GetDiff: *p, from: 1}
	if err := l.m.OwnAs(ctx, caller, p.SessionID, func(s *state.Session) error {
		t := s.MainThread()
		if t == nil {
			t = &state.Thread{}
		}
		q.root, q.rules, q.head, q.to = l.workplace(s, t, nil).root, slices.Clone(l.rulesOf(s)), s.Sequence, s.Sequence
		q.since = s.FilesSince
		if turn := findTurn(s, p.TurnID); turn != nil {
			q.from = max(turn.SubmittedSequence, 1)
			if turn.EndSequence > 0 {
				q.to = turn.EndSequence
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	oldest, err := l.m.Oldest(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	switch {
	case p.FromSequence != nil && *p.FromSequence > q.head:
		return nil, fault.Param("fromSequence", "session %s ends at %d", p.SessionID, q.head)
	case p.ToSequence != nil && *p.ToSequence > q.head:
		return nil, fault.Param("toSequence", "session %s ends at %d", p.SessionID, q.head)
	case p.FromSequence != nil && *p.FromSequence < oldest, p.ToSequence != nil && *p.ToSequence < oldest:
		return nil, fault.New(fault.NotFound, "the events of session %s through %d were removed by retention; fromSequence and toSequence can be %d to %d", p.SessionID, oldest-1, oldest, q.head)
	}
	q.from = max(q.from, oldest)
	if p.FromSequence != nil {
		q.from = *p.FromSequence
	}
	if p.ToSequence != nil {
		q.to = *p.ToSequence
	}
	return q, nil
}

// findTurn returns a turn that a session's state still has, or nil.
func findTurn(s *state.Session, turnID string) *state.Turn {
	for _, t := range s.Threads {
		if turn := t.Known(turnID); turn != nil {
			return turn
		}
	}
	return nil
}

// changesRead collects the changes that a question is about.
type changesRead struct {
	l *Loop
	q *diffQuestion
	// found says that there is what was asked about.
	found bool
	// last is the fact behind which other changes follow.
	last    uint64
	changes []workspace.Turned
	// reverted are the paths that a rollback put back to what they were before the range.
	reverted []command.ChangedFile
}

// asks reports whether a fact belongs to what is asked about.
func (q *diffQuestion) asks(e *event.Event) bool {
	switch {
	case q.TurnID != "":
		return e.TurnID == q.TurnID
	case q.ToolCallID != "":
		return e.ToolCallID == q.ToolCallID
	}
	return true
}

func (c *changesRead) read(ctx context.Context) error {
	q := c.q
	c.last = q.to
	for rec, err := range c.l.opt.Store.Read(ctx, q.SessionID, store.Range{After: q.from - 1, Before: q.to + 1}) {
		if err != nil {
			return fault.Wrap(fault.Unavailable, err, "the session's facts can't be read")
		}
		e, payload, err := factHeader(&rec)
		if err != nil {
			return err
		}
		if !q.asks(e) {
			continue
		}
		c.found = true
		if !changesFiles(e.Type) {
			continue
		}
		if err := store.DecodeFactPayload(ctx, c.l.opt.Store, e, payload); err != nil {
			return fault.Wrap(fault.Internal, err, "a fact can't be read")
		}
		if err := c.record(ctx, e); err != nil {
			return err
		}
		if q.ToolCallID != "" && e.Type != event.TypeHistoryRollbackCompleted {
			c.last = e.Sequence
			break // a call has one end
		}
	}
	if !c.found {
		return c.nothing()
	}
	return nil
}

// nothing says that what was asked about isn't there.
func (c *changesRead) nothing() error {
	q, removed := c.q, ""
	if q.from > 1 && q.FromSequence == nil {
		removed = "; its first events were removed by retention"
	}
	if q.TurnID != "" {
		return fault.New(fault.NotFound, "there is no turn %s in session %s%s", q.TurnID, q.SessionID, removed)
	}
	return fault.New(fault.NotFound, "there is no tool call %s in session %s%s", q.ToolCallID, q.SessionID, removed)
}

func factHeader(rec *store.Record) (*event.Event, []byte, error) {
	e := &event.Event{}
	payload, err := event.DecodeHeader(rec.Data, e)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Internal, err, "a fact can't be read")
	}
	return e, payload, nil
}

// changesFiles reports whether facts of a type tell of changed files.
func changesFiles(t event.Type) bool {
	return t == event.TypeToolResult || t == event.TypeToolFailed || t == event.TypeHistoryRollbackCompleted
}

// filesOf returns what the end of a call says was changed.
func filesOf(e *event.Event) []event.FileChange {
	switch p := e.Payload.(type) {
	case *event.ToolResult:
		return p.ChangedFiles
	case *event.ToolFailed:
		return p.ChangedFiles
	}
	return nil
}

func (c *changesRead) record(ctx context.Context, e *event.Event) error {
	if p, ok := e.Payload.(*event.RollbackCompleted); ok {
		c.revert(p)
		return nil
	}
	files := filesOf(e)
	if len(files) == 0 {
		return nil
	}
	if c.l.opt.Vault != nil {
		var err error
		if files, err = c.l.opt.Vault.Unfold(ctx, files); err != nil {
			return fault.Wrap(fault.Unavailable, err, "the changes can't be read")
		}
	}
	c.changes = append(c.changes, workspace.Turned{TurnID: e.TurnID, Files: files, Elsewhere: elsewhereBefore(c.q.since, e.Sequence)})
	return nil
}

// revert takes out what a rollback in the range took back. What it took back of turns
// before the range is a change of its own.
func (c *changesRead) revert(p *event.RollbackCompleted) {
	if c.q.FromSequence == nil && c.q.ToSequence == nil {
		return // what a turn did is asked for, whatever became of it
	}
	for _, f := range p.Files {
		if f.Change != "restored" && f.Change != "deleted" {
			continue
		}
		here := false
		for i := range c.changes {
			if t := &c.changes[i]; slices.Contains(p.RemovedTurns, t.TurnID) {
				before := len(t.Files)
				t.Files = slices.DeleteFunc(t.Files, func(x event.FileChange) bool { return x.Path == f.Path })
				here = here || len(t.Files) < before
			}
		}
		if !here {
			change := map[string]string{"restored": "modified", "deleted": "deleted"}[f.Change]
			c.reverted = append(c.reverted, command.ChangedFile{Path: f.Path, Change: change, Note: "a rollback took back what earlier turns changed"})
		}
	}
}

// compare makes the answer, and the diff whole.
func (c *changesRead) compare(ctx context.Context) (*command.GetDiffResult, string, error) {
	res := &command.GetDiffResult{Files: []command.ChangedFile{}}
	var whole string
	if c.l.opt.Vault == nil {
		for _, t := range c.changes {
			for _, f := range t.Files {
				res.Files = append(res.Files, command.ChangedFile{Path: f.Path, Change: f.Change, Note: "this runtime keeps no earlier contents"})
			}
		}
	} else {
		files, diff, err := c.l.opt.Vault.Between(ctx, c.q.root, c.changes, workspace.BetweenOptions{
			MaxBytes: maxDiffStored, Redact: c.l.redactText, Hide: c.l.hidesFrom(c.q), Later: c.later(ctx),
		})
		if err != nil {
			return nil, "", fault.Wrap(fault.Unavailable, err, "the changes can't be compared")
		}
		for _, f := range files {
			res.Files = append(res.Files, command.ChangedFile(f))
		}
		whole = diff
	}
	res.Files = append(res.Files, c.reverted...)
	slices.SortStableFunc(res.Files, func(a, b command.ChangedFile) int { return strings.Compare(a.Path, b.Path) })
	return res, whole, nil
}

// later yields the changes behind those that are asked about.
func (c *changesRead) later(ctx context.Context) iter.Seq2[event.FileChange, error] {
	return func(yield func(event.FileChange, error) bool) {
		for rec, err := range c.l.opt.Store.Read(ctx, c.q.SessionID, store.Range{After: c.last, Before: c.q.head + 1}) {
			e, payload, err := laterHeader(&rec, err)
			if err != nil {
				yield(event.FileChange{}, err)
				return
			}
			if !changesFiles(e.Type) {
				continue
			}
			if err := store.DecodeFactPayload(ctx, c.l.opt.Store, e, payload); err != nil {
				yield(event.FileChange{}, err)
				return
			}
			for _, f := range filesOf(e) {
				if !yield(f, nil) {
					return
				}
			}
		}
	}
}

func laterHeader(rec *store.Record, err error) (*event.Event, []byte, error) {
	if err != nil {
		return nil, nil, err
	}
	return factHeader(rec)
}

// hidesFrom says which contents a diff must not show: those that tools of the session
// can't read either.
func (l *Loop) hidesFrom(q *diffQuestion) func(path string) string {
	files := l.callFiles(q.root, q.rules)
	cover := permission.NewCover(q.rules, q.root)
	return func(path string) string {
		at := filepath.Join(q.root, filepath.FromSlash(path))
		if slices.ContainsFunc(files.hidden, func(dir string) bool { return pathWithin(dir, at) }) {
			return "it is hidden from tools"
		}
		if cover != nil {
			if hidden, _, rule := cover.Match(at); hidden {
				return "the rule " + rule + " denies reading it"
			}
		}
		return ""
	}
}

// storeDiff keeps a diff that is too long for an answer, for those who may read the
// session and for as long as outputs are kept. Where the account has used up its storage
// there is no reference: asking is no reason to store more.
func (l *Loop) storeDiff(ctx context.Context, sessionID, text string) (string, error) {
	var ref string
	err := l.m.Emit(ctx, sessionID, event.BySession, func(tx *session.Tx) (err error) {
		ref, err = tx.StoreAnswer([]byte(text), "text/x-diff")
		return err
	})
	return ref, err
}

// clipLines returns the beginning of a text, at most so many bytes and whole lines.
func clipLines(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:strings.LastIndexByte(text[:most], '\n')+1]
}
