package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentd/command"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

// TestReadModelsAsTheyWere takes get_session and get_thread_read after each step of
// random sessions, and holds what atSequence answers later, after restarts too,
// against that.
func TestReadModelsAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &observedWorld{world: world{T: t, store: storetest.NewMem()}, sessions: map[uint64]string{}, threads: map[uint64]string{}, mains: map[uint64]string{}}
		w.start()
		defer func() { w.stop() }()
		t.Repeat(map[string]func(*rapid.T){
			"submit":    w.submit,
			"interrupt": w.interrupt,
			"answer":    w.answer,
			"fact":      w.appendRandomFact,
			"restart":   func(*rapid.T) { w.stop(); w.start() },
			"":          w.observe,
		})
		w.compareWithThen(t)
		w.stop()
		w.start()
		w.compareWithThen(t)
	})
}

// observedWorld remembers what the read models were, by the last fact in them.
type observedWorld struct {
	world
	// mains are the ids of the main threads.
	sessions, threads, mains map[uint64]string
}

func (w *observedWorld) observe(t *rapid.T) {
	var sequence uint64
	err := w.m.View(context.Background(), worldSession, func(s *state.Session) error {
		sequence = s.Sequence
		if main := s.MainThread(); main != nil && w.mains[sequence] == "" {
			w.mains[sequence] = main.ThreadID
		}
		return nil
	})
	if fault.KindOf(err) == fault.NotFound || w.sessions[sequence] != "" {
		return
	}
	w.sessions[sequence], w.threads[sequence] = w.readAt(t, w.mains[sequence], nil)
}

func (w *observedWorld) readAt(t *rapid.T, threadID string, at *uint64) (session, thread string) {
	t.Helper()
	limit := 7
	for i, p := range []command.Params{
		&command.GetSession{SessionID: worldSession, Limit: &limit, AtSequence: at},
		&command.GetThreadRead{SessionID: worldSession, ThreadID: threadID, AtSequence: at},
	} {
		res, err := runCommand(w.m, command.Local(), p)
		text := fmt.Sprint(err)
		if err == nil {
			text = string(mustJSON(t, res))
		}
		if i == 0 {
			session = text
		} else {
			thread = text
		}
	}
	return session, thread
}

func (w *observedWorld) compareWithThen(t *rapid.T) {
	for sequence, want := range w.sessions {
		got, thread := w.readAt(t, w.mains[sequence], &sequence)
		if got != want {
			t.Fatalf("get_session at %d:\n%s\nit was:\n%s", sequence, got, want)
		}
		if thread != w.threads[sequence] {
			t.Fatalf("get_thread_read at %d:\n%s\nit was:\n%s", sequence, thread, w.threads[sequence])
		}
	}
}

