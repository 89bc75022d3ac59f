package session_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/store"
	"agentd/store/storetest"
)

// feed follows all sessions after a cursor.
func (k *kit) feed(caller command.Caller, after string) *session.Feed {
	k.Helper()
	f, err := k.m.SubscribeAll(k.Context(), caller, after)
	if err != nil {
		k.Fatal(err)
	}
	return f
}

func TestFeedHasEveryFactOfEverySessionOnce(t *testing.T) {
	k := newKit(t, nil)
	before := k.submit(command.SubmitTurn{}) // published before the feed began
	feed := k.feed(admin, "")
	defer feed.Close()
	const sessions, turns = 8, 20
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			for range turns {
				k.submit(command.SubmitTurn{SessionID: fmt.Sprintf("sess_%d", i), Create: true})
			}
		})
	}
	got := map[string]uint64{}
	total := sessions * (4 + (turns-1)*3)
	for n := 0; n < total; {
		records, err := feed.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			if rec.Sequence != got[rec.SessionID]+1 {
				t.Fatalf("%s: %d after %d", rec.SessionID, rec.Sequence, got[rec.SessionID])
			}
			got[rec.SessionID] = rec.Sequence
			n++
		}
	}
	wg.Wait()
	if _, ok := got[before.SessionID]; ok {
		t.Error("the feed shows what was before it")
	}
}

// TestFeedGoesOnAfterAnyCursor leaves a feed after each fact, also in the middle of a
// write, and has each time every fact that was left, once and in order.
func TestFeedGoesOnAfterAnyCursor(t *testing.T) {
	k := newKit(t, nil)
	start := k.feed(admin, "")
	defer start.Close()
	for range 3 {
		for i := range 4 {
			k.submit(command.SubmitTurn{SessionID: fmt.Sprintf("sess_%d", i), Create: true})
		}
	}
	const total = 4 * (4 + 2*3)
	all := readFeed(t, start, total)
	for i := range all {
		rest := k.feed(admin, all[i].Cursor())
		got := readFeed(t, rest, total-i-1)
		rest.Close()
		for j, rec := range got {
			if want := all[i+1+j]; rec.SessionID != want.SessionID || rec.Sequence != want.Sequence || rec.Cursor() != want.Cursor() {
				t.Fatalf("after fact %d: %s %d comes where %s %d was", i, rec.SessionID, rec.Sequence, want.SessionID, want.Sequence)
			}
		}
	}
	for _, text := range []string{"x", "!!", all[0].Cursor() + "A", base64.RawURLEncoding.EncodeToString([]byte("0\nsess_0\nx")), base64.RawURLEncoding.EncodeToString([]byte("0\n1"))} {
		if _, err := k.m.SubscribeAll(t.Context(), admin, text); fault.KindOf(err) != fault.InvalidParams {
			t.Errorf("cursor %q: %v", text, err)
		}
	}
}

// TestCursorsTellNothing: a position of the store counts what all accounts write. Neither it
// nor its length can be read from a cursor, and one that was changed is refused.
func TestCursorsTellNothing(t *testing.T) {
	k := newKit(t, nil)
	f := k.feed(admin, "")
	defer f.Close()
	for range 12 {
		k.submit(command.SubmitTurn{SessionID: "sess_of_someone", Create: true})
	}
	for _, rec := range readFeed(t, f, 20) {
		sealed, err := base64.RawURLEncoding.DecodeString(rec.Cursor())
		if err != nil || bytes.Contains(sealed, []byte("someone")) || len(sealed) != 12+64+16 {
			t.Fatalf("%q of %d bytes, %v", sealed, len(sealed), err)
		}
		for i := range sealed {
			sealed[i] ^= 4
			if _, err := k.m.SubscribeAll(t.Context(), admin, base64.RawURLEncoding.EncodeToString(sealed)); fault.KindOf(err) != fault.InvalidParams {
				t.Fatalf("byte %d changed: %v", i, err)
			}
			sealed[i] ^= 4
		}
	}
}

func readFeed(t *testing.T, f *session.Feed, n int) (list []session.FeedRecord) {
	t.Helper()
	for len(list) < n {
		records, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, records...)
	}
	return list
}

// TestFeedNamesWhatRetentionRemoved: a cursor may be older than what is left of a session.
func TestFeedNamesWhatRetentionRemoved(t *testing.T) {
	k := newKit(t, nil)
	feed := k.feed(admin, "")
	defer feed.Close()
	k.turns("sess_a", 2)
	trimmed := k.trim("sess_a", session.TrimOptions{})
	oldest := k.oldest("sess_a")
	if oldest < 2 {
		t.Fatalf("nothing was removed: %+v", trimmed)
	}
	var next uint64 = 1
	for next < oldest {
		records, err := feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			if r := &records[i]; r.Sequence != next || r.RemovedThrough == 0 || r.Data != nil {
				t.Fatalf("%+v comes where %d is missing", r, next)
			}
			next = records[i].RemovedThrough + 1
		}
	}
	if records, err := feed.Next(t.Context()); err != nil || records[0].Sequence != next || records[0].Data == nil {
		t.Errorf("after the gap: %+v, %v", records, err)
	}
}

