package session_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/quota"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

// calendar is a clock that a test moves.
type calendar struct {
	mu  sync.Mutex
	now time.Time
}

func newCalendar() *calendar { return &calendar{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *calendar) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *calendar) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

const day = 24 * time.Hour

// shelf is a kit with a calendar and a session with a turn.
type shelf struct {
	*kit
	*calendar
	turn *command.SubmitTurnResult
}

func newShelf(t *testing.T, s store.Store) *shelf {
	t.Helper()
	x := &shelf{calendar: newCalendar()}
	x.kit = newKitOn(t, s, func(o *session.Options) { o.Clock = x.time })
	x.turn = x.submit(command.SubmitTurn{SessionID: "sess_a", Create: true})
	return x
}

// spill records an output of a tool call, as the loop does.
func (x *shelf) spill(sessionID, content string) string {
	x.Helper()
	ref, err := spill(x.m, sessionID, content)
	if err != nil {
		x.Fatal(err)
	}
	return ref
}

func spill(m *session.Manager, sessionID, content string) (ref string, err error) {
	err = m.Emit(context.Background(), sessionID, event.ByLoop, func(tx *session.Tx) error {
		ref = tx.Blob([]byte(content), "text/plain")
		tx.Emit(event.Event{Type: event.TypeOutputSpilled, Scope: event.Scope{ToolCallID: "tool_1"}, Payload: &event.OutputStored{
			OutputRef: ref, SizeBytes: int64(len(content)), MediaType: "text/plain", Preview: "…",
		}})
		return nil
	})
	return ref, err
}

// sweep expires what is older than so many days.
func (x *shelf) sweep(days int) session.Swept {
	x.Helper()
	s, err := x.m.ExpireOutputs(context.Background(), x.time().Add(-time.Duration(days)*day))
	if err != nil {
		x.Fatal(err)
	}
	return s
}

// read returns what is behind a reference, or why it can't be read.
func (x *shelf) read(ref string) (string, error) {
	x.Helper()
	b, _, err := x.m.Output(context.Background(), admin, ref)
	if err != nil {
		return "", err
	}
	defer b.Close()
	all, err := io.ReadAll(b)
	if err != nil {
		x.Fatal(err)
	}
	return string(all), nil
}

// stored reports whether the store has the bytes.
func (x *shelf) stored(ref string) bool {
	x.Helper()
	b, err := x.store.OpenBlob(context.Background(), ref)
	if errors.Is(err, store.ErrNotFound) {
		return false
	}
	if err != nil {
		x.Fatal(err)
	}
	return b.Close() == nil
}

func refOf(content string) string { return store.RefOf(sha256.Sum256([]byte(content))) }

// TestStoredAnswersAreNoWayAroundTheQuota: those who may only read have the runtime store
// long answers. They are counted, stored once, expire, and are left out where there is no
// room.
func TestStoredAnswersAreNoWayAroundTheQuota(t *testing.T) {
	x := newShelf(t, storetest.NewMem())
	r := callAs[command.SubmitTurnResult](x.kit, acme, &command.SubmitTurn{Input: text("runs")})
	answer := func(content string) (ref string) {
		t.Helper()
		if err := x.m.Emit(context.Background(), r.SessionID, event.BySession, func(tx *session.Tx) (err error) {
			ref, err = tx.StoreAnswer([]byte(content), "text/x-diff")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return ref
	}
	long := strings.Repeat("+line\n", 1000)
	before := x.used("acme", quota.StoredBytes)
	ref := answer(long)
	counted := x.used("acme", quota.StoredBytes)
	if got, err := x.read(ref); err != nil || got != long || counted < before+int64(len(long)) {
		t.Errorf("%d bytes can be read, %v; %d are counted, before %d", len(got), err, counted, before)
	}
	if again := answer(long); again != ref || x.used("acme", quota.StoredBytes) != counted {
		t.Errorf("the same answer again is %s, and %d bytes are counted", again, x.used("acme", quota.StoredBytes))
	}
	x.m.SetQuotas(quota.Policy{Accounts: quota.Limits{StoredBytes: 1000}})
	if other := answer("another " + long); other != "" || x.stored(refOf("another "+long)) {
		t.Errorf("without room it is stored as %s", other)
	}
	x.pass(40 * day)
	if got := x.sweep(30); got != (session.Swept{Expired: 1, Deleted: 1}) || x.stored(ref) {
		t.Errorf("swept %+v", got)
	}
}

func TestOutputsExpire(t *testing.T) {
	x := newShelf(t, storetest.NewMem())
	old := x.spill("sess_a", "old")
	x.pass(20 * day)
	young := x.spill("sess_a", strings.Repeat("young", 100))
	x.pass(20 * day)
	if got := x.sweep(30); got != (session.Swept{Expired: 1, Deleted: 1}) {
		t.Errorf("swept %+v", got)
	}
	if _, err := x.read(old); fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "expired on 2026-02-10") {
		t.Errorf("the old one: %v", err)
	}
	if x.stored(old) {
		t.Error("the bytes are still there")
	}
	if got, err := x.read(young); err != nil || got != strings.Repeat("young", 100) {
		t.Errorf("the young one: %q, %v", got, err)
	}
	events := x.events("sess_a")
	last := events[len(events)-1]
	p, ok := last.Payload.(*event.OutputExpired)
	if !ok || p.OutputRef != old || p.Reason == "" || last.ToolCallID != "tool_1" {
		t.Errorf("the last fact is %+v", last)
	}
	x.view("sess_a", func(s *state.Session) {
		if s.Outputs.Expired != 1 {
			t.Errorf("%+v", s.Outputs)
		}
	})
	if got := x.sweep(30); got != (session.Swept{}) {
		t.Errorf("the next sweep: %+v", got)
	}
	if again := x.spill("sess_a", "old"); again != old {
		t.Fatal(again)
	}
	if got, err := x.read(old); err != nil || got != "old" {
		t.Errorf("stored again: %q, %v", got, err)
	}
	x.verified()
}

// TestExpiryTellsOnlyThoseWhoMaySee: another account learns nothing.
func TestExpiryTellsOnlyThoseWhoMaySee(t *testing.T) {
	x := newShelf(t, storetest.NewMem())
	alice := command.Caller{Account: "alice"}
	callAs[command.CreateSessionResult](x.kit, alice, &command.CreateSession{SessionID: "sess_alice"})
	ref := x.spill("sess_alice", "hers")
	x.pass(day)
	x.sweep(0)
	for account, want := range map[string]string{"alice": "expired on", "bob": "there is no output"} {
		_, _, err := x.m.Output(context.Background(), command.Caller{Account: account}, ref)
		if fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", account, err)
		}
	}
}

