// Package find answers questions over many sessions: which turns there were
// (list_turns), and where something was said or done (search).
//
// # Contract
//
// Two projections of package index keep what the answers are made of, in the same store
// as the facts: a row for each turn, and the words of each fact that is searched. An
// answer has everything that was durable when it was asked for. A caller learns of the
// sessions of its own account only, through results, totals and cursors alike; an admin
// learns of all. Texts in answers are read from the facts, so what was redacted there is
// redacted here, and what was removed from there is gone here.
//
// # How it is stored
//
// Rows and words are in segments: sorted, compact byte strings that are never changed. A
// batch of facts adds one, and segments are merged when there are many small ones, so that
// a query reads few and a turn is written few times. A manifest lists them. Sessions that
// were deleted, and the beginnings of those that were trimmed, are named in the manifest
// and are left out of answers at once; the segments are then rewritten without them.
//
// A segment has its words with the facts that they are in, and its facts with the words
// that are in them. A search reads whichever is less, so that who may see little, or asks
// for little by time or type, doesn't pay for what others wrote.
//
// # Concurrency
//
// All methods of [Finder] may be called by many goroutines. Folding happens in the one
// goroutine of the indexer.
package find