func TestFeedShowsOnlyWhatTheCallerMaySee(t *testing.T) {
	k := newKit(t, nil)
	acme := command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	feed := k.feed(acme, "")
	defer feed.Close()
	k.submit(command.SubmitTurn{})
	mine := callAs[command.SubmitTurnResult](k, acme, &command.SubmitTurn{Input: event.Raw(`"x"`)})
	records, err := feed.Next(context.Background())
	if err != nil || records[0].SessionID != mine.SessionID {
		t.Errorf("got %v, %v", records, err)
	}
}

func TestOutputsBelongToTheirSession(t *testing.T) {
	k := newKit(t, func(o *session.Options) { o.InlineBytes = 10 })
	acme := command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	r := callAs[command.SubmitTurnResult](k, acme, &command.SubmitTurn{Input: event.Raw(`"a long input"`)})
	ref := k.events(r.SessionID)[2].Payload.(*event.TurnSubmitted).InputRef
	b, mediaType, err := k.m.Output(context.Background(), acme, ref)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if content, err := io.ReadAll(b); err != nil || mediaType != "application/json" || string(content) != `[{"type":"text","text":"a long input"}]` {
		t.Errorf("got %s, %s, %v", content, mediaType, err)
	}
	other := command.Caller{Account: "other"}
	for _, ref := range []string{ref, "sha256:00", "../token", ""} {
		if _, _, err := k.m.Output(context.Background(), other, ref); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%q: got %v", ref, err)
		}
	}
}

// stalled is a store that doesn't answer a read before its context ends, once.
type stalled struct {
	store.Store
	once  *atomic.Bool
	began chan<- struct{}
}

func (s stalled) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	if !s.once.CompareAndSwap(true, false) {
		return s.Store.Read(ctx, sessionID, r)
	}
	return func(yield func(store.Record, error) bool) {
		close(s.began)
		<-ctx.Done()
		yield(store.Record{}, ctx.Err())
	}
}

// TestFeedGivesUpAReadAndLosesNothing: whoever waits only for a while asks again, and
// gets what was being read when the while was over.
func TestFeedGivesUpAReadAndLosesNothing(t *testing.T) {
	stall, began := &atomic.Bool{}, make(chan struct{})
	k := newKitOn(t, stalled{storetest.NewMem(), stall, began}, nil)
	feed := k.feed(admin, "")
	defer feed.Close()
	first := k.submit(command.SubmitTurn{SessionID: "sess_a", Create: true})
	var last uint64
	for last < first.Sequence {
		records, err := feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last = records[len(records)-1].Sequence
	}
	stall.Store(true)
	k.submit(command.SubmitTurn{SessionID: "sess_a"})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	if _, err := feed.Next(ctx); err == nil {
		t.Fatal("a read that didn't end gave something")
	}
	records, err := feed.Next(t.Context())
	if err != nil || len(records) == 0 || records[0].Sequence != last+1 {
		t.Fatalf("after it was given up: %v, %v; %d was the last before", records, err, last)
	}
}

// readsCounted counts the questions that a store is asked.
type readsCounted struct {
	store.Store
	reads atomic.Int64
}

func (s *readsCounted) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	s.reads.Add(1)
	return s.Store.Read(ctx, sessionID, r)
}

// TestFeedsShareWhatTheyRead: the facts of a change are read once, however many feeds
// there are, and a feed that is behind gets all that it missed.
func TestFeedsShareWhatTheyRead(t *testing.T) {
	counted := &readsCounted{Store: storetest.NewMem()}
	k := newKitOn(t, counted, nil)
	const feeds, changes = 20, 30
	k.submit(command.SubmitTurn{SessionID: "sess_a", Create: true})
	var all []*session.Feed
	for range feeds {
		f := k.feed(admin, "")
		t.Cleanup(f.Close)
		all = append(all, f)
	}
	behind := k.feed(admin, "")
	defer behind.Close()
	counted.reads.Store(0)
	for range changes {
		k.submit(command.SubmitTurn{SessionID: "sess_a"})
		for _, f := range all {
			readFeed(t, f, 3)
		}
	}
	if n := counted.reads.Load(); n > 2*changes {
		t.Errorf("%d feeds read %d changes in %d questions", feeds, changes, n)
	}
	for i, rec := range readFeed(t, behind, 3*changes) {
		if want := uint64(5 + i); rec.Sequence != want {
			t.Fatalf("fact %d is %d, not %d", i, rec.Sequence, want)
		}
	}
}

