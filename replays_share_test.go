package agentd

import (
	"fmt"
	"testing"

	"agentd/command"
	"agentd/fault"
)

// TestReplaysAreShared: one account can't use up the replays that run, nor push the
// results of others out.
func TestReplaysAreShared(t *testing.T) {
	b := newReplayBook()
	defer b.close()
	n := 0
	begin := func(account string) (*replayRun, error) {
		n++
		return b.begin(account, command.ReplayRecord{ReplayID: fmt.Sprintf("replay_%d", n)})
	}
	must := func(account string) *replayRun {
		t.Helper()
		run, err := begin(account)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	end := func(run *replayRun) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.release(run)
	}
	first, second := must("acme"), must("acme")
	if _, err := begin("acme"); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("a third one of an account: %v", err)
	}
	kept := must("other")
	must("other")
	if _, err := begin("another"); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("a fifth one in all: %v", err)
	}
	end(kept)
	end(first)
	end(must("acme"))
	b.forget(second)
	for range 3 * keptReplays {
		end(must("acme"))
	}
	if _, err := b.find(command.Caller{Account: "other"}, kept.record.ReplayID); err != nil {
		t.Errorf("the result of another account: %v", err)
	}
	if _, err := b.find(command.Caller{Account: "acme"}, first.record.ReplayID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the oldest result of an account that has many: %v", err)
	}
	if len(b.order) != len(b.byID) || len(b.order) > 2*keptReplays {
		t.Errorf("%d replays are kept, %d of them can be found", len(b.order), len(b.byID))
	}
	for _, name := range []command.Name{"start_replay", "cancel_replay"} {
		if d, ok := command.Lookup(name); !ok || d.Scope != command.RoleClient {
			t.Errorf("%s is for those who may only read", name)
		}
	}
}
