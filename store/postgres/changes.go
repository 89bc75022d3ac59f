package postgres

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

// changePosition is how far a reader of the changes has come: it has seen the rows of all
// transactions that are visible in seen, and of those visible in until the ones up to
// a place in the row of a transaction. Rows are read in the order of their transactions'
// ids, but only as far as one snapshot of the database reaches, since a transaction may
// get its id early and commit late.
type changePosition struct {
	seen  position
	until string // empty before a snapshot was taken to read up to
	xid   int64
	nth   int // how many sessions of that transaction's row were yielded
}

func (p *changePosition) String() string {
	if p.until == "" {
		return p.seen.text
	}
	return p.seen.text + "/" + p.until + "/" + strconv.FormatInt(p.xid, 10) + "/" + strconv.Itoa(p.nth)
}

func parseChangePosition(text string) (changePosition, error) {
	bad := fmt.Errorf("%w: %q", store.ErrPosition, text)
	if text == "" {
		text = "1:1:" // a snapshot in which nothing is visible
	}
	parts := strings.Split(text, "/")
	if len(parts) != 1 && len(parts) != 4 {
		return changePosition{}, bad
	}
	seen, err := parsePosition(parts[0])
	if err != nil {
		return changePosition{}, bad
	}
	p := changePosition{seen: seen, xid: seen.min}
	if len(parts) == 1 {
		return p, nil
	}
	if _, err := parsePosition(parts[1]); err != nil {
		return changePosition{}, bad
	}
	p.until = parts[1]
	if p.xid, err = strconv.ParseInt(parts[2], 10, 64); err != nil {
		return changePosition{}, bad
	}
	if p.nth, err = strconv.Atoi(parts[3]); err != nil || p.nth < 0 {
		return changePosition{}, bad
	}
	return p, nil
}

// Position returns the database's snapshot of now.
func (s *Store) Position(ctx context.Context) (string, error) {
	if err := s.enterCall(ctx); err != nil {
		return "", err
	}
	defer s.calls.Done()
	var text string
	if err := s.queryRow(ctx, []any{&text}, positionSQL); err != nil {
		return "", wrapFailed("read the position", err)
	}
	return text, nil
}

// changeRows is how many transactions are looked at in one page.
const changeRows = 256

// changesSQL reads the rows of transactions that one snapshot couldn't see and another can.
const changesSQL = `
SELECT xid, sessions, heads, befores FROM agentd.appends
WHERE xid >= $1 AND (xid >= $2 OR xid = ANY ($3)) AND pg_visible_in_snapshot(xid::text::xid8, $4::pg_snapshot)
ORDER BY xid LIMIT $5`

// changeRow is what one transaction wrote.
type changeRow struct {
	xid            int64
	sessions       []string
	heads, befores []int64
}

// Changes yields what was written to all sessions. See [store.Store].
func (s *Store) Changes(ctx context.Context, after string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		p, err := parseChangePosition(after)
		for last := false; err == nil; {
			if p.until == "" {
				last = true
				if p.until, err = s.Position(ctx); err != nil {
					break
				}
			}
			var rows []changeRow
			if rows, err = s.changePage(ctx, p); err != nil {
				break
			}
			for i := range rows {
				if !p.yieldRow(&rows[i], yield) {
					return
				}
			}
			if len(rows) == changeRows {
				continue
			}
			if last {
				return
			}
			p, err = parseChangePosition(p.until)
		}
		yield(store.Change{}, err)
	}
}

func (s *Store) changePage(ctx context.Context, p changePosition) ([]changeRow, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	rows, err := collectRows(ctx, s, func(row pgx.CollectableRow) (changeRow, error) {
		var r changeRow
		err := row.Scan(&r.xid, &r.sessions, &r.heads, &r.befores)
		return r, err
	}, changesSQL, p.xid, p.seen.max, p.seen.open, p.until, changeRows)
	if err != nil {
		return nil, wrapFailed("read the changes", err)
	}
	return rows, nil
}

// yieldRow yields what is left of a row and moves the position. It is false if the caller
// wants no more.
func (p *changePosition) yieldRow(r *changeRow, yield func(store.Change, error) bool) bool {
	from := 0
	if r.xid == p.xid {
		from = p.nth
	}
	for i := from; i < len(r.sessions); i++ {
		p.xid, p.nth = r.xid, i+1
		if i >= len(r.befores) || r.befores[i] < 0 {
			continue // a row of an earlier version, or a write without records
		}
		c := store.Change{SessionID: r.sessions[i], First: uint64(r.befores[i]) + 1, Last: uint64(r.heads[i]), Position: p.String()}
		if !yield(c, nil) {
			return false
		}
	}
	return true
}
