package main

import (
	"context"

	"agentd/server"
	"agentd/session"
	"agentd/store/pebble"
)

// collect adds the figures of the runtime and of its store to /metrics.
func (s *serving) collect(ctx context.Context, w *server.MetricWriter) {
	ready := 1.0
	if refusesWrites(s.runtime, s.store) != nil {
		ready = 0
	}
	w.Gauge("agentd_store_ready", "1 while the store acknowledges; 0 after a failed write, and while a node has no lease.", ready)
	collectSessions(w, s.runtime.Figures())
	s.collectLoad(w)
	s.collectNodes(ctx, w)
	collectUsage(ctx, w, s.store)
	if s.wired.exporter != nil {
		s.wired.exporter.WriteMetrics(w)
	}
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
	w.Gauge("agentd_store_compaction_debt_bytes", "Bytes that compactions still have to rewrite.", float64(m.Compact.EstimatedDebt))
}

// collectSessions writes the figures of the session layer.
func collectSessions(w *server.MetricWriter, f session.Figures) {
	w.Gauge("agentd_sessions_loaded", "Sessions in memory.", float64(f.Loaded))
	w.Gauge("agentd_journal_waiting", "Batches that wait to be committed.", float64(f.Waiting))
	w.Gauge("agentd_session_followers", "Followers of one session.", float64(f.Subscribers))
	w.Gauge("agentd_feed_followers", "Followers of all sessions.", float64(f.Feeds))
	w.Counter("agentd_journal_commits_total", "Writes to the store.", float64(f.Commits))
	w.Counter("agentd_journal_batches_total", "Batches in those writes.", float64(f.Batches))
	w.Counter("agentd_facts_total", "Facts that were made durable.", float64(f.Facts))
	w.Counter("agentd_facts_bytes_total", "Bytes of those facts.", float64(f.Bytes))
	w.Counter("agentd_journal_failures_total", "Batches that the store rejected.", float64(f.Failures))
	w.Counter("agentd_retention_sessions_total", "Sessions whose first events were removed.", float64(f.TrimmedSessions))
	w.Counter("agentd_retention_events_total", "Events that were removed.", float64(f.TrimmedEvents))
	w.Counter("agentd_retention_bytes_total", "Bytes of those events.", float64(f.TrimmedBytes))
	w.Histogram("agentd_append_seconds", "How long a write to the store took.", f.AppendBounds, f.AppendCounts, f.AppendSeconds)
}
