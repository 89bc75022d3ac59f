package work

import (
	"testing"
	"time"
)

// Whatever a schedule's text is, it is refused or its next time lies ahead.
func FuzzCron(f *testing.F) {
	for _, s := range []string{"*/5 * * * *", "0 9 * * 1-5", "0 0 31 2 *", "59 23 L * *", "@daily", "", "1-0 * * * *", "0 0 1 JAN MON", "*/0 * * * *"} {
		f.Add(s)
	}
	after := time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := parseCron(text, time.UTC)
		if err != nil {
			return
		}
		if next := spec.next(after); !next.IsZero() && !next.After(after) {
			t.Errorf("%q: after %v comes %v", text, after, next)
		}
	})
}
