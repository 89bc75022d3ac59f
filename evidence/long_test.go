package evidence_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"testing"
	"time"

	"agentd/event"
	"agentd/evidence"
	"agentd/store"
)

// endless makes the facts of a long session as they are read, so that a test
// doesn't hold them itself.
type endless struct{ turns int }

// OpenBlob implements [evidence.Facts]: no fact here needs it.
func (endless) OpenBlob(context.Context, string) (store.Blob, error) { return nil, store.ErrNotFound }

func (l endless) Read(_ context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		g := &generator{session: sessionID, chain: store.NewChain(store.Genesis(sessionID)), r: r, yield: yield}
		g.emit(event.TypeSessionCreated, event.Scope{}, &event.SessionCreated{Title: "long"})
		g.emit(event.TypeThreadStarted, event.Scope{ThreadID: "thread_1"}, &event.ThreadStarted{Role: "main"})
		for n := range l.turns {
			if g.done {
				return
			}
			g.turn(n)
		}
		if r.Reverse {
			yield(g.last, nil)
		}
	}
}

// factsPerTurn is what generator.turn emits.
const factsPerTurn = 10

type generator struct {
	session string
	chain   *store.Chain
	r       store.Range
	yield   func(store.Record, error) bool
	seq     uint64
	last    store.Record
	done    bool
}

func (g *generator) emit(t event.Type, s event.Scope, p event.Payload) {
	g.seq++
	if g.done = g.done || g.r.Before > 0 && g.seq >= g.r.Before; g.done {
		return
	}
	data := event.AppendJSON(nil, &event.Event{
		Type: t, ID: fmt.Sprintf("evt_%09d", g.seq), Time: time.Unix(1_800_000_000+int64(g.seq), 0).UTC(), RuntimeID: "runtime_long",
		SessionID: g.session, Sequence: g.seq, Scope: s, Payload: p,
	})
	g.last = store.Record{Sequence: g.seq, Data: data, Hash: g.chain.Next(data)}
	if !g.r.Reverse {
		g.done = !g.yield(g.last, nil)
	}
}

func (g *generator) turn(n int) {
	s := event.Scope{ThreadID: "thread_1", TurnID: fmt.Sprintf("turn_%06d", n), TaskID: fmt.Sprintf("task_%06d", n), RunID: fmt.Sprintf("run_%06d", n)}
	g.emit(event.TypeTurnSubmitted, s, &event.TurnSubmitted{Status: "accepted", Source: "user", Input: event.Raw(`[{"type":"text","text":"go on"}]`), Preview: "go on"})
	g.emit(event.TypeTurnStarted, s, &event.TurnStarted{Status: "running"})
	m := s
	m.ModelRequestID = fmt.Sprintf("mreq_%06d", n)
	g.emit(event.TypeModelRequested, m, &event.ModelRequested{Provider: "p", Model: "m", ModelRequestID: m.ModelRequestID, Step: 1, Attempt: 1})
	for i := range 3 {
		g.emit(event.TypeModelDelta, m, &event.ModelDelta{Text: string(bytes.Repeat([]byte("some words of an answer "), 12)), Index: int64(i)})
	}
	g.emit(event.TypeModelCompleted, m, &event.ModelCompleted{ModelRequestID: m.ModelRequestID, Provider: "p", Model: "m", StopReason: "end_turn", Message: &event.ModelMessage{Text: "some words"}})
	c := s
	c.StepID, c.ToolCallID = "step_1", fmt.Sprintf("tool_%06d", n)
	g.emit(event.TypeToolStarted, c, &event.ToolStarted{ToolName: "read_file", Policy: "allowed", IsReadOnly: true})
	g.emit(event.TypeToolResult, c, &event.ToolResult{ToolName: "read_file", Status: "ok", Preview: string(bytes.Repeat([]byte("content "), 40))})
	g.emit(event.TypeTurnCompleted, s, &event.TurnCompleted{Status: "completed", Outcome: "answered", Steps: 1})
}

// peak is the largest heap that was seen while facts went by.
type peak struct {
	facts evidence.Facts
	most  uint64
}

