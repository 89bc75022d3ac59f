package loop_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/loop"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/tool"
	"agentd/workspace"
)

// A crash is simulated at every write of some scenes: from the n-th write on the
// store takes nothing more, as if the process had died there, and another runtime
// goes on over the same data. Whatever n is, the work must end the same way.

// scene is some work that crashes interrupt.
type scene struct {
	name    string
	answers []script.Answer
	change  func(*agentd.Options)
	turns   int
	// then is done after the turns.
	then func(*crashCase, context.Context) error
	// check looks at the workspace at the end.
	check func(*crashCase)
}

// crashCase is one scene with one crash.
type crashCase struct {
	*testing.T
	scene *scene
	dir   string
	mem   *storetest.Mem
	key   []byte

	r     *agentd.Runtime
	vault *workspace.Vault
	acked map[string]uint64

	mu   sync.Mutex
	runs map[string]int // tool call → how often it ran
	lost bool           // the thread was blocked
	// recovered counts the attempts that a crash made.
	recovered int
}

func (c *crashCase) ran(call *tool.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[call.ToolCallID]++
}

// open starts a runtime over a store.
func (c *crashCase) open(s store.Store) error {
	opt, err := c.options(s)
	if err == nil {
		c.r, err = agentd.Open(context.Background(), opt)
	}
	return err
}

func (c *crashCase) options(s store.Store) (agentd.Options, error) {
	v, err := workspace.New(workspace.Options{Blobs: s, Key: c.key, Inline: 1 << 20})
	if err != nil {
		return agentd.Options{}, err
	}
	c.vault = v
	opt := agentd.Options{Store: s, Provider: script.New("script", &script.Script{Answers: c.scene.answers}), Model: "test", RuntimeID: "runtime_a"}
	opt.Loop.Workspace, opt.Loop.Vault = c.dir, v
	change := runtimetest.WithTools(
		c, runtimetest.ReadOnlyTool("look", func(_ context.Context, call *tool.Call) (*tool.Result, error) {
			c.ran(call)
			return &tool.Result{Output: []byte("seen")}, nil
		}), runtimetest.WritingTool("change", func(_ context.Context, call *tool.Call) (*tool.Result, error) {
			c.ran(call)
			return &tool.Result{Output: []byte("changed")}, nil
		}),
	)
	change(&opt)
	if c.scene.change != nil {
		c.scene.change(&opt)
	}
	return opt, nil
}

// replay decides again what was decided in the scene.
func (c *crashCase) replay() {
	c.Helper()
	runtimetest.DecideAgain(c, c.mem.Node())
}

func (c *crashCase) shut() {
	_ = c.r.Close(context.Background()) // a runtime whose store died can't end well
	_ = c.vault.Close()
}

// client does what is left of the scene: it submits, answers and resumes until all
// turns have ended. It doesn't remember what it did before a crash.
func (c *crashCase) client(ctx context.Context) error {
	for i := range c.scene.turns {
		id := fmt.Sprintf("turn_%d", i+1)
		res, err := c.r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: "sess_a", Create: true, TurnID: id, Input: event.Raw(`"go"`)})
		if err != nil {
			return err
		}
		c.acked[id] = res.(*command.SubmitTurnResult).Sequence
		if err := c.follow(ctx, id); err != nil {
			return err
		}
	}
	if c.scene.then != nil {
		return c.scene.then(c, ctx)
	}
	return nil
}

// follow answers what a turn asks until it has ended.
func (c *crashCase) follow(ctx context.Context, turnID string) error {
	sub, err := c.r.Subscribe(ctx, command.Local(), "sess_a", 0)
	if err != nil {
		return err
	}
	defer sub.Close()
	for {
		if _, err := sub.Next(ctx); err != nil {
			return err
		}
		ended, err := c.help(ctx, turnID)
		if ended || err != nil {
			return err
		}
	}
}