// TestWhatIsReferredToStays checks one output against each kind of fact that can
// refer to it. Each round has another output beside it that nothing refers to.
func TestWhatIsReferredToStays(t *testing.T) {
	in := func(typ event.Type, by event.Emitter, p event.Payload) func(*shelf, string) {
		return func(x *shelf, _ string) {
			x.Helper()
			scope := event.Scope{ThreadID: x.turn.ThreadID, TurnID: x.turn.TurnID, TaskID: x.turn.TaskID, ArtifactID: "artifact_1", EvidenceID: "evidence_1", ToolCallID: "tool_2", StepID: "step_1"}
			if err := x.m.Emit(context.Background(), "sess_a", by, func(tx *session.Tx) error {
				tx.Emit(event.Event{Type: typ, Scope: scope, Payload: p})
				return nil
			}); err != nil {
				x.Fatal(err)
			}
		}
	}
	ref := refOf("wanted")
	part := `[{"type":"ref","ref":"` + ref + `"}`
	for name, refer := range map[string]func(x *shelf, ref string){
		"evidence":        in(event.TypeEvidenceChanged, event.ByRuntime|event.ByEvidence|event.ByLoop, &event.EvidenceChanged{Kind: "evidence", PackRef: ref}),
		"evidence's item": in(event.TypeEvidenceChanged, event.ByRuntime|event.ByEvidence|event.ByLoop, &event.EvidenceChanged{Kind: "verification", VerificationOutcomes: []event.VerificationOutcome{{Name: "x", Status: "ok", Ref: ref}}}),
		"artifact":        in(event.TypeArtifactChanged, event.ByLoop, &event.ArtifactChanged{Change: "created", ReadRef: ref}),
		"artifact's place": in(event.TypeArtifactChanged, event.ByLoop, &event.ArtifactChanged{
			Change: "created", URI: ref,
		}),
		"a result's artifact": in(event.TypeToolResult, event.ByLoop, &event.ToolResult{ToolName: "shell", Status: "ok", OutputRef: ref, ArtifactRefs: []string{ref}}),
		"input": func(x *shelf, _ string) {
			x.submit(command.SubmitTurn{SessionID: "sess_a", Input: event.Raw(part + `]`)})
		},
		"large input": func(x *shelf, _ string) {
			x.submit(command.SubmitTurn{SessionID: "sess_a", Input: event.Raw(part + `,{"type":"text","text":"` + strings.Repeat("x", 10000) + `"}]`)})
		},
		"input of another session": func(x *shelf, _ string) {
			x.submit(command.SubmitTurn{SessionID: "sess_b", Create: true, Input: event.Raw(part + `]`)})
		},
		"summary": in(event.TypeContextCompactionCompleted, event.ByLoop, &event.CompactionCompleted{
			CompactionID: "compaction_1", Trigger: "requested", AffectedTurns: []string{}, SummaryRef: ref,
			Preserved: event.Preserved{Actions: []string{}, Incidents: []string{}, EvidenceRefs: []string{}, ArtifactRefs: []string{}},
		}),
		"evidence behind a summary": in(event.TypeContextCompactionCompleted, event.ByLoop, &event.CompactionCompleted{
			CompactionID: "compaction_1", Trigger: "requested", AffectedTurns: []string{}, SummaryRef: "elsewhere",
			Preserved: event.Preserved{Actions: []string{}, Incidents: []string{}, EvidenceRefs: []string{ref}, ArtifactRefs: []string{}},
		}),
		"arguments": in(event.TypeToolStarted, event.ByLoop, &event.ToolStarted{ToolName: "look", Policy: "allowed", SafeArgs: event.Raw(`{"at":["` + ref + `"]}`)}),
		"somewhere else": func(x *shelf, ref string) {
			if err := x.m.Emit(context.Background(), "sess_a", event.ByLoop, func(tx *session.Tx) error {
				tx.Retain(ref)
				return nil
			}); err != nil {
				x.Fatal(err)
			}
		},
		"what was stored ahead": func(x *shelf, ref string) {
			pack, err := x.m.PutOutput(context.Background(), iotest.OneByteReader(strings.NewReader(`{"a":"`+ref+`"}`)))
			if err != nil {
				x.Fatal(err)
			}
			if err := x.m.Emit(context.Background(), "sess_a", event.ByLoop, func(tx *session.Tx) error {
				tx.Refer(pack, "application/json")
				return nil
			}); err != nil {
				x.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newShelf(t, storetest.NewMem())
			x.spill("sess_a", "wanted")
			other := x.spill("sess_a", "unwanted")
			refer(x, ref)
			x.pass(day)
			if got := x.sweep(0); got.Kept != 1 || got.Expired != 1 || got.Deleted != 1 {
				t.Errorf("swept %+v", got)
			}
			if got, err := x.read(ref); err != nil || got != "wanted" {
				t.Errorf("it is gone: %v", err)
			}
			if x.stored(other) {
				t.Error("what nothing refers to is still there")
			}
			x.verified()
		})
	}
}

