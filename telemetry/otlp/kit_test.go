package otlp

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence/replaytest"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/telemetry"
)

// sender is a runtime with an exporter.
type sender struct {
	*testing.T
	e       *Exporter
	runtime *agentd.Runtime
	log     *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newSender opens a runtime that sends to a collector, without any wait that isn't
// needed. At the end it sends for as long as the collector takes.
func newSender(t *testing.T, url string, change func(*Options)) *sender {
	t.Helper()
	return newSenderOver(t, storetest.NewMem(), url, change)
}

func newSenderOver(t *testing.T, over store.Store, url string, change func(*Options)) *sender {
	t.Helper()
	s := &sender{T: t, log: &lockedBuffer{}}
	o := Options{
		Collector: Collector{Endpoint: url, Timeout: time.Minute}, QueueSize: 1000, MetricsInterval: time.Hour,
		Resource: telemetry.Resource{Version: "test"}, Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	}
	if change != nil {
		change(&o)
	}
	s.e = New(over, o)
	s.e.linger, s.e.backoff, s.e.flush = time.Millisecond, time.Millisecond, time.Hour
	opt := agentd.Options{
		Store: s.e.Store(), RuntimeID: "runtime_test", Observer: s.e, Provider: script.New("script", nil), Model: "test",
	}
	var err error
	if s.runtime, err = agentd.Open(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { replaytest.Recorded(t, over) })
	s.e.Start(t.Context(), s.runtime)
	t.Cleanup(s.closeRuntime)
	return s
}

func (s *sender) closeRuntime() {
	s.Helper()
	if s.runtime == nil {
		return
	}
	if err := s.runtime.Close(context.Background()); err != nil {
		s.Error(err)
	}
	s.runtime = nil
	s.e.Close()
}

// turn runs one turn to its end.
func (s *sender) turn(session string) {
	s.Helper()
	res, err := s.runtime.Do(s.Context(), command.Local(), &command.SubmitTurn{SessionID: session, Create: true, Input: event.Raw(`"hello"`)})
	if err != nil {
		s.Fatal(err)
	}
	turn := res.(*command.SubmitTurnResult).TurnID
	s.until(session, func(e *event.Event) bool { return e.TurnID == turn && e.Type == event.TypeTaskCompleted })
}

// until follows a session to a fact.
func (s *sender) until(session string, ok func(*event.Event) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	sub, err := s.runtime.Subscribe(ctx, command.Local(), session, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer sub.Close()
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			s.Fatalf("waiting in %s: %v\n%s", session, err, s.log)
		}
		for _, r := range records {
			e, err := event.Decode(r.Data)
			if err != nil {
				s.Fatal(err)
			}
			if ok(e) {
				return
			}
		}
	}
}

// notices returns the codes of the warnings about the runtime.
func (s *sender) notices() []string {
	s.Helper()
	records, _, err := s.runtime.Events(context.Background(), command.Local(), event.RuntimeSession, 0, 1000)
	if err != nil {
		return nil // nothing was ever reported
	}
	var out []string
	for _, r := range records {
		e, err := event.Decode(r.Data)
		if err != nil {
			s.Fatal(err)
		}
		if n, ok := e.Payload.(*event.RuntimeNotice); ok {
			out = append(out, n.Code)
		}
	}
	return out
}

// waitForNotice waits for a warning about the runtime. The runtime's session exists once
// something was reported.
func (s *sender) waitForNotice(code string) {
	s.Helper()
	feed, err := s.runtime.SubscribeAll(s.Context(), command.Local(), "")
	if err != nil {
		s.Fatal(err)
	}
	defer feed.Close()
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	for !slices.Contains(s.notices(), code) {
		if _, err := feed.Next(ctx); err != nil {
			s.Fatalf("waiting for %s: %v\n%s", code, err, s.log)
		}
	}
}
