package agentd

import (
	"context"
	"log/slog"
	"time"

	"agentd/command"
	"agentd/find"
	"agentd/index"
	"agentd/index/usage"
	"agentd/session"
	"agentd/store"
)

// ReadSide answers questions over all sessions of a store from indexes that it keeps. A
// [Runtime] has one; a program that only looks at a store may have one without a runtime.
type ReadSide struct {
	indexer *index.Indexer
	finder  *find.Finder
	usage   *usage.Handler
}

// ReadSideOptions configure a [ReadSide]. Store and Sessions are required.
type ReadSideOptions struct {
	Store store.Store
	// Sessions says whose sessions are. It is called once the read side is started.
	Sessions func() *session.Manager
	// Delay is how long facts may wait until they are in the index; default 2 s.
	Delay time.Duration
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// NewReadSide returns a read side that does nothing until it is started. All processes
// that open a store keep the same indexes, so there is one list of them, here.
func NewReadSide(opt ReadSideOptions) *ReadSide {
	r := &ReadSide{}
	r.indexer = index.New(index.Options{
		Store: opt.Store, Delay: opt.Delay, Logger: opt.Logger, Projections: append(find.Projections(), usage.New()),
		Former: append(find.Former(), usage.Former...),
		Owner: func(ctx context.Context, sessionID string) (index.Owner, error) {
			account, workspace, err := opt.Sessions().Owner(ctx, sessionID)
			return index.Owner{Account: account, Workspace: workspace}, err
		},
	})
	r.finder = find.New(find.Options{
		Store: opt.Store, CatchUp: r.indexer.CatchUp,
		See: func(ctx context.Context, caller command.Caller, sessionID string) error {
			return opt.Sessions().See(ctx, caller, sessionID)
		},
		Tagged: func(ctx context.Context, caller command.Caller, tags []string) (map[string]bool, error) {
			return opt.Sessions().Tagged(ctx, caller, tags)
		},
	})
	r.usage = &usage.Handler{Store: opt.Store, CatchUp: r.indexer.CatchUp}
	return r
}

// Register adds the commands that are answered from indexes to a table.
func (r *ReadSide) Register(t *command.Table) {
	r.finder.Register(t)
	r.usage.Register(t)
}

// Start begins to keep the indexes.
func (r *ReadSide) Start(ctx context.Context) { r.indexer.Start(ctx) }

// Close ends what Start began.
func (r *ReadSide) Close() { r.indexer.Close() }
