package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// Records are kept in a table for each month, by the node's clock when they were appended.
// The tables inherit from agentd.events, which has what is from before there were months and
// what earlier versions append: a statement about agentd.events is about all of them. The
// fence on the session's row sees to it that a sequence is in one table only. Nothing rests
// on clocks: a record in the table of another month is found and kept as well.

const (
	// monthAhead is how long before it begins a month has its table.
	monthAhead = 7 * 24 * time.Hour
	// monthsLock is the advisory lock under which a node makes tables.
	monthsLock = migrationLock + 1
	// monthGrant is what a role needs that makes the tables.
	monthGrant = "GRANT CREATE ON SCHEMA agentd TO the role of this node, and GRANT the owner of agentd.events TO it"
	// lockPatience bounds how long others may have to queue behind a lock on tables.
	lockPatience = `SET LOCAL lock_timeout = '2s'`
)

const (
	allEvents = `agentd.events`

	// knownMonthsSQL lists the tables that this role can use.
	knownMonthsSQL = `
SELECT m.month FROM agentd.months m, to_regclass('agentd.events_' || m.month) AS t
WHERE has_table_privilege(t, 'SELECT') AND has_table_privilege(t, 'INSERT') AND has_table_privilege(t, 'DELETE')
ORDER BY m.month DESC`
	noteMonthSQL = `INSERT INTO agentd.months (month) VALUES ($1) ON CONFLICT (month) DO NOTHING`
)

// monthOf numbers the month of a time: 202611.
func monthOf(t time.Time) int {
	year, month, _ := t.UTC().Date()
	return year*100 + int(month)
}

func monthTable(month int) string { return allEvents + "_" + strconv.Itoa(month) }

func createMonthSQL(month int) string {
	return `CREATE TABLE IF NOT EXISTS ` + monthTable(month) + ` (PRIMARY KEY (session_id, sequence)) INHERITS (` + allEvents + `) WITH (toast_tuple_target = 4080)`
}

// eventSQL has the statements about the records of a month.
type eventSQL struct {
	append, appendNew string
	// read, reverse and spans look at the tables of this month and of the one before, and at
	// what is in none of a month: most often that is all there is of a session.
	read, reverse, spans string
	// trim removes records that others go with later, but for those in tables that will be
	// dropped as wholes.
	trim []string
}

func newEventSQL(month, before int) *eventSQL {
	tables := []string{monthTable(month), "ONLY " + allEvents}
	q := &eventSQL{append: appendTo(tables[0], false), appendNew: appendTo(tables[0], true), trim: []string{trimFrom(tables[0]), trimFrom(tables[1])}}
	if before > 0 {
		tables = append(tables, monthTable(before))
	}
	const selected = "SELECT session_id, sequence, hash, crc, data FROM "
	recent := "(" + selected + strings.Join(tables, " UNION ALL "+selected) + ")"
	q.read, q.reverse, q.spans = readFrom(recent, ""), readFrom(recent, "DESC"), spansFrom(recent)
	return q
}

// months is what a node knows of the tables. The zero value knows none: then everything is
// in agentd.events.
type months struct {
	known atomic.Pointer[map[int]*eventSQL]
	// now is the node's clock; nil before the store is open.
	now atomic.Pointer[func() time.Time]
	// told is when it was said last that tables can't be made.
	told time.Time
	// problem is why they couldn't be made the last time; nil if they could.
	problem atomic.Pointer[string]
}

// sql returns the statements for what is appended now, nil if there is no table for it.
func (m *months) sql() *eventSQL {
	known, now := m.known.Load(), m.now.Load()
	if known == nil || now == nil {
		return nil
	}
	return (*known)[monthOf((*now)())]
}

// learn takes in the tables that there are, newest first.
func (m *months) learn(list []int) {
	known := make(map[int]*eventSQL, len(list))
	for i, month := range list {
		before := 0
		if i+1 < len(list) {
			before = list[i+1]
		}
		known[month] = newEventSQL(month, before)
	}
	m.known.Store(&known)
}

// forget has everything done on agentd.events until the tables are looked for again.
func (m *months) forget() { m.known.Store(nil) }

// wanted returns the months that should have tables now.
func (m *months) wanted() []int {
	now := (*m.now.Load())()
	return slices.Compact([]int{monthOf(now), monthOf(now.Add(monthAhead))})
}

// missing returns those of the wanted months that aren't known.
func (m *months) missing() []int {
	known := m.known.Load()
	return slices.DeleteFunc(m.wanted(), func(month int) bool { return known != nil && (*known)[month] != nil })
}

// keepMonths makes the tables of this month and of the next if need be. Where it can't, records
// go to agentd.events.
func (s *Store) keepMonths(ctx context.Context, conn *pgx.Conn) error {
	if len(s.months.missing()) == 0 {
		return nil
	}
	if err := s.learnMonths(ctx, conn); err != nil {
		return err
	}
	missing := s.months.missing()
	if len(missing) == 0 {
		return nil
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockPatience); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(monthsLock)); err != nil {
			return err
		}
		for _, month := range missing {
			if _, err := tx.Exec(ctx, createMonthSQL(month)); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, noteMonthSQL, month); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make the table of a month: %w", err)
	}
	return s.learnMonths(ctx, conn)
}

func (s *Store) learnMonths(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, knownMonthsSQL)
	if err != nil {
		return err
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return err
	}
	s.months.learn(list)
	return nil
}

// tryMonths is keepMonths for a database that may not let it: records go to agentd.events
// then, and that is said once an hour.
func (s *Store) tryMonths(ctx context.Context, conn *pgx.Conn) {
	err := s.keepMonths(ctx, conn)
	if err == nil {
		s.months.problem.Store(nil)
	} else if ctx.Err() == nil {
		text := err.Error()
		s.months.problem.Store(&text)
	}
	if now := time.Now(); err != nil && ctx.Err() == nil && now.Sub(s.months.told) >= time.Hour {
		s.months.told = now
		s.opts.Logger.Warn("postgres: there is no table for this month: its events are kept with the others, and retention removes them row by row", "error", err, "grant", monthGrant)
	}
}

// mayMakeMonthsSQL says whether the role may make tables that inherit from agentd.events.
const mayMakeMonthsSQL = `
SELECT has_schema_privilege('agentd', 'CREATE') AND pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('agentd.events')`

// lookAtMonths learns which tables there are, and whether a node with this role could make
// what is missing.
func (s *Store) lookAtMonths(ctx context.Context, conn *pgx.Conn) error {
	if err := s.learnMonths(ctx, conn); err != nil {
		return err
	}
	var may bool
	if err := conn.QueryRow(ctx, mayMakeMonthsSQL).Scan(&may); err != nil {
		return err
	}
	if len(s.months.missing()) > 0 && !may {
		text := "the role of this node may not make it"
		s.months.problem.Store(&text)
	}
	return nil
}

// MonthProblem says why the table of a month couldn't be made, and what to grant if it lacks
// a right; both are empty if there is such a table.
func (s *Store) MonthProblem() (problem, grant string) {
	if p := s.months.problem.Load(); p != nil {
		return *p, monthGrant
	}
	return "", ""
}
