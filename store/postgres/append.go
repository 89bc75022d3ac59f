package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"agentd/store"
)

// appendTries bounds how often a transaction is begun again because another one
// got in its way.
const appendTries = 20

// appendTo returns the one statement that moves the heads, inserts the records into a table, and aborts
// unless every session was where the group expects it and, if it has packs, every other node
// can read them. It leaves the row that followers look for, counts the other nodes, which are
// to be told, and says whether one of them can't read packs. A group with new sessions makes
// their rows, in place of a claim; see ClaimNew.
func appendTo(table string, makes bool) string {
	made, written, others := ``, `(SELECT count(*) FROM moved)`, ``
	if makes {
		others = ` AND NOT u.session_id = ANY ($13::text[])`
		made = `), made AS (
	INSERT INTO agentd.sessions (session_id, epoch, owner, head, hash)
	SELECT u.session_id, u.epoch, $11, u.head, CASE WHEN u.expected < 0 THEN '' ELSE u.hash END
	FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[]) AS u (session_id, epoch, expected, head, hash)
	WHERE u.session_id = ANY ($13::text[]) AND u.expected <= 0
		AND EXISTS (SELECT 1 FROM agentd.nodes n WHERE n.node_id = $11 AND n.incarnation = $14)
	ON CONFLICT (session_id) DO NOTHING
	RETURNING 1
`
		written += ` + (SELECT count(*) FROM made)`
	}
	return `
WITH moved AS (
	UPDATE agentd.sessions s SET
		head = CASE WHEN u.expected < 0 THEN s.head ELSE u.head END,
		hash = CASE WHEN u.expected < 0 THEN s.hash ELSE u.hash END
	FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[]) AS u (session_id, epoch, expected, head, hash)
	WHERE s.session_id = u.session_id AND s.epoch = u.epoch AND (u.expected < 0 OR s.head = u.expected)` + others + `
	RETURNING 1
` + made + `), inserted AS (
	INSERT INTO ` + table + ` (session_id, sequence, hash, crc, data)
	SELECT * FROM unnest($6::text[], $7::bigint[], $8::bytea[], $9::bigint[], $10::bytea[])
), noted AS (
	INSERT INTO agentd.appends (xid, node_id, sessions, heads, befores)
	SELECT pg_current_xact_id()::text::bigint, $11, $1, $4, $3 WHERE cardinality($6::text[]) > 0
)
SELECT agentd.require(` + written + ` = cardinality($1::text[]) AND (o.former = 0 OR NOT $12::boolean)), o.others, o.former > 0
FROM (
	SELECT count(*) AS others, count(*) FILTER (WHERE NOT n.about ? 'packs') AS former
	FROM agentd.nodes n WHERE n.node_id <> $11 AND n.lease_until > clock_timestamp()
) o`
}

var (
	appendSQL    = appendTo(allEvents, false)
	appendNewSQL = appendTo(allEvents, true)
)

const snapshotsSQL = `
INSERT INTO agentd.snapshots (session_id, name, sequence, hash, crc, data)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bytea[])
ON CONFLICT (session_id, name) DO UPDATE SET
	sequence = excluded.sequence, hash = excluded.hash, crc = excluded.crc, data = excluded.data`

// putNewSQL costs a quarter less than putSQL, which looks whether there is an entry and then
// inserts it in two steps. If there is one after all, nothing of the transaction is written.
const putNewSQL = `
INSERT INTO agentd.index_entries (kind, key, value)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[])`

// putSQL leaves alone what is there with the same value: sessions say the same again with
// each turn. It finds that out where it would insert, which is one search of the index fewer
// for everything else than asking before.
const putSQL = `
INSERT INTO agentd.index_entries AS x (kind, key, value)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[])
ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value WHERE x.value <> excluded.value`

// deleteSQL hides from the planner how many entries there are: for few it would take a plan of
// their own to be cheaper than one for all, and make it each time.
const deleteSQL = `
DELETE FROM agentd.index_entries x USING unnest((SELECT $1::text[]), $2::bytea[]) AS d (kind, key)
WHERE x.kind = d.kind AND x.key = d.key`

const stateSQL = `SELECT session_id, epoch, head FROM agentd.sessions WHERE session_id = ANY ($1)`

const keysSQL = `
SELECT x.kind, x.key FROM agentd.index_entries x JOIN unnest($1::text[], $2::bytea[]) AS d (kind, key)
ON x.kind = d.kind AND x.key = d.key`

// Append writes batches, each atomically. See [store.Store].
func (s *Store) Append(ctx context.Context, batches []*store.Batch) []error {
	g := newGroup(batches)
	if err := s.enterCall(ctx); err != nil {
		for i := range g.errs {
			g.errs[i] = err
		}
		return g.errs
	}
	defer s.calls.Done()
	for w := g.nextWave(); w != nil; w = g.nextWave() {
		s.takeNew(w.units)
		s.writeUnits(ctx, g, w.units)
	}
	return g.errs
}

