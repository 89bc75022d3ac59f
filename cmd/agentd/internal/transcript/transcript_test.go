package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentd/client"
	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// kept is a source with facts and contents in memory.
type kept struct {
	sessions map[string][]*event.Event
	contents map[string]string
}

func (k *kept) Do(context.Context, command.Params, any) error { return nil }

func (k *kept) Page(_ context.Context, sessionID string, after uint64, limit int) ([]facts.Fact, uint64, error) {
	all, ok := k.sessions[sessionID]
	if !ok {
		return nil, 0, fault.New(fault.NotFound, "there is no session %s", sessionID)
	}
	var out []facts.Fact
	for _, e := range all {
		if e.Sequence > after && len(out) < limit {
			out = append(out, facts.Fact{Sequence: e.Sequence, Data: event.AppendJSON(nil, e)})
		}
	}
	return out, all[len(all)-1].Sequence, nil
}

func (k *kept) Follow(context.Context, string, uint64, *client.FollowOptions) iter.Seq2[facts.Fact, error] {
	return nil
}

func (k *kept) Open(_ context.Context, ref string) (io.ReadCloser, error) {
	text, ok := k.contents[ref]
	if !ok {
		return nil, fault.New(fault.NotFound, "there is no content %s", ref)
	}
	return io.NopCloser(strings.NewReader(text)), nil
}
func (k *kept) TakeUp(context.Context, string) error { return nil }
func (k *kept) Live() bool                           { return false }
func (k *kept) Remote() bool                         { return false }
func (k *kept) Close() error                         { return nil }

// addFact appends a fact of the main thread, or of what a scope names.
func (k *kept) addFact(session string, typ event.Type, of event.Scope, payload event.Payload) {
	n := uint64(len(k.sessions[session]) + 1)
	if of.ThreadID == "" && typ != event.TypeSessionCreated {
		of.ThreadID = "thread_" + session
	}
	k.sessions[session] = append(k.sessions[session], &event.Event{
		Type: typ, ID: "evt_1", RuntimeID: "rt_1", SessionID: session, Sequence: n, Time: time.Unix(1_800_000_000+int64(n), 0).UTC(), Scope: of, Payload: payload,
	})
}

// begin adds what a session begins with.
func (k *kept) begin(session string, created *event.SessionCreated) {
	k.addFact(session, event.TypeSessionCreated, event.Scope{}, created)
	k.addFact(session, event.TypeThreadStarted, event.Scope{}, &event.ThreadStarted{Role: "main"})
}

func (k *kept) submit(session, turn, text string) {
	k.addFact(session, event.TypeTurnSubmitted, event.Scope{TurnID: turn}, &event.TurnSubmitted{Status: "accepted", Source: "user", Input: event.Raw(`[{"type":"text","text":"` + text + `"}]`)})
}

func (k *kept) start(session, turn string) {
	k.addFact(session, event.TypeTurnStarted, event.Scope{TurnID: turn}, &event.TurnStarted{Status: "running", Policy: &event.TurnPolicy{Mode: "default"}})
}

func (k *kept) answer(session, turn, text string) {
	k.addFact(session, event.TypeModelCompleted, event.Scope{TurnID: turn}, &event.ModelCompleted{ModelRequestID: "req_" + turn, StopReason: "end_turn", Message: &event.ModelMessage{Text: text}})
	k.addFact(session, event.TypeTurnCompleted, event.Scope{TurnID: turn}, &event.TurnCompleted{Status: "completed", Outcome: "completed"})
}

func newKept() *kept {
	return &kept{sessions: map[string][]*event.Event{}, contents: map[string]string{}}
}

// readInWords is the transcript in few words: roles and texts, turn by turn.
func readInWords(t *testing.T, k *kept, session string) (*Transcript, string) {
	t.Helper()
	out := &Transcript{}
	for _, form := range []Form{JSON, Line} {
		var doc bytes.Buffer
		turns, err := Write(t.Context(), k, session, form, &doc)
		if err != nil {
			t.Fatal(err)
		}
		*out = Transcript{}
		if err := json.Unmarshal(doc.Bytes(), out); err != nil || turns != len(out.Turns) {
			t.Fatalf("%v: %d turns in\n%s", err, turns, doc.Bytes())
		}
		// It reads as if it had been written at once.
		var whole bytes.Buffer
		e := json.NewEncoder(&whole)
		e.SetEscapeHTML(false)
		if form == JSON {
			e.SetIndent("", "  ")
		}
		if err := e.Encode(out); err != nil || whole.String() != doc.String() {
			t.Errorf("%v: it is written as\n%s\nin place of\n%s", err, doc.Bytes(), whole.Bytes())
		}
	}
	var b strings.Builder
	for _, turn := range out.Turns {
		b.WriteString(turn.TurnID + " " + turn.Status + ":")
		for _, m := range turn.Messages {
			text := m.Text
			switch {
			case m.Tool != nil:
				text = m.Tool.Name + "=" + m.Tool.Output
			case m.Question != nil:
				text = m.Question.Decision
			}
			b.WriteString(" " + m.Role + "(" + text + ")")
		}
		b.WriteString("\n")
	}
	return out, b.String()
}

