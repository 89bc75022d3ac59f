package acp_test

import (
	"fmt"
	"strings"
	"testing"

	"agentd/internal/adaptertest"
	"agentd/model/provider/script"
)

// A plan is shown whole, and its approval may choose the mode in which it is carried
// out.
func TestAPlanIsShownAndApproved(t *testing.T) {
	for option, want := range map[string]string{
		"allow_once":   `"currentModeId":"default"`,
		"approve_auto": `"currentModeId":"auto"`,
		"allow_always": `"status":"failed"`, // which isn't offered for a plan, and so is no yes
		"reject_once":  `"status":"failed"`,
	} {
		t.Run(option, func(t *testing.T) {
			p := connect(t, adaptertest.Open(t, adaptertest.Plans(), script.Answer{Text: "Carried out."}))
			id := p.open("{}")
			if m := p.answerTo(p.ask("session/set_mode", fmt.Sprintf(`{"sessionId":%q,"modeId":"plan"}`, id))); m.Error != nil {
				t.Fatal(m.Error)
			}
			p.next(func(m *line) bool { return strings.Contains(string(m.Params), `"currentModeId":"plan"`) })
			prompt := p.prompt(id, "plan first")
			m := p.awaitRequest("session/request_permission")
			for _, part := range []string{"Write it down.", `"kind":"switch_mode"`, "Approve this plan?", `"optionId":"approve_auto"`, `"optionId":"reject_once"`} {
				if !strings.Contains(string(m.Params), part) {
					t.Errorf("no %s in %s", part, m.Params)
				}
			}
			if strings.Contains(string(m.Params), "for this session") {
				t.Errorf("a plan can't be allowed for a session: %s", m.Params)
			}
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":%q}}}`, m.ID, option))
			p.next(func(m *line) bool { return strings.Contains(string(m.Params), want) })
			if m := p.answerTo(prompt); !strings.Contains(string(m.Result), "end_turn") {
				t.Errorf("%s %+v", m.Result, m.Error)
			}
		})
	}
}

// A credential is chosen from a list, in a form or in words, and the client is told
// why it is asked for.
func TestACredentialIsChosen(t *testing.T) {
	reference := adaptertest.References()[1]
	t.Run("form", func(t *testing.T) {
		p := connect(t, adaptertest.Open(t, adaptertest.Unlocks(), script.Answer{Text: "Done."}))
		prompt := p.prompt(p.open(`{"elicitation":{"form":{}}}`), "open it")
		m := p.awaitRequest("elicitation/create")
		if !strings.Contains(string(m.Params), `"enum":["env:FIRST_KEY","env:SECOND_KEY"]`) || !strings.Contains(string(m.Params), "the vault is locked") {
			t.Errorf("it asks %s", m.Params)
		}
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"value":%q}}}`, m.ID, reference))
		p.next(func(m *line) bool { return strings.Contains(string(m.Params), "opened with "+reference) })
		p.answerTo(prompt)
	})
	t.Run("words", func(t *testing.T) {
		p := connect(t, adaptertest.Open(t, adaptertest.Unlocks(), script.Answer{Text: "Done."}))
		id := p.open("{}")
		prompt := p.prompt(id, "open it")
		p.next(func(m *line) bool { return strings.Contains(string(m.Params), "One of: env:FIRST_KEY, env:SECOND_KEY") })
		p.answerTo(prompt)
		prompt = p.prompt(id, reference)
		p.next(func(m *line) bool { return strings.Contains(string(m.Params), "opened with "+reference) })
		p.answerTo(prompt)
	})
}