func mustJSON(t *rapid.T, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// longSession makes a session whose history has several marks, and returns its last turn.
func longSession(k *kit, turns int) *command.SubmitTurnResult {
	k.Helper()
	var last *command.SubmitTurnResult
	for range turns {
		last = k.submit(command.SubmitTurn{SessionID: "sess_long", Create: true})
		k.finish(last)
	}
	return last
}

func marksOf(k *kit, sessionID string) []string {
	k.Helper()
	var out []string
	for e, err := range k.store.Scan(context.Background(), store.Scan{Kind: "mark", Prefix: sessionID + "/"}) {
		if err != nil {
			k.Fatal(err)
		}
		out = append(out, e.Key)
	}
	return out
}

func atSequence(n uint64) *command.GetSession {
	return &command.GetSession{SessionID: "sess_long", AtSequence: &n}
}

func smallSteps(o *session.Options) { o.SnapshotEvery = 4 }

// TestMarksAreShortcutsThatVerifyCompares: marks stand along a session, a damaged one
// is reported by Verify, and the read model is right without it.
func TestMarksAreShortcutsThatVerifyCompares(t *testing.T) {
	k := newKit(t, smallSteps)
	last := longSession(k, 150)
	k.reopen(smallSteps)
	marks := marksOf(k, "sess_long")
	if len(marks) < 2 {
		t.Fatalf("%d marks", len(marks))
	}
	k.verified()
	was := k.json(call[session.GetSessionResult](k, atSequence(last.Sequence)))
	k.closeManager()
	claim, err := k.store.Claim(context.Background(), "sess_long")
	if err != nil {
		t.Fatal(err)
	}
	batch := &store.Batch{SessionID: "sess_long", Epoch: claim.Epoch}
	for _, key := range marks {
		batch.Index = append(batch.Index, store.IndexOp{Entry: store.Entry{Kind: "mark", Key: key, Value: []byte("damaged")}})
	}
	if err := k.store.Append(context.Background(), []*store.Batch{batch})[0]; err != nil {
		t.Fatal(err)
	}
	report, err := session.Verify(context.Background(), k.store, session.VerifyOptions{})
	if err != nil || len(report.Problems) < len(marks) || report.Problems[0].What != "mark" {
		t.Fatalf("%v %v", report.Problems, err)
	}
	k.reopen(smallSteps)
	if got := k.json(call[session.GetSessionResult](k, atSequence(last.Sequence))); got != was {
		t.Fatalf("without marks:\n%s\nwith:\n%s", got, was)
	}
}

// TestAtSequenceSaysWhatThereIs: a sequence that isn't there is refused with those that
// are, and a session that a caller may not see is not found, whatever the sequence.
func TestAtSequenceSaysWhatThereIs(t *testing.T) {
	k := newKit(t, smallSteps)
	last := longSession(k, 60)
	head := call[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_long"}).Sequence

	k.refused(admin, atSequence(0), fault.InvalidParams)
	if why := k.refusal(admin, atSequence(head+1), fault.InvalidParams); !strings.Contains(why.Error(), fmt.Sprintf("1 to %d", head)) {
		t.Error(why)
	}
	stranger := command.Caller{Account: "other"}
	for _, n := range []uint64{1, head, head + 1} {
		k.refused(stranger, atSequence(n), fault.NotFound)
	}
	other := call[session.GetSessionResult](k, atSequence(last.Sequence))
	if other.Sequence != last.Sequence || len(other.History.Events) == 0 {
		t.Errorf("at %d: sequence %d, %d events", last.Sequence, other.Sequence, len(other.History.Events))
	}

	if _, err := k.m.Trim(context.Background(), "sess_long", session.TrimOptions{Before: last.Sequence}); err != nil {
		t.Fatal(err)
	}
	gone := last.Sequence - 1 // the last event that went: its state stands for all of them
	why := k.refusal(admin, atSequence(gone-1), fault.NotFound)
	if !strings.Contains(why.Error(), "retention") || !strings.Contains(why.Error(), fmt.Sprintf("%d to %d", gone, head+1)) {
		t.Error(why)
	}
	if at := call[session.GetSessionResult](k, atSequence(gone)); at.Sequence != gone {
		t.Errorf("at the base: %d", at.Sequence)
	}
	again := call[session.GetSessionResult](k, atSequence(last.Sequence))
	if again.Sequence != last.Sequence || again.UpdatedAt != other.UpdatedAt {
		t.Errorf("after the removal: %+v", again)
	}
	for _, key := range marksOf(k, "sess_long") {
		if key <= fmt.Sprintf("sess_long/%016x", gone) {
			t.Errorf("mark %s is left of the events that were removed", key)
		}
	}
	k.verified()
}

// TestWindowsOfThePast: the events that come with a session as it was are those that a
// plain look at its history has there, whatever their number, also where events were
// removed.
func TestWindowsOfThePast(t *testing.T) {
	k := newKit(t, smallSteps)
	last := longSession(k, 30)
	compare := func(first uint64) {
		t.Helper()
		for at := first; at <= last.Sequence; at += 3 {
			for _, limit := range []int{0, 1, 5, 50, 1000} {
				p := atSequence(at)
				p.Limit = &limit
				then := call[session.GetSessionResult](k, p).History
				plain := call[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_long", Limit: &limit, Before: jsonNumber(strconv.FormatUint(at+1, 10))}).History
				if k.json(then) != k.json(plain) {
					t.Fatalf("at %d, at most %d:\n%s\nthe history there:\n%s", at, limit, k.json(then), k.json(plain))
				}
			}
		}
	}
	compare(1)
	k.trim("sess_long", session.TrimOptions{Before: last.Sequence / 2})
	compare(last.Sequence / 2)
}
