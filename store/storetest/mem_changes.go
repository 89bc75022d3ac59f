package storetest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"agentd/store"
)

// noteChange keeps that a batch added records.
func (d *memData) noteChange(b *store.Batch) {
	d.changes = append(d.changes, store.Change{
		SessionID: b.SessionID, First: b.Records[0].Sequence, Last: b.Records[len(b.Records)-1].Sequence,
		Position: strconv.Itoa(len(d.changes) + 1),
	})
}

// Changes implements [store.Store].
func (m *Mem) Changes(ctx context.Context, after string) iter.Seq2[store.Change, error] {
	return yieldAll(ctx, func() ([]store.Change, error) {
		if err := m.enter(ctx); err != nil {
			return nil, err
		}
		defer m.leave()
		from, err := strconv.Atoi(cmp.Or(after, "0"))
		if err != nil || from < 0 {
			return nil, fmt.Errorf("%w: %q", store.ErrPosition, after)
		}
		return slices.Clone(m.data.changes[min(from, len(m.data.changes)):]), nil
	}, func(c store.Change) store.Change { return c })
}

// Position implements [store.Store].
func (m *Mem) Position(ctx context.Context) (string, error) {
	if err := m.enter(ctx); err != nil {
		return "", err
	}
	defer m.leave()
	return strconv.Itoa(len(m.data.changes)), nil
}
