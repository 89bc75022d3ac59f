package agentd_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
)

// TestAClosedRuntimeSaysThatItStops: doors ask until they are closed themselves. Whatever they
// ask for when the runtime is closed, or the store is, too, the answer says when to come again,
// and nothing of what is closed inside.
func TestAClosedRuntimeSaysThatItStops(t *testing.T) {
	s := storetest.NewMem()
	r, err := agentd.Open(t.Context(), agentd.Options{Store: s, Provider: script.New("script", nil), Model: "test"})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Port()
	if _, err := p.Do(t.Context(), command.Local(), &command.CreateSession{SessionID: "sess_a"}); err != nil {
		t.Fatal(err)
	}
	one, err := p.Subscribe(t.Context(), command.Local(), "sess_a", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	all, err := p.SubscribeAll(t.Context(), command.Local(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked := func(when string) {
		check := func(what string, err error) bool {
			f, known := errors.AsType[*fault.Error](err)
			switch {
			case err == nil:
			case !known, f.Kind == fault.Internal, f.Kind == fault.Unavailable && f.RetryAfter == 0, strings.Contains(f.Detail, "store is closed"):
				t.Errorf("%s, %s: %v", when, what, err)
			default:
				return f.Kind == fault.Unavailable
			}
			return false
		}
		stops := 0
		for _, d := range command.Catalog() {
			params, err := command.Decode(d.Name, []byte(d.Example))
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Do(t.Context(), command.Local(), params)
			if check(string(d.Name), err) {
				stops++
			} else if d.Name == "submit_turn" {
				t.Errorf("%s, %s: %v", when, d.Name, err)
			}
		}
		if stops < 20 {
			t.Errorf("%s, %d commands said so", when, stops)
		}
		for _, stream := range []command.Stream{one, all} {
			for err := error(nil); err == nil; { // what is there comes first
				_, err = stream.Next(t.Context())
				check("a stream", err)
			}
		}
		_, _, err := p.Events(t.Context(), command.Local(), "sess_a", 0, 10)
		check("a page", err)
		_, err = p.Oldest(t.Context(), command.Local(), "sess_a")
		check("the oldest event", err)
		_, err = p.Output(t.Context(), command.Local(), "sha256:"+strings.Repeat("0", 64))
		check("an output", err)
		_, _, err = p.LocateProcess(t.Context(), command.Local(), "proc_a")
		check("a process", err)
		_, err = p.FollowChannel(t.Context(), command.Local(), "chan_a", "sess_a")
		check("a channel", err)
	}
	asked("the runtime is closed")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	asked("the store is closed, too")
}

// TestExplain: what the store says has a kind, wherever it comes from; a failure that passes says
// when to come again.
func TestExplain(t *testing.T) {
	r, err := agentd.Open(t.Context(), agentd.Options{Store: storetest.NewMem(), Provider: script.New("script", nil), Model: "test"})
	if err != nil {
		t.Fatal(err)
	}
	other := errors.New("a defect")
	for _, c := range []struct {
		err    error
		kind   fault.Kind
		passes bool
	}{
		{store.ErrFull, fault.Unavailable, true},
		{store.ErrNoSpace, fault.Unavailable, true},
		{store.ErrUnavailable, fault.Unavailable, true},
		{store.ErrUnknownOutcome, fault.Unavailable, true},
		{store.ErrFenced, fault.Unavailable, true},
		{store.ErrClosed, fault.Unavailable, true},
		{fault.Wrap(fault.Unavailable, store.ErrUnavailable, "the session can't be read"), fault.Unavailable, true},
		{fault.Wrap(fault.Internal, store.ErrUnavailable, "something went wrong"), fault.Unavailable, true},
		{fault.Wrap(fault.Unavailable, store.ErrCorrupt, "the session can't be read"), fault.Unavailable, false},
		{store.ErrFailed, fault.Unavailable, false},
		{store.ErrRestored, fault.Unavailable, false},
		{store.ErrCorrupt, fault.Internal, false},
		{context.Canceled, fault.Internal, false},
		{other, fault.Internal, false},
		{fault.Wrap(fault.NotFound, other, "no"), fault.NotFound, false},
	} {
		said := r.Explain(errors.Join(errors.New("while something was read"), c.err))
		f, ok := errors.AsType[*fault.Error](said)
		cause := c.err
		if inner := errors.Unwrap(c.err); inner != nil {
			cause = inner
		}
		if fault.KindOf(said) != c.kind || (ok && f.RetryAfter > 0) != c.passes || !errors.Is(said, cause) {
			t.Errorf("%v is said as %v", c.err, said)
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for err, passes := range map[error]bool{
		context.Canceled: true, store.ErrFailed: true, other: false,
		fault.New(fault.Unavailable, "not now"): true, fault.New(fault.Conflict, "taken"): false,
	} {
		f, ok := errors.AsType[*fault.Error](r.Explain(err))
		if (ok && f.RetryAfter > 0) != passes {
			t.Errorf("while it stops, %v is said as %v", err, f)
		}
	}
	if r.Explain(nil) != nil {
		t.Error("nothing is something")
	}
}
