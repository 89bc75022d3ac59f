package acp

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// session is a session that the client has open.
type session struct {
	a        *Agent
	id       string
	threadID string
	root     string
	// ctx is that of the goroutine that follows the session's facts, stop ends it,
	// and ended is closed when it is gone.
	ctx   context.Context
	stop  context.CancelFunc
	ended chan struct{}

	mu    sync.Mutex
	mode  string
	model string
	// prompt is the one that waits for its turn to end.
	prompt *promptCall
	// own are the turns whose input the client sent.
	own map[string]bool
	// asked holds, for each action that was put to the client, how to withdraw it.
	asked map[string]context.CancelFunc
	// question is the action that the next prompt answers.
	question *turnview.Action
	// before are contents of files that the client gave, by tool call.
	before map[string]string
}

// view is the part of a session's snapshot that is needed here.
type view struct {
	Sequence  uint64           `json:"sequence"`
	Title     string           `json:"title"`
	Workspace *event.Workspace `json:"workspace"`
	Threads   []struct {
		ThreadID       string `json:"threadId"`
		ParentThreadID string `json:"parentThreadId"`
		Role           string `json:"role"`
		ActiveTurnID   string `json:"activeTurnId"`
		Turns          []struct {
			TurnID  string             `json:"turnId"`
			Options *event.TurnOptions `json:"options"`
		} `json:"turns"`
	} `json:"threads"`
}

func (a *Agent) sessionView(ctx context.Context, sessionID string) (*view, error) {
	none := 0
	if !event.ValidID(sessionID) || sessionID == event.RuntimeSession {
		return nil, fault.New(fault.NotFound, "there is no session %.80q", sessionID)
	}
	return runCommand[view](ctx, a, &command.GetSession{SessionID: sessionID, Limit: &none})
}

// rootOf is the folder that a session works in.
func (a *Agent) rootOf(v *view) string {
	if v.Workspace != nil && v.Workspace.Root != "" {
		return v.Workspace.Root
	}
	return a.opt.Root
}

