package loop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/store"
	"agentd/tool"
)

// breakingStore loses the connection while it is recorded that a tool call runs: the caller
// isn't told whether the facts were written. For a while the store can't be reached then.
type breakingStore struct {
	store.Store
	tb testing.TB
	// applied says whether the facts are there.
	applied bool
	// away is how often the session can't be claimed afterwards.
	away atomic.Int64
	// meanwhile is what happens before the connection is back; nil for nothing.
	meanwhile func(b *breakingStore, lost *store.Batch)
	broken    sync.Once
	// witness is the folder in which tools leave their marks.
	witness string
}

func (b *breakingStore) putInFront(o *agentd.Options) {
	b.Store = o.Store
	o.Store = b
}

// tools gives the runtime one tool that writes and one that reads. Both leave a mark for each
// run.
func (b *breakingStore) tools(t *testing.T) func(*agentd.Options) {
	b.witness = t.TempDir()
	return runtimetest.WithTools(t, marker(b.witness), runtimetest.ReadOnlyTool("look", marker(b.witness).Run))
}

func (b *breakingStore) expectMarks(want int) {
	b.tb.Helper()
	marks, err := os.ReadFile(filepath.Join(b.witness, "marks"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.tb.Fatal(err)
	}
	if n := len(strings.Fields(string(marks))); n != want {
		b.tb.Errorf("calls ran %d times, want %d", n, want)
	}
}

// Append implements [store.Store].
func (b *breakingStore) Append(ctx context.Context, batches []*store.Batch) []error {
	at := slices.IndexFunc(batches, func(x *store.Batch) bool {
		return slices.ContainsFunc(x.Records, func(r store.Record) bool { return bytes.Contains(r.Data, []byte(`"phase":"running"`)) })
	})
	breaks := false
	if at >= 0 {
		b.broken.Do(func() { breaks = true })
	}
	if !breaks {
		return b.Store.Append(ctx, batches)
	}
	if b.applied {
		if err := errors.Join(b.Store.Append(ctx, batches)...); err != nil {
			b.tb.Error(err)
		}
	}
	if b.meanwhile != nil {
		b.meanwhile(b, joined(batches, batches[at].SessionID))
	}
	return slices.Repeat([]error{store.ErrUnknownOutcome}, len(batches))
}

// joined returns all that a commit has of a session: the answer that asked for the calls may
// be in it too.
func joined(batches []*store.Batch, sessionID string) *store.Batch {
	all := &store.Batch{SessionID: sessionID}
	for _, x := range batches {
		if x.SessionID == sessionID {
			all.Records = append(all.Records, x.Records...)
			all.Index, all.Blobs = append(all.Index, x.Index...), append(all.Blobs, x.Blobs...)
		}
	}
	return all
}

// Claim implements [store.Store].
func (b *breakingStore) Claim(ctx context.Context, sessionID string) (store.Claim, error) {
	if b.away.Add(-1) >= 0 {
		return store.Claim{}, errors.New("the connection is refused")
	}
	return b.Store.Claim(ctx, sessionID)
}

// writeElsewhere appends facts, with what belongs to them, as another node does that took the
// session over.
func (b *breakingStore) writeElsewhere(batch *store.Batch, facts ...*event.Event) {
	claim, err := b.Store.Claim(context.Background(), batch.SessionID)
	if err != nil {
		b.tb.Error(err)
		return
	}
	batch.Epoch = claim.Epoch
	chain := store.NewChain(claim.Head.Hash)
	for i, e := range facts {
		e.Sequence = claim.Head.Sequence + uint64(i) + 1
		data := event.AppendJSON(nil, e)
		batch.Records = append(batch.Records, store.Record{Sequence: e.Sequence, Hash: chain.Next(data), Data: data})
	}
	if err := b.Store.Append(context.Background(), []*store.Batch{batch})[0]; err != nil {
		b.tb.Error(err)
	}
}

func (b *breakingStore) factsOf(lost *store.Batch) []*event.Event {
	var facts []*event.Event
	for _, r := range lost.Records {
		e, err := store.DecodeFact(context.Background(), b.Store, r.Data)
		if err != nil {
			b.tb.Error(err)
			return nil
		}
		facts = append(facts, e)
	}
	return facts
}

// TestCallBeginsOnceThoughItsRecordIsInDoubt breaks the connection while it is recorded that
// calls run. The process knows that it has not begun them: each runs once, whether or not the
// record is there, and no person is asked.
func TestCallBeginsOnceThoughItsRecordIsInDoubt(t *testing.T) {
	mark := runtimetest.CallsTool("mark", nil)
	for _, c := range []struct {
		name   string
		mode   string
		answer script.Answer
		runs   int
		asks   bool
	}{
		{name: "a call", mode: "bypass", answer: mark, runs: 1},
		{name: "a call that a person allowed", mode: "default", answer: mark, runs: 1, asks: true},
		{name: "calls side by side", mode: "bypass", answer: script.Answer{Tools: []script.Tool{{Name: "look"}, {Name: "look"}}}, runs: 2},
	} {
		for _, applied := range []bool{true, false} {
			for _, away := range []int64{0, 3} {
				t.Run(c.name+map[bool]string{true: ", recorded", false: ", not recorded"}[applied]+map[int64]string{3: ", the store stays away"}[away], func(t *testing.T) {
					b := &breakingStore{tb: t, applied: applied}
					b.meanwhile = func(b *breakingStore, _ *store.Batch) { b.away.Store(away) }
					k := runtimetest.NewWith(t, runtimetest.AllOf(b.putInFront, b.tools(t), runtimetest.InMode(c.mode)), c.answer, runtimetest.Says("done"))
					r := k.Submit("sess_a", "go")
					if c.asks {
						id, _ := k.WaitForAction("sess_a", 1)
						k.Respond(id, "allow")
					}
					k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTurnCompleted || asksAboutLost(e) })
					expectNothingLost(k, "sess_a")
					k.Completes(r)
					b.expectMarks(c.runs)
					if n := k.CountRuns("sess_a"); n != c.runs {
						t.Errorf("%d calls are recorded as running, want %d", n, c.runs)
					}
				})
			}
		}
	}
}

