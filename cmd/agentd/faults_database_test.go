package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
)

// prepareStandby gives the database a standby that has everything which was acknowledged.
func (w *faultWorld) prepareStandby() {
	w.t.Helper()
	w.standby = pgtest.Standby(w.t, w.cluster)
}

// promote crashes the database, makes the standby the database, and leads the wires there.
func (w *faultWorld) promote() {
	w.t.Helper()
	w.cluster.Kill(w.t)
	w.standby.Promote(w.t)
	w.cluster, w.standby = w.standby, nil
	for _, n := range w.nodes {
		n.wire.leadTo(w.t, w.cluster.URL(w.database))
	}
}

// fakeClock lets the database's clock be set: what the nodes ask for the time is a function
// of ours, which stands before PostgreSQL's own of that name.
func (w *faultWorld) fakeClock(url string) {
	w.t.Helper()
	w.execute(url, `
CREATE SCHEMA fake;
CREATE TABLE fake.jumps (ahead interval NOT NULL);
CREATE FUNCTION fake.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
	AS 'SELECT pg_catalog.clock_timestamp() + coalesce((SELECT sum(ahead) FROM fake.jumps), interval ''0'')';
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = fake, pg_catalog, public', current_database()); END $$`)
}

// noteLapses has the database note when a node renews a lease that was over, or gives it up.
func (w *faultWorld) noteLapses() {
	w.t.Helper()
	w.execute(w.cluster.URL(w.database), `
CREATE TABLE fake.lapses (node_id text);
CREATE FUNCTION fake.note_lapse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF OLD.lease_until < fake.clock_timestamp() THEN INSERT INTO fake.lapses VALUES (OLD.node_id); END IF;
	IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER note_lapse BEFORE UPDATE OR DELETE ON agentd.nodes FOR EACH ROW EXECUTE FUNCTION fake.note_lapse()`)
}

// lapses counts the leases that were lost, once all nodes that run have theirs.
func (w *faultWorld) lapses() int {
	w.t.Helper()
	ctx := context.WithoutCancel(w.t.Context())
	conn, err := pgx.Connect(ctx, w.cluster.URL(w.database))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for {
		var over, n int
		if err := conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM agentd.nodes WHERE lease_until < fake.clock_timestamp()), (SELECT count(*) FROM fake.lapses)`).Scan(&over, &n); err != nil {
			w.t.Fatal(err)
		}
		if over == 0 {
			return n
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// jump moves the database's clock.
func (w *faultWorld) jump(by time.Duration) {
	w.t.Helper()
	w.execute(w.cluster.URL(w.database), `INSERT INTO fake.jumps VALUES ($1::interval)`, by)
}

func (w *faultWorld) execute(url, sql string, args ...any) {
	w.t.Helper()
	ctx := context.WithoutCancel(w.t.Context())
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		w.t.Fatal(err)
	}
}
