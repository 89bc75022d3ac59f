package session

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/store"
)

// expiryStep bounds what is expired in one write and deleted under one lock.
const expiryStep = 16

// Swept says what a sweep did.
type Swept struct {
	// Expired counts outputs that can't be read any more, Kept those whose time
	// came but that something refers to, Deleted the contents that were removed.
	Expired, Kept, Deleted int
	// Postponed counts what could not be dealt with now: sessions that another
	// node owns or that can't be read, and content that a fact may still come for.
	Postponed int
}

// ExpireOutputs ends the life of outputs that were stored before a moment and
// that nothing refers to. It works in small steps, beside everything else; it may
// be cut off at any point and called again.
func (m *Manager) ExpireOutputs(ctx context.Context, before time.Time) (Swept, error) {
	m.outputs.sweeping.Lock()
	defer m.outputs.sweeping.Unlock()
	var sum Swept
	for cursor := ""; ; {
		due, next, err := m.dueOutputs(ctx, cursor, timestampKey(before))
		if err != nil {
			return sum, err
		}
		for _, step := range bySession(due) {
			if err := m.expireStep(ctx, step, &sum); err != nil {
				return sum, err
			}
		}
		if next == "" {
			break
		}
		cursor = next
	}
	return sum, m.deleteDoomed(ctx, &sum)
}

// dueOutput is an output whose time has come.
type dueOutput struct {
	key, at, ref, sessionID string
	outputEntry
}

// dueOutputs returns the next outputs that were stored before a moment, and where to go
// on; nothing there when these are the last.
func (m *Manager) dueOutputs(ctx context.Context, after, before string) ([]dueOutput, string, error) {
	const page = 256
	var out []dueOutput
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindOutputAt, After: after, Limit: page}) {
		if err != nil {
			return nil, "", storeFault(err)
		}
		if e.Key >= before {
			return out, "", nil
		}
		parts := strings.SplitN(e.Key, "/", 3)
		if len(parts) != 3 {
			return nil, "", storeFault(fmt.Errorf("%w: index of outputs: %q", store.ErrCorrupt, e.Key))
		}
		d := dueOutput{key: e.Key, at: parts[0], ref: parts[1], sessionID: parts[2]}
		if err := json.Unmarshal(e.Value, &d.outputEntry); err != nil {
			return nil, "", storeFault(fmt.Errorf("%w: index of outputs: %w", store.ErrCorrupt, err))
		}
		out = append(out, d)
	}
	if len(out) < page {
		return out, "", nil
	}
	return out, out[page-1].key, nil
}

// bySession cuts outputs into steps, each of one session.
func bySession(due []dueOutput) [][]dueOutput {
	open := map[string]int{}
	var steps [][]dueOutput
	for _, d := range due {
		i, ok := open[d.sessionID]
		if !ok || len(steps[i]) == expiryStep {
			i = len(steps)
			open[d.sessionID] = i
			steps = append(steps, nil)
		}
		steps[i] = append(steps[i], d)
	}
	return steps
}

