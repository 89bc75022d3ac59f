package acp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentd/internal/adaptertest"
	"agentd/model/provider/script"
)

// TestAPromptThatIsCancelledWhileItIsAccepted takes its turn along.
func TestAPromptThatIsCancelledWhileItIsAccepted(t *testing.T) {
	rt := adaptertest.Open(t, script.Answer{Stall: time.Hour, Text: "late"})
	leaving := &adaptertest.Leaving{Runtime: rt}
	p := connect(t, leaving)
	id := p.open("{}")
	leaving.Leave = func() {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}`, p.nextID))
	}
	m := p.answerTo(p.prompt(id, "go"))
	if !strings.Contains(string(m.Result), "cancelled") && m.Error == nil {
		t.Errorf("the prompt was answered with %s", m.Result)
	}
	if status, category := adaptertest.Turn(t, rt, id); status != "cancelled" || category != "interrupted" {
		t.Errorf("the turn is %s, %s", status, category)
	}
}

// TestRequestsInOneWrite: a client that doesn't wait for the answer to its first request
// gets one to its second.
func TestRequestsInOneWrite(t *testing.T) {
	rt := adaptertest.Open(t)
	for range 20 {
		p := connect(t, rt)
		p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}` + "\n" +
			fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, t.TempDir()))
		if m := p.answerTo("2"); m.Error != nil || !strings.Contains(string(m.Result), `"sessionId"`) {
			t.Fatalf("answered with %+v", m)
		}
		p.leave()
	}
}
