package hook_test

import (
	"context"
	"testing"

	"agentd/event"
	"agentd/hook"
)

// told remembers the facts of a run.
type told struct{ facts []event.Payload }

func (r *told) Report(_ context.Context, p event.Payload) error {
	r.facts = append(r.facts, p)
	return nil
}

func (r *told) Keep(context.Context, string, []byte) (string, error) { return "ref", nil }

// TestExecSaysHowItFailed: who runs commands may say what kind of failure one is; what
// follows is decided by the hook as ever.
func TestExecSaysHowItFailed(t *testing.T) {
	for failure, want := range map[string]string{hook.FailOpen: hook.Continue, hook.FailClosed: hook.Block} {
		r, err := hook.New(hook.Options{
			Hooks: []hook.Hook{{Name: "slow", Point: hook.Stop, Command: []string{"slow"}, Failure: failure}},
			NewID: func() string { return "hook_1" },
			Exec: func(context.Context, hook.Command) (hook.Exit, error) {
				return hook.Exit{}, &hook.Failure{Category: "timeout", Message: "no answer", Retryable: true}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		rec := &told{}
		out, err := r.Run(t.Context(), hook.Stop, hook.Input{}, rec)
		if err != nil || out.Decision != want {
			t.Errorf("%s: %+v, %v", failure, out, err)
		}
		p, ok := rec.facts[len(rec.facts)-1].(*event.HookFailed)
		if !ok || p.ErrorCategory != "timeout" || p.Message != "no answer" || !p.Retryable || p.FailureBehavior != failure {
			t.Errorf("%s: %+v", failure, p)
		}
	}
}
