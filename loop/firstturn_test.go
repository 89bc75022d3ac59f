package loop_test

import (
	"bytes"
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"agentd/command"
	"agentd/event"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/tool"
)

// countedStore counts what is read of a session's facts.
type countedStore struct {
	store.Store
	reads atomic.Int64
}

func (s *countedStore) Read(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
	if id == "sess_a" {
		s.reads.Add(1)
	}
	return s.Store.Read(ctx, id, r)
}

// TestFirstTurnReadsNothingBack makes a session, follows it from its start and has a turn with
// a tool run in it: what was just written is in memory, for the follower and for the model.
func TestFirstTurnReadsNothingBack(t *testing.T) {
	counted := &countedStore{Store: storetest.NewMem()}
	k := &runtimetest.Kit{T: t, Store: counted, Dir: t.TempDir(), Script: &script.Script{Answers: []script.Answer{
		runtimetest.CallsTool("list_files", map[string]any{"path": "."}), runtimetest.Says("done"),
	}}}
	k.Open()
	t.Cleanup(k.Close)
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	counted.reads.Store(0) // whether there is such a session was looked up
	sub, err := k.Runtime.Subscribe(t.Context(), command.Local(), "sess_a", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	r := k.Submit("sess_a", "look")
	for next, ended := uint64(1), false; !ended; {
		records, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			if rec.Sequence != next {
				t.Fatalf("fact %d after %d", rec.Sequence, next-1)
			}
			next++
			var e event.Event
			if _, err := event.DecodeHeader(rec.Data, &e); err != nil {
				t.Fatal(err)
			}
			ended = ended || e.Type == event.TypeTurnCompleted && e.TurnID == r.TurnID
		}
	}
	if n := counted.reads.Load(); n != 0 {
		t.Errorf("the facts of a session that was just made were read %d times", n)
	}
}

// watchedStore tells of each commit.
type watchedStore struct {
	store.Store
	committed func(batches []*store.Batch)
}

func (s *watchedStore) Append(ctx context.Context, batches []*store.Batch) []error {
	s.committed(batches)
	return s.Store.Append(ctx, batches)
}

// TestAnswerAndDecisionShareACommit: what the model asked for is decided about while its answer
// is on its way to the store, so one commit has both, and it comes before the call runs. With a
// hook before calls the answer comes first: what a hook is shown is durable.
func TestAnswerAndDecisionShareACommit(t *testing.T) {
	for name, points := range map[string][]hook.Point{"no hooks": nil, "a hook": {hook.PreToolUse}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var durable, together, ran atomic.Bool
				watched := &watchedStore{Store: storetest.NewMem(), committed: func(batches []*store.Batch) {
					var all []byte
					for _, b := range batches {
						for _, r := range b.Records {
							all = append(all, r.Data...)
						}
					}
					if bytes.Contains(all, []byte(`"phase":"running"`)) {
						durable.Store(true)
						together.Store(bytes.Contains(all, []byte(`"model.completed"`)))
					}
				}}
				mark := runtimetest.WritingTool("mark", func(context.Context, *tool.Call) (*tool.Result, error) {
					if !durable.Load() {
						t.Error("the call runs before that is durable")
					}
					ran.Store(true)
					return &tool.Result{}, nil
				})
				h := &runtimetest.Hooks{Points: points, Answer: runtimetest.AlwaysAnswer(`{}`)}
				k := &runtimetest.Kit{T: t, Store: watched, Dir: t.TempDir(), Script: &script.Script{Answers: []script.Answer{
					runtimetest.CallsTool("mark", nil), runtimetest.Says("done"),
				}}}
				k.Change = runtimetest.AllOf(runtimetest.WithTools(t, mark), runtimetest.InMode("bypass"), h.Use(t))
				k.Open()
				defer k.Close()
				k.Completes(k.Submit("sess_a", "go"))
				if !ran.Load() {
					t.Error("the call didn't run")
				}
				if together.Load() != (points == nil) {
					t.Errorf("the answer and the decision share a commit: %v", together.Load())
				}
			})
		})
	}
}
