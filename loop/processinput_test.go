package loop_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/store"
)

// forgetful is a store that doesn't take facts of a type while it refuses.
type forgetful struct {
	store.Store
	fact    []byte
	refuses atomic.Bool
}

func (f *forgetful) Append(ctx context.Context, batches []*store.Batch) []error {
	errs := make([]error, len(batches))
	for i, b := range batches {
		refused := false
		for _, r := range b.Records {
			refused = refused || f.refuses.Load() && bytes.Contains(r.Data, f.fact)
		}
		if refused {
			errs[i] = store.ErrUnavailable
		} else {
			errs[i] = f.Store.Append(ctx, []*store.Batch{b})[0]
		}
	}
	return errs
}

// TestInputThatWasGivenIsNotGivenAgain: a process got its input and the fact of it could not be
// recorded. The same call with its key records it and gives nothing; with another input it is
// refused.
func TestInputThatWasGivenIsNotGivenAgain(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	f := &forgetful{fact: []byte(event.TypeProcessInput)}
	over := func(o *agentd.Options) { f.Store, o.Store = o.Store, f }
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell, over),
		runtimetest.CallsTool("shell", map[string]any{"command": "cat", "background": true}), script.Answer{Text: "done"})
	k.Completes(k.Submit("sess_a", "go"))
	id := runtimetest.Payloads[*event.ToolResult](k, "sess_a")[0].ProcessID
	input := &command.WriteProcessStdin{ProcessID: id, Data: "once\n", Mutation: command.Mutation{IdempotencyKey: "k"}}
	f.refuses.Store(true)
	runtimetest.Refused(k, input, "unavailable")
	runtimetest.Refused(k, input, "unavailable")
	f.refuses.Store(false)
	other := *input
	other.Data = "twice\n"
	runtimetest.Refused(k, &other, "conflict")
	for range 2 {
		if res := runtimetest.Do[command.WriteProcessStdinResult](k, input); res.WrittenBytes != 5 {
			t.Errorf("%+v", res)
		}
	}
	runtimetest.Do[command.WriteProcessStdinResult](k, &command.WriteProcessStdin{ProcessID: id, EOF: true})
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeProcessCompleted, ""))
	var text string
	for _, o := range runtimetest.Payloads[*event.ProcessOutput](k, "sess_a") {
		text += o.Text
	}
	if text != "once\n" {
		t.Errorf("the process got %q", text)
	}
	if n := len(runtimetest.Payloads[*event.ProcessInput](k, "sess_a")); n != 2 {
		t.Errorf("%d facts say what it got, want 2", n)
	}
}
