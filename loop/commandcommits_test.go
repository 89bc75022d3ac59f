package loop_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
)

// leavesMark is a command that leaves a mark for each time it runs.
var leavesMark = runtimetest.CallsTool("shell", runtimetest.ShellArgs("echo ran >>marks"))

func expectMarksOf(k *runtimetest.Kit, want int) {
	k.Helper()
	marks, _ := os.ReadFile(filepath.Join(k.Dir, "marks"))
	if n := len(strings.Fields(string(marks))); n != want {
		k.Errorf("the command ran %d times, want %d", n, want)
	}
}

// TestCommandEndsInOneCommit: how the process ended and how the call did are written together,
// unless a hook is asked in between. Before the command runs it is durable that the call does,
// within which boundary, and that the process exists.
func TestCommandEndsInOneCommit(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	for name, points := range map[string][]hook.Point{"no hooks": nil, "a hook": {hook.PostToolUse}} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			in := map[string]int{} // in which commit a fact was
			commits := 0
			var k *runtimetest.Kit
			watched := &watchedStore{Store: storetest.NewMem(), committed: func(batches []*store.Batch) {
				mu.Lock()
				defer mu.Unlock()
				commits++
				for _, b := range batches {
					for _, r := range b.Records {
						for _, fact := range []string{`"sandbox.applied"`, `"phase":"running"`, `"process.started"`, `"process.completed"`, `"tool.result"`} {
							if bytes.Contains(r.Data, []byte(fact)) {
								in[fact] = commits
							}
						}
					}
				}
				if in[`"process.started"`] == commits {
					expectMarksOf(k, 0)
				}
			}}
			h := &runtimetest.Hooks{Points: points, Answer: runtimetest.AlwaysAnswer(`{}`)}
			k = &runtimetest.Kit{T: t, Store: watched, Dir: t.TempDir(), Script: &script.Script{Answers: []script.Answer{leavesMark, runtimetest.Says("done")}}}
			k.Change = runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell, h.Use(t))
			k.Open()
			defer k.Close()
			k.Completes(k.Submit("sess_a", "go"))
			expectMarksOf(k, 1)
			mu.Lock()
			defer mu.Unlock()
			began, ended := in[`"process.started"`], in[`"process.completed"`]
			if began == 0 || in[`"sandbox.applied"`] == 0 || in[`"sandbox.applied"`] > began || in[`"phase":"running"`] != in[`"sandbox.applied"`] {
				t.Errorf("the beginning: %v", in)
			}
			if ended <= began || (in[`"tool.result"`] == ended) != (points == nil) {
				t.Errorf("the end: %v", in)
			}
		})
	}
}

// TestCommandBeginsOnceThoughItsRecordIsInDoubt is
// [TestCallBeginsOnceThoughItsRecordIsInDoubt] for commands, whose process is recorded too.
func TestCommandBeginsOnceThoughItsRecordIsInDoubt(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	for _, applied := range []bool{true, false} {
		for _, away := range []int64{0, 3} {
			t.Run(fmt.Sprintf("recorded %v, away %d times", applied, away), func(t *testing.T) {
				b := &breakingStore{tb: t, applied: applied}
				b.meanwhile = func(b *breakingStore, _ *store.Batch) { b.away.Store(away) }
				k := runtimetest.NewWith(t, runtimetest.AllOf(b.putInFront, runtimetest.WithShell, runtimetest.InMode("auto")), leavesMark, runtimetest.Says("done"))
				r := k.Submit("sess_a", "go")
				k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTurnCompleted || asksAboutLost(e) })
				expectNothingLost(k, "sess_a")
				k.Completes(r)
				expectMarksOf(k, 1)
				started, ended := k.CountFacts("sess_a", event.TypeProcessStarted), k.CountFacts("sess_a", event.TypeProcessCompleted)
				if n := k.CountRuns("sess_a"); n != 1 || started != 1 || ended != 1 {
					t.Errorf("%d calls are recorded as running, %d processes as started, %d as ended", n, started, ended)
				}
			})
		}
	}
}

// TestCommandThatAnotherNodeBeganIsLost is [TestCallThatAnotherNodeBeganIsLost] for commands.
func TestCommandThatAnotherNodeBeganIsLost(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	b := &breakingStore{tb: t}
	b.meanwhile = func(b *breakingStore, lost *store.Batch) {
		var facts []*event.Event
		for i, e := range b.factsOf(lost) {
			if e.Type == event.TypeProcessStarted {
				continue // it died before
			}
			e.ID = fmt.Sprintf("evt_%026d", i)
			facts = append(facts, e)
		}
		b.writeElsewhere(&store.Batch{SessionID: lost.SessionID, Index: lost.Index, Blobs: lost.Blobs}, facts...)
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(b.putInFront, runtimetest.WithShell, runtimetest.InMode("auto")), leavesMark, runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	k.WaitFor("sess_a", asksAboutLost)
	expectMarksOf(k, 0)
	runtimetest.Do[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_a", ThreadID: r.ThreadID})
	k.Completes(r)
	expectMarksOf(k, 0)
}
