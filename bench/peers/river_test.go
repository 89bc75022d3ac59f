package peers

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"agentd/internal/pgtest"
)

// steps is the length of a chain: what a turn with one tool call does as durable
// steps at the least (model, tool, model, end).
const steps = 4

// step is one durable step of a chain.
type step struct {
	Chain int `json:"chain"`
	Step  int `json:"step"`
}

// Kind implements [river.JobArgs].
func (step) Kind() string { return "step" }

// chains runs chains of steps on PostgreSQL with River.
type chains struct {
	river.WorkerDefaults[step]

	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]

	mu    sync.Mutex
	next  int
	ended map[int]chan struct{}
}

// Work implements [river.Worker]: the step is completed and the next one inserted
// in one transaction, so that a chain neither breaks nor runs twice.
func (c *chains) Work(ctx context.Context, job *river.Job[step]) error {
	tx, err := c.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // after the commit there is nothing to do
	last := job.Args.Step == steps
	if !last {
		if _, err := c.client.InsertTx(ctx, tx, step{Chain: job.Args.Chain, Step: job.Args.Step + 1}, nil); err != nil {
			return err
		}
	}
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if last {
		c.end(job.Args.Chain)
	}
	return nil
}

func (c *chains) end(chain int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.ended[chain])
	delete(c.ended, chain)
}

// newChains starts River on a durable cluster of its own. The shortest pause
// between fetches is what serves short chains best; the default of 100 ms would
// hold each step up by it.
func newChains(tb testing.TB) (*chains, error) {
	if _, err := pgtest.BinDir(); err != nil {
		return nil, err
	}
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, pgtest.Start(tb).Database(tb)+"&pool_max_conns=80")
	if err != nil {
		return nil, err
	}
	tb.Cleanup(pool.Close)
	c := &chains{pool: pool, ended: map[int]chan struct{}{}}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, c)
	c.client, err = river.NewClient(driver, &river.Config{
		FetchCooldown: time.Millisecond, FetchPollInterval: 10 * time.Millisecond,
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 64}},
		Workers: workers, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	if err := c.client.Start(ctx); err != nil {
		return nil, err
	}
	tb.Cleanup(func() {
		if err := c.client.Stop(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return c, nil
}

// run does one chain.
func (c *chains) run(ctx context.Context) error {
	c.mu.Lock()
	c.next++
	chain, done := c.next, make(chan struct{})
	c.ended[chain] = done
	c.mu.Unlock()
	if _, err := c.client.Insert(ctx, step{Chain: chain, Step: 1}, nil); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	<-done
	return nil
}

// measure measures chains. The processor time is spread over the processes of
// PostgreSQL and not counted.
func (c *chains) measure(ctx context.Context, at int, d time.Duration) *measured {
	return repeat(ctx, at, d, func(ctx context.Context) (func() (time.Duration, error), func()) {
		return func() (time.Duration, error) {
			began := time.Now()
			err := c.run(ctx)
			return time.Since(began), err
		}, func() {}
	})
}
