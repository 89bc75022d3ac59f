package session_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd"
	"agentd/admission"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/store"
	"agentd/store/pebble"
)

// The crash tests kill a real process: this test binary, run as a runtime under
// load, which tells on its standard output what it tried, what was acknowledged
// and what was delivered. After each kill the store must agree with all of it.

const childVariable = "AGENTD_CRASH_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		if err := crashChild(dir, os.Getenv("AGENTD_CRASH_ROUND"), os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(runtimetest.RunTests(m))
}

// crashScript streams slowly, so that a kill hits answers in the middle.
var crashScript = &script.Script{Answers: []script.Answer{
	{Text: strings.Repeat("one two three four ", 3), Delay: 200 * time.Microsecond, Reasoning: "counting"},
}}

func openRuntime(dir string) (*agentd.Runtime, store.Store, error) {
	s, err := pebble.Open(dir, nil)
	if err != nil {
		return nil, nil, err
	}
	r, err := agentd.Open(context.Background(), crashOptions(s))
	return r, s, err
}

func crashOptions(s store.Store) agentd.Options {
	return agentd.Options{
		Store: s, Provider: script.New("script", crashScript), Model: "slow",
		Session: session.Options{SnapshotEvery: 16, IdleAfter: 20 * time.Millisecond},
	}
}

const crashSessions = 6

// crashChild submits turns until it is killed. The turns that the last child had
// tried are submitted again first: their outcome was unknown.
func crashChild(dir, round string, tried io.Reader) error {
	r, _, err := openRuntime(dir)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for i := range crashSessions {
		id := fmt.Sprintf("sess_%d", i)
		submitOrReport(r, id, fmt.Sprintf("turn_%s_%d_first", round, i))
		wg.Go(func() { deliver(r, id) })
	}
	for lines := bufio.NewScanner(tried); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 2 {
			submitOrReport(r, f[0], f[1])
		}
	}
	for i := range crashSessions {
		wg.Go(func() {
			for n := 0; ; n++ {
				submitOrReport(r, fmt.Sprintf("sess_%d", i), fmt.Sprintf("turn_%s_%d_%d", round, i, n))
			}
		})
	}
	wg.Wait()
	return nil
}

func submitOrReport(r *agentd.Runtime, sessionID, turnID string) {
	fmt.Printf("try %s %s\n", sessionID, turnID)
	res, err := r.Do(context.Background(), command.Local(), &command.SubmitTurn{
		SessionID: sessionID, Create: true, TurnID: turnID, Input: event.Raw(`"count"`),
	})
	if err != nil {
		// A write that takes seconds on a busy disk is no error either: nothing was begun.
		if refused := (*admission.Refusal)(nil); fault.KindOf(err) != fault.RateLimited && !errors.As(err, &refused) {
			fmt.Printf("error %v\n", err)
		}
		time.Sleep(time.Millisecond) // the queue is full: let it drain
		return
	}
	fmt.Printf("ack %s %s %d\n", sessionID, turnID, res.(*command.SubmitTurnResult).Sequence)
}

func deliver(r *agentd.Runtime, sessionID string) {
	sub, err := r.Subscribe(context.Background(), command.Local(), sessionID, 0)
	if err != nil {
		fmt.Printf("error %v\n", err)
		return
	}
	for {
		records, err := sub.Next(context.Background())
		if err != nil {
			fmt.Printf("error %v\n", err)
			return
		}
		for _, rec := range records {
			sum := sha256.Sum256(rec.Data)
			fmt.Printf("seen %s %d %s\n", sessionID, rec.Sequence, hex.EncodeToString(sum[:8]))
		}
	}
}

// witness is what the children of all rounds said.
type witness struct {
	tried map[string]string            // turn → session
	acked map[string]uint64            // turn → sequence
	seen  map[string]map[uint64]string // session → sequence → sum
}

// listen takes in what a child says, and tells of what was acknowledged.
func (w *witness) listen(t *testing.T, out io.Reader, acked func()) (last []string) {
	t.Helper()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) == 3 && f[0] == "try":
			w.tried[f[2]] = f[1]
			last = append(last, f[1]+" "+f[2])
		case len(f) == 4 && f[0] == "ack":
			w.ack(t, f[2], f[3])
			acked()
		case len(f) == 4 && f[0] == "seen":
			w.see(t, f[1], f[2], f[3])
		default:
			t.Errorf("the child said: %s", lines.Text())
		}
	}
	return last[max(0, len(last)-2*crashSessions):]
}

