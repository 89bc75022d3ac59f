// Package index keeps what is derived from the facts of all sessions: rows for lists,
// words for search, sums for figures.
//
// # Contract
//
// An [Indexer] follows the changes of the whole store and has each [Projection] turn
// facts into index entries. The entries and the position up to which they reach are one
// atomic write, so a crash at any moment leaves an index that is complete up to a
// position, and every fact is folded exactly once. A projection that the store has no
// position of is built from the facts that are there. So a projection that changes its
// entries changes its name, and the former name is listed so that its entries go.
//
// Facts that retention removed before they were folded are skipped. A session that was
// deleted tells of it with the fact session.deleted, one that was trimmed with the fact
// that says so; a projection removes what it has of them.
//
// Of several nodes that share a store one folds at a time: it has the claim of a session
// that has no facts, and releases it when it is done. A node that finds the claim taken
// waits until the other one is as far.
//
// # Concurrency
//
// One goroutine folds; [Indexer.Close] waits for it. All methods may be called by many
// goroutines. A projection's Fold is called by one goroutine at a time.
package index