func (p *peak) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for rec, err := range p.facts.Read(ctx, sessionID, r) {
			if rec.Sequence%1000 == 0 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				p.most = max(p.most, m.HeapAlloc)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// OpenBlob implements [evidence.Facts].
func (p *peak) OpenBlob(ctx context.Context, ref string) (store.Blob, error) {
	return p.facts.OpenBlob(ctx, ref)
}

func exportLong(t testing.TB, facts evidence.Facts, w io.Writer) *evidence.Exported {
	t.Helper()
	res, err := evidence.Export(t.Context(), facts, evidence.Scope{SessionID: "sess_long"}, evidence.Options{
		EvidenceID: "evidence_long", At: time.Unix(0, 0), Key: ed25519.NewKeyFromSeed(make([]byte, 32)),
	}, w)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestMemoryDoesNotGrowWithTheSession: ten times the facts need about the same.
func TestLongMemoryDoesNotGrowWithTheSession(t *testing.T) {
	turns := 2000
	if os.Getenv("AGENTD_TEST_LONG") != "" {
		turns = 10000
	}
	small, large := &peak{facts: endless{turns / 10}}, &peak{facts: endless{turns}}
	exportLong(t, small, io.Discard)
	begin := time.Now()
	res := exportLong(t, large, io.Discard)
	t.Logf("%d facts in %v: %.0f a second; the heap reached %d kB, with a tenth of the facts %d kB",
		res.Events, time.Since(begin), float64(res.Events)/time.Since(begin).Seconds(), large.most>>10, small.most>>10)
	if want := int64(turns*factsPerTurn + 2); res.Events != want {
		t.Errorf("the pack has %d facts, want %d", res.Events, want)
	}
	if large.most > 3*small.most {
		t.Errorf("the heap grew from %d to %d bytes", small.most, large.most)
	}
}

// TestLongExport measures a session of 100,000 facts, and verifies its pack.
func TestLongExport(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: export of 100,000 facts; set AGENTD_TEST_LONG")
	}
	f, err := os.CreateTemp(t.TempDir(), "pack")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	begin := time.Now()
	res := exportLong(t, endless{10000}, f)
	t.Logf("export: %d facts in %v, %.0f a second", res.Events, time.Since(begin), float64(res.Events)/time.Since(begin).Seconds())
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	v, err := evidence.Verify(f, evidence.VerifyOptions{})
	if err != nil || v.Finding != nil {
		t.Fatalf("%v, %v", v, err)
	}
	t.Logf("verify: %.0f facts a second", float64(v.Events)/time.Since(begin).Seconds())
	namesChange(t, f)
}

// namesChange changes a byte of a file, which verification must name.
func namesChange(t *testing.T, f *os.File) {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	one, at := make([]byte, 1), info.Size()*2/3
	if _, err := f.ReadAt(one, at); err != nil {
		t.Fatal(err)
	}
	one[0] ^= 1
	if _, err := f.WriteAt(one, at); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	v, err := evidence.Verify(f, evidence.VerifyOptions{})
	if err != nil || v.Finding == nil || v.Finding.Byte != at || !v.Finding.Exact {
		t.Errorf("byte %d of %d was changed: %v, %v", at, info.Size(), v.Finding, err)
	}
}

// BenchmarkExportLong measures the export of 100,000 facts: the rate, and the
// largest heap that was in use while it ran. With a tenth of the facts the heap is
// about the same.
func BenchmarkExportLong(b *testing.B) {
	for _, turns := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("facts=%d", turns*factsPerTurn), func(b *testing.B) {
			events := int64(0)
			for b.Loop() {
				events += exportLong(b, endless{turns}, io.Discard).Events
			}
			rate := float64(events) / b.Elapsed().Seconds()
			p := &peak{facts: endless{turns}} // collects garbage all the time, so it is not timed
			exportLong(b, p, io.Discard)
			b.ReportMetric(rate, "facts/s")
			b.ReportMetric(float64(p.most)/(1<<20), "heap-MiB")
		})
	}
}