// expireStep expires outputs of one session in one write.
func (m *Manager) expireStep(ctx context.Context, step []dueOutput, sum *Swept) error {
	var expired, kept int
	err := m.writeDecision(ctx, step[0].sessionID, event.ByRuntime, false, func(tx *Tx) error {
		expired, kept = 0, 0
		for i := range step {
			d := &step[i]
			tx.index = append(tx.index, removeOp(kindOutputAt, d.key))
			fate, err := tx.outputFateOf(d)
			switch {
			case err != nil:
				return err
			case fate == outputKept:
				kept++
				tx.index = append(tx.index, removeOp(kindOutput, d.ref+"/"+d.sessionID))
			case fate == outputOver:
				expired++
				tx.expireOutput(d)
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		// Whatever is wrong with one session must not keep the others from being
		// swept; its entries are found again next time.
		m.opt.Logger.Warn("outputs of a session could not be expired", "sessionId", step[0].sessionID, "error", err)
		sum.Postponed += len(step)
		return nil
	}
	sum.Expired += expired
	sum.Kept += kept
	return nil
}

type outputFate int

const (
	// outputAgain: the same content was stored again later; that is what counts.
	outputAgain outputFate = iota
	outputKept
	outputOver
)

// outputFateOf decides what becomes of an output whose time has come.
func (tx *Tx) outputFateOf(d *dueOutput) (outputFate, error) {
	last, ok, err := tx.Lookup(kindOutput, d.ref+"/"+d.sessionID)
	if err != nil {
		return 0, storeFault(err)
	}
	if !ok || string(last) > d.at {
		return outputAgain, nil
	}
	if _, ok, err = tx.Lookup(kindKept, d.ref+"/"+d.sessionID); err == nil && !ok {
		ok, err = tx.w.m.hasIndexEntry(tx.ctx, kindKept, d.ref)
	}
	if err != nil {
		return 0, storeFault(err)
	}
	if ok {
		return outputKept, nil
	}
	return outputOver, nil
}

// expireOutput takes back the right to read an output and notes that its bytes may go.
func (tx *Tx) expireOutput(d *dueOutput) {
	tx.Emit(event.Event{Type: event.TypeOutputExpired, Scope: d.scope(), Payload: &event.OutputExpired{
		OutputRef: d.ref, Reason: "it was stored on " + storedOn(d.at) + " and outputs are kept for a limited time",
	}})
	tx.index = append(
		tx.index,
		removeOp(kindOutput, d.ref+"/"+d.sessionID), removeOp(kindRef, d.ref+"/"+d.sessionID),
		putOp(kindDoomed, d.ref+"/"+d.sessionID, nil),
	)
}

// storedOn is a stamp for people.
func storedOn(at string) string {
	us, err := strconv.ParseInt(at, 16, 64)
	if err != nil {
		return "an unknown day"
	}
	return time.UnixMicro(us).UTC().Format(time.DateOnly)
}

// hasIndexEntry reports whether an index has an entry for a reference, of whatever session.
func (m *Manager) hasIndexEntry(ctx context.Context, kind, ref string) (bool, error) {
	for _, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kind, Prefix: ref + "/", Limit: 1}) {
		return err == nil, err
	}
	return false, nil
}

// doomed is content that a session doesn't need any more.
type doomed struct{ key, ref, sessionID string }

// deleteDoomed follows the notes about content that may go.
func (m *Manager) deleteDoomed(ctx context.Context, sum *Swept) error {
	for cursor := ""; ; {
		var step []doomed
		for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindDoomed, After: cursor, Limit: expiryStep}) {
			if err != nil {
				return storeFault(err)
			}
			ref, sessionID, _ := strings.Cut(e.Key, "/")
			step = append(step, doomed{e.Key, ref, sessionID})
			cursor = e.Key
		}
		if len(step) == 0 {
			return nil
		}
		done, err := m.deleteStep(ctx, step, sum)
		if err != nil {
			return err
		}
		for _, d := range done {
			if err := m.forgetNote(ctx, d); err != nil {
				return err
			}
		}
	}
}

// deleteStep deletes the content that is no longer needed and returns the notes that
// have served their purpose.
func (m *Manager) deleteStep(ctx context.Context, step []doomed, sum *Swept) ([]doomed, error) {
	m.outputs.storing.Lock()
	defer m.outputs.storing.Unlock()
	var done []doomed
	for _, d := range step {
		if m.outputs.awaited(d.ref, m.Now()) {
			sum.Postponed++
			continue
		}
		swept, err := m.deleteUnneeded(ctx, d.ref)
		if err != nil {
			return done, storeFault(err)
		}
		if swept.Awaited {
			sum.Postponed++
			continue
		}
		if swept.Deleted {
			m.freeBytes(ctx, d.sessionID, swept.Size)
			sum.Deleted++
		}
		done = append(done, d)
	}
	return done, nil
}

