package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
	"agentd/event/eventtest"
	"agentd/session"
	"agentd/store"
	"agentd/store/storetest"
)

// watched is a store that keeps the index entries of what is appended.
type watched struct {
	store.Store
	ops []store.IndexOp
}

func (w *watched) Append(ctx context.Context, batches []*store.Batch) []error {
	for _, b := range batches {
		w.ops = append(w.ops, b.Index...)
	}
	return w.Store.Append(ctx, batches)
}

// TestImportedFactsReachNoFurtherThanTheirSession imports a session with one fact of
// every type, drawn at random, beside a session of another account that has the same
// fact: it is refused, or all that follows from it in the index is about the session and
// takes nothing from the other one.
func TestImportedFactsReachNoFurtherThanTheirSession(t *testing.T) {
	const rounds = 8
	imported := 0
	for _, d := range event.Catalog() {
		facts := rapid.Custom(func(t *rapid.T) *event.Event { return eventtest.Event(t, d.Type) })
		for seed := range rounds {
			e := facts.Example(seed)
			w := &watched{Store: storetest.NewMem()}
			m := session.New(session.Options{Store: w, RuntimeID: "runtime_test"})
			if err := importFacts(t, m, w, "sess_other", "alice", e, false); err != nil {
				closed(t, m)
				continue // it can't be folded at all
			}
			w.ops = nil
			if err := importFacts(t, m, w, "sess_theirs", "bob", e, true); err == nil {
				imported++
				for _, op := range w.ops {
					if why := reaches(&op); why != "" {
						t.Errorf("%s: the entry %s %q %s\n%s", d.Type, op.Kind, op.Key, why, event.AppendJSON(nil, e))
					}
				}
			}
			closed(t, m)
		}
	}
	if imported < len(event.Catalog()) {
		t.Errorf("only %d of %d files were imported: the test shows little", imported, rounds*len(event.Catalog()))
	}
}

func closed(t *testing.T, m *session.Manager) {
	t.Helper()
	if err := m.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// reaches says in which way an entry is about more than the imported session.
func reaches(op *store.IndexOp) string {
	if strings.Contains(op.Key, "sess_other") || strings.Contains(string(op.Value), "sess_other") {
		return "is about the other session"
	}
	if strings.Contains(op.Key, "sess_theirs") {
		return ""
	}
	if op.Kind == "peer_task_open" && strings.Contains(op.Key, "/bob/") {
		return "" // a peer's task of the session's own account
	}
	if !strings.Contains(string(op.Value), "sess_theirs") {
		return fmt.Sprintf("is not about the session: %s", op.Value)
	}
	return ""
}

// importFacts imports a session of an account that has a beginning and one more fact,
// and says why it is refused.
func importFacts(t *testing.T, m *session.Manager, contents store.Contents, sessionID, account string, fact *event.Event, checked bool) error {
	t.Helper()
	ctx := t.Context()
	created := event.Event{Type: event.TypeSessionCreated, Payload: &event.SessionCreated{Account: account}}
	second := *fact
	var records []store.Record
	chain := store.NewChain(store.Genesis(sessionID))
	for i, e := range []*event.Event{&created, &second} {
		e.ID, e.SessionID, e.Sequence, e.RuntimeID, e.Time = fmt.Sprintf("evt_%d", i+1), sessionID, uint64(i+1), "runtime_elsewhere", fact.Time
		data := event.AppendJSON(nil, e)
		records = append(records, store.Record{Sequence: e.Sequence, Data: data, Hash: chain.Next(data)})
	}
	if checked {
		check, err := m.CheckImport(ctx, sessionID)
		for i := range records {
			if err == nil {
				err = check.Add(ctx, contents, &records[i])
			}
		}
		if err == nil {
			_, err = check.Done()
		}
		if err != nil {
			return err
		}
	}
	in, err := m.BeginImport(ctx, sessionID)
	if err != nil {
		return err
	}
	for i := range slices.Clone(records) {
		if err == nil {
			err = in.Add(ctx, &records[i])
		}
	}
	_, err = in.Close(ctx, err)
	return err
}