func wantSaid(t *testing.T, got string, lines ...string) {
	t.Helper()
	if want := strings.Join(lines, "\n") + "\n"; got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
}

// TestTurnsInTheirOrder: turns stand in the order in which they ran, with what was steered,
// taken back, interrupted and left out of the queue.
func TestTurnsInTheirOrder(t *testing.T) {
	k := newKept()
	k.begin("s", &event.SessionCreated{Title: "old"})
	k.submit("s", "t1", "one")
	k.start("s", "t1")
	for _, waits := range []string{"t2", "t3", "t4", "t5"} {
		k.submit("s", waits, waits)
	}
	k.addFact("s", event.TypeTurnSteered, event.Scope{TurnID: "t1"}, &event.TurnSteered{Preview: "louder"})
	k.addFact("s", event.TypeTurnFailed, event.Scope{TurnID: "t3"}, &event.TurnFailed{Status: "cancelled", Outcome: "cancelled", FailureCategory: "interrupted", Error: &event.Failure{Message: "removed"}})
	k.answer("s", "t1", "ONE")
	k.start("s", "t4")
	k.addFact("s", event.TypeModelDelta, event.Scope{TurnID: "t4", ModelRequestID: "r"}, &event.ModelDelta{Text: "half an ans"})
	k.addFact("s", event.TypeModelFailed, event.Scope{TurnID: "t4", ModelRequestID: "r"}, &event.ModelFailed{ModelRequestID: "r", ErrorCategory: "interrupted", Message: "stopped"})
	k.start("s", "t2")
	k.answer("s", "t2", "TWO")
	k.addFact("s", event.TypeSessionUpdated, event.Scope{}, &event.SessionUpdated{Title: new("new"), Workspace: &event.Workspace{Root: "/w"}})
	k.addFact("s", event.TypeHistoryRollbackCompleted, event.Scope{}, &event.RollbackCompleted{RollbackID: "rb", ToTurnID: "t4", RemovedTurns: []string{"t2"}})
	out, got := readInWords(t, k, "s")
	wantSaid(
		t, got,
		"t1 completed: user(one) user(louder) assistant(ONE)",
		"t4 running: user(t4) assistant(half an ans) note(the answer was interrupted) note(taken back here: 1 later)",
		"t5 queued: user(t5)",
	)
	if out.Title != "new" || out.Workspace != "/w" || out.ThroughSequence == 0 {
		t.Errorf("%+v", out)
	}
}

// TestCallsAndQuestions: a call stands behind the question that it waited for, with its whole
// output; what subagents do is theirs.
func TestCallsAndQuestions(t *testing.T) {
	k := newKept()
	k.contents["ref_in"], k.contents["ref_out"] = `[{"type":"text","text":"a long one"},{"type":"image"}]`, "line\x1b[31m\n```\n"+strings.Repeat("x", MaxText)
	k.begin("s", &event.SessionCreated{})
	k.addFact("s", event.TypeTurnSubmitted, event.Scope{TurnID: "t1"}, &event.TurnSubmitted{Status: "accepted", Source: "user", InputRef: "ref_in", Preview: "a lo"})
	k.start("s", "t1")
	call := event.Scope{TurnID: "t1", ToolCallID: "c1"}
	k.addFact("s", event.TypeToolStarted, call, &event.ToolStarted{ToolName: "shell", SafeArgs: event.Raw(`{"command":"make"}`), Policy: "pending"})
	asked := call
	asked.ActionID = "a1"
	k.addFact("s", event.TypeActionRequired, asked, &event.ActionRequired{ActionType: "tool_permission", ToolName: "shell", Decisions: []string{"allow"}})
	k.addFact("s", event.TypeActionResolved, asked, &event.ActionResolved{Decision: "allow", Status: "resolved", DecisionSource: "human", Scope: "session"})
	child := event.Scope{TurnID: "t1", ThreadID: "thread_child", SubagentID: "agent_1", ToolCallID: "c9"}
	k.addFact("s", event.TypeToolStarted, child, &event.ToolStarted{ToolName: "shell", Policy: "allowed"})
	k.addFact("s", event.TypeToolResult, call, &event.ToolResult{ToolName: "shell", Status: "ok", Preview: "li", Truncated: true, OutputRef: "ref_out", ChangedFiles: []event.FileChange{{Path: "a", Change: "added"}}})
	k.addFact("s", event.TypeToolFailed, event.Scope{TurnID: "t1", ToolCallID: "c2"}, &event.ToolFailed{ToolName: "nothing", ErrorCategory: "not_found", Message: "no such tool"})
	out, _ := readInWords(t, k, "s")
	m := out.Turns[0].Messages
	if len(m) != 4 || m[0].Text != "a long one\n[image]" || m[1].Question == nil || m[1].Question.Scope != "session" || m[2].Tool.Name != "shell" || !m[2].Tool.Cut || len(m[2].Tool.Output) != MaxText ||
		m[3].Tool.Status != "failed" {
		t.Fatalf("%+v", m)
	}
	var page bytes.Buffer
	if _, err := Write(t.Context(), k, "s", Markdown, &page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"> a long one\n> [image]", "**Asked:** Allow shell?  \n**Answer:** allow · for this session", "````text\nline", "agentd output ref_out", "- added a"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is missing in\n%.2000s", want, page.String())
		}
	}
	if strings.Contains(page.String(), "\x1b") {
		t.Error("a control sequence is written")
	}
}

