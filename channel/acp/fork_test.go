package acp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/internal/adaptertest"
	"agentd/model/provider/script"
)

// fork forks a session's only thread at its end.
func fork(t *testing.T, rt command.Runtime, sessionID string) string {
	t.Helper()
	var v struct {
		Sequence uint64
		Threads  []struct{ ThreadID string }
	}
	adaptertest.Session(t, rt, sessionID, &v)
	made, err := rt.Do(t.Context(), command.Local(), &command.ForkThread{SessionID: sessionID, ThreadID: v.Threads[0].ThreadID, AtSequence: v.Sequence})
	if err != nil {
		t.Fatal(err)
	}
	return made.(*command.ForkThreadResult).SessionID
}

// loadedTexts are the texts of a load, in order.
func (p *testClient) loadedTexts(sessionID, cwd string) []string {
	p.Helper()
	answer := p.ask("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, sessionID, cwd))
	p.aside = nil
	if m := p.answerTo(answer); m.Error != nil {
		p.Fatalf("%+v", m.Error)
	}
	var out []string
	for _, m := range p.aside {
		var u struct {
			Update struct {
				SessionUpdate string
				Content       struct{ Text string }
			}
		}
		if json.Unmarshal(m.Params, &u) == nil && strings.HasSuffix(u.Update.SessionUpdate, "_message_chunk") {
			out = append(out, u.Update.Content.Text)
		}
	}
	return out
}

// TestAForkIsLoadedWithItsPast: what was said before a fork, and before the fork of
// a fork, is told, and nothing that was said in the source since.
func TestAForkIsLoadedWithItsPast(t *testing.T) {
	var answers []script.Answer
	for said, answer := range map[string]string{"first": "one", "elsewhere": "two", "second": "three", "third": "four"} {
		answers = append(answers, script.Answer{When: &script.When{Contains: said}, Text: answer})
	}
	rt := adaptertest.Open(t, answers...)
	p := connect(t, rt)
	cwd := t.TempDir()
	p.answerTo(p.ask("initialize", `{"protocolVersion":1,"clientCapabilities":{}}`))
	var s struct {
		SessionID string `json:"sessionId"`
	}
	if err := json.Unmarshal(p.answerTo(p.ask("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, cwd))).Result, &s); err != nil {
		t.Fatal(err)
	}
	p.answerTo(p.prompt(s.SessionID, "first"))
	second := fork(t, rt, s.SessionID)
	p.answerTo(p.prompt(s.SessionID, "elsewhere")) // the source goes its own way
	if got, want := p.loadedTexts(second, cwd), []string{"first", "one"}; !slices.Equal(got, want) {
		t.Errorf("the fork was told %q, want %q", got, want)
	}
	p.answerTo(p.prompt(second, "second"))
	third := fork(t, rt, second)
	if got, want := p.loadedTexts(third, cwd), []string{"first", "one", "second", "three"}; !slices.Equal(got, want) {
		t.Errorf("the fork of the fork was told %q, want %q", got, want)
	}
	// It goes on, and its own is told after what it was forked from.
	p.answerTo(p.prompt(third, "third"))
	if got, want := p.loadedTexts(third, cwd), []string{"first", "one", "second", "three", "third", "four"}; !slices.Equal(got, want) {
		t.Errorf("the fork of the fork was told %q, want %q", got, want)
	}
}
