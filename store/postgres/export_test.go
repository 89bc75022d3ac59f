package postgres

import "context"

// ResetPool closes the connections of the pool that nobody uses.
func (s *Store) ResetPool() { s.pool.Reset() }

// UseReplica looks at the replica now, and has it used if it keeps up.
func (s *Store) UseReplica(ctx context.Context) error {
	err := s.awaitReplica(ctx)
	s.replica.usable.Store(err == nil)
	return err
}
