package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/command"
)

// TestKilledServerGoesOnWithAll kills a server that has many turns in flight. The next one is
// ready before it has taken them up, goes on with all of them by itself, and reports no error.
func TestKilledServerGoesOnWithAll(t *testing.T) { recoverAll(t, 100) }

func TestLongKilledServerGoesOnWithAll(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: a crash with 1,000 sessions in flight; set AGENTD_TEST_LONG")
	}
	began, again := recoverAll(t, 1000)
	// Beginning a turn takes a few writes, and going on with it about as many.
	if again > 2*began {
		t.Errorf("all turns went on after %v, and were begun within %v: want at most twice that", again, began)
	}
}

// recoverAll returns how long it took to begin the turns, and from the start of the next
// server until all of them went on.
func recoverAll(t *testing.T, sessions int) (began, again time.Duration) {
	dir := t.TempDir()
	answers := writeFile(t, dir, "answers.yaml", slow)
	config := writeFile(t, dir, "agentd.yaml", "providers:\n  - {id: play, kind: script, script: "+answers+", models: [{id: m}]}\n")
	data := filepath.Join(dir, "data")
	p := start(t, data, "--config", config)
	c := p.client()
	at := time.Now()
	var clients sync.WaitGroup
	next := make(chan int)
	for range 16 {
		clients.Go(func() {
			for i := range next {
				params := submitParams(t, "hello")
				params.SessionID, params.Create = fmt.Sprintf("sess_kill%d", i), true
				if _, err := patient[command.SubmitTurnResult](t.Context(), c, params); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range sessions {
		next <- i
	}
	close(next)
	clients.Wait()
	p.awaitRunning(sessions)
	began = time.Since(at)
	p.stop(syscall.SIGKILL)
	at = time.Now()
	p = start(t, data, "--config", config)
	ready := time.Since(at)
	p.awaitRunning(sessions)
	again = time.Since(at)
	t.Logf("%d turns were begun within %v; the next server was ready after %v and went on with all after %v", sessions, began, ready, again)
	p.signal(syscall.SIGTERM)
	if log := p.remainingLog(); strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("the log has errors: %s", log)
	}
	return began, again
}

// awaitRunning waits until so many threads are worked on: each calls its model, which never
// answers.
func (p *process) awaitRunning(n int) {
	p.t.Helper()
	s := &storm{t: p.t, p: p}
	for s.figures().by["agentd_threads_running"] != float64(n) {
		if p.t.Failed() {
			p.t.FailNow()
		}
		time.Sleep(20 * time.Millisecond) // the figures cost the server something, too
	}
}
