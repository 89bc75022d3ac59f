package session_test

import (
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
)

// A session that names no folder works where its caller is, and the same command from
// elsewhere is still the same command.
func TestSessionsWorkWhereTheirCallerIs(t *testing.T) {
	k := newKit(t, nil)
	here, there := command.Local(), command.Local()
	here.Workspace, there.Workspace = "/here", "/there"
	rootOf := func(sessionID string) (root string) {
		k.view(sessionID, func(s *state.Session) {
			if s.Workspace != nil {
				root = s.Workspace.Root
			}
		})
		return root
	}
	made := callAs[command.CreateSessionResult](k, here, &command.CreateSession{SessionID: "a"})
	if got := rootOf("a"); got != "/here" {
		t.Errorf("created in %q", got)
	}
	if again := callAs[command.CreateSessionResult](k, there, &command.CreateSession{SessionID: "a"}); again.ThreadID != made.ThreadID {
		t.Errorf("the same command again made %s", again.ThreadID)
	}
	k.refused(there, &command.CreateSession{SessionID: "a", Workspace: &event.Workspace{Root: "/there"}}, fault.Conflict)
	callAs[command.CreateSessionResult](k, here, &command.CreateSession{SessionID: "b", Workspace: &event.Workspace{Root: "/named"}})
	if got := rootOf("b"); got != "/named" {
		t.Errorf("a folder that was named became %q", got)
	}
	turn := callAs[command.SubmitTurnResult](k, there, &command.SubmitTurn{Input: event.Raw(`"hello"`)})
	if got := rootOf(turn.SessionID); got != "/there" {
		t.Errorf("a turn opened a session in %q", got)
	}
	turn = callAs[command.SubmitTurnResult](k, command.Local(), &command.SubmitTurn{Input: event.Raw(`"hello"`)})
	if got := rootOf(turn.SessionID); got != "" {
		t.Errorf("a caller that is nowhere opened a session in %q", got)
	}
}
