package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"agentd/command"
	"agentd/event"
)

// halfMoved is a session that is being moved from node-a, which is gone, to node-b.
type halfMoved struct {
	t          *testing.T
	f          *fleet
	a, b, c    *process
	session    *command.SubmitTurnResult
	stuck      *command.SubmitTurnResult
	move       *command.MoveSession
	dirs       map[string]string
	roots      map[string]string
	hold, look *pgx.Conn
	answer     chan error
}

// newHalfMoved makes three nodes, and a session with a turn under way whose files only node-a
// has.
func newHalfMoved(t *testing.T) *halfMoved {
	t.Helper()
	f := newFleet(t, "1h", slow)
	h := &halfMoved{t: t, f: f, dirs: map[string]string{}, roots: map[string]string{}, answer: make(chan error, 1)}
	for _, name := range []string{"node-a", "node-b", "node-c"} {
		h.dirs[name], h.roots[name] = f.dir(), t.TempDir()
	}
	h.a, h.b, h.c = h.run("node-a", placedScript), h.run("node-b", movedScript), h.run("node-c", movedScript)
	h.session = h.a.submit("write it")
	h.c.completed(h.session)
	h.stuck = h.a.in(h.session.SessionID, "", "stay there")
	h.c.until(h.session.SessionID, "model.requested", 3)
	h.move = &command.MoveSession{SessionID: h.session.SessionID, NodeID: "node-b"}
	h.move.IdempotencyKey = "move it"
	h.hold, h.look = f.connect(), f.connect()
	return h
}

// connect makes a connection to the database, for as long as the test runs.
func (f *fleet) connect() *pgx.Conn {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(f.t.Context())) })
	return conn
}

func (h *halfMoved) run(name, script string) *process {
	h.t.Helper()
	return h.f.placed(name, h.roots[name], script, "").node(h.dirs[name])
}

func (h *halfMoved) exec(conn *pgx.Conn, sql string, args ...any) {
	h.t.Helper()
	if _, err := conn.Exec(h.t.Context(), sql, args...); err != nil {
		h.t.Fatal(err)
	}
}

// begin gives the command to node-b, and waits until the database holds it up there.
func (h *halfMoved) begin() (waiting int32) {
	h.t.Helper()
	go func() { h.answer <- h.b.client().Do(h.t.Context(), h.move, new(any)) }()
	for waiting == 0 {
		err := h.look.QueryRow(h.t.Context(), `SELECT coalesce(max(pid), 0) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%agentd.sessions%'`).Scan(&waiting)
		if err != nil {
			h.t.Fatal(err)
		}
	}
	return waiting
}

// kill kills node-b while the database holds it up, and ends that.
func (h *halfMoved) kill(waiting int32) {
	h.t.Helper()
	h.f.kill(h.b)
	h.exec(h.look, `SELECT pg_terminate_backend($1, 60000)`, waiting)
	<-h.answer // whether it was answered depends on where it was
}

