package loop_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/store/storetest"
	"agentd/tool"
)

// The key property of conversations: what a model is told depends on the facts
// alone. Random turns are run twice, once by one process, once by many that stop
// before this or that step, and the requests that the provider hears are compared.

// reply is one planned answer of the model.
type reply struct {
	text   string
	tools  []string // names of calls
	tokens int64
	fails  bool
	// cut stops the runtime while the model is asked, if restarts are wanted.
	cut bool
}

// planned is one turn, or what happens between two.
type planned struct {
	input   string
	replies []reply
	schema  bool
	// steer is said while the turn's first approval is waited for.
	steer string
	// before the turn: restart, ask for a compaction, take so many turns back.
	restart, compact bool
	back             int
	// answers to approvals, and whether to restart before each.
	allow, restartAsked bool
}

func drawPlan(t *rapid.T) []planned {
	var plan []planned
	for i := range rapid.IntRange(2, 5).Draw(t, "turns") {
		p := planned{
			input: fmt.Sprintf("input %d", i), restart: rapid.Bool().Draw(t, "restart"),
			compact: i > 0 && rapid.IntRange(0, 4).Draw(t, "compact") == 0, allow: rapid.Bool().Draw(t, "allow"), restartAsked: rapid.Bool().Draw(t, "restart asked"),
		}
		if i > 0 && rapid.IntRange(0, 3).Draw(t, "rollback") == 0 {
			p.back = rapid.IntRange(1, i).Draw(t, "back")
		}
		if rapid.IntRange(0, 2).Draw(t, "steer") == 0 {
			p.steer = fmt.Sprintf("steer %d", i)
		}
		steps := rapid.IntRange(1, 3).Draw(t, "steps")
		for s := range steps {
			r := reply{
				text: fmt.Sprintf("answer %d.%d", i, s), cut: rapid.IntRange(0, 3).Draw(t, "cut") == 0,
				tokens: rapid.SampledFrom([]int64{100, 100, 900}).Draw(t, "tokens"),
			}
			if s < steps-1 {
				r.tools = rapid.SliceOfN(rapid.SampledFrom([]string{"look", "look", "change", "nope"}), 1, 3).Draw(t, "tools")
			}
			if rapid.IntRange(0, 5).Draw(t, "fails") == 0 && s == 0 {
				p.replies = append(p.replies, reply{fails: true})
			}
			p.replies = append(p.replies, r)
		}
		if p.schema = rapid.IntRange(0, 4).Draw(t, "schema") == 0; p.schema {
			p.replies[len(p.replies)-1].text = "not JSON"
			p.replies = append(p.replies, reply{text: `{"n":1}`, tokens: 100, cut: rapid.Bool().Draw(t, "cut repair")})
		}
		plan = append(plan, p)
	}
	return plan
}

// player plays a plan and hears what it is told.
type player struct {
	replies []reply
	cuts    bool
	cut     chan struct{}

	mu    sync.Mutex
	done  map[int64]bool // calls that were cut already
	heard []string
}

func (p *player) Name() string { return "player" }

