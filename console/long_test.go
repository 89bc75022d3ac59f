package console_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/store/pebble"
)

// longSession writes a data directory with a session "long" of so many facts: the pieces of one answer.
func longSession(t *testing.T, dir string, facts int) {
	t.Helper()
	s, err := pebble.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := session.New(session.Options{Store: s, RuntimeID: "runtime_long"})
	table := command.NewTable(command.TableOptions{Repeats: m})
	m.Register(table)
	res, err := table.Do(t.Context(), command.Local(), &command.SubmitTurn{SessionID: "long", Create: true, Input: event.Raw(`"count"`)})
	if err != nil {
		t.Fatal(err)
	}
	turn := res.(*command.SubmitTurnResult)
	scope := event.Scope{ThreadID: turn.ThreadID, TurnID: turn.TurnID, TaskID: turn.TaskID, RunID: turn.RunID}
	for done := 0; done < facts; {
		step := min(1000, facts-done)
		if err := m.Emit(t.Context(), "long", event.ByLoop, func(tx *session.Tx) error {
			for i := range step {
				tx.Emit(event.Event{Type: event.TypeModelDelta, Scope: scope, Payload: &event.ModelDelta{Text: strconv.Itoa(done+i) + " "}})
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		done += step
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLongFigures measures what TestBrowser measures briefly: a session of a million facts, a tab that follows a
// thousand facts a second for a minute and an empty page for as long in its place, a minute offline.
// AGENTD_TEST_FOLLOW=600 follows for ten minutes. With AGENTD_TEST_QUIET the machine is said to have nothing else
// to do: more tasks over 50 ms than the empty page has then fail the test.
func TestLongFigures(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: takes minutes; set AGENTD_TEST_LONG")
	}
	sizes := map[string]string{"AGENTD_TEST_FOLLOW": "60", "AGENTD_TEST_OFFLINE": "60", "AGENTD_TEST_PAGES": "figures"}
	for name, value := range sizes {
		if os.Getenv(name) == "" {
			t.Setenv(name, value)
		}
	}
	if os.Getenv("AGENTD_TEST_CONTROL") == "" {
		t.Setenv("AGENTD_TEST_CONTROL", os.Getenv("AGENTD_TEST_FOLLOW"))
	}
	inBrowser(t, 1_000_000)
}

// TestLongGrowth compares the program with the console to the one without.
func TestLongGrowth(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: links the program twice; set AGENTD_TEST_LONG")
	}
	size := func(name string, flags ...string) int64 {
		out := filepath.Join(t.TempDir(), name)
		if text, err := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", out}, flags...), "agentd/cmd/agentd")...).CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, text)
		}
		info, err := os.Stat(out)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	grown := size("with") - size("without", "-tags", "noconsole")
	t.Logf("the console takes %d kB of the program", grown/1000)
	if grown > 1_500_000 {
		t.Errorf("the program grows by %d bytes, the bound is 1,500,000", grown)
	}
}
