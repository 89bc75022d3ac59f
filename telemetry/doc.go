// Package telemetry projects facts to OpenTelemetry: spans and measurements.
//
// # Contract
//
// A [Projector] is given the facts of one session in order and returns the spans
// that they end and what they measure. It is a pure function of the facts: no
// clock, no randomness, no state that isn't derived. So what was sent while a
// session ran and what is rebuilt from its journal years later are the same spans
// with the same ids, and telemetry is never a second truth.
//
// Ids: the span of a turn, a model request, a tool call, a hook run or a process
// follows from its id ([event.SpanIDOf]), the trace of a turn is the one that its
// caller sent, that of the turn which a subagent works for, or one that follows
// from the turn's id ([event.TraceIDOf]). The loop tells the same ids to providers,
// MCP servers and hooks while the work is under way.
//
// Facts are joined by their ids, never by nearness in time. A fact that ends what
// no fact began still gives a span, marked with agentruntime.correlation =
// missing_correlation. What has not ended gives none.
//
// Spans and measurements carry ids, enumerations, counts and durations. Without
// [Content] they never carry content: no prompt, argument, output, path, message or
// reason. A name that
// a model or a caller chose (a tool, a role) is used if it looks like a name.
//
// Names are those of the GenAI semantic conventions at [SchemaURL]; what these have
// no name for is under agentruntime. All are in names.go.
//
// # Concurrency
//
// A [Projector] and a [Meter] are for one goroutine each. Everything else is plain
// data.
package telemetry
