package main

import (
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
	"agentd/telemetry/otlp/otlptest"
)

// killed is a server whose telemetry goes to a collector and that is killed.
type killed struct {
	*testing.T
	*otlptest.Collector
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
	return counted(otlptest.SpansOf(&d))
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
		got := counted(k.Spans())
		for id := range want {
			if got[id] == 0 {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		<-k.Came
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
	k := &killed{T: t, Collector: otlptest.NewCollector(t, nil), dir: dir, data: data}
	k.conf = writeFile(t, t.TempDir(), "c.yaml", fmt.Sprintf("telemetry: {otlpEndpoint: %q, signals: [traces], metricsInterval: 1h, timeout: 1h}\nworkspace: {root: %q}\n", k.URL, t.TempDir()))
	p := k.start()
	k.turn(p, "sess_a")
	k.turn(p, "sess_a")
	for len(k.Spans()) == 0 {
		<-k.Came
	}
	// A collector that refuses: what it confirmed before is known to be confirmed when
	// the next request comes.
	var refused atomic.Int64
	k.SetAnswer(func(w http.ResponseWriter, _ *http.Request) bool {
		refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	k.turn(p, "sess_a")
	k.turn(p, "sess_b")
	for refused.Load() < 2 {
		<-k.Came
	}
	p.stop(syscall.SIGKILL)
	a, b := k.rebuilt("sess_a"), k.rebuilt("sess_b")
	if len(a) < 9 || len(b) < 3 {
		t.Fatalf("only %d and %d spans are in the facts", len(a), len(b))
	}
	if sent := counted(k.Spans()); len(sent) >= len(a)+len(b) {
		t.Fatal("nothing was left to be sent")
	}
	k.SetAnswer(nil)
	p = k.start()
	k.arrives(a)
	k.arrives(b)
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for id, n := range counted(k.Spans()) {
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
	before := counted(k.Spans())
	hangs, goOn := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	p := k.start()
	k.AfterTaking(func() {
		if once.CompareAndSwap(false, true) {
			close(hangs)
			<-goOn
		}
	})
	k.turn(p, "sess_a")
	<-hangs
	p.stop(syscall.SIGKILL)
	close(goOn)
	k.AfterTaking(nil)
	batch := counted(k.Spans())
	for id := range before {
		delete(batch, id)
	}
	all := k.rebuilt("sess_a")
	p = k.start()
	k.arrives(all)
	if code := p.stop(syscall.SIGTERM); code != 0 {
		k.Fatalf("exit code %d", code)
	}
	for id, n := range counted(k.Spans()) {
		if n > 2 || (n == 2 && batch[id] == 0) {
			k.Errorf("span %s was sent %d times, in the batch that was not confirmed %d times", id, n, batch[id])
		}
	}
}
