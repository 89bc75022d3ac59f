package telemetry_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/telemetry"
)

// BenchmarkProject measures how many facts a second are projected, from the bytes
// that are stored: decoding is most of it.
func BenchmarkProject(b *testing.B) {
	mem := storetest.NewMem()
	r := benchRuntime(b, mem, nil)
	for range 20 {
		benchTurn(b, r)
	}
	var facts [][]byte
	for rec, err := range mem.Read(b.Context(), "sess_bench", store.Range{}) {
		if err != nil {
			b.Fatal(err)
		}
		facts = append(facts, rec.Data)
	}
	spans := 0
	b.ReportAllocs()
	for b.Loop() {
		p := telemetry.New("sess_bench")
		for _, data := range facts {
			var head event.Event
			if _, err := event.DecodeHeader(data, &head); err != nil {
				b.Fatal(err)
			}
			if !telemetry.Shows(head.Type) {
				continue
			}
			e, err := event.Decode(data)
			if err != nil {
				b.Fatal(err)
			}
			spans += len(p.Apply(e).Spans)
		}
	}
	if spans == 0 {
		b.Fatal("nothing was projected")
	}
	b.ReportMetric(float64(b.N*len(facts))/b.Elapsed().Seconds(), "facts/s")
}

// BenchmarkTurn measures a whole turn with and without a projection beside it. The
// two take turns, so that what else the machine does falls on both.
func BenchmarkTurn(b *testing.B) {
	runtimes := []*agentd.Runtime{benchRuntime(b, storetest.NewMem(), nil), benchRuntime(b, storetest.NewMem(), &observer{p: telemetry.New("sess_bench")})}
	var took [2][]float64
	for b.Loop() {
		for i, r := range runtimes {
			begin := time.Now()
			benchTurn(b, r)
			took[i] = append(took[i], float64(time.Since(begin).Microseconds()))
		}
	}
	for i, unit := range []string{"off-µs/turn", "on-µs/turn"} {
		slices.Sort(took[i])
		b.ReportMetric(took[i][len(took[i])/2], unit)
	}
}

// observer projects facts where they are committed, which costs a turn more than
// the exporter does: that reads them later, beside the turn.
type observer struct{ p *telemetry.Projector }

func (o *observer) Committed(sessionID string, facts []event.Event) {
	if sessionID != "sess_bench" {
		return
	}
	for i := range facts {
		o.p.Apply(&facts[i])
	}
}

func benchRuntime(b *testing.B, s store.Store, o *observer) *agentd.Runtime {
	b.Helper()
	opt := agentd.Options{
		Store: s, Model: "test", RuntimeID: "runtime_bench",
		Provider: script.New("script", &script.Script{Repeat: true, Answers: []script.Answer{asks("list_files", map[string]any{"path": "."}), {Text: "done"}}}),
	}
	opt.Loop.Workspace, opt.Loop.Host.Mode = b.TempDir(), "auto"
	if o != nil {
		opt.Observer = o
	}
	r, err := agentd.Open(b.Context(), opt)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return r
}

// benchTurn runs a turn to the end of its task.
func benchTurn(b *testing.B, r *agentd.Runtime) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute) // so that a broken benchmark ends
	defer cancel()
	res, err := r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: "sess_bench", Create: true, Input: event.Raw(`"go"`)})
	if err != nil {
		b.Fatal(err)
	}
	sub := res.(*command.SubmitTurnResult)
	feed, err := r.Subscribe(ctx, command.Local(), "sess_bench", sub.Sequence-1)
	if err != nil {
		b.Fatal(err)
	}
	defer feed.Close()
	for {
		records, err := feed.Next(ctx)
		if err != nil {
			b.Fatal(err)
		}
		for _, rec := range records {
			var e event.Event
			if _, err := event.DecodeHeader(rec.Data, &e); err != nil {
				b.Fatal(err)
			}
			if e.TurnID == sub.TurnID && e.Type == event.TypeTaskCompleted {
				return
			}
		}
	}
}