// asksAboutLost reports whether a thread waits for a person because a call is lost.
func asksAboutLost(e *event.Event) bool {
	p, ok := e.Payload.(*event.ThreadUpdated)
	return ok && p.Code == "tool_lost"
}

// expectNothingLost checks that no call counts as lost and that no question was asked about one.
func expectNothingLost(k *runtimetest.Kit, sessionID string) {
	k.Helper()
	for _, e := range k.Facts(sessionID) {
		switch p := e.Payload.(type) {
		case *event.ToolFailed:
			if p.ErrorCategory == "lost" {
				k.Errorf("call %s is lost: %s", e.ToolCallID, p.Message)
			}
		case *event.ToolProgress:
			if p.Phase == event.PhaseLost {
				k.Errorf("call %s is lost: %s", e.ToolCallID, p.Message)
			}
		case *event.ThreadUpdated:
			if asksAboutLost(e) {
				k.Fatalf("a person is asked: %s", p.Reason)
			}
		}
	}
	if s := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: sessionID}); s.Degraded {
		k.Error("the session is degraded")
	}
}

// TestInterruptBeforeACallInDoubtBegins: a turn that was interrupted before the connection was
// back ends, and its call never begins.
func TestInterruptBeforeACallInDoubtBegins(t *testing.T) {
	for _, applied := range []bool{true, false} {
		b := &breakingStore{tb: t, applied: applied}
		b.meanwhile = func(b *breakingStore, lost *store.Batch) {
			facts := b.factsOf(lost)
			e := *facts[len(facts)-1]
			e.ID, e.Type, e.ToolCallID, e.StepID = "evt_00000000000000000000000001", event.TypeTurnInterruptRequested, "", ""
			e.Payload = &event.TurnInterruptRequested{Reason: "enough", Queue: "keep"}
			b.writeElsewhere(&store.Batch{SessionID: lost.SessionID}, &e)
		}
		k := runtimetest.NewWith(t, runtimetest.AllOf(b.putInFront, b.tools(t), runtimetest.InMode("bypass")), runtimetest.CallsTool("mark", nil), runtimetest.Says("done"))
		k.Fails(k.Submit("sess_a", "go"), "interrupted")
		b.expectMarks(0)
		expectNothingLost(k, "sess_a")
	}
}

// TestCallThatAnotherNodeBeganIsLost: while the connection was broken another node recorded
// that it runs the same call, and died. Whether it did is unknown.
func TestCallThatAnotherNodeBeganIsLost(t *testing.T) {
	b := &breakingStore{tb: t}
	b.meanwhile = func(b *breakingStore, lost *store.Batch) {
		facts := b.factsOf(lost)
		for i, e := range facts {
			e.ID = fmt.Sprintf("evt_%026d", i)
		}
		b.writeElsewhere(&store.Batch{SessionID: lost.SessionID, Index: lost.Index, Blobs: lost.Blobs}, facts...)
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(b.putInFront, b.tools(t), runtimetest.InMode("bypass")), runtimetest.CallsTool("mark", nil), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	k.WaitFor("sess_a", asksAboutLost)
	b.expectMarks(0)
	runtimetest.Do[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_a", ThreadID: r.ThreadID})
	k.Completes(r)
	b.expectMarks(0)
}

// TestRuleThatIsMadeWhileAHookLooksHoldsForWhatRuns: a call is looked at, a hook takes its time,
// and a person forbids a file meanwhile. What runs then is bounded by the rule, as the decision is.
func TestRuleThatIsMadeWhileAHookLooksHoldsForWhatRuns(t *testing.T) {
	var k *runtimetest.Kit
	var made sync.Once
	h := &runtimetest.Hooks{Points: []hook.Point{hook.PreToolUse}, Answer: func(context.Context, *hook.Input, string) (string, error) {
		made.Do(func() {
			runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", Rules: []event.PolicyRule{{Decision: "deny", Tool: "read_file", Match: "private.txt"}}})
		})
		return `{}`, nil
	}}
	var ran atomic.Int64
	mark := runtimetest.WritingTool("mark", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		ran.Add(1)
		if c.Denied == nil || !c.Denied(filepath.Join(c.Root, "private.txt")) {
			t.Error("the call runs as if there were no rule")
		}
		return &tool.Result{}, nil
	})
	k = runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.WithTools(t, mark), runtimetest.InMode("bypass"), h.Use(t)), runtimetest.CallsTool("mark", nil), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	if n := ran.Load(); n != 1 {
		t.Errorf("the call ran %d times", n)
	}
}
