package postgres

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/store"
)

func records(first uint64, n int) []store.Record {
	var list []store.Record
	for i := range n {
		list = append(list, store.Record{Sequence: first + uint64(i)})
	}
	return list
}

func putNew(key string) []store.IndexOp {
	return []store.IndexOp{{Entry: store.Entry{Kind: "k", Key: key}, IfAbsent: true}}
}

// TestWaves shows what shares a transaction: each line is a wave, each inner list
// the batches of a unit.
func TestWaves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		batches []*store.Batch
		want    [][][]int
	}{
		"sessions side by side": {
			[]*store.Batch{{SessionID: "b", Records: records(1, 2)}, {SessionID: "a", Records: records(5, 1)}},
			[][][]int{{{1}, {0}}},
		},
		"one after another": {
			[]*store.Batch{{SessionID: "a", Records: records(1, 2)}, {SessionID: "a", Records: records(3, 1)}, {SessionID: "a"}},
			[][][]int{{{0, 1, 2}}},
		},
		"a gap": {
			[]*store.Batch{{SessionID: "a", Records: records(1, 2)}, {SessionID: "a", Records: records(4, 1)}},
			[][][]int{{{0}}, {{1}}},
		},
		"another epoch": {
			[]*store.Batch{{SessionID: "a", Epoch: 1, Records: records(1, 1)}, {SessionID: "a", Epoch: 2, Records: records(2, 1)}},
			[][][]int{{{0}}, {{1}}},
		},
		"records after none": {
			[]*store.Batch{{SessionID: "a"}, {SessionID: "a", Records: records(1, 1)}},
			[][][]int{{{0}}, {{1}}},
		},
		"a key that another needs absent": {
			[]*store.Batch{{SessionID: "a", Index: putNew("x")}, {SessionID: "b", Index: putNew("y")}, {SessionID: "c", Index: putNew("x")}, {SessionID: "d"}},
			[][][]int{{{0}, {1}}, {{2}, {3}}},
		},
		"large ones apart": {
			[]*store.Batch{{SessionID: "a", Blobs: [][]byte{make([]byte, maxWave)}}, {SessionID: "b"}, {SessionID: "c"}},
			[][][]int{{{0}}, {{1}, {2}}},
		},
	} {
		var got [][][]int
		g := newGroup(c.batches)
		for w := g.nextWave(); w != nil; w = g.nextWave() {
			var units [][]int
			for _, u := range w.units {
				units = append(units, u.batches)
			}
			got = append(got, units)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestFailureStopsItsSession: what comes later in a failed session is settled
// without the database.
func TestFailureStopsItsSession(t *testing.T) {
	t.Parallel()
	g := newGroup([]*store.Batch{{SessionID: "a", Records: records(1, 1)}, {SessionID: "a", Records: records(2, 1)}, {SessionID: "a", Epoch: 9}})
	w := g.nextWave()
	g.failUnit(w.units[0], store.ErrFenced)
	if w := g.nextWave(); w != nil {
		t.Errorf("the failed session goes on with %v", w.units[0].batches)
	}
	for i, want := range []error{store.ErrFenced, store.ErrConflict, store.ErrConflict} {
		if !errors.Is(g.errs[i], want) {
			t.Errorf("batch %d: %v, want %v", i, g.errs[i], want)
		}
	}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]position{
		"10:10:":                           {min: 10, max: 10},
		"10:20:10,14,19":                   {min: 10, max: 20, open: []int64{10, 14, 19}},
		"4294967301:4294967302:4294967301": {min: 4294967301, max: 4294967302, open: []int64{4294967301}},
	} {
		want.text = text
		got, err := parsePosition(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(position{}), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
	for _, text := range []string{"", "10", "10:20", "10:20:30:40", "a:20:", "10:20:x", "10:20:1,"} {
		if p, err := parsePosition(text); err == nil {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
}

func TestMigrationsAreNumbered(t *testing.T) {
	t.Parallel()
	if steps, err := loadMigrations(migrationFiles); err != nil || len(steps) == 0 {
		t.Errorf("the embedded migrations: %d, %v", len(steps), err)
	}
	for _, names := range [][]string{{"0002_a.sql"}, {"0001_a.sql", "0003_b.sql"}, {"first.sql"}, {"0001_a.sql", "0001_b.sql"}} {
		files := fstest.MapFS{}
		for _, n := range names {
			files["migrations/"+n] = &fstest.MapFile{Data: []byte("SELECT 1")}
		}
		if _, err := loadMigrations(files); err == nil {
			t.Errorf("%v was accepted", names)
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rows, bytes, want int }{
		{0, 0, firstRows},
		{256, 256 * 600, 1024},
		{4096, 4096 * 600, pageBytes / 600},
		{256, 256 << 20, 1},
		{maxRows, maxRows * 10, maxRows},
	} {
		if got := nextRows(c.rows, c.bytes); got != c.want {
			t.Errorf("after %d rows of %d bytes: %d rows, want %d", c.rows, c.bytes, got, c.want)
		}
	}
}
