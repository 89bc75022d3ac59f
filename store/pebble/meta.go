package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
)

// Names of the engine's own values.
const (
	metaVersion = "version"
	metaOpens   = "opens"
)

// schema is the version of the content and the way to it from older ones.
type schema struct {
	version int
	// steps[i] brings version i+1 to i+2. A step writes into the batch; the new
	// version is in the same batch, so a step happens wholly or not at all.
	steps []func(db *pdb.DB, b *pdb.Batch) error
}

// currentSchema is what this agentd writes. Version 2 has one entry for the changes of
// a commit; entries of version 1 are read as they are, so there is nothing to rewrite.
func currentSchema() schema {
	return schema{version: 2, steps: []func(*pdb.DB, *pdb.Batch) error{
		func(*pdb.DB, *pdb.Batch) error { return nil },
	}}
}

// check refuses what a newer agentd wrote.
func (sc schema) check(found int) error {
	if found <= sc.version {
		return nil
	}
	return fmt.Errorf("%w: the data has version %d, this agentd reads up to version %d; install the newer agentd, or restore a backup that this one made", store.ErrNewer, found, sc.version)
}

// migrate brings the content to the schema's version.
func (sc schema) migrate(db *pdb.DB) error {
	found, err := readVersion(db)
	if err != nil {
		return err
	}
	if err := sc.check(found); err != nil {
		return err
	}
	if found == 0 { // new, there is nothing to change
		b := db.NewBatch()
		return commitVersion(db, b, sc.version)
	}
	for v := found; v < sc.version; v++ {
		b := db.NewBatch()
		if err := sc.steps[v-1](db, b); err != nil {
			return errors.Join(fmt.Errorf("migrate from version %d to %d: %w", v, v+1, err), b.Close())
		}
		if err := commitVersion(db, b, v+1); err != nil {
			return err
		}
	}
	return nil
}

func commitVersion(db *pdb.DB, b *pdb.Batch, version int) error {
	err := b.Set(nameKey(keyMeta, metaVersion), binary.BigEndian.AppendUint64(nil, uint64(version)), nil)
	if err == nil {
		err = db.Apply(b, pdb.Sync)
	}
	return errors.Join(err, b.Close())
}

func readVersion(db *pdb.DB) (int, error) {
	v, err := getCopy(db, nameKey(keyMeta, metaVersion))
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: the version has %d bytes", store.ErrCorrupt, len(v))
	}
	return int(binary.BigEndian.Uint64(v)), nil
}

// SetMeta stores a value of the whole store unless it is set already, and
// returns the stored one.
func (s *Store) SetMeta(ctx context.Context, name string, value []byte) ([]byte, error) {
	done, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	s.commit.Lock()
	defer s.commit.Unlock()
	key := nameKey(keyValue, name)
	old, err := getCopy(s.db, key)
	if !errors.Is(err, store.ErrNotFound) {
		return old, err
	}
	if err := s.writable(ctx); err != nil {
		return nil, err
	}
	b := s.db.NewBatch()
	if err := b.Set(key, value, nil); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if err := s.write(b); err != nil {
		return nil, err
	}
	return append([]byte{}, value...), nil
}
