package postgres

// PoolFigures are the measurements of a store's pool of connections, for operators.
type PoolFigures struct {
	// Used and Idle count the open connections, Most bounds them.
	Used, Idle, Most int
	// Opened counts the connections that were made, Acquired how often one was asked for,
	// Waited how often none was free, and WaitSeconds how long these waited.
	Opened, Acquired, Waited int64
	WaitSeconds              float64
}

// PoolFigures returns the measurements so far.
func (s *Store) PoolFigures() PoolFigures {
	st := s.pool.Stat()
	return PoolFigures{
		Used: int(st.AcquiredConns()), Idle: int(st.IdleConns()), Most: int(st.MaxConns()),
		Opened: st.NewConnsCount(), Acquired: st.AcquireCount(), Waited: st.EmptyAcquireCount(),
		WaitSeconds: st.EmptyAcquireWaitTime().Seconds(),
	}
}
