package evidence_test

import (
	"os"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/hook"
	"agentd/model/provider/script"
)

// deafness are mistakes in how the program listens to others.
var deafness = map[string]change{
	"the word of hooks isn't heard": {
		"loop/hooks.go", "	if out.Decision == hook.Block {\n", "	out.Decision = hook.Continue\n	if out.Decision == hook.Block {\n",
		`turn 2, call 1: permission.evaluated: decision was "deny" and is "allow"`,
	},
	"the refusal of a peer is taken for a result": {
		"loop/clienttool.go", `case a.Decision != "submit":`, `case a.Decision == "never":`,
		`turn 2, call 2: tool.failed: category was "denied" and is "execution"`,
	},
	"money is no object": {
		"model/budget.go", "	if b.SessionCostUSD <= 0 {\n", "	if b.SessionCostUSD <= 1000 {\n",
		"turn 3: the recording has turn.failed (category quota_blocked",
	},
}

// TestLongReplayFindsAProgramThatIsDeaf compiles the program with one mistake in how it
// listens to others at a time: hooks, peers, prices.
func TestLongReplayFindsAProgramThatIsDeaf(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: programs that don't hear hooks, peers or prices, which have to be compiled; set AGENTD_TEST_LONG")
	}
	use := hooked(t, map[string]string{"judge": `{"decision":"deny","reason":"no"}`}, hook.Hook{Name: "judge", Point: hook.PreToolUse, Match: hook.Match{Tool: "write_file"}})
	look := script.Tool{Name: "look", Arguments: map[string]any{}}
	k := newKit(t, func(o *agentd.Options) {
		use(o)
		priced(o)
	},
		script.Answer{Text: "hello"},
		script.Answer{Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "b"}}, look, look}},
		script.Answer{Text: "done", Usage: &script.Usage{InputTokens: 2_000_000}})
	k.turn("sess_deaf", "hello", nil)
	k.peer("sess_deaf", "chan_deaf", nil, "look")
	calls := 0
	k.asked("sess_deaf", "go", func(e *event.Event, _ *event.ActionRequired) {
		if calls++; calls == 1 {
			do[command.RespondActionResult](k, &command.RespondAction{ActionID: e.ActionID, Decision: "cancel"})
			return
		}
		k.gives(e, `{"output":"no such thing","isError":true}`)
	})
	k.turn("sess_deaf", "more", nil)
	findsEach(t, k, "sess_deaf", deafness)
}
