//go:build unix

package find_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentd/event"
	"agentd/index"
	"agentd/store"
	"agentd/store/pebble"
)

// killedDir tells the child of TestKilledIndexIsComplete where to write.
const killedDir = "AGENTD_TEST_FIND_DIR"

// TestWriteUntilKilled is the child of TestKilledIndexIsComplete: it makes facts and
// indexes them until it is killed.
func TestWriteUntilKilled(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		t.Skip("it is run by TestKilledIndexIsComplete alone")
	}
	s, err := pebble.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := newHistory(t, s, uint64(os.Getpid()))
	h.takeOver()
	h.made = os.Getpid() * 1_000_000 // ids are not used again
	// There is an index before the kill.
	if err := h.indexer.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		for range 5 {
			h.step()
		}
		go func() { _ = h.indexer.CatchUp(t.Context()) }() // the kill comes in its middle
		fmt.Println("step", n)
	}
}

// takeOver learns what sessions there are from the store.
func (h *history) takeOver() {
	h.Helper()
	for id, err := range h.store.Sessions(h.Context(), "") {
		if err != nil {
			h.Fatal(err)
		}
		h.sessions = append(h.sessions, id)
		n, err := strconv.Atoi(strings.TrimPrefix(id, "sess_"))
		if err != nil {
			h.Fatal(err)
		}
		h.accounts.Store(id, accountOf(n))
		for rec, err := range h.store.Read(h.Context(), id, store.Range{Reverse: true, Limit: 1}) {
			if err != nil {
				h.Fatal(err)
			}
			e, err := event.Decode(rec.Data)
			if err != nil {
				h.Fatal(err)
			}
			if e.Type == event.TypeSessionDeleted {
				h.deleted.Store(id, true)
			}
			if e.Time.After(h.now) {
				h.now = e.Time
			}
		}
	}
}

// A process that is killed while it indexes leaves an index that is complete up to some
// fact and goes on from there.
func TestKilledIndexIsComplete(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for round := range 3 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriteUntilKilled$", "-test.v")
		child.Env = append(os.Environ(), killedDir+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for steps := 0; steps < 20+7*round && lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "step") {
				steps++
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // it was killed
		s, err := pebble.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		standings, err := index.Standings(t.Context(), s)
		if err != nil || len(standings) != 2 {
			t.Fatalf("after the kill: %v, %v", standings, err)
		}
		t.Log("after the kill:", standings)
		h := newHistory(t, s, 1)
		h.takeOver()
		h.check()
		h.indexer.Close()
		standings, err = index.Standings(t.Context(), s)
		for _, st := range standings {
			if err != nil || st.Status != index.StatusComplete {
				t.Errorf("after answers were given: %+v, %v", st, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
