// Package conformance holds what a runtime of the Agent Runtime standard wrote against
// the standard, offline: events as JSON lines, session snapshots, thread read models,
// tasks, evidence packs and packs of benchmark trials. It knows nothing of agentd's own
// extensions: what any runtime of the standard writes can be checked.
//
// # Contract
//
// A check is a value, [Check]: an id that never changes its meaning, the paragraph of
// the standard that it rests on, what it looks at ([Scope]), whether the standard says
// "must" or "should", and a function. [Checks] lists all of them. A scope says what a
// function is given, so checks that drive a running runtime find their place beside
// those that read: they need a scope of their own and nothing else.
//
// A [Checker] is given documents and returns a [Report]. What a document doesn't say is
// not held against it: a window of a stream may begin in the middle, so an end without
// its beginning counts only in a stream that begins with the session. Ids that say
// not_applicable join nothing.
//
// Input is hostile: a line, a document, the number of findings and everything that is
// remembered are bounded ([Limits]). Files are read as streams, in memory that doesn't
// grow with them. Where a bound was reached the report says so.
//
// [Fixtures] are documents of our own, not the standard's: some conform, each of the
// others is broken in one way and caught by the one check that it names.
//
// # Concurrency
//
// A Checker is for one goroutine. Everything else may be used by many.
package conformance
