package session_test

import (
	"errors"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
)

// TestTakenIDSaysNothingOfItsOwner creates things under ids that another account
// has: the answer is one and the same, whatever has the id.
func TestTakenIDSaysNothingOfItsOwner(t *testing.T) {
	k := runtimetest.New(t)
	acme := command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	stranger := command.Caller{Account: "stranger", Actor: event.Actor{Kind: "user"}}
	run := func(c command.Caller, p command.Params) error {
		_, err := k.Runtime.Do(t.Context(), c, p)
		return err
	}
	mustRun(t, run, acme, "create_session", `{"sessionId":"sess_acme"}`)
	mustRun(t, run, stranger, "create_session", `{"sessionId":"sess_own"}`)
	bodies := map[command.Name]string{
		"create_session":  `{"sessionId":"ID"}`,
		"create_task":     `{"taskId":"ID","objective":"x"SESSION}`,
		"create_job":      `{"jobId":"ID","instruction":"x","items":[{"input":"x"}],"start":false SESSION}`,
		"create_schedule": `{"scheduleId":"ID","everyMs":3600000,"task":{"objective":"x"}SESSION}`,
		"connect_channel": `{"channelId":"ID","transport":"sse","peerRole":"client"SESSION}`,
	}
	for name, body := range bodies {
		id := "taken_" + string(name)
		fill := func(session string) string {
			return strings.NewReplacer("ID", id, "SESSION", session).Replace(body)
		}
		mustRun(t, run, acme, name, fill(""))
		for _, session := range []string{"", `,"sessionId":"sess_own"`} {
			if name == "create_session" && session != "" {
				continue
			}
			err := run(stranger, mustDecode(t, name, fill(session)))
			f, ok := errors.AsType[*fault.Error](err)
			if want := "the id " + id + " can't be used here; choose another one"; !ok || f.Kind != fault.Conflict || f.Detail != want {
				t.Errorf("%s %s: %v, want a conflict: %s", name, fill(session), err, want)
			}
		}
	}
}

func mustDecode(t *testing.T, name command.Name, body string) command.Params {
	t.Helper()
	p, err := command.Decode(name, []byte(body))
	if err != nil {
		t.Fatalf("%s %s: %v", name, body, err)
	}
	return p
}

func mustRun(t *testing.T, run func(command.Caller, command.Params) error, c command.Caller, name command.Name, body string) {
	t.Helper()
	if err := run(c, mustDecode(t, name, body)); err != nil {
		t.Fatalf("%s %s: %v", name, body, err)
	}
}
