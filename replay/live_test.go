package replay_test

import (
	"context"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/model/provider/script"
	"agentd/replay"
	"agentd/tool"
)

// other is a tool that was changed.
type other struct{ tool.Tool }

func (other) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, tool.Errorf(tool.Execution, "it can't write any more")
}

// A walk shows what is decided about what tools gave; what they give now is seen live.
func TestLiveFindsAChangedTool(t *testing.T) {
	answers := []script.Answer{wants("write_file", map[string]any{"path": "a.txt", "content": "b"}), {Text: "done"}}
	k := newKit(t, nil, answers...)
	k.turn(mainSession, "write", nil)
	c := k.parsed(command.ExportScope{SessionID: mainSession})
	live := func(tools ...tool.Tool) []replay.OutcomeDifference {
		r, err := tool.NewRegistry(tools...)
		if err != nil {
			t.Fatal(err)
		}
		now := newKit(t, func(o *agentd.Options) { o.Loop.Tools = r }, answers...)
		out, err := replay.Live(t.Context(), now.r, c, replay.LiveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := live(tool.Builtins(nil)...); len(got) != 1 || got[0].Says != "the same" {
		t.Errorf("with the same tools: %+v", got)
	}
	tools := tool.Builtins(nil)
	for i, x := range tools {
		if x.Info().ToolName == "write_file" {
			tools[i] = other{x}
		}
	}
	if got := live(tools...); len(got) != 1 || !strings.Contains(got[0].Says, "called write_file execution instead of write_file ok") {
		t.Errorf("with a changed tool: %+v", got)
	}
}

// A case of the earlier format has no facts to decide on, and still has its inputs.
func TestTheEarlierFormatIsRead(t *testing.T) {
	c := &evidence.Case{Format: evidence.EarlierReplayFormat}
	c.Turns = []*evidence.CaseTurn{nil, {Input: event.Raw(`"hello"`), TurnID: "turn_1"}}
	if _, err := replay.OfCase(c); err == nil || !strings.Contains(err.Error(), "export it again") {
		t.Errorf("%v", err)
	}
	k := newKit(t, nil, script.Answer{Text: "hi"})
	if got, err := replay.Live(t.Context(), k.r, c, replay.LiveOptions{}); err != nil || len(got) != 1 || !got[0].Same {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestACaseDecidesNothing: its modes and approvals are those of the file's author.
// What is trusted is given again for the same call alone.
func TestACaseDecidesNothing(t *testing.T) {
	answers := func(content string) []script.Answer {
		return []script.Answer{wants("write_file", map[string]any{"path": "a.txt", "content": content}), {Text: "done"}}
	}
	asking := func(o *agentd.Options) { o.Loop.Host.Mode = "default" }
	for name, made := range map[string]*event.TurnOptions{"an approval": nil, "a mode": {PermissionMode: "bypass"}} {
		k := newKit(t, asking, answers("b")...)
		k.turn(mainSession, "write", made)
		c := k.parsed(command.ExportScope{SessionID: mainSession})
		for _, again := range []struct {
			content string
			trust   bool
			refused bool
		}{{"b", false, true}, {"b", true, false}, {"other", true, made == nil}} {
			now := newKit(t, asking, answers(again.content)...)
			got, err := replay.Live(t.Context(), now.r, c, replay.LiveOptions{Trust: again.trust})
			if err != nil || len(got) != 1 {
				t.Fatalf("%s: %+v, %v", name, got, err)
			}
			if refused := strings.Contains(got[0].Says, "write_file denied"); refused != again.refused {
				t.Errorf("%s, %+v: %s", name, again, got[0].Says)
			}
		}
	}
}