// deleteUnneeded deletes content that no session may read and no fact refers to. What other
// nodes of a shared store do at the same moment only the store knows.
func (m *Manager) deleteUnneeded(ctx context.Context, ref string) (store.Swept, error) {
	if m.shared != nil {
		return m.shared.SweepBlob(ctx, &store.Sweep{Ref: ref, Unless: []string{kindRef, kindKept}, Unused: freshFor})
	}
	for _, kind := range []string{kindRef, kindKept} {
		if needed, err := m.hasIndexEntry(ctx, kind, ref); err != nil || needed {
			return store.Swept{}, err
		}
	}
	size := m.blobSize(ctx, ref)
	err := m.opt.Store.DeleteBlob(ctx, ref)
	return store.Swept{Deleted: err == nil, Size: size}, err
}

// blobSize returns the size of stored content; 0 if it is gone already.
func (m *Manager) blobSize(ctx context.Context, ref string) int64 {
	blob, err := m.opt.Store.OpenBlob(ctx, ref)
	if err != nil {
		return 0
	}
	defer blob.Close()
	return blob.Info().Size
}

// forgetNote removes a note. One that can't be removed now is followed again, which
// changes nothing.
func (m *Manager) forgetNote(ctx context.Context, d doomed) error {
	remove := func(tx *Tx) error {
		tx.index = append(tx.index, removeOp(kindDoomed, d.key))
		return nil
	}
	err := m.writeDecision(ctx, d.sessionID, event.ByRuntime, false, remove)
	if fault.KindOf(err) == fault.NotFound {
		err = m.WriteInRuntime(ctx, remove) // the session was deleted
	}
	if OwnedElsewhere(err) {
		return nil // the node that owns the session follows the note as well
	}
	if err != nil && ctx.Err() == nil {
		m.opt.Logger.Warn("the index entry of deleted content could not be removed", "sessionId", d.sessionID, "error", err)
		return nil
	}
	return ctx.Err()
}

// expiredFault says why an output can't be read, to those who may see its session;
// nil if it isn't because it expired.
func (r *request) expiredFault(ctx context.Context, ref string) error {
	for e, err := range r.m.opt.Store.Scan(ctx, store.Scan{Kind: kindExpired, Prefix: ref + "/"}) {
		if err != nil {
			return storeFault(err)
		}
		if r.m.See(ctx, r.caller, e.Key[len(ref)+1:]) == nil {
			return fault.New(fault.NotFound, "output %s expired on %s; the fact that recorded it still has its beginning", ref, e.Value)
		}
	}
	return nil
}

// expireOutputs sweeps until ctx ends.
func (m *Manager) expireOutputs(ctx context.Context) {
	m.sweepOld(ctx, m.opt.ExpireAfter, func(before time.Time) {
		swept, err := m.ExpireOutputs(ctx, before)
		switch {
		case err != nil && ctx.Err() == nil:
			m.opt.Logger.Warn("old outputs could not be removed", "error", err)
		case swept.Expired > 0 || swept.Deleted > 0:
			m.opt.Logger.Info("old outputs were removed", "expired", swept.Expired, "deleted", swept.Deleted, "kept", swept.Kept)
		}
	})
}

// followNotes follows the notes about content that other nodes might still have come for
// when it was to be deleted, again and again until ctx ends.
func (m *Manager) followNotes(ctx context.Context) {
	tick := time.NewTicker(freshFor / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := m.FinishDeletions(ctx); err != nil && ctx.Err() == nil {
			m.opt.Logger.Warn("content that is no longer needed could not be removed", "error", err)
		}
	}
}

// sweepOld has what is older than an age swept, again and again until ctx ends.
func (m *Manager) sweepOld(ctx context.Context, age time.Duration, sweep func(before time.Time)) {
	every := min(max(age/16, time.Second), time.Hour)
	timer := time.NewTimer(min(every, time.Minute))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		sweep(m.Now().Add(-age))
		timer.Reset(every)
	}
}
