package main

import (
	"context"
	"time"

	"agentd/admission"
	"agentd/event"
	"agentd/server"
	"agentd/store"
	"agentd/store/postgres"
)

// The classes of accounts in figures. No account is named, and there are never more.
const (
	classOperator = "operator"
	classBusiest  = "busiest"
	classOthers   = "others"
)

// byClass sums up what accounts have: the operator's, the one with the most, all the others.
func byClass[N int | int64](accounts map[string]N) map[string]float64 {
	sums := map[string]float64{classOperator: 0, classBusiest: 0, classOthers: 0}
	for account, n := range accounts {
		if account == "" {
			sums[classOperator] = float64(n)
			continue
		}
		sums[classOthers] += float64(n)
		sums[classBusiest] = max(sums[classBusiest], float64(n))
	}
	sums[classOthers] -= sums[classBusiest]
	return sums
}

// writeByClass writes a gauge for each class of accounts.
func writeByClass[N int | int64](w *server.MetricWriter, name, help string, accounts map[string]N, labels ...string) {
	sums := byClass(accounts)
	for _, class := range []string{classOperator, classBusiest, classOthers} {
		w.Gauge(name, help, sums[class], append([]string{"accounts", class}, labels...)...)
	}
}

// collectLoad writes what runs, what waits, and what was refused.
func (s *serving) collectLoad(w *server.MetricWriter) {
	threads := s.runtime.ThreadsByAccount()
	running, waiting := map[string]int{}, map[string]int{}
	var all admission.Load
	for account, n := range threads {
		running[account], waiting[account] = n.Running, n.Waiting
		all.Running += n.Running
		all.Waiting += n.Waiting
	}
	w.Gauge("agentd_threads_running", "Threads that are worked on.", float64(all.Running))
	w.Gauge("agentd_threads_waiting", "Threads that wait until there is room, as the share of their account is used up.", float64(all.Waiting))
	const help = "Threads by class of accounts: the operator's, the one that has most of them, all others."
	writeByClass(w, "agentd_account_threads", help, running, "state", "running")
	writeByClass(w, "agentd_account_threads", help, waiting, "state", "waiting")
	writeByClass(w, "agentd_turns_queued", "Turns that wait in the queues of threads, by class of accounts.", s.runtime.QueuedTurns())
	f := s.runtime.Admission()
	w.Gauge("agentd_admission_delay_seconds", "How long even the quickest of the last writes took, for the account with the slowest.", f.Delay.Seconds())
	w.Gauge("agentd_admission_stalled_seconds", "How long the write to the store that is under way has been.", f.Stalled.Seconds())
	for _, reason := range admission.Reasons() {
		w.Counter("agentd_admission_refused_total", "Commands that were refused because of overload, by reason.", float64(f.Refused[reason]), "reason", string(reason))
	}
}

// nodesWithin is how long the database may take to answer what /metrics asks.
const nodesWithin = time.Second

// nodeCounts is what the database knows of its nodes, and of this one.
type nodeCounts struct{ alive, gone, owned int64 }

func (s *serving) countNodes(ctx context.Context) (c nodeCounts, err error) {
	shared, ok := s.store.(store.Shared)
	if !ok {
		return nodeCounts{alive: 1, owned: int64(s.runtime.Figures().Loaded)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodesWithin)
	defer cancel()
	nodes, err := shared.Nodes(ctx)
	if err != nil {
		return c, err
	}
	for _, n := range nodes {
		switch {
		case n.Address == "" && !n.Self: // a program that opened the database for itself
		case n.Alive:
			c.alive++
		default:
			c.gone++
		}
	}
	owned, err := shared.CountOwned(ctx, event.RuntimeSession, s.nodeName)
	c.owned = owned[s.nodeName]
	return c, err
}

// collectNodes writes how the nodes stand that share the database, and this node's part.
// While the database doesn't answer, only what the node knows itself is there.
func (s *serving) collectNodes(ctx context.Context, w *server.MetricWriter) {
	held := 1.0
	if shared, ok := s.store.(store.Shared); ok {
		if _, holds := shared.Term(); !holds {
			held = 0
		}
	}
	w.Gauge("agentd_lease_held", "1 while this node's lease holds; an embedded store has no other node.", held)
	if c, err := s.countNodes(ctx); err == nil {
		w.Gauge("agentd_leases", "Sessions that this node owns.", float64(c.owned))
		const help = "Servers that share the database, by whether their lease holds."
		w.Gauge("agentd_nodes", help, float64(c.alive), "state", "alive")
		w.Gauge("agentd_nodes", help, float64(c.gone), "state", "gone")
	}
	draining := 0.0
	if s.runtime.IsDraining() {
		draining = 1
	}
	w.Gauge("agentd_draining", "1 while this node is being drained.", draining)
	if p, ok := s.store.(*postgres.Store); ok {
		collectPool(w, p.PoolFigures())
		collectObjects(w, p.ObjectFigures())
		collectReplica(w, p.ReplicaFigures())
		table := 1.0
		if problem, _ := p.MonthProblem(); problem != "" {
			table = 0
		}
		w.Gauge("agentd_database_month_table", "1 while there is a table for the month's events, 0 if this node can't make it.", table)
	}
}

// collectObjects writes the figures of the object storage, if there is one.
func collectObjects(w *server.MetricWriter, f postgres.ObjectFigures) {
	if !f.Configured {
		return
	}
	works := 1.0
	if f.Problem != "" {
		works = 0
	}
	w.Gauge("agentd_blob_storage_up", "1 while the object storage can be reached.", works)
	w.Counter("agentd_blob_objects_moved_total", "Contents that this node moved to the object storage.", float64(f.Moved))
	w.Counter("agentd_blob_objects_deleted_total", "Objects that this node deleted there.", float64(f.Deleted))
	w.Counter("agentd_blob_storage_failures_total", "Attempts to move or delete that failed.", float64(f.Failed))
}

// collectReplica writes the figures of the standby that takes reads, if there is one.
func collectReplica(w *server.MetricWriter, f postgres.ReplicaFigures) {
	if !f.Configured {
		return
	}
	usable := 0.0
	if f.Usable {
		usable = 1
	}
	w.Gauge("agentd_replica_up", "1 while the replica keeps up and long reads go there.", usable)
	w.Counter("agentd_replica_reads_total", "Statements that the replica answered.", float64(f.Reads))
	w.Counter("agentd_replica_failures_total", "How often the replica was behind or could not be asked, and the database answered.", float64(f.Failures))
}

// collectPool writes the figures of the pool of connections to the database.
func collectPool(w *server.MetricWriter, f postgres.PoolFigures) {
	const help = "Open connections of the pool to the database."
	w.Gauge("agentd_database_connections", help, float64(f.Used), "state", "used")
	w.Gauge("agentd_database_connections", help, float64(f.Idle), "state", "idle")
	w.Gauge("agentd_database_connections_max", "How many connections the pool may have.", float64(f.Most))
	w.Counter("agentd_database_connections_opened_total", "Connections that were made.", float64(f.Opened))
	w.Counter("agentd_database_acquires_total", "How often a connection was asked for.", float64(f.Acquired))
	w.Counter("agentd_database_acquires_waited_total", "How often none was free at once.", float64(f.Waited))
	w.Counter("agentd_database_wait_seconds_total", "How long these waited.", f.WaitSeconds)
}
