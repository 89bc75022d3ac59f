//go:build !race

// Every write of a scene is one crash: the race detector makes minutes of that, and the
// other tests of recovery run with it.

package loop_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/state"
)

func TestCrashAtEveryWrite(t *testing.T) {
	two := script.Answer{Tools: []script.Tool{{Name: "look"}, {Name: "look"}}}
	crashEverywhere(t, &scene{
		name: "an approval, a write, reads, a file", turns: 1,
		answers: []script.Answer{runtimetest.CallsTool("change", nil), two, runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "a"}), runtimetest.Says("done")},
		check: func(c *crashCase) {
			if b, err := os.ReadFile(filepath.Join(c.dir, "a.txt")); !c.lost && (err != nil || string(b) != "a") {
				c.Errorf("the file has %q: %v", b, err)
			}
		},
	})
}

func TestCrashAtEveryWriteWithACommand(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	crashEverywhere(t, &scene{
		name: "a command", turns: 1, change: runtimetest.AllOf(runtimetest.WithShell, runtimetest.InMode("auto")),
		answers: []script.Answer{runtimetest.CallsTool("shell", map[string]any{"command": "echo x >> log; echo hello"}), runtimetest.Says("done")},
		check: func(c *crashCase) {
			b, err := os.ReadFile(filepath.Join(c.dir, "log"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				c.Fatal(err)
			}
			if never := c.lost && len(b) == 0; string(b) != "x\n" && !never {
				c.Errorf("the command left %q", b)
			}
		},
	})
}

func TestCrashAtEveryWriteWithACompaction(t *testing.T) {
	big := &script.Usage{InputTokens: 900}
	crashEverywhere(t, &scene{
		name: "a compaction", turns: 2,
		answers: []script.Answer{
			{Tools: []script.Tool{{Name: "look"}}, Usage: big}, runtimetest.Says("one"), {Tools: []script.Tool{{Name: "look"}}, Usage: &script.Usage{InputTokens: 10}}, runtimetest.Says("two"),
		},
		change: func(o *agentd.Options) {
			o.Loop.Models = []model.Info{{Provider: "script", Model: "small", HasCredential: true, Capabilities: []string{model.CapTools}, ContextWindow: 1000}}
			o.Loop.Providers, o.Loop.DefaultModel = []model.Provider{o.Provider}, "script/small"
			o.Provider = nil
		},
		check: func(c *crashCase) {
			n := 0
			for _, e := range runtimetest.FactsOf(c, c.mem.Node(), "sess_a") {
				if e.Type == event.TypeContextCompactionCompleted {
					n++
				}
			}
			if n == 0 {
				c.Error("nothing was compacted")
			}
		},
	})
}

func TestCrashAtEveryWriteOfARollback(t *testing.T) {
	crashEverywhere(t, &scene{
		name: "a rollback", turns: 2, change: runtimetest.InMode("auto"),
		answers: []script.Answer{
			runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "first"}), runtimetest.Says("one"),
			runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "second"}), runtimetest.Says("two"),
		},
		then: func(c *crashCase, ctx context.Context) error {
			for {
				var thread string
				if err := c.r.View(ctx, "sess_a", func(s *state.Session) error { thread = s.MainThread().ThreadID; return nil }); err != nil {
					return err
				}
				_, err := c.r.Do(ctx, command.Local(), &command.RollbackThread{SessionID: "sess_a", ThreadID: thread, ToTurnID: "turn_1", Files: "restore"})
				if fault.KindOf(err) != fault.Conflict {
					return err
				}
				if err := c.awaitRollback(ctx); err != nil { // the one that was begun is being finished
					return err
				}
			}
		},
		check: func(c *crashCase) {
			b, err := os.ReadFile(filepath.Join(c.dir, "a.txt"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				c.Fatal(err)
			}
			if string(b) != "first" && !c.lost {
				c.Errorf("the file has %q", b)
			}
		},
	})
}

// awaitRollback waits until no rollback is under way.
func (c *crashCase) awaitRollback(ctx context.Context) error {
	sub, err := c.r.Subscribe(ctx, command.Local(), "sess_a", 0)
	if err != nil {
		return err
	}
	defer sub.Close()
	for {
		if _, err := sub.Next(ctx); err != nil {
			return err
		}
		running := true
		if err := c.r.View(ctx, "sess_a", func(s *state.Session) error { running = len(s.History.RunningRollbacks) > 0; return nil }); err != nil || !running {
			return err
		}
	}
}

func TestCrashAtEveryWriteWithHooks(t *testing.T) {
	h := &runtimetest.Hooks{Points: hook.Points(), Answer: runtimetest.AlwaysAnswer(`{}`)}
	lost := 0
	crashEverywhere(t, &scene{
		name: "hooks", turns: 1, answers: []script.Answer{runtimetest.CallsTool("change", nil), runtimetest.Says("done")}, change: h.Use(t),
		check: func(c *crashCase) {
			for _, e := range runtimetest.FactsOf(c, c.mem.Node(), "sess_a") {
				if e.Type == event.TypeHookFailed {
					lost++
				}
			}
		},
	})
	if lost == 0 {
		t.Error("no hook was cut off")
	}
}
