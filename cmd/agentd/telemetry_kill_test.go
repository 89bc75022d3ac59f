package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"agentd/client"
	"agentd/command"
	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/telemetry"
)

// killed is a server whose telemetry goes to a collector and that is killed.
type killed struct {
	*testing.T
	*collector
	// dir is where the files of this machine are, data where the facts are.
	dir, data, conf string
}

// start starts the server again.
func (k *killed) start() *process {
	k.Helper()
	return start(k.T, k.dir, "--data", k.data, "--state-dir", k.dir, "--config", k.conf)
}

// rebuilt returns the ids of all spans of a session, as its facts say.
func (k *killed) rebuilt(session string) map[string]int {
	k.Helper()
	file := filepath.Join(k.TempDir(), "spans.pb")
	if out, errs, code := program(k.T, "telemetry", "export", session, "--data", k.data, "--config", k.conf, "--format", "otlp", "--out", file); code != 0 {
		k.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	encoded, err := os.ReadFile(file)
	if err != nil {
		k.Fatal(err)
	}
	var d tracepb.TracesData
	if err := proto.Unmarshal(encoded, &d); err != nil {
		k.Fatal(err)
	}
	return counted(spansOf(&d))
}

func counted(spans []*tracepb.Span) map[string]int {
	out := map[string]int{}
	for _, s := range spans {
		out[hex.EncodeToString(s.GetSpanId())]++
	}
	return out
}

// arrives waits until the collector has taken all of the spans.
func (k *killed) arrives(want map[string]int) {
	k.Helper()
	for {
		missing := 0
		got := counted(k.taken())
		for id := range want {
			if got[id] == 0 {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		<-k.came
	}
}

// turn runs a turn to its end.
func (k *killed) turn(p *process, session string) {
	k.Helper()
	params := submitParams(k.T, "hello")
	params.SessionID, params.Create = session, true
	r, err := client.Call[command.SubmitTurnResult](k.Context(), p.client(), params)
	if err != nil {
		k.Fatal(err)
	}
	p.completed(r)
}

// TestAKillLosesNoTelemetry kills a server that a collector doesn't believe yet. The
// next one sends what was left, without anything that the collector had confirmed;
// what it took and didn't confirm is sent again.
func TestAKillLosesNoTelemetry(t *testing.T) {
	dir := t.TempDir()
	killLosesNothing(t, dir, dir)
}

// TestAKillLosesNoTelemetryOnPostgreSQL: the node that was killed lives on for the
// others until its lease is over.
func TestAKillLosesNoTelemetryOnPostgreSQL(t *testing.T) {
	killLosesNothing(t, t.TempDir(), pgtest.Shared(t).Database(t))
}

func killLosesNothing(t *testing.T, dir, data string) {
	t.Helper()
	k := &killed{T: t, collector: newCollector(t, nil), dir: dir, data: data}
	k.conf = writeFile(t, t.TempDir(), "c.yaml", fmt.Sprintf("telemetry: {otlpEndpoint: %q, signals: [traces], metricsInterval: 1h}\nworkspace: {root: %q}\n", k.URL, t.TempDir()))
	p := k.start()
	k.turn(p, "sess_a")
	k.turn(p, "sess_a")
	for len(k.taken()) == 0 {
		<-k.came
	}
	// A collector that refuses: what it confirmed before is known to be confirmed when
	// the next request comes.
	var refused atomic.Int64
	k.answers(func(w http.ResponseWriter, _ *http.Request) bool {
		refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	k.turn(p, "sess_a")
	k.turn(p, "sess_b")
	for refused.Load() < 2 {
		<-k.came
	}
	p.stop(syscall.SIGKILL)
	a, b := k.rebuilt("sess_a"), k.rebuilt("sess_b")
	if len(a) < 9 || len(b) < 3 {
		t.Fatalf("only %d and %d spans are in the facts", len(a), len(b))
	}
	if sent := counted(k.taken()); len(sent) >= len(a)+len(b) {
		t.Fatal("nothing was left to be sent")
	}
	k.answers(nil)
	p = k.start()
	k.arrives(a)
	k.arrives(b)
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for id, n := range counted(k.taken()) {
		if n > 1 {
			t.Errorf("span %s was sent %d times", id, n)
		}
	}
	k.unconfirmed()
}

// unconfirmed kills the server after the collector has taken a batch and before it
// said so.
func (k *killed) unconfirmed() {
	k.Helper()
	before := counted(k.taken())
	hangs, goOn := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	p := k.start()
	k.after(func() {
		if once.CompareAndSwap(false, true) {
			close(hangs)
			<-goOn
		}
	})
	k.turn(p, "sess_a")
	<-hangs
	p.stop(syscall.SIGKILL)
	close(goOn)
	k.after(nil)
	batch := counted(k.taken())
	for id := range before {
		delete(batch, id)
	}
	all := k.rebuilt("sess_a")
	p = k.start()
	k.arrives(all)
	if code := p.stop(syscall.SIGTERM); code != 0 {
		k.Fatalf("exit code %d", code)
	}
	for id, n := range counted(k.taken()) {
		if n > 2 || (n == 2 && batch[id] == 0) {
			k.Errorf("span %s was sent %d times, in the batch that was not confirmed %d times", id, n, batch[id])
		}
	}
}

// TestTelemetryGoesOnFromItsPosition cuts a session at each of its facts: who begins
// at the position that was kept sends the same spans, none twice, and doesn't read
// the session from its beginning once a turn lies between.
func TestTelemetryGoesOnFromItsPosition(t *testing.T) {
	c := newCollector(t, nil)
	s := newSender(t, c.URL, nil)
	for range 4 {
		s.turn("sess_a")
	}
	mem := s.e.follower.store
	s.end()
	head, err := mem.Head(t.Context(), "sess_a")
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := readFrom(t, knowing(mem, nil), 1, head.Sequence)
	want, err := telemetry.TracesJSON(telemetry.Resource{}, whole)
	if err != nil {
		t.Fatal(err)
	}
	var late uint64
	for cut := uint64(1); cut < head.Sequence; cut++ {
		var kept *position
		var spans []telemetry.Span
		earlier := knowing(mem, nil)
		for at := uint64(1); at <= cut; at++ { // as facts come: one after the other
			more, pos := readFrom(t, earlier, at, at)
			if spans = append(spans, more...); pos != nil {
				kept = pos
			}
		}
		if kept != nil {
			late = max(late, kept.From)
		}
		more, _ := readFrom(t, knowing(mem, kept), cut+1, head.Sequence)
		got, err := telemetry.TracesJSON(telemetry.Resource{}, append(spans, more...))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) {
			t.Fatalf("cut after %d, at %+v, the spans differ:\n%s\n%s", cut, kept, want, got)
		}
	}
	if late < head.Sequence/4 {
		t.Errorf("of %d facts reading goes on after %d at the latest", head.Sequence, late)
	}
}

// knowing is a process that knows a position, or none.
func knowing(s store.Store, kept *position) *projection {
	return &projection{store: s, sessions: map[string]*followed{}, position: func(context.Context, string) (position, bool, error) {
		if kept == nil {
			return position{}, false, nil
		}
		return *kept, true, nil
	}}
}

func readFrom(t *testing.T, p *projection, first, last uint64) ([]telemetry.Span, *position) {
	t.Helper()
	var out []telemetry.Span
	m, err := p.read(t.Context(), "sess_a", stretch{first: first, last: last}, func(o telemetry.Output, _ bool) { out = append(out, o.Spans...) })
	if err != nil {
		t.Fatal(err)
	}
	return out, m.at
}
