package postgres

import (
	"context"

	"agentd/store"
)

// Meta returns the store's own facts. See [store.Store].
func (s *Store) Meta(ctx context.Context) (store.Meta, error) {
	if err := s.enterCall(ctx); err != nil {
		return store.Meta{}, err
	}
	defer s.calls.Done()
	return store.Meta{Engine: "postgres", Version: s.version, Location: s.location}, nil
}

const (
	setMetaSQL = `INSERT INTO agentd.meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
	getMetaSQL = `SELECT value FROM agentd.meta WHERE name = $1`
)

// SetMeta stores a small named value unless it is set. See [store.Store].
func (s *Store) SetMeta(ctx context.Context, name string, value []byte) ([]byte, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	if err := s.exec(ctx, setMetaSQL, name, nonNil(value)); err != nil {
		return nil, wrapFailed("set meta "+name, err)
	}
	var stored []byte
	if err := s.queryRow(ctx, []any{&stored}, getMetaSQL, name); err != nil {
		return nil, wrapFailed("set meta "+name, err)
	}
	return stored, nil
}
