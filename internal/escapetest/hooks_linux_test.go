package escapetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/event"
	"agentd/hook"
	"agentd/internal/place"
	"agentd/loop"
	"agentd/process"
	"agentd/sandbox"
)

// hookVariable makes the test binary a hook that runs the line which the agent wants
// to run, and blocks with what came of it.
const hookVariable = "AGENTD_ESCAPE_HOOK"

// answerHook is the hook.
func answerHook() int {
	var in struct {
		Input struct {
			Command string `json:"command"`
		} `json:"input"`
	}
	message, err := io.ReadAll(os.Stdin)
	if err != nil || json.Unmarshal(message, &in) != nil {
		return 1
	}
	code, said := runLine(in.Input.Command)
	answer, err := json.Marshal(map[string]any{"decision": "block", "reason": fmt.Sprintf("exit %d: %s", code, said)})
	if err != nil {
		return 1
	}
	if _, err := os.Stdout.Write(answer); err != nil {
		return 1
	}
	return 0
}

// runLine runs a line of shell and returns its exit code and what it printed.
func runLine(line string) (code int, said string) {
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.WaitDelay = time.Second // what it left behind may hold its pipes
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		code = ended.ExitCode()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		code = 127
	}
	const most = 1500 // the text of a fact is bounded
	if len(out) > most {
		out = out[:most]
	}
	return code, strings.ToValidUTF8(string(out), "?")
}

// lines are the attempts that are lines of shell.
func lines(lists ...[]attempt) []attempt {
	var out []attempt
	for _, list := range lists {
		for _, a := range list {
			if a.tool == "" {
				out = append(out, a)
			}
		}
	}
	return out
}

// TestHookEscapes runs the table as the program of a hook, in the hook's own sandbox.
func TestHookEscapes(t *testing.T) {
	w := newWorld(t, sandbox.WorkspaceWrite)
	all := lines(attempts())
	w.open("bypass", w.answers(all), func(o *agentd.Options) {
		ids := event.NewIDs(nil, nil)
		r, err := hook.New(hook.Options{
			Hooks: []hook.Hook{{
				Point: hook.PreToolUse, Match: hook.Match{Tool: "shell"}, Command: []string{w.attacker}, Env: []string{hookVariable + "=1"},
				Failure: hook.FailClosed, Timeout: hook.MaxTimeout,
			}},
			Exec:  loop.HookExec(func() *process.Manager { return w.manager }, &place.Places{}, guardWords, func(string) sandbox.Profile { return w.profile }),
			NewID: func() string { return ids.New(event.PrefixHook) },
		})
		w.must(err)
		o.Loop.Hooks = r
	})
	w.ask("sess_earlier", "nothing: "+plantedStore)
	made := 0
	for i, a := range all {
		if !a.claims(w) {
			continue
		}
		made++
		w.restore()
		id := fmt.Sprintf("sess_%d", i)
		w.ask(id, mark(i)+" "+a.name)
		c := w.facts(id)
		through := c.hook != nil && strings.HasPrefix(c.hook.Reason, "exit 0:")
		if a.escaped != nil {
			through = a.escaped(w, c)
		}
		if through {
			t.Errorf("ESCAPED: %s: %v", a.name, c.order)
		}
		for _, wrong := range c.wrongHook(w.plan) {
			t.Errorf("%s: %s: %v", a.name, wrong, c.order)
		}
	}
	if made < 60 && len(w.plan.NotEnforced) == 0 {
		t.Errorf("only %d attempts were made", made)
	}
	t.Logf("%d attempts by a hook; enforced: %+v", made, w.plan.Enforcement)
}

// wrongHook says what is missing in the facts of a hook that ran in a sandbox.
func (c *call) wrongHook(p *sandbox.Plan) []string {
	out := wrongBoundary(c.hookApplied, p)
	if (c.hook == nil) == (c.hookFailed == nil) {
		out = append(out, "not exactly one end of the hook")
	}
	if c.runs || c.processes != 0 {
		out = append(out, "the call ran although the hook blocked it")
	}
	at := func(t event.Type) int {
		for i, x := range c.order {
			if x == t {
				return i
			}
		}
		return -1
	}
	ended := max(at(event.TypeHookCompleted), at(event.TypeHookFailed))
	if at(event.TypeToolStarted) != 0 || at(event.TypeHookStarted) != 1 || at(event.TypeSandboxApplied) != 2 || ended != 3 {
		out = append(out, "the facts are out of order")
	}
	return out
}
