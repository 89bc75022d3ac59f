// Package otlp sends the telemetry of a runtime to an OpenTelemetry collector, as OTLP
// over HTTP.
//
// # Contract
//
// An [Exporter] learns of facts where they are committed, but keeps none: it notes which
// sessions moved and reads the journal in its own time. A collector that is down, slow
// or lossy costs a turn nothing but that note. Spans wait in a bounded queue; what
// doesn't fit is dropped, counted and reported.
//
// How far each session has got is kept in the store once the collector confirmed it, so
// a process that was killed loses no spans: the next one sends what was not confirmed,
// with the same ids. At most one request is sent twice. Measurements of a process that
// died are not counted again. Facts from before the store's first exporter, and those
// older than a day, are not sent.
//
// The order is: [New] over the store, a runtime with [Exporter.Store] and the exporter
// as its observer, [Exporter.Start]; and at the end the runtime's close, then
// [Exporter.Close].
//
// [Client], [EncodeTraces] and [EncodeMetrics] serve programs that project a past session
// with package telemetry and send or write the result.
//
// # Concurrency
//
// Committed and WriteMetrics may be called by any goroutine. Two goroutines are the
// exporter's own, from Start to Close: one follows the journal, one sends.
package otlp
