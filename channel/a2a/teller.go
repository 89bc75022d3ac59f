package a2a

import (
	"context"
	"net/http"
	"sync"
	"time"

	"agentd/channel"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// teller tells peers what becomes of their tasks, and reconciles the tasks' ends. It
// knows which tasks are open; what it knows beyond that is in the facts, and a new
// teller finds it there.
type teller struct {
	s    *Server
	ctx  context.Context //nolint:containedctx // its life, from start to close
	stop context.CancelFunc
	all  sync.WaitGroup
	// tracked says that a task is open: the facts of all sessions are followed only
	// while one is.
	tracked chan struct{}
	// client tells; it follows no redirects.
	client *http.Client

	// left says that something is in leftBy.
	left chan struct{}

	mu sync.Mutex
	// leftBy are the sessions that came to this node, whose tasks are to be taken up; leftAll
	// says that those of all sessions are.
	leftBy  map[string]bool
	leftAll bool
	// byTask and bySession find the open tasks.
	byTask    map[string]*told
	bySession map[string]map[*told]bool
	crew      crew
}

// told is a task with push notifications.
type told struct {
	account string
	rec     *command.PeerTaskRecord
	// queued says that it is in the queue, busy that a worker has it, again that
	// something happened in the meantime.
	queued, busy, again bool
	// timer puts it into the queue after a wait.
	timer *time.Timer
	// tries are the failures in a row, by configuration.
	tries map[string]*tries
}

// tries are failures in a row.
type tries struct {
	count int
	next  time.Time
}

func newTeller(s *Server) *teller {
	t := &teller{s: s, tracked: make(chan struct{}, 1), left: make(chan struct{}, 1), leftBy: map[string]bool{}, byTask: map[string]*told{}, bySession: map[string]map[*told]bool{}}
	t.crew.lines = map[string]*line{}
	t.client = &http.Client{
		Transport: s.opt.Push.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if t.client.Transport == nil {
		t.client.Transport = guarded(s.allowsHost, s.opt.Push.Timeout)
	}
	return t
}

// start begins to tell.
func (t *teller) start(ctx context.Context) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.all.Go(func() { t.listen(ctx) })
	t.all.Go(func() { t.takeUpLeft(ctx) })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx, t.stop = ctx, stop
	for _, l := range t.crew.lines {
		t.hire(l)
	}
}

// close ends the telling and waits for it.
func (t *teller) close() {
	t.mu.Lock()
	if t.stop != nil {
		t.stop()
	}
	t.ctx = nil // no new workers start
	for _, x := range t.byTask {
		if x.timer != nil {
			x.timer.Stop()
		}
	}
	t.mu.Unlock()
	t.all.Wait()
	t.client.CloseIdleConnections()
}

// track has a task looked at now, and whenever something happens in its session
// until it is done with.
func (t *teller) track(account string, rec *command.PeerTaskRecord) {
	id := account + "\x00" + rec.RemoteTaskID
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.byTask[id]
	if x == nil {
		x = &told{account: account, rec: rec, tries: map[string]*tries{}}
		t.byTask[id] = x
		if t.bySession[rec.SessionID] == nil {
			t.bySession[rec.SessionID] = map[*told]bool{}
		}
		t.bySession[rec.SessionID][x] = true
		select {
		case t.tracked <- struct{}{}:
		default:
		}
	}
	t.enqueue(x)
}

// enqueue puts a task into the queue; the caller holds the lock.
func (t *teller) enqueue(x *told) {
	switch {
	case x.busy:
		x.again = true
	case !x.queued:
		x.queued = true
		t.hire(t.crew.add(x))
	}
}

// forget takes a task out; the caller holds the lock.
func (t *teller) forget(x *told) {
	delete(t.byTask, x.account+"\x00"+x.rec.RemoteTaskID)
	in := t.bySession[x.rec.SessionID]
	if delete(in, x); len(in) == 0 {
		delete(t.bySession, x.rec.SessionID)
	}
}

// listen hears of what happens while tasks are open, and first of what an earlier
// process left.
func (t *teller) listen(ctx context.Context) {
	taken := false
	for ctx.Err() == nil {
		if taken && t.idle() {
			select {
			case <-ctx.Done():
			case <-t.tracked:
			}
		}
		if err := t.hear(ctx, &taken); err != nil && ctx.Err() == nil {
			t.s.opt.Logger.Warn("following the facts of A2A tasks was interrupted", "error", err)
			sleepContext(ctx, time.Second)
		}
	}
}

// idle reports whether no task is open.
func (t *teller) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byTask) == 0
}