func (p *player) answer(ctx context.Context, r *model.Request, send func(model.Chunk) bool) error {
	said := runtimetest.Conversation(r)
	if strings.Contains(r.Messages[len(r.Messages)-1].Text, "is about to be replaced by a summary") {
		send(model.Chunk{Text: fmt.Sprintf("summary of %d messages", len(r.Messages))})
		send(runtimetest.AnswerEnd("end_turn", 10, 10))
		return nil
	}
	p.mu.Lock()
	reply := p.replies[r.Call]
	cut := p.cuts && reply.cut && !p.done[r.Call]
	if cut {
		p.done[r.Call] = true
	} else {
		p.heard = append(p.heard, fmt.Sprintf("call %d\n%s", r.Call, said))
	}
	p.mu.Unlock()
	if cut {
		p.cut <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	if reply.fails {
		return &model.Error{Category: model.Overloaded, Message: "busy", Retryable: true}
	}
	send(model.Chunk{Text: reply.text})
	stop := "end_turn"
	for i, name := range reply.tools {
		stop = "tool_use"
		send(model.Chunk{ToolCall: &model.ToolCall{ProviderID: fmt.Sprintf("c%d_%d", r.Call, i), Name: name, Arguments: event.Raw(`{}`)}})
	}
	send(runtimetest.AnswerEnd(stop, reply.tokens, 0))
	return nil
}

// perform runs a plan and returns what the model heard.
func perform(t *testing.T, plan []planned, restarts bool) []string {
	t.Helper()
	p := &player{cuts: restarts, cut: make(chan struct{}), done: map[int64]bool{}}
	for i := range plan {
		p.replies = append(p.replies, plan[i].replies...)
	}
	tools := runtimetest.WithTools(t, runtimetest.ReadOnlyTool("look", runtimetest.GivesText("seen")), runtimetest.WritingTool("change", runtimetest.GivesText("changed")))
	k := &runtimetest.Kit{T: t, Store: storetest.NewMem(), Dir: t.TempDir(), Change: runtimetest.AllOf(tools, runtimetest.QuickBackoff, func(o *agentd.Options) {
		o.Provider = nil
		o.Loop.Providers = []model.Provider{&runtimetest.FakeModel{ProviderName: "player", Answer: p.answer}}
		o.Loop.Models = []model.Info{{Provider: "player", Model: "m", HasCredential: true, Capabilities: []string{model.CapTools}, ContextWindow: 1000}}
		o.Loop.DefaultModel = "player/m"
	})}
	k.Open()
	defer k.Close()
	d := &driver{k: k, p: p, restarts: restarts}
	for i := range plan {
		d.turn(&plan[i])
	}
	return p.heard
}

// driver is the user of a plan.
type driver struct {
	k        *runtimetest.Kit
	p        *player
	restarts bool
	thread   string
	turns    []string
	asked    int
}

func (d *driver) again() {
	if d.restarts {
		d.k.Close()
		d.k.Open()
	}
}

func (d *driver) turn(p *planned) {
	k := d.k
	k.Helper()
	if p.restart {
		d.again()
	}
	if p.compact && len(d.turns) > 0 {
		runtimetest.Do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: d.thread})
	}
	if p.back > 0 && p.back < len(d.turns) {
		d.turns = d.turns[:len(d.turns)-p.back]
		runtimetest.Do[command.RollbackThreadResult](k, &command.RollbackThread{SessionID: "sess_a", ThreadID: d.thread, ToTurnID: d.turns[len(d.turns)-1]})
	}
	o := &event.TurnOptions{}
	if p.schema {
		o.OutputSchema = event.Raw(numberSchema)
	}
	r := k.SubmitWith("sess_a", p.input, o)
	d.thread, d.turns = r.ThreadID, append(d.turns, r.TurnID)
	steer := p.steer
	for _, reply := range p.replies {
		if reply.cut && d.restarts {
			<-d.p.cut
			d.again()
		}
		for range slices.DeleteFunc(slices.Clone(reply.tools), func(s string) bool { return s != "change" }) {
			d.asked++
			action, _ := k.WaitForAction("sess_a", d.asked)
			if steer != "" {
				runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", Input: runtimetest.Quoted(steer), Options: &event.TurnOptions{QueuePolicy: "steer"}})
				steer = ""
			}
			if p.restartAsked {
				d.again()
			}
			if p.allow {
				k.Respond(action, "allow")
			} else {
				k.Respond(action, "deny")
			}
		}
	}
	k.Completes(r)
}

func TestConversationDependsOnTheFactsAlone(t *testing.T) { conversationOf(t, 40) }

func TestLongConversationDependsOnTheFactsAlone(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("all plans that rapid draws; set AGENTD_TEST_LONG to run them")
	}
	conversationOf(t, math.MaxInt)
}

