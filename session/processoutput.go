package session

import (
	"context"
	"encoding/json"
	"errors"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/clip"
	"agentd/state"
	"agentd/store"
)

// LocateProcess returns the session of a process and the sequence of the fact that started
// it, if the caller may see it. Like all reading of facts it needs no ownership of the
// session.
func (m *Manager) LocateProcess(ctx context.Context, caller command.Caller, processID string) (sessionID string, started uint64, err error) {
	missing := fault.New(fault.NotFound, "there is no process %s", clip.Text(processID, 100))
	v, err := m.opt.Store.Get(ctx, kindProcess, processID)
	if errors.Is(err, store.ErrNotFound) {
		return "", 0, missing
	}
	if err != nil {
		return "", 0, storeFault(err)
	}
	sessionID = string(v)
	if err := m.See(ctx, caller, sessionID); err != nil {
		if fault.KindOf(err) == fault.NotFound {
			err = missing
		}
		return "", 0, err
	}
	started, err = m.startOfProcess(ctx, sessionID, processID)
	if err != nil {
		return "", 0, storeFault(err)
	}
	if started == 0 {
		return "", 0, missing
	}
	oldest, err := m.Oldest(ctx, sessionID)
	if err != nil {
		return "", 0, err
	}
	if started < oldest {
		return "", 0, fault.New(fault.NotFound, "the output of process %s was removed by retention with the events of its session", processID)
	}
	return sessionID, started, nil
}

// startOfProcess finds the fact that started a process: in the record of a process that
// ended long ago, in the stored state, or after it; 0 if there is none.
func (m *Manager) startOfProcess(ctx context.Context, sessionID, processID string) (uint64, error) {
	snap, err := m.opt.Store.Snapshot(ctx, sessionID, "process/"+processID)
	if err == nil {
		var x state.Process
		err = json.Unmarshal(snap.Data, &x)
		return x.StartSequence, err
	}
	if !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	head, err := m.opt.Store.Head(ctx, sessionID)
	if err != nil {
		return 0, err
	}
	st, _, _, err := loadState(ctx, m.opt.Store, sessionID, head)
	if err != nil {
		return 0, err
	}
	if x := st.Environment.Find(processID); x != nil {
		return x.StartSequence, nil
	}
	var e event.Event
	for rec, err := range m.opt.Store.Read(ctx, sessionID, store.Range{After: st.Sequence}) {
		if err != nil {
			return 0, err
		}
		if _, err := event.DecodeHeader(rec.Data, &e); err != nil {
			return 0, err
		}
		if e.Type == event.TypeProcessStarted && e.ProcessID == processID {
			return rec.Sequence, nil
		}
	}
	return 0, nil
}
