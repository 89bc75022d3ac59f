// Package process runs commands and terminals, and lets none of them be forgotten.
//
// # Contract
//
// Every process has an id that its caller gave. Before any code of a command runs,
// [Spec.Ledger] is called with what identifies the process after a crash (pid,
// start time, boot id, control group); if it fails, the process is ended without
// having run. When a command ends, everything that it started has ended too; this
// holds for commands that detached children in whatever way, for [Process.Terminate],
// for a cancelled context, for the end of the time, and for the death of our own
// process. See package sandbox for what enforces it, and for what it can't.
//
// After a restart [Reap] takes what the ledger has and says of each process that it
// was ended, is gone, or can't be told.
//
// Output is read as fast as it comes, so that a command never waits for us, and is
// kept within bounds: the head and the tail of each stream, and the number of bytes
// between. Pieces are handed to [Spec.Output] with their offset, gathered for a
// moment and bounded in rate; a gap in the offsets is output that was not handed on.
// Bytes are handed on as they are: code that makes text of them finds out about
// invalid UTF-8 and about characters that lie across two pieces.
//
// # Concurrency
//
// All methods may be called from any goroutine. The callbacks of one process are
// called one after the other, those for output from one goroutine per stream: they
// must not call methods of the process that wait for its end. A manager waits for
// all its goroutines in [Manager.Close].
package process
