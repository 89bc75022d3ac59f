package agentd_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/store"
	"agentd/store/storetest"
)

// outOfService is a store that can't be read while it has an error: at all, or, with spared,
// only entries of a kind that is not spared.
type outOfService struct {
	store.Store
	err    atomic.Pointer[error]
	spared string
}

func (o *outOfService) fails(kind string) error {
	if err := o.err.Load(); err != nil && (o.spared == "" || kind != o.spared && kind != "") {
		return fmt.Errorf("the store: %w", *err)
	}
	return nil
}

func (o *outOfService) Get(ctx context.Context, kind, key string) ([]byte, error) {
	if err := o.fails(kind); err != nil {
		return nil, err
	}
	return o.Store.Get(ctx, kind, key)
}

func (o *outOfService) Scan(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error] {
	if err := o.fails(s.Kind); err != nil {
		return func(yield func(store.Entry, error) bool) { yield(store.Entry{}, err) }
	}
	return o.Store.Scan(ctx, s)
}

func (o *outOfService) Head(ctx context.Context, sessionID string) (store.Head, error) {
	if err := o.fails(""); err != nil {
		return store.Head{}, err
	}
	return o.Store.Head(ctx, sessionID)
}

func (o *outOfService) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	if err := o.fails(""); err != nil {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, err) }
	}
	return o.Store.Read(ctx, sessionID, r)
}

func (o *outOfService) Snapshot(ctx context.Context, sessionID, name string) (store.Snapshot, error) {
	if err := o.fails(""); err != nil {
		return store.Snapshot{}, err
	}
	return o.Store.Snapshot(ctx, sessionID, name)
}

func (o *outOfService) Base(ctx context.Context, sessionID string) (store.Snapshot, error) {
	if err := o.fails(""); err != nil {
		return store.Snapshot{}, err
	}
	return o.Store.Base(ctx, sessionID)
}

func (o *outOfService) Claim(ctx context.Context, sessionID string) (store.Claim, error) {
	if err := o.fails(""); err != nil {
		return store.Claim{}, err
	}
	return o.Store.Claim(ctx, sessionID)
}

func (o *outOfService) Sessions(ctx context.Context, after string) iter.Seq2[string, error] {
	if err := o.fails(""); err != nil {
		return func(yield func(string, error) bool) { yield("", err) }
	}
	return o.Store.Sessions(ctx, after)
}

func (o *outOfService) Changes(ctx context.Context, after string) iter.Seq2[store.Change, error] {
	if err := o.fails(""); err != nil {
		return func(yield func(store.Change, error) bool) { yield(store.Change{}, err) }
	}
	return o.Store.Changes(ctx, after)
}

// outages are what a store says that can't be read, and when to come again.
var outages = []struct {
	err   error
	kind  fault.Kind
	after time.Duration
}{
	{store.ErrUnavailable, fault.Unavailable, time.Second},
	{store.ErrFull, fault.Unavailable, time.Second},
	{store.ErrNoSpace, fault.Unavailable, 30 * time.Second},
	{store.ErrFailed, fault.Unavailable, 0},
	{store.ErrCorrupt, fault.Internal, 0},
}

// TestIndexedListsAnswerAnOutageAlike: the commands that are answered from indexes say the
// same of a store's trouble, and when to come again: whether the index can't be brought up
// to date or what it has can't be read.
func TestIndexedListsAnswerAnOutageAlike(t *testing.T) {
	for _, spared := range []string{"", "index_state"} {
		s := &outOfService{Store: storetest.NewMem(), spared: spared}
		r, err := agentd.Open(t.Context(), agentd.Options{Store: s, Provider: script.New("script", nil), Model: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Do(t.Context(), command.Local(), &command.SubmitTurn{SessionID: "sess_a", Create: true, Input: event.Raw(`"hello"`)}); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		sessions := session.New(session.Options{Store: s})
		reads := agentd.NewReadSide(agentd.ReadSideOptions{Store: s, Sessions: func() *session.Manager { return sessions }})
		reads.Start(t.Context())
		table := command.NewTable(command.TableOptions{Repeats: sessions})
		reads.Register(table)
		if _, err := table.Do(t.Context(), command.Local(), &command.Usage{}); err != nil { // brings the index up to date
			t.Fatal(err)
		}
		for _, o := range outages {
			s.err.Store(&o.err)
			said := map[string]string{}
			for name, p := range map[string]command.Params{"usage": &command.Usage{}, "list_turns": &command.ListTurns{}, "search": &command.Search{Query: "hello"}} {
				_, err := table.Do(t.Context(), command.Local(), p)
				f, ok := errors.AsType[*fault.Error](err)
				if !ok || f.Kind != o.kind || f.RetryAfter != o.after || !errors.Is(err, o.err) {
					t.Errorf("sparing %q, %v: %s says %+v", spared, o.err, name, err)
					continue
				}
				said[f.Detail] += name + " "
			}
			if len(said) != 1 {
				t.Errorf("sparing %q, %v is said as %v", spared, o.err, said)
			}
			s.err.Store(nil)
		}
		reads.Close()
	}
}

// TestReadingCommandsAnswerAnOutageAlike: whatever is read, the answer says when to come
// again.
func TestReadingCommandsAnswerAnOutageAlike(t *testing.T) {
	s := &outOfService{Store: storetest.NewMem()}
	r, err := agentd.Open(t.Context(), agentd.Options{Store: s, Provider: script.New("script", nil), Model: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outages {
		s.err.Store(&o.err)
		said, answers := map[command.Name]bool{}, map[command.Name]error{}
		for _, d := range command.Catalog() {
			if d.Mutates {
				continue
			}
			params, err := command.Decode(d.Name, []byte(d.Example))
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Do(t.Context(), command.Local(), params)
			answers[d.Name] = err
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || !errors.Is(err, o.err) {
				continue // it needs nothing of what can't be read
			}
			said[d.Name] = true
			if f.Kind != o.kind || f.RetryAfter != o.after {
				t.Errorf("%v: %s says %v, come again after %v", o.err, d.Name, f, f.RetryAfter)
			}
		}
		for _, name := range []command.Name{"usage", "list_turns", "search", "list_sessions", "get_session"} {
			if !said[name] {
				t.Errorf("%v: %s says nothing of it: %v", o.err, name, answers[name])
			}
		}
		s.err.Store(nil)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
