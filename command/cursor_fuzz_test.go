package command

import (
	"testing"

	"agentd/fault"
)

// Whatever a cursor is, it is one that the command gave, or refused.
func FuzzOpenCursor(f *testing.F) {
	f.Add("")
	f.Add(SealCursor("list_sessions", "2026/sess_1"))
	f.Add(SealCursor("list_tasks", "x"))
	f.Add("AAAA")
	f.Add("===")
	f.Fuzz(func(t *testing.T, cursor string) {
		place, err := OpenCursor("list_sessions", cursor)
		if err != nil {
			if fault.KindOf(err) != fault.InvalidParams || place != "" {
				t.Errorf("%q: %q, %v", cursor, place, err)
			}
			return
		}
		if SealCursor("list_sessions", place) != cursor {
			t.Errorf("%q opens as %q, whose cursor is another", cursor, place)
		}
	})
}
