package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

// Iterators read pages, so that no connection is held while the caller works.
// A page has about pageBytes; how many rows that is, the page before tells.
const (
	pageBytes = 1 << 20
	firstRows = 256
	maxRows   = 8192
)

// nextRows returns how many rows the next page may have.
func nextRows(rows, bytes int) int {
	if rows == 0 || bytes == 0 {
		return firstRows
	}
	return min(max(rows*pageBytes/bytes, 1), maxRows, 4*rows)
}

const headSQL = `SELECT head, hash FROM agentd.sessions WHERE session_id = $1`

// Head returns the end of a session. See [store.Store].
func (s *Store) Head(ctx context.Context, sessionID string) (store.Head, error) {
	if err := s.enterCall(ctx); err != nil {
		return store.Head{}, err
	}
	defer s.calls.Done()
	var row headRow
	err := s.queryRow(ctx, []any{&row.head, &row.hash}, headSQL, sessionID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return store.Head{}, wrapFailed("read the head of "+sessionID, err)
	}
	return row.value(), nil
}

// readFrom returns the statement that reads a page from a table: the rows with records after $2
// and before $3, of which none ends at $5 or later. Each has the session's head beside it.
func readFrom(table, order string) string {
	return `SELECT e.sequence, e.hash, e.crc, e.data, (SELECT s.head FROM agentd.sessions s WHERE s.session_id = $1)
		FROM ` + table + ` e
		WHERE e.session_id = $1 AND e.sequence > greatest($2, ` + baseOfSQL + `) AND e.sequence < $5
			AND (e.sequence < $3 OR (octet_length(e.hash) > 32 AND substr(e.hash, 33) < int8send($3))) ORDER BY e.sequence ` + order + ` LIMIT $4`
}

var readSQL, readReverseSQL = readFrom(allEvents, ""), readFrom(allEvents, "DESC")

// Read yields records of a session. See [store.Store].
func (s *Store) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		p := newRecordPager(sessionID, r)
		for !p.done {
			page, err := s.recordPage(ctx, p)
			for _, record := range page {
				if !yield(record, nil) {
					return
				}
			}
			if err != nil {
				yield(store.Record{}, err)
				return
			}
		}
	}
}

// recordPager is how far a Read has come.
type recordPager struct {
	session       string
	reverse       bool
	after, before int64
	left          int // -1 for no bound
	rows          int
	last          int64 // sequence yielded last, 0 for none
	done          bool
	everywhere    bool // the tables of the last two months don't have it all
	ended         bool // the session had no record beyond
}

func newRecordPager(session string, r store.Range) *recordPager {
	p := &recordPager{session: session, reverse: r.Reverse, after: clamp(r.After), before: clamp(r.Before), left: r.Limit, rows: firstRows}
	if r.Before == 0 {
		p.before = noHead
	}
	if r.Limit <= 0 {
		p.left = -1
	}
	return p
}

func clamp(sequence uint64) int64 { return int64(min(sequence, noHead)) }

// recordPage returns the next page. Records before the damaged one come with the
// error.
func (s *Store) recordPage(ctx context.Context, p *recordPager) ([]store.Record, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	if p.after+1 >= p.before {
		p.done = true // an empty range, which may be within a pack
		return nil, nil
	}
	limit := p.rows
	if p.left >= 0 {
		limit = min(limit, p.left)
	}
	rows, err := s.pageRows(ctx, p, limit)
	if err != nil {
		return nil, wrapFailed("read "+p.session, err)
	}
	page := make([]store.Record, 0, len(rows))
	for i := range rows {
		list, err := p.inRange(&rows[i])
		if err != nil {
			return page, err
		}
		if len(list) == 0 {
			continue
		}
		if from, through := p.hole(int64(list[0].Sequence)); from > 0 {
			return page, s.absent(ctx, p.session, through, fmt.Errorf("postgres: read: %w: session %s: record %d is missing", store.ErrCorrupt, p.session, from))
		}
		if p.left >= 0 {
			list = list[:min(len(list), p.left-len(page))]
		}
		page = append(page, list...)
		p.last = int64(list[len(list)-1].Sequence)
		if len(page) == p.left {
			break
		}
	}
	p.advance(page, len(rows), limit)
	if next := p.next(); p.done && p.left != 0 && next > 0 && !p.ended {
		return page, s.absent(ctx, p.session, next, nil)
	}
	return page, nil
}

