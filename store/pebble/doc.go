// Package pebble is the embedded engine of [store.Store]: one directory, one
// process, an LSM tree of github.com/cockroachdb/pebble.
//
// # Contract
//
// It satisfies the port's obligations, see package store. Beyond them:
//
// A reader sees only what is durable. Pebble shows a write before its log is on
// the medium; the engine reads from a snapshot that it takes when a commit is
// known to be durable, so a fact is never shown that a crash could take back.
//
// After the first failed write nothing reaches the directory any more. The
// engine stands between Pebble and the file system: it keeps the failure, lets
// Pebble believe that its log was written (Pebble would end the process
// otherwise), refuses the append and every later one, and drops all further
// changes to the directory, deletions too. Reads go on from the last durable
// state. What is on disk is what was there at the failure.
//
// Damage is never silent. Beside Pebble's files there is a ledger: which logs
// hold acknowledged data, how much of the manifest was synced, and at a clean
// close the length and checksum of both. [Open] checks the files against it and
// refuses with [store.ErrCorrupt] what doesn't fit. After an unclean stop it
// reads the last log itself, because Pebble takes an unreadable tail for the
// log's end, and reports what could not be read in [store.Meta]. What no one can
// tell is a log cut exactly between two records after an unclean stop: it looks
// like one that ended there. Tables have checksums of their own, which are
// checked when they are read.
//
// # Layout
//
// The directory holds "lock" (with the owner's process id), "ledger", and Pebble's
// files in "db". Keys begin with a byte that says what they are: see keys.go.
//
// # Concurrency
//
// Appends are written one after another, each call as one Pebble batch with one
// sync: callers group. Reads take no lock that is held during a write. Claims
// live in memory, since no second process can open the directory; their epochs
// only grow, over restarts too.
package pebble