// goesOn: the session goes on at node-b and nowhere else, the command has one result however
// often it is repeated, and node-a finds that out when it is back.
func (h *halfMoved) goesOn(through *process) {
	h.t.Helper()
	id := h.session.SessionID
	through.completed(h.stuck)
	first := call[command.MoveSessionResult](through, h.move)
	if first.From.NodeID != "node-a" || first.To.NodeID != "node-b" {
		h.t.Errorf("moved: %+v", first)
	}
	back := h.run("node-a", movedScript)
	if again := call[command.MoveSessionResult](back, h.move); *again != *first {
		h.t.Errorf("the repeated call says %+v, the first said %+v", again, first)
	}
	through.completed(back.in(id, "", "go on"))
	if p := back.placeOf(id); p == nil || p.Node != "node-b" || p.Away != "" {
		h.t.Errorf("the place is %+v", p)
	}
	moves, ends := 0, map[string]int{}
	for _, e := range through.eventsOf(id) {
		if p, ok := e.Payload.(*event.SessionUpdated); ok && p.LeavesFiles {
			moves++
		}
		if e.Type == "turn.completed" {
			ends[e.TurnID]++
		}
	}
	if moves != 1 || len(ends) != 3 || ends[h.stuck.TurnID] != 1 {
		h.t.Errorf("%d facts say that the session was moved, and turns ended as often as %v", moves, ends)
	}
	if out, errs, code := program(h.t, "verify", "--data", h.f.url, "--state-dir", h.f.dir(), "--config", h.f.config); code != 0 {
		h.t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
}

// TestMoveThatNeverHappened kills the node that a session is moved to before the fact is
// written: the session is where it was, and repeating the command moves it.
func TestMoveThatNeverHappened(t *testing.T) {
	h := newHalfMoved(t)
	h.f.kill(h.a)
	h.c.until(h.session.SessionID, "thread.updated", 1)
	h.exec(h.hold, `BEGIN`)
	h.exec(h.hold, `SELECT 1 FROM agentd.sessions WHERE session_id = $1 FOR UPDATE`, h.session.SessionID)
	h.kill(h.begin())
	h.exec(h.hold, `ROLLBACK`)
	if p := h.c.placeOf(h.session.SessionID); p == nil || p.Node != "node-a" {
		t.Errorf("the place is %+v: the fact was written before the node was killed, so nothing is tested", p)
	}
	b := h.run("node-b", movedScript)
	if p := b.placeOf(h.session.SessionID); p == nil || p.Node != "node-a" {
		t.Errorf("the place is %+v before the command is repeated", p)
	}
	call[command.MoveSessionResult](h.c, h.move)
	h.goesOn(b)
}

// TestMoveThatWasCutOff kills the node that a session is moved to after the fact was written,
// when it is about to go on with the session: started again, it goes on by itself.
func TestMoveThatWasCutOff(t *testing.T) {
	h := newHalfMoved(t)
	id := h.session.SessionID
	h.f.kill(h.a)
	h.c.until(id, "thread.updated", 1)
	var head int64
	if err := h.look.QueryRow(t.Context(), `SELECT head FROM agentd.sessions WHERE session_id = $1`, id).Scan(&head); err != nil {
		t.Fatal(err)
	}
	// The first write is that of the move, and what comes after it waits.
	h.exec(h.look, fmt.Sprintf(`CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF OLD.head > %d THEN PERFORM pg_advisory_xact_lock(42); END IF; RETURN NEW; END $$`, head))
	h.exec(h.hold, `SELECT pg_advisory_lock(42)`)
	h.exec(h.look, `CREATE TRIGGER hold BEFORE UPDATE ON agentd.sessions FOR EACH ROW WHEN (NEW.session_id = '`+id+`') EXECUTE FUNCTION hold()`)
	h.kill(h.begin())
	h.exec(h.hold, `SELECT pg_advisory_unlock(42)`) // first: node-c may wait for it, too
	h.exec(h.look, `DROP TRIGGER hold ON agentd.sessions`)
	if p := h.c.placeOf(id); p == nil || p.Node != "node-b" {
		t.Errorf("the place is %+v: the node was killed before the fact, so nothing is tested", p)
	}
	for _, e := range h.c.eventsOf(id) {
		if e.Type == "turn.completed" && e.TurnID == h.stuck.TurnID {
			t.Error("the turn ended before the node was killed, so nothing is tested")
		}
	}
	h.goesOn(h.run("node-b", movedScript))
}

// TestMoveWhoseSourceDies kills the drained node that a session is moved from while the other
// one takes it.
func TestMoveWhoseSourceDies(t *testing.T) {
	h := newHalfMoved(t)
	id := h.session.SessionID
	h.exec(h.hold, `BEGIN`)
	call[command.InterruptTurnResult](h.c, &command.InterruptTurn{SessionID: id, TurnID: h.stuck.TurnID})
	h.c.until(id, "turn.failed", 1)
	out, err := h.c.shell("nodes", "move", id, "--to", "node-b")
	if err == nil || !strings.Contains(out, `drain it first ("agentd nodes drain")`) || strings.Contains(out, "drain_node") {
		t.Errorf("agentd nodes move of a session whose node lives: %v\n%s", err, out)
	}
	call[command.DrainNodeResult](h.c, &command.DrainNode{NodeID: "node-a"})
	for s := h.c.states()["node-a"]; s != "drained"; s = h.c.states()["node-a"] {
		if s != "draining" {
			t.Fatalf("a node that is being drained says that it is %s", s)
		}
	}
	h.exec(h.hold, `SELECT 1 FROM agentd.sessions WHERE session_id = $1 FOR UPDATE`, id)
	h.begin()
	h.f.kill(h.a)
	h.exec(h.hold, `ROLLBACK`)
	if err := <-h.answer; err != nil {
		t.Fatal(err)
	}
	h.stuck = h.c.in(id, "", "and then")
	h.goesOn(h.b)
}