// TestForks: a fork begins with what it continues, as far as that can be read.
func TestForks(t *testing.T) {
	k := newKept()
	k.begin("a", &event.SessionCreated{})
	k.submit("a", "t1", "one")
	k.start("a", "t1")
	k.answer("a", "t1", "ONE")
	through := uint64(len(k.sessions["a"]))
	k.submit("a", "t2", "other")
	k.start("a", "t2")
	k.begin("b", &event.SessionCreated{ForkedFrom: &event.ForkPoint{SessionID: "a", Sequence: through}})
	k.submit("b", "t3", "three")
	k.start("b", "t3")
	_, got := readInWords(t, k, "b")
	wantSaid(t, got, "t1 completed: user(one) assistant(ONE)", "t3 running: user(three)")
	delete(k.sessions, "a")
	out, got := readInWords(t, k, "b")
	wantSaid(t, got, "t3 running: user(three)")
	if out.Incomplete == "" {
		t.Error("it doesn't say that something is missing")
	}
	if _, err := Write(t.Context(), k, "nowhere", Markdown, io.Discard); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
}

// TestLostAnswers: an answer that isn't kept any more is said to be missing, at the end if
// the beginning was written by then.
func TestLostAnswers(t *testing.T) {
	k := newKept()
	k.begin("s", &event.SessionCreated{})
	k.submit("s", "t1", "one")
	k.start("s", "t1")
	k.addFact("s", event.TypeModelCompleted, event.Scope{TurnID: "t1"}, &event.ModelCompleted{ModelRequestID: "r", StopReason: "end_turn", MessageRef: "ref_gone", Preview: "it was lo"})
	out, got := readInWords(t, k, "s")
	wantSaid(t, got, "t1 running: user(one) assistant(it was lo)")
	if out.Incomplete == "" {
		t.Error("it doesn't say that something is missing")
	}
	var page bytes.Buffer
	if _, err := Write(t.Context(), k, "s", Markdown, &page); err != nil || !strings.HasSuffix(page.String(), "*(incomplete: an answer isn't kept any more)*\n") {
		t.Errorf("%v:\n%s", err, &page)
	}
}

// counted counts what is written.
type counted struct {
	n    int
	most int
}

func (c *counted) Write(b []byte) (int, error) {
	if c.n += len(b); c.most > 0 && c.n > c.most {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

// watched is a source that tells which fact and which content is read.
type watched struct {
	*kept
	page, open func()
}

func (w *watched) Page(ctx context.Context, sessionID string, after uint64, limit int) ([]facts.Fact, uint64, error) {
	if w.page(); ctx.Err() != nil {
		return nil, 0, ctx.Err()
	}
	return w.kept.Page(ctx, sessionID, after, min(limit, 50))
}

func (w *watched) Open(ctx context.Context, ref string) (io.ReadCloser, error) {
	w.open()
	return w.kept.Open(ctx, ref)
}

// TestWritesWhileItReads: a turn is written when its facts were read, and what is long in it
// is read when it is written. A conversation that can't be written any more isn't read any
// further.
func TestWritesWhileItReads(t *testing.T) {
	const turns, size = 60, 20_000
	k := newKept()
	k.contents["ref_long"] = strings.Repeat("y", size)
	k.begin("s", &event.SessionCreated{})
	for i := range turns {
		id := "t" + strconv.Itoa(i)
		k.submit("s", id, "next")
		k.start("s", id)
		call := event.Scope{TurnID: id, ToolCallID: "c" + id}
		k.addFact("s", event.TypeToolStarted, call, &event.ToolStarted{ToolName: "shell", Policy: "pending"})
		k.addFact("s", event.TypeToolResult, call, &event.ToolResult{ToolName: "shell", Status: "ok", Truncated: true, OutputRef: "ref_long"})
		k.answer("s", id, "done")
	}
	for _, form := range []Form{Markdown, JSON, Line} {
		out := &counted{}
		reads, opened, behind := 0, 0, 0
		src := &watched{kept: k, page: func() { reads++ }, open: func() {
			behind = max(behind, opened*size-out.n)
			opened++
		}}
		if n, err := Write(t.Context(), src, "s", form, out); err != nil || n != turns || opened != turns {
			t.Fatalf("%s: %d turns, %d contents, %v", form, n, opened, err)
		}
		if behind > 4*size {
			t.Errorf("%s: %d bytes were read and not written", form, behind)
		}
		whole := reads
		reads, opened, out = 0, 0, &counted{most: 5 * size}
		if _, err := Write(t.Context(), src, "s", form, out); !errors.Is(err, io.ErrShortWrite) || opened > 10 || reads >= whole {
			t.Errorf("%s: after %d contents and %d of %d pages: %v", form, opened, reads, whole, err)
		}
	}
}
