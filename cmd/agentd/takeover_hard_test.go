package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// connected returns a connection to the fleet's database.
func (f *fleet) connected() *pgx.Conn {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(f.t.Context())) })
	return conn
}

// executed runs a statement on a connection.
func (f *fleet) executed(conn *pgx.Conn, sql string, args ...any) {
	f.t.Helper()
	if _, err := conn.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

// TestCommandBringsWorkThatWaits is [TestCommandBringsWork] for a node that waits for a person:
// it says so of what the dead node was doing, whether a command or the takeover was quicker.
func TestCommandBringsWorkThatWaits(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a := f.node(f.dir())
	manual := *f
	manual.config = writeFile(t, t.TempDir(), "manual.yaml", "node: {lease: 1h}\nrecovery: manual\n")
	b := manual.node(manual.dir())
	var turns []*command.SubmitTurnResult
	for range 5 {
		r := a.submit("hello")
		a.until(r.SessionID, "model.requested", 1)
		turns = append(turns, r)
	}
	f.kill(a)
	c, title := b.client(), "a new title"
	for _, r := range turns {
		for {
			var res command.UpdateSessionResult
			err := c.Do(t.Context(), &command.UpdateSession{SessionID: r.SessionID, Title: &title}, &res)
			if err == nil {
				break
			}
			if fault.KindOf(err) != fault.Unavailable {
				t.Fatal(err)
			}
		}
	}
	for _, r := range turns {
		if p, ok := b.until(r.SessionID, "thread.updated", 1).Payload.(*event.ThreadUpdated); !ok || p.Code != "recovery_manual" {
			t.Errorf("%s: the thread is %+v", r.SessionID, p)
		}
	}
}

// TestOneSessionThatHangs has a node hang while it takes up one session of a dead node: it goes
// on with those of another that dies.
func TestOneSessionThatHangs(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a, b := f.node(f.dir()), f.quick().node(f.dir())
	hangs := a.submit("hello")
	a.until(hangs.SessionID, "model.requested", 1)
	const lock = 471100
	conn, look := f.connected(), f.connected()
	f.executed(conn, fmt.Sprintf(`CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(%d); RETURN NEW; END $$`, lock))
	f.executed(conn, fmt.Sprintf(`CREATE TRIGGER hang BEFORE UPDATE ON agentd.sessions FOR EACH ROW WHEN (OLD.session_id = '%s' AND OLD.owner = NEW.owner AND OLD.epoch <> NEW.epoch) EXECUTE FUNCTION hang()`, hangs.SessionID))
	f.executed(conn, fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, lock))
	f.kill(a)
	for waiting := 0; waiting == 0; {
		if err := look.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted`, lock).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	other := f.node(f.dir())
	goesOn := other.submit("hello")
	other.until(goesOn.SessionID, "model.requested", 1)
	f.kill(other)
	b.completed(goesOn)
	f.executed(conn, fmt.Sprintf(`SELECT pg_advisory_unlock(%d)`, lock))
	b.completed(hangs)
}
