package agentd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/fault"
	"agentd/internal/tourtest"
	"agentd/loop"
	"agentd/model/provider/script"
	"agentd/process"
	"agentd/sandbox"
	"agentd/store"
	"agentd/store/storetest"
)

// shortOfBreath is a store that fails a call's reads from a given one on, or that one alone.
type shortOfBreath struct{ store.Store }

// breath is how many reads a call has left; it is in the call's context.
type breath struct {
	left atomic.Int64
	// again says that the store is back after the one read that it failed.
	again bool
}

type breathKey struct{}

func spend(ctx context.Context) error {
	b, ok := ctx.Value(breathKey{}).(*breath)
	if !ok {
		return nil
	}
	if left := b.left.Add(-1); left == -1 || left < -1 && !b.again {
		return fmt.Errorf("the store: %w", store.ErrFull)
	}
	return nil
}

// spent is an answer in parts of which the read of each costs one.
func spent[T any](ctx context.Context, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := spend(ctx); err != nil {
			yield(none, err)
			return
		}
		for v, err := range seq {
			if !yield(v, err) {
				return
			}
		}
	}
}

func (o shortOfBreath) Get(ctx context.Context, kind, key string) ([]byte, error) {
	if err := spend(ctx); err != nil {
		return nil, err
	}
	return o.Store.Get(ctx, kind, key)
}

func (o shortOfBreath) Scan(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error] {
	return spent(ctx, o.Store.Scan(ctx, s))
}

func (o shortOfBreath) Head(ctx context.Context, sessionID string) (store.Head, error) {
	if err := spend(ctx); err != nil {
		return store.Head{}, err
	}
	return o.Store.Head(ctx, sessionID)
}

func (o shortOfBreath) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	return spent(ctx, o.Store.Read(ctx, sessionID, r))
}

func (o shortOfBreath) Snapshot(ctx context.Context, sessionID, name string) (store.Snapshot, error) {
	if err := spend(ctx); err != nil {
		return store.Snapshot{}, err
	}
	return o.Store.Snapshot(ctx, sessionID, name)
}

func (o shortOfBreath) Base(ctx context.Context, sessionID string) (store.Snapshot, error) {
	if err := spend(ctx); err != nil {
		return store.Snapshot{}, err
	}
	return o.Store.Base(ctx, sessionID)
}

func (o shortOfBreath) Claim(ctx context.Context, sessionID string) (store.Claim, error) {
	if err := spend(ctx); err != nil {
		return store.Claim{}, err
	}
	return o.Store.Claim(ctx, sessionID)
}

func (o shortOfBreath) Sessions(ctx context.Context, after string) iter.Seq2[string, error] {
	return spent(ctx, o.Store.Sessions(ctx, after))
}

func (o shortOfBreath) Changes(ctx context.Context, after string) iter.Seq2[store.Change, error] {
	return spent(ctx, o.Store.Changes(ctx, after))
}

func (o shortOfBreath) Position(ctx context.Context) (string, error) {
	if err := spend(ctx); err != nil {
		return "", err
	}
	return o.Store.Position(ctx)
}

func (o shortOfBreath) PutBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
	if err := spend(ctx); err != nil {
		return store.BlobInfo{}, err
	}
	return o.Store.PutBlob(ctx, r)
}

func (o shortOfBreath) OpenBlob(ctx context.Context, ref string) (store.Blob, error) {
	if err := spend(ctx); err != nil {
		return nil, err
	}
	return o.Store.OpenBlob(ctx, ref)
}

// doneAnyway are commands that may be done although the store failed a read, and why.
var doneAnyway = map[command.Name]string{
	"archive_sessions": "the answer says it of the one session",
	"interrupt_turns":  "the answer says it of the one turn",
	"respond_actions":  "the answer says it of the one action",
	"delete_session":   "the bytes of its contents are deleted later",
	"set_quotas":       "the limits are stored, and read again until they hold here",
	"read_audit":       "what couldn't be read together with others is read again alone",
}

// TestEveryCommandAnswersAnOutageAlike: wherever in a command the store goes away, for good or
// for a moment, the answer is 503 with the time to come again. It is never that something isn't
// there, or a result that lacks what couldn't be read. The same command does its work once the
// store is back.
func TestEveryCommandAnswersAnOutageAlike(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("again=%v", again), func(t *testing.T) { answersOutages(t, again) })
	}
}

func answersOutages(t *testing.T, again bool) {
	t.Helper()
	mem := storetest.NewMem()
	processes := sync.OnceValue(func() *process.Manager { return process.New(process.Options{Report: sandbox.Probe()}) })
	opt := agentd.Options{
		Store: shortOfBreath{mem}, Provider: script.New("script", &script.Script{Answers: tourtest.Answers()}), Model: "script",
		Loop: loop.Options{Workspace: t.TempDir(), Governance: loop.Governance{Processes: processes}},
	}
	opt.Host = tourtest.Host(t)
	rt, err := agentd.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(rt.Close(context.Background()), mem.Close()); err != nil {
			t.Error(err)
		}
	})
	outages, keys, tried := 0, 0, map[command.Name]int{}
	do := func(name command.Name, body string) json.RawMessage {
		t.Helper()
		d, _ := command.Lookup(name)
		var fields map[string]any
		if err := json.Unmarshal([]byte(body), &fields); err != nil {
			t.Fatal(err)
		}
		if d.Mutates && fields["idempotencyKey"] == nil {
			keys++
			fields["idempotencyKey"] = fmt.Sprintf("tour-%d", keys)
		}
		sent, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		reads := int64(0)
		if tried[name]++; tried[name] > 3 { // one that only looks again whether something is done
			reads = math.MaxInt32
		}
		for ; ; reads++ {
			p, err := command.Decode(name, sent)
			if err != nil {
				t.Fatal(err)
			}
			b := &breath{again: again}
			b.left.Store(reads)
			result, err := rt.Port().Do(context.WithValue(t.Context(), breathKey{}, b), command.Local(), p)
			if err != nil {
				if f, ok := errors.AsType[*fault.Error](err); !ok || b.left.Load() >= 0 || f.Kind != fault.Unavailable || f.RetryAfter != time.Second {
					t.Errorf("%s, after %d reads: %v", name, reads, err)
				}
				if outages++; reads < 1000 {
					continue
				}
				t.Fatalf("%s is never done: %v", name, err)
			}
			if b.left.Load() < 0 && doneAnyway[name] == "" {
				t.Errorf("%s, after %d reads: it is done although the store failed it", name, reads)
			}
			encoded, err := json.Marshal(result)
			if err != nil {
				t.Fatal(err)
			}
			return encoded
		}
	}
	var made command.CreateSessionResult
	var turn command.SubmitTurnResult
	if err := errors.Join(
		json.Unmarshal(do("create_session", `{"sessionId":"s"}`), &made),
		json.Unmarshal(do("submit_turn", `{"sessionId":"s","input":"hello"}`), &turn),
	); err != nil {
		t.Fatal(err)
	}
	tourtest.Tour(t, "s", made.ThreadID, turn.TurnID, do)
	if outages < 200 {
		t.Errorf("the store went away %d times", outages)
	}
}
