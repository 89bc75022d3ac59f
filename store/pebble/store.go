package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Store is an open store. Its methods are those of [store.Store], and
// Checkpoint and Metrics.
type Store struct {
	dir      string
	opts     Options
	fs       vfs.FS
	lock     io.Closer
	guard    *guard
	ledger   *ledger
	db       *pdb.DB
	schema   schema
	recovery []string
	ids      idSource
	space    space
	signal   *signal
	closing  chan struct{} // closed when Close begins

	calls calls

	// commit serialises writes. It guards the fields here, and the staged part
	// of sessions.
	commit  sync.Mutex
	touched []*session
	overlay map[string]bool
	// changes is the number of the last change that was written, staged what the commit
	// that is being made adds.
	changes uint64
	staged  struct {
		count uint64
		list  []byte
	}
	relaxed uint64 // version of the signal at which there was no pressure

	// oldest is a snapshot without readers, and since when; see retire. The
	// commit lock guards it.
	oldest *pdb.Snapshot
	kept   time.Time

	// view guards what readers see: the last durable state.
	view     sync.RWMutex
	snap     *pdb.Snapshot
	sessions map[string]*session
}

var _ store.Store = (*Store)(nil)

// idSource gives numbers that only grow, over restarts too: the count of opens
// in the upper half, a counter in the lower.
type idSource struct{ last atomic.Uint64 }

func (s *idSource) next() uint64 { return s.last.Add(1) }

// Open opens the store in dir, and makes it if there is none. See
// [store.Store] and the package comment for what can go wrong.
func Open(dir string, opts *Options) (*Store, error) {
	s, err := openStore(dir, opts.withDefaults(), currentSchema())
	if err != nil {
		return nil, fmt.Errorf("pebble: open %s: %w", dir, err)
	}
	return s, nil
}

func openStore(dir string, opts Options, sc schema) (*Store, error) {
	fs := opts.FS
	if err := makeDir(fs, dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(fs, dir)
	if err != nil {
		return nil, err
	}
	s := &Store{
		dir: dir, opts: opts, fs: fs, lock: lock, schema: sc,
		signal:  newSignal(),
		closing: make(chan struct{}), sessions: map[string]*session{}, overlay: map[string]bool{},
	}
	s.calls.init()
	s.space = space{fs: fs, dir: dir, reserve: opts.ReserveBytes}
	if err := s.startLocked(); err != nil {
		return nil, errors.Join(err, s.releaseAll())
	}
	return s, nil
}

// startLocked does everything that needs the lock.
func (s *Store) startLocked() error {
	in, err := inspectLedger(s.fs, s.dir)
	if err != nil {
		return err
	}
	if err := s.schema.check(in.ledger.version); err != nil {
		return err
	}
	if err := in.refusal(s.opts.Salvage); err != nil {
		return err
	}
	s.recovery = in.texts()
	// From here on the last close isn't the newest thing that is known.
	if s.ledger, err = newLedger(s.fs, s.dir, in.ledger.lines()); err != nil {
		return err
	}
	if err := s.openDB(in); err != nil {
		return err
	}
	if err := s.migrateAndCountOpen(); err != nil {
		return err
	}
	return s.beginLedger()
}

// openDB opens Pebble behind the guard.
func (s *Store) openDB(in *inspection) (err error) {
	data := s.fs.PathJoin(s.dir, dataName)
	if !in.exists {
		// What is there was left by a creation that didn't come to its end.
		if err := s.fs.RemoveAll(data); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := s.fs.MkdirAll(data, 0o700); err != nil {
		return err
	}
	s.guard = newGuard(s.fs, data, s.ledger, s.opts.ReserveBytes, s.signal.raise)
	defer func() {
		// Replaying a damaged log makes Pebble panic in places.
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: pebble gave up: %v", store.ErrCorrupt, r)
		}
	}()
	db, err := pdb.Open(data, pebbleOptions(s.opts, s.guard, s.signal, in.exists))
	if failed := s.guard.err(); failed != nil && err != nil {
		return failed // the cause, not what Pebble made of it
	}
	if err != nil {
		return openError(err)
	}
	s.db = db
	return s.guard.err()
}

// migrateAndCountOpen brings the content to this version and counts the open.
func (s *Store) migrateAndCountOpen() error {
	if err := s.schema.migrate(s.db); err != nil {
		return err
	}
	if err := s.countChanges(); err != nil {
		return err
	}
	opens, err := s.counter(metaOpens)
	if err != nil {
		return err
	}
	opens++
	s.ids.last.Store(opens << 32)
	b := s.db.NewBatch()
	defer func() { _ = b.Close() }()
	if err := b.Set(nameKey(keyMeta, metaOpens), binary.BigEndian.AppendUint64(nil, opens), nil); err != nil {
		return err
	}
	if err := s.dropStaged(b); err != nil {
		return err
	}
	return s.db.Apply(b, pdb.Sync)
}

// beginLedger begins a new ledger: Pebble has taken all older logs into tables.
func (s *Store) beginLedger() error {
	if err := s.guard.err(); err != nil {
		return err
	}
	st, _ := s.guard.ledgerState(s.schema.version)
	if err := s.ledger.rewrite(st.lines()); err != nil {
		return err
	}
	s.snap = s.db.NewSnapshot()
	return nil
}

// counter reads a number of the engine's own; 0 if it isn't there.
func (s *Store) counter(name string) (uint64, error) {
	v, err := getCopy(s.db, nameKey(keyMeta, name))
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: the value of %s has %d bytes", store.ErrCorrupt, name, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}

// Err returns why the store acknowledges nothing any more, or nil.
func (s *Store) Err() error {
	if err := s.guard.err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrFailed, err)
	}
	return nil
}

