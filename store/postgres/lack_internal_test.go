package postgres

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestCallsWaitForAConnectionTogether: calls that come one after the other, as those for one
// session do, wait for a database without a connection as long as one of them would. The next
// time that it has none they wait again.
func TestCallsWaitForAConnectionTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Store{opts: Options{LeaseTTL: 10 * time.Second}}
		none := func() error { return &pgconn.PgError{Code: codeTooMany, SeverityUnlocalized: "FATAL"} }
		wait := func(calls int) time.Duration {
			start := time.Now()
			for range calls {
				if err := s.whenRoom(t.Context(), none); !isFull(err) {
					t.Errorf("a call ends with %v", err)
				}
			}
			return time.Since(start)
		}
		const bound = 5*time.Second + lastPause
		if d := wait(7); d < 5*time.Second || d > bound {
			t.Errorf("seven calls waited for %v", d)
		}
		if err := s.whenRoom(t.Context(), func() error { return errors.New("another") }); err == nil {
			t.Error("an error was lost")
		}
		if d := wait(1); d < 5*time.Second || d > bound {
			t.Errorf("a call after one that had a connection waited for %v", d)
		}
		time.Sleep(time.Hour)
		if d := wait(1); d < 5*time.Second || d > bound {
			t.Errorf("a call long after the others waited for %v", d)
		}
	})
}
