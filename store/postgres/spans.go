package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"agentd/store"
)

// spansSQL searches the index once for each span, whatever the database believes about the
// size of the table: OFFSET keeps the subquery as it is.
const spansSQL = `
SELECT u.n, e.sequence, e.hash, e.crc, e.data
FROM unnest($1::text[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS u (session_id, first, last, n)
CROSS JOIN LATERAL (
	SELECT e.sequence, e.hash, e.crc, e.data FROM agentd.events e
	WHERE e.session_id = u.session_id AND e.sequence >= u.first AND e.sequence <= u.last
	ORDER BY e.sequence OFFSET 0
) e`

// spanRow is a record and the span that it belongs to, counted from 1.
type spanRow struct {
	recordRow
	n int64
}

// ReadSpans implements [store.SpanReader].
func (s *Store) ReadSpans(ctx context.Context, spans []store.Span) ([][]store.Record, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	var sessions []string
	var first, last []int64
	for _, span := range spans {
		sessions, first, last = append(sessions, span.SessionID), append(first, clamp(span.First)), append(last, clamp(span.Last))
	}
	rows, err := collectRows(ctx, s, scanSpan, spansSQL, textArray(sessions), first, last)
	if err != nil {
		return nil, wrapFailed("read sessions", err)
	}
	out := make([][]store.Record, len(spans))
	broken := make([]bool, len(spans))
	for _, row := range rows {
		i := row.n - 1
		wanted := spans[i].First + uint64(len(out[i]))
		if row.Sequence != wanted || checksum(spans[i].SessionID, row.Sequence, row.Hash[:], row.Data) != row.crc {
			broken[i] = true
		}
		out[i] = append(out[i], row.Record)
	}
	for i, span := range spans {
		if broken[i] || uint64(len(out[i])) != span.Last+1-span.First {
			out[i] = nil
		}
	}
	return out, nil
}

func scanSpan(row pgx.CollectableRow) (spanRow, error) {
	var r spanRow
	var sequence int64
	var hash pgtype.DriverBytes // valid until the next row, which is enough
	err := row.Scan(&r.n, &sequence, &hash, &r.crc, &r.Data)
	r.Sequence, r.Hash = uint64(sequence), toHash(hash)
	return r, err
}

var _ store.SpanReader = (*Store)(nil)