// spansCounted is a store that reads parts of many sessions at once, as one over a network does.
type spansCounted struct {
	readsCounted
	questions atomic.Int64
	// asked are the sessions that were asked for.
	asked sync.Map
	// lacks, if not nil, says of which span nothing is said, fails that no question is answered.
	lacks func(span store.Span) bool
	fails bool
}

func (s *spansCounted) ReadSpans(ctx context.Context, spans []store.Span) ([][]store.Record, error) {
	s.questions.Add(1)
	if s.fails {
		return nil, errors.New("the connection is refused")
	}
	out := make([][]store.Record, len(spans))
	for i, span := range spans {
		s.asked.Store(span.SessionID, true)
		if s.lacks != nil && s.lacks(span) {
			continue
		}
		for rec, err := range s.Store.Read(ctx, span.SessionID, store.Range{After: span.First - 1, Before: span.Last + 1}) {
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], rec)
		}
	}
	return out, nil
}

// TestFeedReadsChangesTogether: over a store that is a network away a feed that is behind has
// one question for many changes, and asks for those alone that its caller may see. What such a
// question doesn't answer is read by itself.
func TestFeedReadsChangesTogether(t *testing.T) {
	const sessions, turns = 6, 40
	for _, c := range []struct {
		name  string
		tune  func(s *spansCounted)
		reads int64
	}{
		{name: "all", reads: 0},
		{name: "some are not there", tune: func(s *spansCounted) { s.lacks = func(span store.Span) bool { return span.SessionID == "sess_3" } }, reads: 2 * turns},
		{name: "none is answered", tune: func(s *spansCounted) { s.fails = true }, reads: 2 * sessions * turns},
	} {
		t.Run(c.name, func(t *testing.T) {
			counted := &spansCounted{}
			if c.tune != nil {
				c.tune(counted)
			}
			k := newKitOn(t, storetest.NewMem(), func(o *session.Options) { counted.Store, o.Store = o.Store, counted })
			begin := k.feed(admin, "")
			cursor := begin.Cursor()
			begin.Close()
			for range turns {
				for i := range sessions {
					callAs[command.SubmitTurnResult](k, callerOf(fmt.Sprint("account_", i%2)), &command.SubmitTurn{SessionID: fmt.Sprintf("sess_%d", i), Create: true, Input: event.Raw(`"hello"`)})
				}
			}
			counted.reads.Store(0)
			const total = sessions * (4 + (turns-1)*3)
			for as, n := range map[string]int{"": total, "account_1": total / 2} {
				counted.asked.Clear()
				who := admin
				if as != "" {
					who = callerOf(as)
				}
				f := k.feed(who, cursor)
				seen := map[string]uint64{}
				for _, rec := range readFeed(t, f, n) {
					if rec.Sequence != seen[rec.SessionID]+1 {
						t.Fatalf("%s: %d after %d", rec.SessionID, rec.Sequence, seen[rec.SessionID])
					}
					seen[rec.SessionID] = rec.Sequence
				}
				f.Close()
				counted.asked.Range(func(id, _ any) bool {
					if _, ok := seen[id.(string)]; !ok && !counted.fails {
						t.Errorf("%s is read for a caller who may not see it", id)
					}
					return true
				})
			}
			if n := counted.reads.Load(); n > c.reads {
				t.Errorf("%d questions for single changes, want at most %d", n, c.reads)
			}
			if n := counted.questions.Load(); !counted.fails && n > 2*sessions*turns/50 {
				t.Errorf("%d questions for %d changes, read twice", n, sessions*turns)
			}
		})
	}
}

// TestManyFeedsLoseNothing follows with feeds that come, fall behind and go while others
// write.
func TestManyFeedsLoseNothing(t *testing.T) {
	k := newKit(t, nil)
	const sessions, turns = 4, 60
	const total = sessions * (4 + (turns-1)*3)
	start := k.feed(admin, "")
	defer start.Close()
	cursor := start.Cursor()
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			for range turns {
				k.submit(command.SubmitTurn{SessionID: fmt.Sprintf("sess_%d", i), Create: true})
			}
		})
	}
	for range 6 {
		wg.Go(func() {
			after, seen := cursor, map[string]uint64{}
			for n := 0; n < total; {
				f := k.feed(admin, after)
				for range 7 { // then it is left and gone on with
					if n == total {
						break
					}
					records, err := f.Next(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					for i := range records {
						if rec := &records[i]; rec.Sequence != seen[rec.SessionID]+1 {
							t.Errorf("%s: %d after %d", rec.SessionID, rec.Sequence, seen[rec.SessionID])
							return
						}
						seen[records[i].SessionID]++
						n++
					}
					after = f.Cursor()
				}
				f.Close()
			}
		})
	}
	wg.Wait()
}
