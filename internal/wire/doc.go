// Package wire holds the codecs of agentd's doors: JSON as it may come from
// outside, JSON-RPC 2.0, server-sent events and problem documents.
//
// # Contract
//
// What comes from outside is read strictly. [Decode] accepts one JSON object in
// valid UTF-8, without duplicate or unknown members, not nested too deeply, with
// nothing after it; whatever doesn't fit is a [fault.InvalidParams] that names
// the place. Only [ReadForeign], for the protocols of others, passes over what it
// doesn't know. No input makes a decoder panic, and no decoder holds more than a
// bound that its caller sets.
//
// What goes out is encoded once and appended to the caller's buffer. [SSEWriter]
// writes to the answer of a request, for the adapters of other protocols.
//
// Nothing here keeps state between calls or starts a goroutine. An [SSEReader] and
// an [SSEWriter] belong to one goroutine; everything else is safe for concurrent use.
package wire