func (w *witness) ack(t *testing.T, turn, sequence string) {
	t.Helper()
	var n uint64
	if _, err := fmt.Sscan(sequence, &n); err != nil {
		t.Fatal(err)
	}
	if before, ok := w.acked[turn]; ok && before != n {
		t.Errorf("turn %s was acknowledged as fact %d and as fact %d", turn, before, n)
	}
	w.acked[turn] = n
}

func (w *witness) see(t *testing.T, sessionID, sequence, sum string) {
	t.Helper()
	var n uint64
	if _, err := fmt.Sscan(sequence, &n); err != nil {
		t.Fatal(err)
	}
	if w.seen[sessionID] == nil {
		w.seen[sessionID] = map[uint64]string{}
	}
	if before, ok := w.seen[sessionID][n]; ok && before != sum {
		t.Errorf("%s: fact %d was delivered with different bytes", sessionID, n)
	}
	w.seen[sessionID][n] = sum
}

// check holds the store against what was said.
func (w *witness) check(t *testing.T, s store.Store) {
	t.Helper()
	report, err := session.Verify(context.Background(), s, session.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		t.Error(p)
	}
	submitted, ended := map[string]uint64{}, map[string]int{}
	for i := range crashSessions {
		w.checkSession(t, s, fmt.Sprintf("sess_%d", i), submitted, ended)
	}
	for turn, sequence := range w.acked {
		if submitted[turn] != sequence {
			t.Errorf("turn %s was acknowledged as fact %d, the store has it as %d", turn, sequence, submitted[turn])
		}
	}
	for turn, n := range ended {
		if n > 1 {
			t.Errorf("turn %s ended %d times", turn, n)
		}
	}
}

func (w *witness) checkSession(t *testing.T, s store.Store, id string, submitted map[string]uint64, ended map[string]int) {
	t.Helper()
	last := uint64(0)
	for rec, err := range s.Read(context.Background(), id, store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if last++; rec.Sequence != last {
			t.Fatalf("%s: fact %d where %d belongs", id, rec.Sequence, last)
		}
		sum := sha256.Sum256(rec.Data)
		if seen, ok := w.seen[id][rec.Sequence]; ok && seen != hex.EncodeToString(sum[:8]) {
			t.Errorf("%s: fact %d is not what was delivered", id, rec.Sequence)
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case event.TypeTurnSubmitted:
			if submitted[e.TurnID] != 0 {
				t.Errorf("turn %s was submitted twice", e.TurnID)
			}
			submitted[e.TurnID] = rec.Sequence
		case event.TypeTurnCompleted, event.TypeTurnFailed:
			ended[e.TurnID]++
		}
	}
	for sequence := range w.seen[id] {
		if sequence > last {
			t.Errorf("%s: fact %d was delivered and is gone", id, sequence)
		}
	}
}

// crashRound runs a child for a random while, kills it, and checks the store.
func (w *witness) crashRound(t *testing.T, dir string, round int, again []string) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childVariable+"="+dir, fmt.Sprintf("AGENTD_CRASH_ROUND=%d", round))
	cmd.Stdin = strings.NewReader(strings.Join(again, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := bufio.NewReader(out)
	if _, err := first.Peek(1); err != nil { // it is at work
		t.Fatalf("the child said nothing: %v", err)
	}
	kill := sync.OnceFunc(func() {
		time.AfterFunc(time.Duration(rand.IntN(150_000))*time.Microsecond, func() {
			cmd.Process.Kill() //nolint:errcheck // it may have ended by itself; Wait tells
		})
	})
	if round%2 == 1 { // the others are killed after something was acknowledged
		kill()
	}
	last := w.listen(t, first, kill)
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child was not killed: %v", err)
	}
	s, err := pebble.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w.check(t, s)
	return last
}

func crashRounds(t *testing.T, rounds int) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	w := &witness{tried: map[string]string{}, acked: map[string]uint64{}, seen: map[string]map[uint64]string{}}
	var again []string
	for round := range rounds {
		again = w.crashRound(t, dir, round, again)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d rounds: %d turns tried, %d acknowledged", rounds, len(w.tried), len(w.acked))
	s, err := pebble.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	runtimetest.DecideAgain(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(w.acked) < rounds/2 {
		t.Errorf("only %d turns were acknowledged in %d rounds: the load was too small to show anything", len(w.acked), rounds)
	}
}

func TestKillAtRandomMoments(t *testing.T) { crashRounds(t, 5) }

func TestLongKillAtRandomMoments(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("100 rounds; set AGENTD_TEST_LONG to run them")
	}
	crashRounds(t, 100)
}
