package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

const getSQL = `SELECT value FROM agentd.index_entries WHERE kind = $1 AND key = $2`

// Get returns one index entry's value. See [store.Store].
func (s *Store) Get(ctx context.Context, kind, key string) ([]byte, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	var value []byte
	err := s.queryRow(ctx, []any{&value}, getSQL, kind, []byte(key))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("%w: %s %q", store.ErrNotFound, kind, key)
	}
	if err != nil {
		return nil, wrapFailed("get "+kind, err)
	}
	return value, nil
}

// scanSQL returns the statement that reads a page of entries. Each set of bounds has a text of
// its own, so that all bounds are searched for in the index whatever their values are: a plan
// that doesn't depend on values is made once for a connection and not for every scan, which
// takes the database longer than a short scan itself.
func scanSQL(reverse, ends, begun bool) string {
	sql := `SELECT key, value FROM agentd.index_entries WHERE kind = $1 AND key >= $2`
	place := 4
	if ends {
		sql += ` AND key < $` + strconv.Itoa(place)
		place++
	}
	order := ``
	beyond := `>`
	if reverse {
		order, beyond = ` DESC`, `<`
	}
	if begun {
		sql += ` AND key ` + beyond + ` $` + strconv.Itoa(place)
	}
	return sql + ` ORDER BY key` + order + ` LIMIT $3`
}

// Scan yields index entries. See [store.Store].
func (s *Store) Scan(ctx context.Context, sc store.Scan) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		p := newEntryPager(sc)
		for !p.done {
			page, err := s.entryPage(ctx, p)
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// entryPager is how far a Scan has come.
type entryPager struct {
	kind    string
	reverse bool
	from    []byte // inclusive
	to      []byte // exclusive; nil for no bound
	after   []byte // exclusive; nil for no bound
	left    int    // -1 for no bound
	rows    int
	done    bool
}

func newEntryPager(sc store.Scan) *entryPager {
	p := &entryPager{kind: sc.Kind, reverse: sc.Reverse, from: []byte(sc.Prefix), to: prefixEnd(sc.Prefix), left: sc.Limit, rows: firstRows}
	if sc.After != "" {
		p.after = []byte(sc.After)
	}
	if sc.Limit <= 0 {
		p.left = -1
	}
	return p
}

// prefixEnd returns the first key after all that begin with prefix; nil if there
// is none.
func prefixEnd(prefix string) []byte {
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] != 0xff {
			return append([]byte(prefix[:n-1]), prefix[n-1]+1)
		}
	}
	return nil
}

func (s *Store) entryPage(ctx context.Context, p *entryPager) ([]store.Entry, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	limit := p.rows
	if p.left >= 0 {
		limit = min(limit, p.left)
	}
	args := []any{p.kind, p.from, limit}
	if p.to != nil {
		args = append(args, p.to)
	}
	if p.after != nil {
		args = append(args, p.after)
	}
	page, err := collectRows(ctx, s, func(row pgx.CollectableRow) (store.Entry, error) {
		e := store.Entry{Kind: p.kind}
		var key []byte
		err := row.Scan(&key, &e.Value)
		e.Key = string(key)
		return e, err
	}, scanSQL(p.reverse, p.to != nil, p.after != nil), args...)
	if err != nil {
		return nil, wrapFailed("scan "+p.kind, err)
	}
	p.advance(page, limit)
	return page, nil
}

func (p *entryPager) advance(page []store.Entry, limit int) {
	size := 0
	for i := range page {
		size += len(page[i].Key) + len(page[i].Value) + 32
	}
	if p.left >= 0 {
		p.left -= len(page)
	}
	p.done = len(page) < limit || p.left == 0
	p.rows = nextRows(len(page), size)
	if len(page) > 0 {
		p.after = []byte(page[len(page)-1].Key)
	}
}