// writeUnits writes units in one transaction, without those that can't be written,
// and settles all of them.
func (s *Store) writeUnits(ctx context.Context, g *group, units []*unit) {
	var err error
	cautious := false
	for range appendTries {
		if units = s.settleUnwritable(ctx, g, units, err); len(units) == 0 {
			return
		}
		cut, failure := s.findCut(ctx, units)
		if failure != nil {
			g.failAll(units, wrapFailed("append", failure))
			return
		}
		var others int
		others, err = s.writeTransaction(ctx, g.batches, units, cut, cautious)
		if err == nil {
			s.keeper.tellOthers(units, others)
			s.objectsDueIn(g.batches, units)
			return
		}
		if sqlState(err) == codeUndefinedTable && s.months.sql() != nil {
			s.months.forget() // the month is over, and its table was dropped
			continue
		}
		if !mayRetry(err) {
			break
		}
		cautious = cautious || sqlState(err) == codeUnique
	}
	if len(units) > 1 && separable(err) {
		for _, u := range units {
			s.writeUnits(ctx, g, []*unit{u})
		}
		return
	}
	if isConnection(err) {
		// The other connections of the pool are most likely as dead.
		s.pool.Reset()
	}
	g.failAll(units, fmt.Errorf("postgres: append: %w", committed(err)))
}

// mayRetry reports whether a transaction that failed with err, and wrote nothing,
// may succeed if it is tried again or without some of its units.
func mayRetry(err error) bool {
	switch sqlState(err) {
	case codeRejected, codeUnique, codeDeadlock, codeSerialization:
		return true
	default:
		return false
	}
}

// separable reports whether err may be the fault of one unit, such as a key that
// is too long.
func separable(err error) bool {
	code := sqlState(err)
	return code != "" && (code[:2] == "22" || code[:2] == "54" || code == codeUnique)
}

// settleUnwritable settles the units that a failed attempt can't write and returns the
// others. Before the first attempt, when cause is nil, it looks only at what is
// known to fail.
func (s *Store) settleUnwritable(ctx context.Context, g *group, units []*unit, cause error) []*unit {
	suspects := units
	switch {
	case cause == nil:
		suspects = suspicious(units)
	case sqlState(cause) != codeRejected && sqlState(cause) != codeUnique:
		return units
	}
	if len(suspects) == 0 {
		return units
	}
	f, err := s.readFences(ctx, suspects)
	if err == nil && len(newSessions(units)) > 0 {
		err = s.checkReplaced(ctx)
	}
	if err != nil {
		g.failAll(units, wrapFailed("append", err))
		return nil
	}
	var good []*unit
	for _, u := range units {
		if err := f.judge(u); err != nil && (cause != nil || u.doomed()) {
			g.failUnit(u, err)
			continue
		}
		good = append(good, u)
	}
	return good
}

// doomed reports whether a unit fails whatever the database holds.
func (u *unit) doomed() bool { return u.contradicts || u.expected == noHead }

func suspicious(units []*unit) []*unit {
	var list []*unit
	for _, u := range units {
		if u.doomed() {
			list = append(list, u)
		}
	}
	return list
}

// writeTransaction writes units in one round trip. It returns how many other nodes there
// are. A cautious one takes no entry for absent because its batch says that it is fresh.
func (s *Store) writeTransaction(ctx context.Context, batches []*store.Batch, units []*unit, c *cut, cautious bool) (others int, err error) {
	var b pgx.Batch
	month := s.months.sql()
	sql, args := s.appendStatement(batches, units, month)
	b.Queue(sql, args...).QueryRow(func(row pgx.Row) error {
		var ok, former bool
		err := row.Scan(&ok, &others, &former)
		if err == nil || sqlState(err) == codeRejected {
			// One that was rejected may have been because of its packs.
			s.packing.former.Store(err != nil || former)
		}
		return err
	})
	queueTrims(&b, units, month, c)
	queueSnapshots(&b, batches, units)
	queueChanges(&b, foldIndexOps(batches, units), cautious)
	queueBlobs(&b, batches, units)
	var conn *pgxpool.Conn
	if err := s.whenRoom(ctx, func() (err error) { conn, err = s.pool.Acquire(ctx); return err }); err != nil {
		return 0, unsent{err}
	}
	defer conn.Release()
	// SendBatch sends everything up to one Sync, which makes it one transaction,
	// and Close returns only after the server has committed it.
	err = conn.SendBatch(ctx, &b).Close()
	return others, err
}

// appendStatement returns the statement that appends units, with its arguments.
func (s *Store) appendStatement(batches []*store.Batch, units []*unit, month *eventSQL) (sql string, args []any) {
	plain, making := appendSQL, appendNewSQL
	if month != nil {
		plain, making = month.append, month.appendNew
	}
	args = s.appendArgs(batches, units)
	if fresh := newSessions(units); len(fresh) > 0 {
		return making, append(args, fresh, s.incarnation)
	}
	return plain, args
}