// help does what the thread waits for, if it waits.
func (c *crashCase) help(ctx context.Context, turnID string) (ended bool, err error) {
	var pending, thread string
	var block *state.Block
	if err := c.r.View(ctx, "sess_a", func(s *state.Session) error {
		t := s.MainThread()
		thread, block, ended = t.ThreadID, t.Block, t.Turn(turnID) == nil
		if len(s.Actions.Pending) > 0 {
			pending = s.Actions.Pending[0].ActionID
		}
		return nil
	}); err != nil || ended {
		return ended, err
	}
	switch {
	case block != nil:
		if block.Reason == "" {
			c.Error("blocked without a reason")
		}
		c.lost = true
		_, err = c.r.Do(ctx, command.Local(), &command.ResumeThread{SessionID: "sess_a", ThreadID: thread})
	case pending != "":
		_, err = c.r.Do(ctx, command.Local(), &command.RespondAction{ActionID: pending, Decision: "allow"})
	}
	return false, err
}

// run plays the scene; the process dies at write n unless n is negative. It
// returns how many writes there were.
func (c *crashCase) run(n int, after bool) int {
	c.Helper()
	d := runtimetest.NewDyingStore(storetest.Strict(c, c.mem), n, after)
	err := c.open(d)
	if err == nil {
		ctx, cancel := context.WithCancel(context.Background())
		stop := context.AfterFunc(runtimetest.ContextOf(d.Died), cancel)
		err = c.client(ctx)
		stop()
		cancel()
		c.shut()
	}
	select {
	case <-d.Died:
		c.mem.Expire()
		c.goOn()
	default:
		if err != nil {
			c.Fatalf("without a crash: %v", err)
		}
	}
	return d.Written()
}

// goOn is the next process.
func (c *crashCase) goOn() {
	c.Helper()
	if err := c.open(storetest.Strict(c, c.mem.Node())); err != nil {
		c.Fatal(err)
	}
	if err := c.client(context.Background()); err != nil {
		c.Fatalf("after the crash: %v", err)
	}
	c.shut()
}

// verify holds the end against what must hold after any crash.
func (c *crashCase) verify() {
	c.Helper()
	s := c.mem.Node()
	report, err := session.Verify(context.Background(), s, session.VerifyOptions{})
	if err != nil {
		c.Fatal(err)
	}
	for _, p := range report.Problems {
		c.Error(p)
	}
	facts := runtimetest.FactsOf(c, s, "sess_a")
	for i, e := range facts {
		if e.Sequence != uint64(i+1) {
			c.Fatalf("fact %d where %d belongs", e.Sequence, i+1)
		}
	}
	for id, sequence := range c.acked {
		if e := facts[sequence-1]; e.Type != event.TypeTurnSubmitted || e.TurnID != id {
			c.Errorf("turn %s was acknowledged as fact %d, which is %s", id, sequence, e.Type)
		}
	}
	c.verifyEnds(facts)
	c.verifyCalls(facts)
	c.recovered = c.verifyAttempts(facts)
	if c.scene.check != nil {
		c.scene.check(c)
	}
}

// verifyEnds: whatever was begun has exactly one end.
func (c *crashCase) verifyEnds(facts []*event.Event) {
	c.Helper()
	open := map[string]int{}
	for _, e := range facts {
		switch p := e.Payload.(type) {
		case *event.TurnSubmitted:
			open["turn "+e.TurnID]++
		case *event.TurnCompleted:
			open["turn "+e.TurnID]--
		case *event.TurnFailed:
			c.Errorf("turn %s failed: %+v", e.TurnID, p.Error)
		case *event.ModelRequested:
			open["call "+p.ModelRequestID]++
		case *event.ModelCompleted:
			open["call "+p.ModelRequestID]--
		case *event.ModelFailed:
			open["call "+p.ModelRequestID]--
		case *event.ActionRequired:
			open["action "+e.ActionID]++
		case *event.ActionResolved:
			open["action "+e.ActionID]--
		case *event.CompactionStarted:
			open["compaction "+p.CompactionID]++
		case *event.CompactionCompleted:
			open["compaction "+p.CompactionID]--
		case *event.CompactionFailed:
			open["compaction "+p.CompactionID]--
		case *event.RollbackStarted:
			open["rollback "+p.RollbackID]++
		case *event.RollbackCompleted:
			open["rollback "+p.RollbackID]--
		case *event.ProcessStarted:
			open["process "+p.ProcessID]++
		case *event.ProcessCompleted:
			open["process "+p.ProcessID]--
		case *event.ProcessTerminated:
			open["process "+p.ProcessID]--
		case *event.ProcessFailed:
			open["process "+p.ProcessID]--
		}
	}
	for what, n := range open {
		if n != 0 {
			c.Errorf("%s has %d ends too few", what, n)
		}
	}
}

