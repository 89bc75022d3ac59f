package work_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"agentd/command"
	"agentd/store"
	"agentd/store/storetest"
)

// refusing is a store that doesn't take facts about an edge of a kind while it refuses.
type refusing struct {
	store.Store
	kind    string
	refuses atomic.Bool
}

func (r *refusing) Append(ctx context.Context, batches []*store.Batch) []error {
	for _, b := range batches {
		if r.refuses.Load() && slices.ContainsFunc(b.Records, func(rec store.Record) bool { return strings.Contains(string(rec.Data), `"kind":"`+r.kind+`"`) }) {
			return slices.Repeat([]error{store.ErrNoSpace}, len(batches))
		}
	}
	return r.Store.Append(ctx, batches)
}

// TestRepeatedLinkWritesTheOtherEnd: an edge whose other end, in another session, could not be
// written is told as an error, and the same call, with its key or without, writes what is left.
// A call that is repeated late doesn't bring back what was taken away since.
func TestRepeatedLinkWritesTheOtherEnd(t *testing.T) {
	for _, key := range []string{"", "k"} {
		synctest.Test(t, func(t *testing.T) {
			r := &refusing{Store: storetest.NewMem(), kind: "blocked_by"}
			k := (&crew{TB: t, store: r}).started()
			k.create(command.CreateTask{TaskID: "task_a"})
			k.create(command.CreateTask{TaskID: "task_b"})
			link := &command.LinkTasks{TaskID: "task_a", Kind: "blocks", TargetID: "task_b"}
			unlink := &command.UnlinkTasks{TaskID: "task_a", Kind: "blocks", TargetID: "task_b"}
			if key != "" {
				link.IdempotencyKey, unlink.IdempotencyKey = key, key+" away"
			}
			ends := func(want int) {
				t.Helper()
				synctest.Wait()
				if a, b := len(edges(k.task("task_a"), "blocks")), len(edges(k.task("task_b"), "blocked_by")); a != want || b != want {
					t.Errorf("the edge is there %d times at one end and %d at the other, want %d", a, b, want)
				}
			}
			for _, p := range []command.Params{link, unlink} {
				r.refuses.Store(true)
				if _, err := k.runCommand(t.Context(), command.Local(), p); err == nil {
					t.Errorf("%s: one of the ends isn't written, and it says nothing", p.Command())
				}
				r.refuses.Store(false)
				ask[command.RelationshipsResult](k, p)
				if p == command.Params(link) {
					ends(1)
				} else {
					ends(0)
				}
			}
			if key != "" {
				ask[command.RelationshipsResult](k, link)
				ends(0)
			}
		})
	}
}

// TestDeletedDependencyIsInNobodysWay: a task that depends on one whose session was deleted can be
// changed, and the edge can be taken away.
func TestDeletedDependencyIsInNobodysWay(t *testing.T) {
	for _, key := range []string{"", "k"} {
		synctest.Test(t, func(t *testing.T) {
			k := (&crew{TB: t, store: storetest.NewMem()}).started()
			ask[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_gone"})
			k.create(command.CreateTask{TaskID: "task_gone", SessionID: "sess_gone", Worker: "external", Start: true})
			k.create(command.CreateTask{TaskID: "task_a", DependsOn: []string{"task_gone"}})
			ask[command.TaskResult](k, &command.CompleteTask{TaskID: "task_gone"})
			synctest.Wait()
			ask[command.DeleteSessionResult](k, &command.DeleteSession{SessionID: "sess_gone"})

			update := &command.UpdateTask{TaskID: "task_a", Objective: "another", DependsOn: []string{"task_gone"}}
			update.IdempotencyKey = key
			ask[command.TaskResult](k, update)
			if got := k.task("task_a").Objective; got != "another" {
				t.Errorf("the objective is %q", got)
			}
			unlink := &command.UnlinkTasks{TaskID: "task_a", Kind: "blocked_by", TargetID: "task_gone"}
			if key != "" {
				unlink.IdempotencyKey = key + " away"
			}
			ask[command.RelationshipsResult](k, unlink)
			if left := edges(k.task("task_a"), "blocked_by"); len(left) > 0 {
				t.Errorf("edges are left: %v", left)
			}
		})
	}
}