// pageRows reads a page from the tables of the last two months, and only if that isn't all of it
// from all. That is seen by the sequences, which have no gaps.
func (s *Store) pageRows(ctx context.Context, p *recordPager, limit int) ([]recordRow, error) {
	month := s.months.sql()
	sql, recent := readSQL, ""
	if p.reverse {
		sql = readReverseSQL
	}
	switch {
	case month == nil || p.everywhere:
	case p.reverse:
		recent = month.reverse
	default:
		recent = month.read
	}
	if recent != "" {
		rows, err := collectRows(ctx, s, scanRecord, recent, p.session, p.after, p.before, limit, beyondPack(p.before))
		whole := err == nil && p.isWhole(rows, limit)
		if err == nil && len(rows) == 0 && !p.reverse {
			whole, err = s.endsAt(ctx, p.session, p.after)
			p.ended = whole
		}
		switch {
		case sqlState(err) == codeUndefinedTable:
			s.months.forget() // it was dropped
		case err != nil || whole:
			return rows, err
		}
		p.everywhere = true
	}
	return collectRows(ctx, s, scanRecord, sql, p.session, p.after, p.before, limit, beyondPack(p.before))
}

// endsAt reports whether a session has no record after one.
func (s *Store) endsAt(ctx context.Context, sessionID string, after int64) (bool, error) {
	var row headRow
	err := s.queryRow(ctx, []any{&row.head, &row.hash}, headSQL, sessionID)
	if errors.Is(err, pgx.ErrNoRows) {
		return true, nil
	}
	return err == nil && row.head <= after, err
}

// isWhole reports whether rows are all that a page can have: from the one that it begins with
// to its limit, or to the end of the range or of the session.
func (p *recordPager) isWhole(rows []recordRow, limit int) bool {
	if len(rows) == 0 {
		return false
	}
	for i := 1; i < len(rows); i++ {
		before, after := &rows[i-1], &rows[i]
		if p.reverse {
			before, after = after, before
		}
		if after.first() != before.sequence+1 {
			return false
		}
	}
	first, last := &rows[0], &rows[len(rows)-1]
	end := min(p.before-1, rows[0].head)
	if p.reverse {
		return first.sequence >= end && (len(rows) == limit || last.first() <= p.after+1)
	}
	whole := first.first() <= p.after+1 && (len(rows) == limit || last.sequence >= end)
	p.ended = whole && last.sequence == rows[0].head
	return whole
}

// next is the first record that a read which is done would have gone on with; 0 if
// it saw the whole range. Most often there is none: the session ends there.
func (p *recordPager) next() int64 {
	switch {
	case p.after+1 >= p.before:
		return 0
	case p.reverse:
		return p.before - 1
	}
	return p.after + 1
}

// hole returns the first and the last record that should stand before the one of
// the given sequence in a read, 0 if it is the next.
func (p *recordPager) hole(sequence int64) (from, through int64) {
	switch {
	case p.reverse && p.last != 0 && sequence != p.last-1:
		return p.last - 1, p.last - 1
	case !p.reverse && sequence != max(p.last, p.after)+1:
		return max(p.last, p.after) + 1, sequence - 1
	}
	return 0, 0
}

// recordRow is a row, and the session's head at that time.
type recordRow struct {
	eventRow
	head int64
}

func scanRecord(row pgx.CollectableRow) (recordRow, error) {
	var r recordRow
	err := row.Scan(&r.sequence, &r.key, &r.crc, &r.data, &r.head)
	return r, err
}

