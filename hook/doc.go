// Package hook runs what an operator put at the eight points of an agent's work:
// commands and HTTP calls that see what is about to happen, and may block it,
// judge it, rewrite it or add to it.
//
// # Contract
//
// [Runner.Run] runs the hooks of a point that match, one after the other in their
// order. Each run is recorded by the [Recorder] as a fact before it starts and when
// it ends; if a fact can't be recorded, nothing more runs. A command's boundary is
// a fact too, before any of its code runs: what confines a hook is recorded, not
// assumed.
//
// A hook gets one JSON object: ids, point, working directory, workspace, mode,
// sandbox, tool and its input (see [Input]). The caller has redacted it; no
// environment and no credential is ever part of it. A hook answers with one JSON
// object that is read strictly: decision, reason, updatedInput,
// additionalContext, updatedOutput, suppressOutput, auditRefs, and nothing else.
// No answer at all means continue. A command that exits with 2 blocks, and what
// it wrote to stderr is the reason; any other status but 0 is a failure, and so
// is a timeout, an answer that is malformed or longer than [MaxAnswer], and an
// HTTP status but 2xx. A failure blocks if the hook fails closed; if it fails
// open the work goes on.
//
// The strictest decision wins: block, deny, ask, allow, continue. A block or a
// deny ends the row, since nothing after it could make the call run. Inputs are
// rewritten in a chain: each hook sees what the one before made of it. The
// original and the result are both returned, and both are kept by the recorder.
//
// A hook decides nothing by itself: its decision is an opinion that package
// permission weighs against rules.
//
// # Concurrency
//
// A [Runner] doesn't change and may be used by many goroutines. Run starts no
// goroutine that outlives it.
package hook