// TestWhatOnlyLooksLikeAReference: text and hashes of files protect nothing.
func TestWhatOnlyLooksLikeAReference(t *testing.T) {
	x := newShelf(t, storetest.NewMem())
	ref := x.spill("sess_a", "content")
	sum := sha256.Sum256([]byte("earlier"))
	undo := "undo:file:644:" + hex.EncodeToString(sum[:]) + ":" + hex.EncodeToString(sum[:])
	if err := x.m.Emit(context.Background(), "sess_a", event.ByLoop, func(tx *session.Tx) error {
		tx.Keep([]byte("earlier"))
		tx.Emit(event.Event{Type: event.TypeToolResult, Scope: event.Scope{ThreadID: x.turn.ThreadID, TurnID: x.turn.TurnID, ToolCallID: "tool_2", StepID: "step_1"}, Payload: &event.ToolResult{
			ToolName: "shell", Status: "ok", Preview: `the digest is "` + ref + `"`,
			ChangedFiles: []event.FileChange{{Path: "a", Change: "modified", BeforeRef: undo, AfterHash: ref}},
		}})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	x.pass(day)
	if got := x.sweep(0); got != (session.Swept{Expired: 1, Deleted: 1}) {
		t.Errorf("swept %+v", got)
	}
	if x.stored(ref) || !x.stored(store.RefOf(sum)) {
		t.Errorf("output stored: %v, earlier content stored: %v", x.stored(ref), x.stored(store.RefOf(sum)))
	}
	x.verified()
}

// TestTheSameOutputAgain: the last time that a content was stored counts, in each
// session for itself, and the bytes go with the last session.
func TestTheSameOutputAgain(t *testing.T) {
	x := newShelf(t, storetest.NewMem())
	x.submit(command.SubmitTurn{SessionID: "sess_b", Create: true})
	ref := x.spill("sess_a", "same")
	x.pass(10 * day)
	x.spill("sess_a", "same")
	x.pass(10 * day)
	x.spill("sess_b", "same")
	for _, step := range []struct {
		days   int
		want   session.Swept
		stored bool
	}{
		{15, session.Swept{}, true},
		{5, session.Swept{Expired: 1}, true},
		{0, session.Swept{Expired: 1, Deleted: 1}, false},
	} {
		x.pass(time.Hour)
		if got := x.sweep(step.days); got != step.want || x.stored(ref) != step.stored {
			t.Errorf("older than %d days: %+v, stored: %v", step.days, got, x.stored(ref))
		}
	}
	x.verified()
}

// TestManyOutputsAreSweptInSteps has more than fits in a page, a write and a lock.
func TestManyOutputsAreSweptInSteps(t *testing.T) {
	x := newShelf(t, storetest.NewMem())
	const n = 600
	for i := range n {
		x.spill("sess_a", fmt.Sprint("output ", i))
		x.pass(time.Minute)
	}
	if got := x.sweep(0); got != (session.Swept{Expired: n, Deleted: n}) {
		t.Errorf("swept %+v", got)
	}
	x.verified()
}