// inRange returns the records of a row that are in the range, in the order of the read.
func (p *recordPager) inRange(row *recordRow) ([]store.Record, error) {
	list, err := row.records(p.session)
	if err != nil {
		return nil, err
	}
	from, to := 0, len(list)
	for from < to && int64(list[from].Sequence) <= p.after {
		from++
	}
	for from < to && int64(list[to-1].Sequence) >= p.before {
		to--
	}
	list = list[from:to]
	if p.reverse {
		slices.Reverse(list)
	}
	return list, nil
}

// advance goes on after a page that so many rows of a limit were read for.
func (p *recordPager) advance(page []store.Record, rows, limit int) {
	size := 0
	for i := range page {
		size += len(page[i].Data) + 64
	}
	if p.left >= 0 {
		p.left -= len(page)
	}
	p.done = rows < limit || p.left == 0
	p.rows = nextRows(rows, size)
	switch {
	case p.last == 0:
	case p.reverse:
		p.before = p.last
	default:
		p.after = p.last
	}
}

const (
	snapshotColumns = `SELECT name, sequence, hash, crc, data FROM agentd.snapshots WHERE session_id = $1`
	snapshotSQL     = snapshotColumns + ` AND name = $2`
	snapshotNextSQL = snapshotColumns + ` AND name > $2 ORDER BY name LIMIT 1`
)

// Snapshot returns the newest snapshot of that name. See [store.Store].
func (s *Store) Snapshot(ctx context.Context, sessionID, name string) (store.Snapshot, error) {
	return s.snapshot(ctx, snapshotSQL, sessionID, name)
}

// Snapshots yields all snapshots of a session. See [store.Store].
func (s *Store) Snapshots(ctx context.Context, sessionID string) iter.Seq2[store.Snapshot, error] {
	return func(yield func(store.Snapshot, error) bool) {
		// One at a time: a session has few, and each may be large.
		for after := ""; ; {
			sn, err := s.snapshot(ctx, snapshotNextSQL, sessionID, after)
			if errors.Is(err, store.ErrNotFound) {
				return
			}
			if !yield(sn, err) || err != nil {
				return
			}
			after = sn.Name
		}
	}
}

func (s *Store) snapshot(ctx context.Context, sql, sessionID, name string) (store.Snapshot, error) {
	if err := s.enterCall(ctx); err != nil {
		return store.Snapshot{}, err
	}
	defer s.calls.Done()
	sn := store.Snapshot{SessionID: sessionID}
	var sequence, crc int64
	var hash []byte
	err := s.queryRow(ctx, []any{&sn.Name, &sequence, &hash, &crc, &sn.Data}, sql, sessionID, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Snapshot{}, fmt.Errorf("%w: snapshot %s of session %s", store.ErrNotFound, name, sessionID)
	}
	if err != nil {
		return store.Snapshot{}, wrapFailed("read snapshot "+name+" of "+sessionID, err)
	}
	sn.Sequence, sn.Hash = uint64(sequence), toHash(hash)
	if checksum(sessionID+"\x00"+sn.Name, sn.Sequence, sn.Hash[:], sn.Data) != crc {
		return store.Snapshot{}, fmt.Errorf("%w: session %s: snapshot %s doesn't match its checksum", store.ErrCorrupt, sessionID, sn.Name)
	}
	return sn, nil
}

const sessionsSQL = `SELECT session_id FROM agentd.sessions WHERE session_id > $1 AND head > 0 ORDER BY session_id LIMIT $2`

// Sessions yields the ids of all sessions that have records. See [store.Store].
func (s *Store) Sessions(ctx context.Context, after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for {
			page, err := s.sessionPage(ctx, after)
			if err != nil {
				yield("", err)
				return
			}
			for _, id := range page {
				if !yield(id, nil) {
					return
				}
				after = id
			}
			if len(page) < maxRows {
				return
			}
		}
	}
}

func (s *Store) sessionPage(ctx context.Context, after string) ([]string, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	page, err := collectRows(ctx, s, pgx.RowTo[string], sessionsSQL, after, maxRows)
	if err != nil {
		return nil, wrapFailed("list sessions", err)
	}
	return page, nil
}
