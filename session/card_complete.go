package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// Things of sessions that the first releases wrote have no cards. They are made once, of
// the sessions' states and of the records of what left them, and then a mark says that
// every session has its cards.
const (
	// kindCarded: nothing → how the cards came to be, once every session has them.
	kindCarded = "carded"
	// cardsWithFacts: every card was written with its facts; cardsMadeLater: some were
	// not, and may hold what came after the last fact that writes them.
	cardsWithFacts = "with facts"
	cardsMadeLater = "made later"
	// cardedSession is the id under which nodes agree who writes the mark. It has no
	// facts, and no caller can choose it.
	cardedSession = "/cards"
)

// CardsComplete reports whether every session has its cards: whether [Manager.WriteCards]
// was there already. A store without sessions has them from now on.
func (m *Manager) CardsComplete(ctx context.Context) (bool, error) {
	how, err := cardsMark(ctx, m.opt.Store)
	if err != nil || how != "" {
		return how != "", err
	}
	for _, err := range m.opt.Store.Sessions(ctx, "") {
		return false, err
	}
	return true, m.markCarded(ctx, cardsWithFacts)
}

// cardsMark returns how the cards of all sessions came to be, "" if not every one has them.
func cardsMark(ctx context.Context, s store.Store) (string, error) {
	how, err := s.Get(ctx, kindCarded, "")
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return string(how), err
}

// WriteCards writes the cards of all sessions. A session that another node owns keeps
// the mark from being written, so that the next start tries again.
func (m *Manager) WriteCards(ctx context.Context) error {
	left := 0
	for id, err := range m.opt.Store.Sessions(ctx, "") {
		if err != nil {
			return storeFault(err)
		}
		switch err := m.writeCardsOf(ctx, id); {
		case err == nil, fault.KindOf(err) == fault.NotFound: // it was deleted
		case fault.KindOf(err) == fault.Unavailable && ctx.Err() == nil:
			left++
		default:
			return err
		}
	}
	if left > 0 {
		return fault.New(fault.Unavailable, "%d sessions belong to other nodes", left)
	}
	return m.markCarded(ctx, cardsMadeLater)
}

// markCarded writes that the cards are complete. Nodes that start together all do.
func (m *Manager) markCarded(ctx context.Context, how string) error {
	return m.retryFenced(ctx, func() error { return m.markCardedOnce(ctx, how) })
}

func (m *Manager) markCardedOnce(ctx context.Context, how string) error {
	claim, err := m.claimSession(ctx, cardedSession, true)
	if err != nil {
		return storeFault(err)
	}
	mark := &store.Batch{SessionID: cardedSession, Epoch: claim.Epoch, Index: []store.IndexOp{putOp(kindCarded, "", []byte(how))}}
	if err := m.opt.Store.Append(ctx, []*store.Batch{mark})[0]; err != nil {
		return storeFault(err)
	}
	return m.opt.Store.Release(ctx, cardedSession, claim.Epoch)
}

// writeCardsOf writes the cards of one session. What a decision meanwhile writes is newer
// and stays, because the records are read under the writer's lock.
func (m *Manager) writeCardsOf(ctx context.Context, sessionID string) error {
	return m.Emit(ctx, sessionID, event.BySession, func(tx *Tx) error {
		ops, err := cardsOfRecords(ctx, m.opt.Store, tx.State)
		if err != nil {
			return err
		}
		tx.index = append(tx.index, cardsOfState(ops, tx.State)...)
		return nil
	})
}

// cardsOfState appends the cards of everything in a session's working set.
func cardsOfState(ops []store.IndexOp, st *state.Session) []store.IndexOp {
	for _, list := range [...][]*state.Task{st.Tasks.Recent, st.Tasks.Open} {
		for _, t := range list {
			if t.TaskKind != state.TaskKindTurn {
				ops = append(ops, cardOp(TaskCards, TaskCard(st, t)))
			}
		}
	}
	for _, list := range [...][]*state.Action{st.Actions.Recent, st.Actions.Pending} {
		for _, a := range list {
			ops = append(ops, actionCardOps(st, a)...)
		}
	}
	for _, list := range [...][]*state.Job{st.Jobs.Recent, st.Jobs.Open} {
		for _, j := range list {
			ops = append(ops, cardOp(JobCards, jobCard(st, j)))
		}
	}
	for _, list := range [...][]*state.Process{st.Environment.Recent, st.Environment.Active} {
		for _, x := range list {
			ops = append(ops, cardOp(ProcessCards, processCard(st, x)))
		}
	}
	for _, a := range st.Artifacts.Recent {
		ops = append(ops, cardOp(ArtifactCards, artifactCard(st, a)))
	}
	for _, list := range [...][]*state.Trial{st.Benchmark.Recent, st.Benchmark.Open} {
		for _, t := range list {
			ops = append(ops, cardOp(TrialCards, trialCard(st, t)))
		}
	}
	for i := range st.Evidence.Recent {
		if c := exportCard(st, &st.Evidence.Recent[i]); c != nil {
			ops = append(ops, cardOp(ExportCards, c))
		}
	}
	return ops
}

// cardsOfRecords returns the cards of what left a session's working set.
func cardsOfRecords(ctx context.Context, s store.Store, st *state.Session) ([]store.IndexOp, error) {
	var ops []store.IndexOp
	for snap, err := range s.Snapshots(ctx, st.SessionID) {
		if err != nil {
			return nil, storeFault(err)
		}
		noun, _, _ := strings.Cut(snap.Name, "/")
		switch noun {
		case "task":
			ops, err = cardOfRecord(ops, &snap, func(t *state.Task) []store.IndexOp {
				if t.TaskKind == state.TaskKindTurn {
					return nil
				}
				return []store.IndexOp{cardOp(TaskCards, TaskCard(st, t))}
			})
		case "action":
			ops, err = cardOfRecord(ops, &snap, func(a *state.Action) []store.IndexOp { return actionCardOps(st, a) })
		case "job":
			ops, err = cardOfRecord(ops, &snap, func(j *state.Job) []store.IndexOp { return []store.IndexOp{cardOp(JobCards, jobCard(st, j))} })
		case "process":
			ops, err = cardOfRecord(ops, &snap, func(x *state.Process) []store.IndexOp {
				return []store.IndexOp{cardOp(ProcessCards, processCard(st, x))}
			})
		case "artifact":
			ops, err = cardOfRecord(ops, &snap, func(a *state.Artifact) []store.IndexOp {
				return []store.IndexOp{cardOp(ArtifactCards, artifactCard(st, a))}
			})
		case "trial":
			ops, err = cardOfRecord(ops, &snap, func(t *state.Trial) []store.IndexOp { return []store.IndexOp{cardOp(TrialCards, trialCard(st, t))} })
		}
		if err != nil {
			return nil, err
		}
	}
	return ops, nil
}

func cardOfRecord[T any](ops []store.IndexOp, snap *store.Snapshot, cards func(*T) []store.IndexOp) ([]store.IndexOp, error) {
	record := new(T)
	if err := json.Unmarshal(snap.Data, record); err != nil {
		return nil, storeFault(fmt.Errorf("%w: record %s of session %s: %w", store.ErrCorrupt, snap.Name, snap.SessionID, err))
	}
	return append(ops, cards(record)...), nil
}
