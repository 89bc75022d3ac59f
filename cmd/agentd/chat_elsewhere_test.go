package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/event"
)

// TestChatFollowsOthers: what others do to a session is seen in a chat that is open on it:
// the mode after a plan, the mode and the queue of their turns, a new name, an archive, the
// end of the session.
func TestChatFollowsOthers(t *testing.T) {
	dir := play(t, featureScript)
	p := start(t, filepath.Join(dir, "data"), "--config", filepath.Join(dir, "c.yaml"))
	here := atTerminal(t, 100, 40, p.chat(t, dir, "--mode", "plan"))
	here.does(step{sees: idle}, step{keys: "hello\r", sees: "You said: hello"}, step{sees: idle})
	session := p.sessionIDs(t)[0]
	lines := atTerminal(t, 100, 40, p.chat(t, dir, "--plain", "--mode", "plan", "--session", session), "NO_COLOR=1")
	lines.see("You said: hello")
	there := atTerminal(t, 100, 40, p.chat(t, dir, "--session", session))
	there.does(step{sees: idle}, step{sees: "· mode default"})

	// The plan is sent back in one and approved in another.
	here.does(step{keys: "roadmap\r", sees: "▸ y approve"})
	there.does(step{sees: "▸ y approve"}, step{sees: "· mode plan, then default"}, step{keys: "n smaller\r", sees: "plan sent back · smaller"}, step{sees: "Change less"}, step{sees: "▸ y approve"})
	here.does(step{sees: "Change less"}, step{sees: "▸ y approve"})
	there.does(step{keys: "a\r", sees: "plan approved · mode auto"}, step{sees: "As planned."}, step{sees: idle}, step{sees: "· mode default"})
	here.does(step{sees: "answered elsewhere: allow"}, step{sees: "As planned."}, step{sees: idle}, step{sees: "· mode auto"})
	lines.see("As planned.")
	lines.does(step{keys: "/status\n", sees: "mode       auto"})

	// Turns of others, and what waits behind them.
	there.does(step{keys: "wait long\r", sees: "Esc interrupts"}, step{keys: "then this\r", sees: "1 queued"})
	here.does(step{sees: "+ queued: then this"}, step{sees: "· mode default, then auto"}, step{sees: "1 queued"})
	here.does(step{keys: "/queue drop 1\r", sees: "removed from the queue: then this"}, step{loses: "1 queued"})
	lines.see("removed from the queue: then this")
	there.does(step{sees: "removed from the queue: then this"}, step{loses: "1 queued"}, step{keys: escape, sees: "✗ interrupted"}, step{sees: idle})
	here.does(step{sees: "✗ interrupted"}, step{sees: idle}, step{sees: "· mode auto"})

	// The session itself.
	p.asAdmin(t, "sessions", "update", session, "--title", "Another name")
	here.see("the session is called Another name now")
	here.does(step{keys: "/status\r", sees: "title      Another name"})
	p.asAdmin(t, "sessions", "update", session, "--archive")
	here.see("the session was archived")
	p.asAdmin(t, "sessions", "update", session, "--archive=false")
	here.see("the session is no longer archived")
	p.asAdmin(t, "sessions", "delete", session, "--yes")
	for _, c := range []*console{here, there, lines} {
		c.see("a new one begins with the next turn")
	}
	here.does(step{keys: "anew\r", sees: "You said: anew"})
	if ids := p.sessionIDs(t); len(ids) != 1 || ids[0] == session {
		t.Errorf("the sessions are %v, %s was deleted", ids, session)
	}
	here.leave()
	there.leave()
	lines.typing("/quit\n")
	if code := lines.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.stop(syscall.SIGTERM)
}

// asAdmin runs a command against the server.
func (p *process) asAdmin(t *testing.T, args ...string) string {
	t.Helper()
	cmd := self(t, append(args, "--server", p.url, "--data", filepath.Join(t.TempDir(), "none"))...)
	cmd.Env = append(cmd.Env, "AGENTD_TOKEN="+p.token())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// sessionIDs are the sessions of the server.
func (p *process) sessionIDs(t *testing.T) []string {
	t.Helper()
	var ids []string
	for _, part := range strings.Split(p.asAdmin(t, "sessions", "--all", "--json"), `"sessionId":"`)[1:] {
		if id, _, _ := strings.Cut(part, `"`); id != event.RuntimeSession {
			ids = append(ids, id)
		}
	}
	return ids
}
