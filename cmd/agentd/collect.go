package main

import (
	"context"

	"agentd/server"
	"agentd/store/pebble"
)

// collect adds the figures of the runtime and of its store to /metrics.
func (s *serving) collect(_ context.Context, w *server.MetricWriter) {
	ready := 1.0
	if s.runtime.Err() != nil {
		ready = 0
	}
	w.Gauge("agentd_store_ready", "1 while the store acknowledges, 0 after a failed write.", ready)
	p, ok := s.store.(*pebble.Store)
	if !ok {
		return
	}
	m := p.Metrics()
	w.Gauge("agentd_store_disk_bytes", "Bytes of the store's files.", float64(m.DiskSpaceUsage()))
	w.Gauge("agentd_store_memtable_bytes", "Bytes that wait to be written out as tables.", float64(m.MemTable.Size))
	w.Gauge("agentd_store_wal_bytes", "Bytes of live logs.", float64(m.WAL.Size))
	w.Counter("agentd_store_written_bytes_total", "Bytes written to logs.", float64(m.WAL.BytesWritten))
	w.Counter("agentd_store_flushes_total", "Memory tables that were written out.", float64(m.Flush.Count))
	w.Counter("agentd_store_compactions_total", "Compactions of tables.", float64(m.Compact.Count))
	w.Gauge("agentd_store_compaction_debt_bytes", "Bytes that compactions have still to rewrite.", float64(m.Compact.EstimatedDebt))
}
