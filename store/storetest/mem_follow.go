package storetest

import (
	"context"
	"iter"

	"agentd/store"
)

// follower is one Follow under way. Hints are merged until they are taken.
type follower struct {
	node *Mem
	// signal has room for one: it says that there is something to take.
	signal chan struct{}
	// pending is guarded by the data's mutex.
	pending map[string]store.Appended
}

// Follow implements [store.Store].
func (m *Mem) Follow(ctx context.Context) iter.Seq2[store.Appended, error] {
	return func(yield func(store.Appended, error) bool) {
		f, err := m.follow(ctx)
		if err != nil {
			if ctx.Err() == nil {
				yield(store.Appended{}, err)
			}
			return
		}
		defer m.unfollow(f)
		for {
			select {
			case <-ctx.Done():
				return
			case <-m.done:
				yield(store.Appended{}, store.ErrClosed)
				return
			case <-f.signal:
			}
			for _, a := range m.takeAppended(f) {
				if !yield(a, nil) {
					return
				}
			}
		}
	}
}

func (m *Mem) follow(ctx context.Context) (*follower, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.leave()
	f := &follower{node: m, signal: make(chan struct{}, 1), pending: map[string]store.Appended{}}
	m.data.followers[f] = struct{}{}
	return f, nil
}

func (m *Mem) unfollow(f *follower) {
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	delete(m.data.followers, f)
}

func (m *Mem) takeAppended(f *follower) []store.Appended {
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	var list []store.Appended
	for _, id := range sortedKeys(f.pending) {
		list = append(list, f.pending[id])
	}
	clear(f.pending)
	return list
}

// hint tells every other node what by has appended.
func (d *memData) hint(by *Mem, a store.Appended) {
	for f := range d.followers {
		if f.node == by {
			continue
		}
		merged := a
		if waiting, ok := f.pending[a.SessionID]; ok {
			merged.First = waiting.First
		}
		f.pending[a.SessionID] = merged
		select {
		case f.signal <- struct{}{}:
		default:
		}
	}
}
