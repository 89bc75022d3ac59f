package session_test

import (
	"errors"
	"testing"

	"agentd/command"
	"agentd/fault"
)

// TestAnOlderFileCompletesNothing repeats an import that was cut off with a file that
// was exported earlier: all of it is here, but not all of what is here is in it, so
// the session stays one that nobody goes on with until the right file comes.
func TestAnOlderFileCompletesNothing(t *testing.T) {
	from := newKit(t, nil)
	for len(from.records("sess_a")) < 300 {
		from.turns("sess_a", 20)
	}
	file := from.records("sess_a")
	for _, have := range []int{0, 20} { // with nothing before, and with a beginning that is whole
		to := newKit(t, nil)
		if _, err := to.importRecords("sess_a", file[:have], func() {}); have > 0 && err != nil {
			t.Fatal(err)
		}
		in, err := to.m.BeginImport(t.Context(), "sess_a")
		if err != nil {
			t.Fatal(err)
		}
		for i := range have + 280 {
			if err := in.Add(t.Context(), &file[i]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := in.Close(t.Context(), errors.New("cut off")); err == nil {
			t.Fatal("it was not cut off")
		}
		if got, err := to.importRecords("sess_a", file[:have+100], func() {}); fault.KindOf(err) != fault.Conflict {
			t.Errorf("an older file: %+v, %v", got, err)
		}
		if _, err := runCommand(to.m, admin, &command.SubmitTurn{SessionID: "sess_a", Input: []byte(`"mine"`)}); fault.KindOf(err) != fault.Conflict {
			t.Errorf("somebody goes on with the part: %v", err)
		}
		if got, err := to.importRecords("sess_a", file, func() {}); err != nil || got.Events != uint64(len(file)) {
			t.Fatalf("%+v, %v", got, err)
		}
		to.turns("sess_a", 1)
	}
}