func (a *Agent) newSession(ctx context.Context, p *sessionParams) (any, func(), error) {
	if err := p.check(); err != nil {
		return nil, nil, err
	}
	made, err := runCommand[command.CreateSessionResult](ctx, a, &command.CreateSession{
		Workspace: &event.Workspace{Root: filepath.Clean(p.Cwd)}, Metadata: jsonObject("channel", "acp"),
	})
	if err != nil {
		return nil, nil, err
	}
	s := a.newOpen(made.SessionID, made.ThreadID, filepath.Clean(p.Cwd))
	res, err := s.sessionResult(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	res.SessionID = s.id
	v, err := a.sessionView(ctx, s.id)
	if err != nil {
		return nil, nil, err
	}
	return res, s.registerSession(v.Sequence, nil), nil
}

// check refuses what can't be done.
func (p *sessionParams) check() error {
	if !filepath.IsAbs(p.Cwd) {
		return errorf(fault.RPCInvalidParams, "cwd: %.200q is not an absolute path", p.Cwd)
	}
	if len(p.AdditionalDirectories) > 0 {
		return errorf(fault.RPCInvalidParams, "additionalDirectories: not supported; a session has one folder")
	}
	return nil
}

// newOpen returns a session that isn't followed yet. It lives as long as the
// connection, not as long as the request that opens it.
func (a *Agent) newOpen(id, threadID, root string) *session {
	s := &session{
		a: a, id: id, threadID: threadID, root: root, ended: make(chan struct{}),
		own: map[string]bool{}, asked: map[string]context.CancelFunc{}, before: map[string]string{},
	}
	s.ctx, s.stop = context.WithCancel(a.ctx)
	return s
}

// registerSession makes a session known, and returns what is done once the client knows
// it too: following its facts.
func (s *session) registerSession(after uint64, pending []turnview.Action) (then func()) {
	s.a.mu.Lock()
	s.a.sessions[s.id] = s
	s.a.mu.Unlock()
	return func() {
		started := s.a.spawn(func() {
			defer close(s.ended)
			s.followFacts(after, pending)
		})
		if !started {
			close(s.ended)
		}
	}
}

// findSession returns an open session.
func (a *Agent) findSession(id string) (*session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.sessions[id]; s != nil {
		return s, nil
	}
	return nil, errorf(codeNotFound, "session %.80q is not open: call session/new, session/load or session/resume first", id)
}

// reopenSession prepares a session that exists for load and resume.
func (a *Agent) reopenSession(ctx context.Context, p *sessionParams) (*session, *view, *sessionResult, error) {
	if err := p.check(); err != nil {
		return nil, nil, nil, err
	}
	v, err := a.sessionView(ctx, p.SessionID)
	if err != nil {
		return nil, nil, nil, err
	}
	root := a.rootOf(v)
	if root != "" && !sameFolder(root, p.Cwd) {
		return nil, nil, nil, errorf(fault.RPCInvalidParams, "cwd: the session's folder is %s", root)
	}
	s := a.newOpen(p.SessionID, v.mainThread(), root)
	s.model = v.lastModel()
	res, err := s.sessionResult(ctx, p)
	if err != nil {
		return nil, nil, nil, err
	}
	a.releaseSession(p.SessionID)
	if a.opt.TakeUp != nil {
		err = a.opt.TakeUp(ctx, p.SessionID)
	}
	return s, v, res, err
}

// sameFolder compares two paths, through links where they can be read.
func sameFolder(x, y string) bool {
	if filepath.Clean(x) == filepath.Clean(y) {
		return true
	}
	rx, errX := filepath.EvalSymlinks(x)
	ry, errY := filepath.EvalSymlinks(y)
	return errX == nil && errY == nil && rx == ry
}

// mainThread is the first that is no child of another here: the parent of a fork is
// in another session.
func (v *view) mainThread() string {
	if i := v.main(); i >= 0 {
		return v.Threads[i].ThreadID
	}
	return ""
}

func (v *view) main() int {
	here := map[string]bool{}
	for i := range v.Threads {
		here[v.Threads[i].ThreadID] = true
	}
	for i := range v.Threads {
		if !here[v.Threads[i].ParentThreadID] {
			return i
		}
	}
	return -1
}

// lastModel is the model that the last turn was given.
func (v *view) lastModel() string {
	i := v.main()
	if i < 0 {
		return ""
	}
	for _, t := range slices.Backward(v.Threads[i].Turns) {
		if t.Options != nil && t.Options.Model != "" {
			return t.Options.Model
		}
	}
	return ""
}

func (a *Agent) loadSession(ctx context.Context, p *sessionParams) (any, func(), error) {
	s, _, res, err := a.reopenSession(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	last, pending, err := s.sendHistory(ctx)
	if err != nil {
		return nil, nil, err
	}
	return res, s.registerSession(last, pending), nil
}

func (a *Agent) resumeSession(ctx context.Context, p *sessionParams) (any, func(), error) {
	s, v, res, err := a.reopenSession(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	pending, err := s.pendingActions(ctx)
	if err != nil {
		return nil, nil, err
	}
	return res, s.registerSession(v.Sequence, pending), nil
}

// closeSession stops what the session does and forgets it here.
func (a *Agent) closeSession(ctx context.Context, p *sessionParams) (any, func(), error) {
	s, err := a.findSession(p.SessionID)
	if err != nil {
		return nil, nil, err
	}
	if err := s.interruptTurn(ctx, "the client closed the session"); err != nil {
		return nil, nil, err
	}
	s.awaitPrompt(ctx)
	a.releaseSession(p.SessionID)
	return &offered{}, nil, nil
}

// releaseSession forgets a session and waits until nothing of it is sent any more.
func (a *Agent) releaseSession(id string) {
	a.mu.Lock()
	s := a.sessions[id]
	delete(a.sessions, id)
	a.mu.Unlock()
	if s != nil {
		s.stop()
		<-s.ended
	}
}

// listPage is how many sessions a page has: each costs a look at its snapshot.
const listPage = 50

func (a *Agent) listSessions(ctx context.Context, p *listParams) (any, func(), error) {
	page, err := runCommand[command.ListSessionsResult](ctx, a, &command.ListSessions{Page: command.Page{Limit: listPage, Cursor: p.Cursor}})
	if err != nil {
		return nil, nil, err
	}
	res := &listResult{Sessions: []sessionInfo{}, NextCursor: page.NextCursor}
	for i := range page.Sessions {
		one := &page.Sessions[i]
		if one.SessionID == event.RuntimeSession {
			continue
		}
		v, err := a.sessionView(ctx, one.SessionID)
		if err != nil {
			return nil, nil, err
		}
		root := a.rootOf(v)
		if p.Cwd != "" && !sameFolder(root, p.Cwd) {
			continue
		}
		res.Sessions = append(res.Sessions, sessionInfo{
			SessionID: one.SessionID, Cwd: root, Title: v.Title, UpdatedAt: one.UpdatedAt.UTC().Format(time.RFC3339),
		})
	}
	return res, nil, nil
}