func (s *Store) appendArgs(batches []*store.Batch, units []*unit) []any {
	var sessions, ids []string
	var epochs, expected, heads, sequences, crcs []int64
	var last, hashes, data [][]byte
	p := packer{packs: s.packing.mayPack()}
	var records []*store.Record
	for _, u := range units {
		sessions = append(sessions, u.session)
		epochs = append(epochs, int64(u.epoch))
		expected = append(expected, u.expected)
		heads = append(heads, int64(u.head))
		last = append(last, u.hash[:])
		records = records[:0]
		for _, i := range u.batches {
			for n := range batches[i].Records {
				records = append(records, &batches[i].Records[n])
			}
		}
		p.rows(u.session, records, func(row *eventRow) {
			ids = append(ids, u.session)
			sequences = append(sequences, row.sequence)
			hashes = append(hashes, row.key)
			crcs = append(crcs, row.crc)
			data = append(data, row.data)
		})
	}
	return []any{sessions, epochs, expected, heads, last, textArray(ids), sequences, hashes, crcs, data, s.opts.NodeID, p.packed}
}

func queueSnapshots(b *pgx.Batch, batches []*store.Batch, units []*unit) {
	var sessions, names []string
	var sequences, crcs []int64
	var hashes, data [][]byte
	for _, u := range units {
		for _, sn := range latestSnapshots(batches, u) {
			sessions = append(sessions, u.session)
			names = append(names, sn.Name)
			sequences = append(sequences, int64(sn.Sequence))
			hashes = append(hashes, sn.Hash[:])
			crcs = append(crcs, checksum(u.session+"\x00"+sn.Name, sn.Sequence, sn.Hash[:], sn.Data))
			data = append(data, nonNil(sn.Data))
		}
	}
	if len(sessions) > 0 {
		b.Queue(snapshotsSQL, sessions, names, sequences, hashes, crcs, data)
	}
}

// latestSnapshots returns the last snapshot of each name that a unit writes.
func latestSnapshots(batches []*store.Batch, u *unit) []*store.Snapshot {
	var list []*store.Snapshot
	at := map[string]int{}
	for _, i := range u.batches {
		for n := range batches[i].Snapshots {
			sn := &batches[i].Snapshots[n]
			if j, ok := at[sn.Name]; ok {
				list[j] = sn
				continue
			}
			at[sn.Name] = len(list)
			list = append(list, sn)
		}
	}
	return list
}

// entries are index entries by column.
type entries struct {
	kinds        []string
	keys, values [][]byte
}

func (e *entries) add(entry store.Entry) {
	e.kinds = append(e.kinds, entry.Kind)
	e.keys = append(e.keys, []byte(entry.Key))
	e.values = append(e.values, nonNil(entry.Value))
}

func queueChanges(b *pgx.Batch, list []change, cautious bool) {
	var fresh, puts, deletes entries
	for _, c := range list {
		switch {
		case c.absent, c.fresh && !c.delete && !cautious:
			fresh.add(c.Entry)
		case !c.delete:
			puts.add(c.Entry)
		}
		if c.delete {
			deletes.add(c.Entry)
		}
	}
	if len(fresh.kinds) > 0 {
		b.Queue(putNewSQL, fresh.kinds, fresh.keys, fresh.values)
	}
	if len(puts.kinds) > 0 {
		b.Queue(putSQL, puts.kinds, puts.keys, puts.values)
	}
	if len(deletes.kinds) > 0 {
		b.Queue(deleteSQL, deletes.kinds, deletes.keys)
	}
}

// readFences reads what decides whether units can be written.
func (s *Store) readFences(ctx context.Context, units []*unit) (found, error) {
	f := found{sessions: map[string]sessionRow{}, keys: map[store.IndexKey]bool{}, trims: map[string]bool{}}
	var sessions []string
	var wanted entries
	for _, u := range units {
		sessions = append(sessions, u.session)
		for _, k := range u.absent {
			wanted.add(store.Entry{Kind: k.Kind, Key: k.Key})
		}
	}
	_, err := collectRows(ctx, s, func(row pgx.CollectableRow) (bool, error) {
		var id string
		var state sessionRow
		err := row.Scan(&id, &state.epoch, &state.head)
		f.sessions[id] = state
		return true, err
	}, stateSQL, sessions)
	if err == nil {
		err = s.lookTrims(ctx, units, &f)
	}
	if err != nil || len(wanted.kinds) == 0 {
		return f, err
	}
	_, err = collectRows(ctx, s, func(row pgx.CollectableRow) (bool, error) {
		var kind string
		var key []byte
		err := row.Scan(&kind, &key)
		f.keys[store.IndexKey{Kind: kind, Key: string(key)}] = true
		return true, err
	}, keysSQL, wanted.kinds, wanted.keys)
	return f, err
}
