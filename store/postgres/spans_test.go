package postgres_test

import (
	"bytes"
	"testing"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/storetest"
)

// TestReadSpans: a span that is there as a whole is returned as Read returns it; any other
// has nothing, and doesn't take the others with it.
func TestReadSpans(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, nil)
	t.Cleanup(func() { shut(t, s) })
	packNothing(s)
	all := map[string][]store.Record{}
	for _, id := range []string{"a", "b", "damaged", "gap"} {
		c := claim(t, s, id)
		all[id] = storetest.Continue(id, c.Head, 10, 100)
		if err := appendOne(t.Context(), s, &store.Batch{SessionID: id, Epoch: c.Epoch, Records: all[id]}); err != nil {
			t.Fatal(err)
		}
	}
	conn := connect(t, url)
	execute(t, conn, `UPDATE agentd.events SET data = 'x' WHERE session_id = 'damaged' AND sequence = 5`)
	execute(t, conn, `DELETE FROM agentd.events WHERE session_id = 'gap' AND sequence = 5`)
	cases := []struct {
		span store.Span
		n    int
	}{
		{store.Span{SessionID: "a", First: 1, Last: 10}, 10},
		{store.Span{SessionID: "b", First: 4, Last: 4}, 1},
		{store.Span{SessionID: "a", First: 9, Last: 11}, 0},
		{store.Span{SessionID: "none", First: 1, Last: 1}, 0},
		{store.Span{SessionID: "damaged", First: 4, Last: 6}, 0},
		{store.Span{SessionID: "damaged", First: 6, Last: 7}, 2},
		{store.Span{SessionID: "gap", First: 4, Last: 6}, 0},
		{store.Span{SessionID: "gap", First: 5, Last: 6}, 0},
		{store.Span{SessionID: "a", First: 1, Last: 10}, 10},
	}
	var spans []store.Span
	for _, c := range cases {
		spans = append(spans, c.span)
	}
	read, err := s.ReadSpans(t.Context(), spans)
	if err != nil || len(read) != len(spans) {
		t.Fatalf("%d results, %v", len(read), err)
	}
	for i, c := range cases {
		if len(read[i]) != c.n {
			t.Errorf("%+v: %d records, want %d", c.span, len(read[i]), c.n)
		}
		for n, r := range read[i] {
			want := all[c.span.SessionID][int(c.span.First)-1+n]
			if r.Sequence != want.Sequence || r.Hash != want.Hash || !bytes.Equal(r.Data, want.Data) {
				t.Errorf("%+v: record %d is not the one that was appended", c.span, n)
			}
		}
	}
	if none, err := s.ReadSpans(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("no spans: %v, %v", none, err)
	}
}
