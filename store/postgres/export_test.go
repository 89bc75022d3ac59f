package postgres

// ResetPool closes the connections of the pool that nobody uses.
func (s *Store) ResetPool() { s.pool.Reset() }
