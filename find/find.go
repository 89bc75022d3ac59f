package find

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"agentd/command"
	"agentd/event"
	"agentd/index"
	"agentd/store"
	"agentd/store/storefault"
)

// Options configure a [Finder]. All fields are required.
type Options struct {
	Store store.Store
	// CatchUp returns when the index has everything that is durable; see
	// [index.Indexer.CatchUp].
	CatchUp func(context.Context) error
	// See reports a session that isn't there, or that the caller may not see, as not found.
	See func(ctx context.Context, caller command.Caller, sessionID string) error
	// Tagged returns the sessions that the caller may see and that have all of some tags.
	Tagged func(ctx context.Context, caller command.Caller, tags []string) (map[string]bool, error)
	// MaxRanked is how many facts are ranked at most, the newest ones if more have the
	// words of a query; 0 is 20,000.
	MaxRanked int
}

// Finder answers list_turns and search.
type Finder struct {
	opt    Options
	table  *table
	cache  *pageCache
	tuning searchTuning

	mu   sync.Mutex
	open map[uint64]*wordSegment
}

// New returns a finder.
func New(opt Options) *Finder {
	opt.MaxRanked = cmp.Or(opt.MaxRanked, 20_000)
	return &Finder{opt: opt, table: newTable(), cache: &pageCache{}, tuning: usualTuning, open: map[uint64]*wordSegment{}}
}

// Projections returns what the indexer must keep for a [Finder].
func Projections() []index.Projection { return []index.Projection{newWords(), newTurns()} }

// Former returns the names of projections that earlier versions kept.
func Former() []string { return []string{"find_words_1"} }

// Register adds the commands of the package to a table.
func (f *Finder) Register(t *command.Table) {
	command.Handle(t, f.listTurns)
	command.Handle(t, f.search)
}

// Warm reads what lists are made of, so that the first one needn't.
func (f *Finder) Warm(ctx context.Context) error {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	return f.table.refresh(ctx, f.opt.Store)
}

// readFact returns one fact, nil if it was removed.
func (f *Finder) readFact(ctx context.Context, sessionID string, sequence uint64) (*event.Event, error) {
	for rec, err := range f.opt.Store.Read(ctx, sessionID, store.Range{After: sequence - 1, Before: sequence + 1}) {
		if errors.Is(err, store.ErrTrimmed) {
			return nil, nil
		}
		if err != nil {
			return nil, storefault.Reading(err)
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			return nil, storefault.Reading(fmt.Errorf("%w: session %s, fact %d: %w", store.ErrCorrupt, sessionID, sequence, err))
		}
		return e, nil
	}
	return nil, nil
}