// conversationOf checks at most so many plans.
func conversationOf(t *testing.T, most int) {
	t.Helper()
	checked := 0
	rapid.Check(t, func(rt *rapid.T) {
		plan := drawPlan(rt)
		if checked++; checked > most {
			return
		}
		straight := perform(t, plan, false)
		restarted := perform(t, plan, true)
		if t.Failed() {
			rt.Fatalf("plan %+v", plan)
		}
		for i := range max(len(straight), len(restarted)) {
			if i >= len(straight) || i >= len(restarted) || straight[i] != restarted[i] {
				rt.Fatalf("request %d of %d and %d differs; without restarts:\n%s\nwith restarts:\n%s\nplan %+v", i, len(straight), len(restarted), requestAt(straight, i), requestAt(restarted, i), plan)
			}
		}
	})
}

func requestAt(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "(none)"
}

// TestConversationOnlyGrows: each request begins with the very messages of the one
// before, so that providers find the prefix that they have seen.
func TestConversationOnlyGrows(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.ListenedBy(&heard), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("look", runtimetest.GivesText("seen")))), runtimetest.CallsTool("look", nil), runtimetest.Says("a"), runtimetest.CallsTool("look", nil), runtimetest.Says("b"))
	k.Completes(k.Submit("sess_a", "one"))
	k.Completes(k.Submit("sess_a", "two"))
	requests := heard.Heard()
	for i, r := range requests[1:] {
		before := requests[i]
		if len(r.Messages) <= len(before.Messages) || !slices.Equal(before.Messages, r.Messages[:len(before.Messages)]) {
			t.Errorf("request %d:\n%safter\n%s", i+1, runtimetest.Conversation(r), runtimetest.Conversation(before))
		}
		if r.System != before.System {
			t.Errorf("request %d has other instructions", i+1)
		}
	}
}

// TestInterruptedTurnsAreTold: a call that was cut off has a result for the model,
// which providers demand, and nothing of a broken answer is told.
func TestInterruptedTurnsAreTold(t *testing.T) {
	begun := make(chan struct{})
	forever := func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.ListenedBy(&heard), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("forever", forever))), runtimetest.CallsTool("forever", nil), runtimetest.Says("ok"))
	r := k.Submit("sess_a", "one")
	<-begun
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	k.Fails(r, "interrupted")
	k.Completes(k.Submit("sess_a", "two"))
	requests := heard.Heard()
	last := requests[len(requests)-1].Messages
	if len(last) != 4 || last[2].Role != model.RoleTool || !last[2].IsError || last[3].Text != "two" {
		t.Errorf("the model heard:\n%s", runtimetest.Conversation(requests[len(requests)-1]))
	}
}

func TestContextFilesAreTold(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.ListenedBy(&heard))
	k.WriteFile("AGENTS.md", "Use tabs, always.")
	k.Completes(k.Submit("sess_a", "one"))
	k.Completes(k.Submit("sess_a", "two"))
	k.WriteFile("AGENTS.md", "Use blanks.")
	k.Completes(k.Submit("sess_a", "three"))
	requests := heard.Heard()
	if !strings.Contains(requests[1].System, "Use tabs, always.") || !strings.Contains(requests[2].System, "Use blanks.") || strings.Contains(requests[2].System, "tabs") {
		t.Errorf("%s", requests[2].System)
	}
	resolved := runtimetest.Payloads[*event.ContextResolved](k, "sess_a")
	refs := map[string]bool{}
	for _, p := range resolved {
		for _, item := range p.Items {
			if item.Kind == "file" {
				refs[item.Ref] = true
			}
		}
	}
	if len(refs) != 2 {
		t.Errorf("%d contents are kept, want 2", len(refs))
	}
	k.WriteFile("AGENTS.md", string([]byte{0, 1, 2}))
	k.Completes(k.Submit("sess_a", "four"))
	resolved = runtimetest.Payloads[*event.ContextResolved](k, "sess_a")
	if o := resolved[len(resolved)-1].Omissions; len(o) != 1 || o[0].Reason == "" {
		t.Errorf("%+v", o)
	}
}
