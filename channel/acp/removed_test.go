package acp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"agentd/channel"
	"agentd/command"
	"agentd/internal/adaptertest"
	"agentd/model/provider/script"
	"agentd/session"
)

// notices are the titles of the notices that came beside the last answer.
func (p *testClient) notices() []string {
	var out []string
	for _, m := range p.aside {
		var u struct {
			Update struct{ SessionUpdate, Severity, Title string }
		}
		if json.Unmarshal(m.Params, &u) == nil && u.Update.SessionUpdate == "notice" {
			out = append(out, u.Update.Severity+": "+u.Update.Title)
		}
	}
	return out
}

// TestALoadTellsWhatIsGone: a session without its first events is loaded with a word
// about them, as a notice or, for clients that take none, as a message.
func TestALoadTellsWhatIsGone(t *testing.T) {
	rt := adaptertest.Open(t,
		script.Answer{When: &script.When{Contains: "first"}, Text: "one"},
		script.Answer{When: &script.When{Contains: "second"}, Text: "two"})
	for _, capabilities := range []string{`{}`, `{"session":{"notices":{}}}`} {
		p := connect(t, rt)
		p.answerTo(p.ask("initialize", `{"protocolVersion":1,"clientCapabilities":`+capabilities+`}`))
		var made struct{ SessionID string }
		cwd := t.TempDir()
		if err := json.Unmarshal(p.answerTo(p.ask("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, cwd))).Result, &made); err != nil {
			t.Fatal(err)
		}
		id := made.SessionID
		p.answerTo(p.prompt(id, "first"))
		whole := p.loadedTexts(id, cwd)
		if want := []string{"first", "one"}; !slices.Equal(whole, want) || len(p.notices()) > 0 {
			t.Errorf("%s: the whole session is told as %q, %q", capabilities, whole, p.notices())
		}
		gone, err := rt.TrimSession(t.Context(), command.Local(), id, session.TrimOptions{})
		if err != nil || gone.Through == 0 {
			t.Fatal(gone, err)
		}
		p.answerTo(p.prompt(id, "second"))
		note := channel.RemovedNote(gone.Through)
		want, notices := []string{note, "second", "two"}, []string(nil)
		if capabilities != `{}` {
			want, notices = want[1:], []string{"warning: " + note}
		}
		if got := p.loadedTexts(id, cwd); !slices.Equal(got, want) || !slices.Equal(p.notices(), notices) {
			t.Errorf("%s: what is left is told as %q with the notices %q, want %q and %q", capabilities, got, p.notices(), want, notices)
		}
		// Who goes on without being told of the past is told nothing of it.
		p.aside = nil
		p.answerTo(p.ask("session/resume", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, id, cwd)))
		if len(p.notices()) > 0 {
			t.Errorf("%q", p.notices())
		}
	}
}
