package loop

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"agentd/event"
	"agentd/store"
	"agentd/store/storetest"
)

// journal is a store that holds a story's facts; read is called before each read.
type journal struct {
	store.Store
	read func()
	// sick makes blobs unreadable.
	sick error
}

func (j *journal) OpenBlob(ctx context.Context, ref string) (store.Blob, error) {
	if j.sick != nil {
		return nil, j.sick
	}
	return j.Store.OpenBlob(ctx, ref)
}

func (j *journal) Read(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
	if j.read != nil {
		j.read()
	}
	return j.Store.Read(ctx, id, r)
}

// written puts the first n facts of a story into a store.
func written(t *testing.T, st *story, n int) *journal {
	t.Helper()
	s := storetest.NewMem()
	claim, err := s.Claim(t.Context(), "sess_a")
	if err != nil {
		t.Fatal(err)
	}
	b := &store.Batch{SessionID: "sess_a", Epoch: claim.Epoch}
	for i := range st.facts[:n] {
		b.Records = append(b.Records, store.Record{Sequence: st.facts[i].Sequence, Data: event.AppendJSON(nil, &st.facts[i])})
	}
	if err := s.Append(t.Context(), []*store.Batch{b})[0]; err != nil {
		t.Fatal(err)
	}
	return &journal{Store: s}
}

func said1(turn, text string) step {
	return newStep(event.TypeTurnSubmitted, in(turn), &event.TurnSubmitted{Status: "queued", Source: "user", Input: event.Raw(fmt.Sprintf(`[{"type":"text","text":%q}]`, text))})
}

// TestConversationWhileFactsCome: facts that are committed while the journal is
// read, and facts that were committed just before, are neither lost nor doubled.
func TestConversationWhileFactsCome(t *testing.T) {
	st := newStory(t, said1("t", "one"), start("t"), ask("t", 1, 1, "turn"), answer("t", "end_turn", 1), ended("t"))
	through := len(st.facts)
	for i, turn := range []string{"u", "v", "w"} {
		said1(turn, fmt.Sprintf("more %d", i))(st)
	}
	k := key{"sess_a", "th"}
	for offered := through; offered <= len(st.facts); offered++ {
		// Facts up to offered are in the store when it is read; those after it come then.
		j := written(t, st, len(st.facts))
		tr := newTranscripts(j, 8)
		done := false
		j.read = func() {
			if !done {
				done = true
				for i := offered; i < len(st.facts); i++ {
					tr.offer("sess_a", st.facts[i:i+1])
				}
			}
		}
		at := positionOf(st.s, st.s.Thread("th"))
		at.through, at.last, at.open = uint64(through), uint64(through), nil
		c, err := tr.conversationAt(t.Context(), k, at)
		if err != nil {
			t.Fatalf("offered from %d on: %v", offered, err)
		}
		want := 3
		if offered == len(st.facts) {
			want = 0 // nothing was offered: what comes later breaks the conversation, and it is read again
		}
		if len(c.messages) != 1 || len(c.inputs) != want {
			t.Errorf("offered from %d on: %d messages, %d inputs", offered, len(c.messages), len(c.inputs))
		}
		at.through, at.last = uint64(len(st.facts)), uint64(len(st.facts))
		if c, err = tr.conversationAt(t.Context(), k, at); err != nil || len(c.inputs) != 3 {
			t.Errorf("offered from %d on, asked again: %v", offered, err)
		}
	}
}

// TestConversationAfterAFailedRead: what could not be read once is not missing for
// ever.
func TestConversationAfterAFailedRead(t *testing.T) {
	content := strings.Repeat("x", 100)
	st := newStory(t, said1("t", "one"), start("t"), ask("t", 1, 1, "turn"), answer("t", "tool_use", 1, "look"), starts("t", "look_0", "look", true))
	before := len(st.facts)
	ref := store.RefOf(sha256.Sum256([]byte(content)))
	newStep(event.TypeToolResult, inTool("t", "look_0"), &event.ToolResult{ToolName: "look", Status: "ok", OutputRef: ref, SizeBytes: 100})(st)
	j := written(t, st, len(st.facts))
	if _, err := j.PutBlob(t.Context(), strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	tr := newTranscripts(j, 8)
	k := key{"sess_a", "th"}
	at := positionOf(st.s, st.s.Thread("th"))
	at.through, at.last = uint64(before), uint64(before)
	if _, err := tr.conversationAt(t.Context(), k, at); err != nil {
		t.Fatal(err)
	}
	tr.offer("sess_a", st.facts[before:])
	at.through, at.last = uint64(len(st.facts)), uint64(len(st.facts))
	j.sick = errors.New("the disk is slow today")
	if _, err := tr.conversationAt(t.Context(), k, at); !errors.Is(err, j.sick) {
		t.Fatalf("an output that can't be read was: %v", err)
	}
	j.sick = nil
	c, err := tr.conversationAt(t.Context(), k, at)
	if err != nil {
		t.Fatal(err)
	}
	if m := c.results["look_0"]; m == nil || m.Text != content {
		t.Errorf("the result is %+v", m)
	}
}

// TestConversationsAreBounded: those that were used longest ago are forgotten.
func TestConversationsAreBounded(t *testing.T) {
	st := newStory(t, said1("t", "one"), start("t"))
	j := written(t, st, len(st.facts))
	reads := 0
	j.read = func() { reads++ }
	tr := newTranscripts(j, 2)
	at := positionOf(st.s, st.s.Thread("th"))
	get := func(thread string) {
		t.Helper()
		if _, err := tr.conversationAt(t.Context(), key{"sess_a", thread}, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, thread := range []string{"th", "b", "th", "c"} {
		get(thread)
	}
	if tr.count != 2 || tr.findConversation(key{"sess_a", "b"}) != nil {
		t.Errorf("%d conversations are kept", tr.count)
	}
	reads = 0
	get("th")
	if reads != 0 {
		t.Error("the one that was used last was forgotten")
	}
	get("b")
	if reads == 0 || tr.count != 2 || len(tr.byID["sess_a"]) != 2 {
		t.Errorf("%d reads, %d kept", reads, tr.count)
	}
}