// hear follows the facts until no task is open. It subscribes before it asks what is
// open, or looks at what is, so that nothing falls between.
func (t *teller) hear(ctx context.Context, taken *bool) error {
	feed, err := t.s.opt.Runtime.SubscribeAll(ctx, command.Local(), "")
	if err != nil {
		return err
	}
	defer feed.Close()
	if !*taken {
		if err := t.takeUp(ctx, func(string) bool { return true }); err != nil {
			return err
		}
		*taken = true
	}
	t.lookAtAll()
	for !t.idle() {
		events, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		t.heard(events)
	}
	return nil
}

// lookAtAll has every open task looked at.
func (t *teller) lookAtAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.byTask {
		t.enqueue(x)
	}
}

// heard has the tasks looked at that facts may concern.
func (t *teller) heard(events []command.Delivered) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var e event.Event
	for i := range events {
		in := t.bySession[events[i].SessionID]
		if len(in) == 0 {
			continue
		}
		if _, err := event.DecodeHeader(events[i].Data, &e); err != nil || !news(e.Type) {
			continue
		}
		for x := range in {
			if x.rec.TaskID == e.TaskID {
				t.enqueue(x)
			}
		}
	}
}

// news reports whether facts of a type can change what a peer gets.
func news(t event.Type) bool {
	switch t { //nolint:exhaustive // the others can't
	case event.TypeTurnStarted, event.TypeTurnCompleted, event.TypeTurnFailed, event.TypeActionRequired, event.TypeActionResolved,
		event.TypeArtifactChanged, event.TypeChannelPeerPushConfigured:
		return true
	}
	return false
}

// leave has the tasks of a session taken up that came to this node, or of all sessions if it
// is empty.
func (t *teller) leave(sessionID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if sessionID == "" {
		t.leftAll = true
	} else {
		t.leftBy[sessionID] = true
	}
	select {
	case t.left <- struct{}{}:
	default:
	}
}

// takeUpLeft takes up what other nodes leave, until ctx ends.
func (t *teller) takeUpLeft(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.left:
		}
		t.mu.Lock()
		all, sessions := t.leftAll, t.leftBy
		t.leftAll, t.leftBy = false, map[string]bool{}
		t.mu.Unlock()
		err := t.takeUp(ctx, func(sessionID string) bool { return all || sessions[sessionID] })
		if err == nil || ctx.Err() != nil {
			continue
		}
		t.s.opt.Logger.Warn("A2A tasks that another node left can't be listed; it is tried again", "error", err)
		sleepContext(ctx, time.Second)
		t.mu.Lock()
		t.leftAll = t.leftAll || all
		for id := range sessions {
			t.leftBy[id] = true
		}
		t.mu.Unlock()
		select {
		case t.left <- struct{}{}:
		default:
		}
	}
}

// takeUp finds what is open in some sessions.
func (t *teller) takeUp(ctx context.Context, in func(sessionID string) bool) error {
	p := &command.ListPeerTasks{NativeProtocol: Protocol, Unsettled: true, All: true}
	for p.Limit = command.MaxPage; ; {
		list, err := channel.ResultOf[command.ListPeerTasksResult](t.s.opt.Runtime.Do(ctx, command.Local(), p))
		if err != nil {
			return err
		}
		for i := range list.PeerTasks {
			if in(list.PeerTasks[i].SessionID) {
				t.track(list.PeerTasks[i].Account, &list.PeerTasks[i])
			}
		}
		if p.Cursor = list.NextCursor; p.Cursor == "" {
			break
		}
	}
	pushes, err := listPushes(&command.ListPeerPushes{NativeProtocol: Protocol, Unfinished: true, All: true}, func(p command.Params) (any, error) {
		return t.s.opt.Runtime.Do(ctx, command.Local(), p)
	})
	if err != nil {
		return err
	}
	for _, push := range pushes {
		rec, err := channel.ResultOf[command.PeerTaskRecord](t.s.opt.Runtime.Do(ctx, host(push.Account), &command.GetPeerTask{PeerTaskKey: taskKey(push.RemoteTaskID)}))
		if err != nil && fault.KindOf(err) == fault.NotFound {
			continue // a push configuration of a task that isn't here must not block the others
		}
		if err != nil {
			return err
		}
		if in(rec.SessionID) {
			t.track(push.Account, rec)
		}
	}
	return nil
}

// host is the caller that acts for the server in an account.
func host(account string) command.Caller {
	return command.Caller{Account: account, Actor: event.Actor{Kind: "host", ID: Protocol, Account: account}}
}

// returnTask takes a task back from a worker.
func (t *teller) returnTask(x *told, wait time.Duration, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.busy = false
	switch {
	case x.again:
		x.again = false
		t.enqueue(x)
	case done:
		t.forget(x)
	case wait > 0:
		if x.timer != nil {
			x.timer.Stop()
		}
		x.timer = time.AfterFunc(wait, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.enqueue(x)
		})
	}
}

// sleepContext waits, or until ctx ends.
func sleepContext(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
