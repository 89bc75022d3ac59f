// Package turnview folds the events of a turn into what there is to show of it: what
// the model says and thinks, the tools it calls, what the turn waits for, and how it
// ends. The adapters of protocols render it and fold nothing themselves.
//
// # Contract
//
// A [View] is how a turn stands. [View.Fold] applies an event and returns the
// [Change]s that it makes, in order, for adapters that stream. The same events give
// the same view and the same changes, live and when they are read again; the changes
// of a view, applied to an empty one of the same turn and thread, give the same view.
// Events
// that say nothing of the turn, and types of events that aren't known here, change
// nothing. An event may be the first that is seen: a message that goes on or a tool
// that ends without its beginning is shown from there.
//
// What a model answers for the runtime's own use, such as the summary of a
// compaction, is no part of the story. An answer that wasn't streamed is told in one
// piece. Whatever is open is closed before what ends it: reasoning before the text
// that follows, both before the end of their model call, everything before the end
// of the turn.
//
// Where subagents are shown, each change says whose it is; the turn's own agent has the
// empty id.
//
// The package does no I/O. A View belongs to one goroutine.
package turnview
