package otlp

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/pebble"
	"agentd/store/postgres"
	"agentd/store/storetest"
	"agentd/telemetry/otlp/otlptest"
)

// eachEngine runs a test over every engine.
func eachEngine(t *testing.T, test func(t *testing.T, s store.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, storetest.NewMem()) })
	t.Run("pebble", func(t *testing.T) {
		s, err := pebble.Open(t.TempDir(), nil)
		test(t, opened(t, s, err))
	})
	t.Run("postgres", func(t *testing.T) { test(t, openNode(t, pgtest.Shared(t).Database(t), "one")) })
}

func opened(t *testing.T, s store.Store, err error) store.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openNode(t *testing.T, url, node string) store.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, &postgres.Options{NodeID: node, LeaseTTL: time.Hour})
	return opened(t, s, err)
}

// writes appends facts to a session as a runtime with an exporter does.
func writes(t *testing.T, e *Exporter, id string, first, last uint64) {
	t.Helper()
	c, err := e.marks.Claim(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	b := &store.Batch{SessionID: id, Epoch: c.Epoch}
	for n := first; n <= last; n++ {
		b.Records = append(b.Records, store.Record{Sequence: n, Data: sessionFact(t, id, n)})
	}
	if err := e.marks.Append(t.Context(), []*store.Batch{b})[0]; err != nil {
		t.Fatal(err)
	}
}

// sendsAll has everything of sessions sent, through a fact, with nothing open.
func (e *Exporter) sendsAll(t *testing.T, sessions map[string]uint64) {
	t.Helper()
	for id, through := range sessions {
		e.recordReached(marked{session: id, at: &position{Sent: through, From: through}, through: through})
	}
	e.savePositions(t.Context())
}

// finds catches up and returns what was found, for people.
func (e *Exporter) finds(t *testing.T) string {
	t.Helper()
	if _, err := e.catchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, id := range slices.Sorted(maps.Keys(e.behind)) {
		out = append(out, fmt.Sprintf("%s %d-%d", id, e.behind[id].first, e.behind[id].last))
	}
	return strings.Join(out, ", ")
}

func marksOf(t *testing.T, s store.Store) int {
	t.Helper()
	n := 0
	for _, err := range s.Scan(t.Context(), store.Scan{Kind: kindMark}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// newStart is the exporter of a process that starts.
func newStart(t *testing.T, s store.Store) *Exporter {
	t.Helper()
	e := benchExporter(s)
	if _, err := e.positions.firstSent(t.Context(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestAStartFindsWhatWasLeft: of three sessions one is sent, one is sent in part, and
// one isn't. The process ends without a word.
func TestAStartFindsWhatWasLeft(t *testing.T) {
	eachEngine(t, func(t *testing.T, s store.Store) {
		first := newStart(t, s)
		if found := first.finds(t); found != "" {
			t.Errorf("an empty store: %s", found)
		}
		writes(t, first, "sess_sent", 1, 3)
		writes(t, first, "sess_part", 1, 2)
		writes(t, first, "sess_left", 1, 1)
		writes(t, first, "sess_left", 2, 5)
		first.sendsAll(t, map[string]uint64{"sess_sent": 3, "sess_part": 2})
		writes(t, first, "sess_part", 3, 4)
		if n := marksOf(t, s); n != 2 {
			t.Errorf("%d marks, want those of two sessions", n)
		}
		second := newStart(t, s)
		if found := second.finds(t); found != "sess_left 1-5, sess_part 3-4" {
			t.Errorf("the next start finds %s", found)
		}
		// What it finds stays until it is sent.
		if found := newStart(t, s).finds(t); found != "sess_left 1-5, sess_part 3-4" {
			t.Errorf("a start after one that sent nothing finds %s", found)
		}
		writes(t, second, "sess_left", 6, 6)
		second.sendsAll(t, map[string]uint64{"sess_part": 4, "sess_left": 5})
		third := newStart(t, s)
		if found := third.finds(t); found != "sess_left 6-6" {
			t.Errorf("what was written meanwhile: %s", found)
		}
		third.sendsAll(t, map[string]uint64{"sess_left": 6})
		if found := newStart(t, s).finds(t); found != "" || marksOf(t, s) != 0 {
			t.Errorf("everything is sent, and %q is found; %d marks", found, marksOf(t, s))
		}
	})
}

// TestAStartFindsWhatWasLeftBeforeMarks: a store that an earlier version wrote.
func TestAStartFindsWhatWasLeftBeforeMarks(t *testing.T) {
	eachEngine(t, func(t *testing.T, s store.Store) {
		old := newStart(t, s)
		old.marks = &markingStore{Store: s, names: map[string]uint64{}} // keeps no marks
		for _, id := range []string{"sess_a", "sess_b"} {
			c, err := s.Claim(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Append(t.Context(), []*store.Batch{{SessionID: id, Epoch: c.Epoch, Records: []store.Record{{Sequence: 1, Data: sessionFact(t, id, 1)}}}})[0]; err != nil {
				t.Fatal(err)
			}
		}
		if err := old.positions.save(t.Context(), map[string]position{"sess_a": {Sent: 1, From: 1}}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first to look at all of them may end before it sent anything
			if found := newStart(t, s).finds(t); found != "sess_b 1-1" {
				t.Errorf("found: %s", found)
			}
		}
	})
}

// TestNodesLeaveMarksOfTheLiving: what a node that lives has not sent yet is its own.
func TestNodesLeaveMarksOfTheLiving(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	one, err := postgres.Open(t.Context(), url, &postgres.Options{NodeID: "one", LeaseTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	a := newStart(t, one)
	a.finds(t)
	writes(t, a, "sess_a", 1, 2)
	b := newStart(t, openNode(t, url, "two"))
	if found := b.finds(t); found != "" {
		t.Errorf("the other node lives, and its %s is taken", found)
	}
	again, err := b.catchUp(t.Context())
	if err != nil || again.IsZero() {
		t.Errorf("the other node is not looked at again: %v", err)
	}
	if err := one.Close(); err != nil { // which gives its lease up
		t.Fatal(err)
	}
	if found := b.finds(t); found != "sess_a 1-2" {
		t.Errorf("the other node is gone, and %q is found", found)
	}
}

// TestAMarkIsOnlyWhereFactsAre: a write that failed leaves none, and a session that
// moved on keeps its own.
func TestAMarkIsOnlyWhereFactsAre(t *testing.T) {
	s := storetest.NewMem()
	e := newStart(t, s)
	wrong := &store.Batch{SessionID: "sess_a", Epoch: 99, Records: []store.Record{{Sequence: 1, Data: sessionFact(t, "sess_a", 1)}}}
	if err := e.marks.Append(t.Context(), []*store.Batch{wrong})[0]; err == nil || len(e.marks.open) != 0 {
		t.Errorf("%v: %d marks", err, len(e.marks.open))
	}
	writes(t, e, "sess_a", 1, 4)
	if key := e.marks.settle("sess_a", 3); key != "" {
		t.Error("a session that moved on lost its mark")
	}
	if key := e.marks.settle("sess_a", 4); key == "" || e.marks.settle("sess_a", 4) != "" {
		t.Errorf("key %q", key)
	}
}

// shut is a store that can't be looked through.
type shut struct {
	store.Store
	asked, open chan struct{}
}

func (s *shut) Scan(ctx context.Context, sc store.Scan) iter.Seq2[store.Entry, error] {
	if sc.Kind == kindMark {
		close(s.asked)
		<-s.open
	}
	return s.Store.Scan(ctx, sc)
}

// TestCatchingUpDelaysNothing: while it can't end, turns run.
func TestCatchingUpDelaysNothing(t *testing.T) {
	c := otlptest.NewCollector(t, nil)
	gate := &shut{Store: storetest.NewMem(), asked: make(chan struct{}), open: make(chan struct{})}
	s := newSenderOver(t, gate, c.URL, nil)
	<-gate.asked
	s.turn("sess_a")
	if n := len(c.Spans()); n > 0 {
		t.Errorf("%d spans were sent before the catch-up", n)
	}
	close(gate.open)
	for len(c.Spans()) == 0 {
		<-c.Came
	}
}