// verifyCalls: nothing that may change something runs twice, and a call whose
// outcome isn't known is called lost; one that only reads is run again under the same
// start and has one end.
func (c *crashCase) verifyCalls(facts []*event.Event) {
	c.Helper()
	started, readOnly, ends, lost := map[string]int{}, map[string]bool{}, map[string]string{}, false
	for _, e := range facts {
		switch p := e.Payload.(type) {
		case *event.ToolStarted:
			readOnly[e.ToolCallID] = p.IsReadOnly
		case *event.ToolProgress:
			if p.Phase == event.PhaseRunning {
				started[e.ToolCallID]++
			}
		case *event.ToolResult:
			ends[e.ToolCallID] = "ok"
		case *event.ToolFailed:
			ends[e.ToolCallID] = p.ErrorCategory
			lost = lost || p.ErrorCategory == tool.Lost && !readOnly[e.ToolCallID]
		}
	}
	for _, problem := range runtimetest.CallProblems(facts) {
		c.Error(problem)
	}
	for id, n := range started {
		if n > 1 && !readOnly[id] {
			c.Errorf("call %s was started %d times", id, n)
		}
		givenUp := readOnly[id] && n >= int(loop.DefaultPolicy().MaxToolTries) // every time the process died
		if ends[id] != "ok" && (ends[id] != tool.Lost || (readOnly[id] && !givenUp)) {
			c.Errorf("call %s ended with %q", id, ends[id])
		}
	}
	for id, n := range c.runs {
		if n > started[id] || (n > 1 && !readOnly[id]) {
			c.Errorf("call %s ran %d times and was started %d times", id, n, started[id])
		}
	}
	if lost != c.lost {
		c.Errorf("a call was lost: %v; the thread was blocked: %v", lost, c.lost)
	}
}

func newCrashCase(t *testing.T, s *scene) *crashCase {
	return &crashCase{
		T: t, scene: s, dir: t.TempDir(), mem: storetest.NewMem(), acked: map[string]uint64{}, runs: map[string]int{},
		key: []byte(strings.Repeat("k", workspace.KeySize)),
	}
}

// crashEverywhere plays a scene once without a crash, and then once for each write.
func crashEverywhere(t *testing.T, s *scene) {
	t.Helper()
	whole := newCrashCase(t, s)
	writes := whole.run(-1, false) - 1
	whole.verify()
	whole.replay()
	if t.Failed() || whole.lost || whole.recovered > 0 {
		t.Fatalf("the scene itself fails")
	}
	if writes < 10 {
		t.Fatalf("only %d writes: the scene shows too little", writes)
	}
	recovered := 0
	for _, after := range []bool{false, true} {
		for n := range writes {
			name := fmt.Sprintf("before %d", n+1)
			if after {
				name = fmt.Sprintf("after %d", n+1)
			}
			t.Run(name, func(t *testing.T) {
				c := newCrashCase(t, s)
				c.run(n, after)
				c.verify()
				c.replay()
				if c.recovered > 1 {
					t.Errorf("one crash made %d attempts", c.recovered)
				}
				recovered += c.recovered
			})
		}
	}
	t.Logf("%s: %d writes; %d of %d crashes made an attempt", s.name, writes, recovered, 2*writes)
	if recovered == 0 || recovered == 2*writes {
		t.Errorf("%d of %d crashes made an attempt: some cut something off, and some don't", recovered, 2*writes)
	}
}
