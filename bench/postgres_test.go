package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/bench/rawpg"
	"agentd/bench/rig"
	"agentd/internal/pgtest"
	"agentd/session"
	"agentd/store/postgres"

	"github.com/jackc/pgx/v5"
)

// database is a cluster of its own and what it has used so far. If the environment has
// AGENTD_BENCH_STATEMENTS, its statements are counted.
type database struct {
	url    string
	pid    int
	conn   *pgx.Conn
	counts bool
}

func (d *database) run(tb testing.TB, sql string) {
	tb.Helper()
	if _, err := d.conn.Exec(context.Background(), sql); err != nil {
		tb.Fatal(err)
	}
}

// forget begins to count the statements anew.
func (d *database) forget(tb testing.TB) {
	tb.Helper()
	if d.counts {
		d.run(tb, `SELECT pg_stat_statements_reset()`)
	}
}

// statements prints what was asked of the database since forget, for each of n turns.
func (d *database) statements(tb testing.TB, n int) {
	tb.Helper()
	if !d.counts {
		return
	}
	rows, err := d.conn.Query(context.Background(), `SELECT calls, total_exec_time, total_plan_time, plans, rows, left(regexp_replace(query, '\s+', ' ', 'g'), 150)
		FROM pg_stat_statements ORDER BY total_exec_time + total_plan_time DESC LIMIT 40`)
	if err != nil {
		tb.Fatal(err)
	}
	var calls, plans, count int64
	var took, planned float64
	var text string
	_, err = pgx.ForEachRow(rows, []any{&calls, &took, &planned, &plans, &count, &text}, func() error {
		each := func(v float64) float64 { return v / float64(n) }
		fmt.Printf("%8.3f calls %8.3f ms, %6.3f plans %8.3f ms %8.2f rows  %s\n", each(float64(calls)), each(took), each(float64(plans)), each(planned), each(float64(count)), text)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	d.tables(tb, n)
}

// tables prints what changed in the tables since the database was made, for each of n turns.
func (d *database) tables(tb testing.TB, n int) {
	tb.Helper()
	rows, err := d.conn.Query(context.Background(), `SELECT relname, n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del, pg_total_relation_size(relid) FROM pg_stat_user_tables
		WHERE n_tup_ins + n_tup_upd + n_tup_del > 0 ORDER BY 2 DESC`)
	if err != nil {
		tb.Fatal(err)
	}
	var name string
	var inserted, updated, inPlace, deleted, size int64
	_, err = pgx.ForEachRow(rows, []any{&name, &inserted, &updated, &inPlace, &deleted, &size}, func() error {
		each := func(v int64) float64 { return float64(v) / float64(n) }
		fmt.Printf("%8.3f inserted %8.3f updated (%8.3f in their page) %8.3f deleted %10.0f bytes  %s\n", each(inserted), each(updated), each(inPlace), each(deleted), each(size), name)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	rows, err = d.conn.Query(context.Background(), `SELECT kind, count(*), sum(length(key) + length(value)) FROM agentd.index_entries GROUP BY 1 ORDER BY 2 DESC`)
	if err != nil {
		tb.Fatal(err)
	}
	_, err = pgx.ForEachRow(rows, []any{&name, &inserted, &size}, func() error {
		fmt.Printf("%10d entries %10d bytes %s\n", inserted, size, name)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

func startDatabase(tb testing.TB) *database {
	tb.Helper()
	c := pgtest.Start(tb)
	d := &database{url: c.Database(tb)}
	d.conn = connectTo(tb, d.url)
	if d.counts = os.Getenv("AGENTD_BENCH_STATEMENTS") != ""; d.counts {
		d.run(tb, `ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'`)
		c.Restart(tb)
		d.conn = connectTo(tb, d.url)
		d.run(tb, `CREATE EXTENSION pg_stat_statements`)
		d.run(tb, `ALTER SYSTEM SET pg_stat_statements.track_planning = on`)
		d.run(tb, `SELECT pg_reload_conf()`)
	}
	var file string
	if err := d.conn.QueryRow(context.Background(), `SELECT pg_read_file('postmaster.pid')`).Scan(&file); err != nil {
		tb.Fatal(err)
	}
	if _, err := fmt.Sscan(file, &d.pid); err != nil {
		tb.Fatal(err)
	}
	return d
}

func connectTo(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// used is what a database did: the processor time of all its processes, the
// transactions that it committed and the bytes of its write-ahead log.
type used struct {
	cpu          time.Duration
	transactions int64
	wal          int64
}

func (d *database) usage(tb testing.TB) used {
	tb.Helper()
	u, err := rig.ReadUsage(d.pid)
	if err != nil {
		tb.Fatal(err)
	}
	out := used{cpu: u.Total()}
	err = d.conn.QueryRow(context.Background(), `SELECT xact_commit + xact_rollback, (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint
		FROM pg_stat_database WHERE datname = current_database()`).Scan(&out.transactions, &out.wal)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func (u used) sub(before used) used {
	return used{u.cpu - before.cpu, u.transactions - before.transactions, u.wal - before.wal}
}

// BenchmarkInsert is the rate of durable events over PostgreSQL through the whole path
// beside a bare fenced group-commit insert of the same bytes, in turn, with as many
// clients. Each has a cluster of its own. A run takes about half a minute.
func BenchmarkInsert(b *testing.B) {
	for _, sessions := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) { benchmarkInsert(b, sessions) })
	}
}

func benchmarkInsert(b *testing.B, sessions int) {
	ours, bare := startDatabase(b), startDatabase(b)
	s, err := postgres.Open(context.Background(), ours.url, nil)
	if err != nil {
		b.Fatal(err)
	}
	m := session.New(session.Options{Store: s, RuntimeID: "runtime_bench"})
	defer closeAll(b, m, s)
	feeds := make([]*feed, sessions)
	for i := range feeds {
		feeds[i] = newFeed(b, m)
	}
	raw, err := rawpg.Create(context.Background(), bare.url, sessions)
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	payload := []byte(strings.Repeat("x", eventSize))
	sequences := make([]int64, sessions)
	emit := func(i int) error { return feeds[i].emit() }
	insert := func(i int) error {
		sequences[i]++
		return raw.Append(i, sequences[i], payload)
	}
	measure(b, sessions, warmUp, emit)
	measure(b, sessions, warmUp, insert)
	var mine, floor result
	var mineDB, floorDB used
	var ratios []float64
	for range rounds {
		before := ours.usage(b)
		slice := measure(b, sessions, 2*rawSlice, emit)
		mineDB = mineDB.plus(ours.usage(b).sub(before))
		before = bare.usage(b)
		rest := measure(b, sessions, 2*rawSlice, insert)
		floorDB = floorDB.plus(bare.usage(b).sub(before))
		ratios = append(ratios, slice.rate()/rest.rate())
		mine.add(slice)
		floor.add(rest)
	}
	slices.Sort(ratios)
	b.ReportMetric(mine.rate(), "events/s")
	b.ReportMetric(floor.rate(), "bare-events/s")
	b.ReportMetric(mine.rate()/floor.rate(), "of-bare")
	b.ReportMetric(ratios[0], "of-bare-min")
	b.ReportMetric(ratios[len(ratios)-1], "of-bare-max")
	b.ReportMetric(mine.cost(), "cpu-µs/event")
	b.ReportMetric(floor.cost(), "bare-cpu-µs/event")
	b.ReportMetric(each(mineDB.cpu, mine.n), "db-µs/event")
	b.ReportMetric(each(floorDB.cpu, floor.n), "bare-db-µs/event")
	b.ReportMetric(float64(mine.n)/float64(max(1, mineDB.transactions)), "events/transaction")
	b.ReportMetric(float64(floor.n)/float64(max(1, floorDB.transactions)), "bare-events/transaction")
	b.ReportMetric(float64(mineDB.wal)/float64(mine.n), "wal-B/event")
	b.ReportMetric(float64(floorDB.wal)/float64(floor.n), "bare-wal-B/event")
	b.ReportMetric(mine.percentile(50), "p50-µs")
	b.ReportMetric(floor.percentile(50), "bare-p50-µs")
	b.ReportMetric(0, "ns/op")
}

func (u used) plus(o used) used {
	return used{u.cpu + o.cpu, u.transactions + o.transactions, u.wal + o.wal}
}

// each is a time per operation, in microseconds.
func each(d time.Duration, n int) float64 {
	return float64(d.Nanoseconds()) / 1000 / float64(max(1, n))
}
