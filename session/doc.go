// Package session has the one writer of each session: it decides commands
// against the folded state, appends the facts, folds them and publishes them.
//
// # How a command becomes a fact
//
// The handlers that [Manager.Register] adds to the table of commands find the session's
// writer, loading it from snapshot and tail if it isn't in memory. Under the writer's
// lock a pure decision turns the state and the parameters into facts; they are checked,
// numbered, encoded once, chained by hash and folded. The batch then goes to the journal,
// which commits the batches of many sessions together (see journal). Only when the store has
// made the batch durable do subscribers, observers and the caller learn of it.
//
// The state in memory runs ahead of what is durable by the batches under way, so
// that one session's commands share a commit too. That is invisible: a read is
// answered only when everything that it saw is durable. If an append fails the
// writer is dropped, and the next command loads what is really in the store.
//
// # Concurrency
//
// All methods of Manager may be called by many goroutines. A writer's lock is
// held while it decides and never while it waits for the disk. Lock order:
// writer, then topics, then a topic's members or a feed; manager, then nothing.
// The goroutine that finds the journal idle leads it: it commits for all who
// queued in the meantime and hands over when its own batch is done.
//
// # What it must not do
//
// It knows no transport, no engine and no model. Its goroutines (the
// sweeper of idle writers and expired outputs, and the one that wakes subscribers)
// end with [Manager.Close], which waits for them.
package session
