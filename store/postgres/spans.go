package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

// spansFrom returns the statement that reads spans from a table. It searches the index once for
// each span, whatever the database believes about the size of the table: OFFSET keeps the
// subquery as it is.
func spansFrom(table string) string {
	return `
SELECT u.n, e.sequence, e.hash, e.crc, e.data
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS u (session_id, first, last, beyond, n)
CROSS JOIN LATERAL (
	SELECT e.sequence, e.hash, e.crc, e.data FROM ` + table + ` e
	WHERE e.session_id = u.session_id AND e.sequence >= u.first AND e.sequence < u.beyond
		AND (e.sequence <= u.last OR (octet_length(e.hash) > 32 AND substr(e.hash, 33) <= int8send(u.last)))
		AND e.sequence > coalesce((SELECT x.sequence FROM agentd.bases x WHERE x.session_id = u.session_id), 0)
	ORDER BY e.sequence OFFSET 0
) e`
}

var spansSQL = spansFrom(allEvents)

// spanRow is a row and the span that it belongs to, counted from 1.
type spanRow struct {
	eventRow
	n int64
}

// ReadSpans implements [store.SpanReader].
func (s *Store) ReadSpans(ctx context.Context, spans []store.Span) ([][]store.Record, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	out := make([][]store.Record, len(spans))
	left := make([]int, len(spans))
	for i := range left {
		left[i] = i
	}
	var err error
	if month := s.months.sql(); month != nil {
		left, err = s.readSpans(ctx, month.spans, spans, left, out)
		if sqlState(err) == codeUndefinedTable {
			s.months.forget() // it was dropped
			err = nil
		}
	}
	if err == nil && len(left) > 0 {
		_, err = s.readSpans(ctx, spansSQL, spans, left, out)
	}
	if err != nil {
		return nil, wrapFailed("read sessions", err)
	}
	return out, nil
}

// readSpans reads some of the spans, and returns those that aren't there as a whole.
func (s *Store) readSpans(ctx context.Context, sql string, spans []store.Span, which []int, out [][]store.Record) (left []int, err error) {
	var sessions []string
	var first, last, beyond []int64
	for _, i := range which {
		span := spans[i]
		sessions, first, last = append(sessions, span.SessionID), append(first, clamp(span.First)), append(last, clamp(span.Last))
		beyond = append(beyond, beyondPack(clamp(span.Last+1)))
	}
	rows, err := collectRows(ctx, s, scanSpan, sql, textArray(sessions), first, last, beyond)
	if err != nil {
		return which, err
	}
	broken := make([]bool, len(spans))
	for _, row := range rows {
		i := which[row.n-1]
		list, err := row.records(spans[i].SessionID)
		broken[i] = broken[i] || err != nil
		for _, r := range list {
			if r.Sequence < spans[i].First || r.Sequence > spans[i].Last {
				continue
			}
			broken[i] = broken[i] || r.Sequence != spans[i].First+uint64(len(out[i]))
			out[i] = append(out[i], r)
		}
	}
	for _, i := range which {
		if broken[i] || uint64(len(out[i])) != spans[i].Last+1-spans[i].First {
			out[i] = nil
			left = append(left, i)
		}
	}
	return left, nil
}

func scanSpan(row pgx.CollectableRow) (spanRow, error) {
	var r spanRow
	err := row.Scan(&r.n, &r.sequence, &r.key, &r.crc, &r.data)
	return r, err
}

var _ store.SpanReader = (*Store)(nil)