// Close releases everything. It waits for calls under way.
func (s *Store) Close() error {
	if !s.calls.close() {
		return nil
	}
	close(s.closing)
	s.calls.wait()
	s.writeOut()
	return s.releaseAll()
}

// The log that a closing store leaves to the next opening to read.
const (
	smallLog = 1 << 20
	// longestWriteOut bounds how long a close waits for the log to become tables.
	longestWriteOut = 5 * time.Second
)

// writeOut writes a long log out as tables, so that the next opening need not read
// it. It is a favour, not a duty: where it can't be done soon the log does.
func (s *Store) writeOut() {
	if s.Err() != nil || s.db.Metrics().WAL.Size <= smallLog || s.space.check() != nil {
		return
	}
	done, err := s.db.AsyncFlush()
	if err != nil {
		return
	}
	limit := time.NewTimer(longestWriteOut)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	}
}

// releaseAll gives back whatever of the store there is, in reverse order.
func (s *Store) releaseAll() error {
	var errs []error
	if s.oldest != nil {
		errs = append(errs, s.oldest.Close())
	}
	if s.snap != nil {
		errs = append(errs, s.snap.Close())
	}
	if s.guard != nil {
		close(s.guard.closing)
	}
	opened := s.snap != nil
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if opened && s.guard.err() == nil && errors.Join(errs...) == nil {
		_, final := s.guard.ledgerState(s.schema.version)
		errs = append(errs, s.ledger.add(final...))
	}
	if s.ledger != nil {
		errs = append(errs, s.ledger.close())
	}
	errs = append(errs, s.lock.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("pebble: close: %w", err)
	}
	return nil
}

// Meta returns the store's own facts.
func (s *Store) Meta(ctx context.Context) (store.Meta, error) {
	done, err := s.calls.enter(ctx)
	if err != nil {
		return store.Meta{}, err
	}
	defer done()
	return store.Meta{
		Engine:   "pebble",
		Version:  s.schema.version,
		Recovery: slices.Clone(s.recovery),
		Location: s.dir,
	}, nil
}

// Metrics returns Pebble's own measurements, for benchmarks and diagnosis. It
// must not be called after Close.
func (s *Store) Metrics() *pdb.Metrics { return s.db.Metrics() }

// Follow yields nothing until ctx ends, since no other process can append.
func (s *Store) Follow(ctx context.Context) iter.Seq2[store.Appended, error] {
	return func(yield func(store.Appended, error) bool) {
		done, err := s.calls.enter(ctx)
		if err != nil {
			yield(store.Appended{}, err)
			return
		}
		done()
		select {
		case <-ctx.Done():
		case <-s.closing:
			yield(store.Appended{}, store.ErrClosed)
		}
	}
}
