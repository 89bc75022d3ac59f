// Package server is agentd's doors: commands, events and outputs over HTTP,
// server-sent events (SSE), WebSocket and JSON-RPC (also over standard input
// and output), with authentication, bounds and metrics. It decides nothing
// about sessions: everything goes to a [Backend].
//
// # Contract
//
// [New] returns a server over a backend; [Server.Handler] is its HTTP handler,
// [Server.Serve] runs it on a listener until a context ends, [Server.ServeStdio]
// speaks JSON-RPC, one message per line. The addresses are those of the wire
// contract:
//
//	POST /v1/commands/{command}      a command; a JSON object in, a JSON object out
//	POST /v1/rpc                     JSON-RPC 2.0 over the same commands, batches included
//	GET  /v1/ws                      JSON-RPC over WebSocket, with subscribe and unsubscribe
//	GET  /v1/sessions/{id}/events    a page of events, or SSE
//	GET  /v1/events                  SSE of all sessions that the caller may see
//	GET  /v1/feed                    the same, resumable from a cursor
//	GET  /v1/outputs/{ref}           the bytes behind a reference, with ranges
//	GET  /v1/processes/{id}/output   what a process prints, from an offset on and live
//	GET  /v1/catalog, /v1/openapi.json, /v1/schemas/{name}, /v1/status
//	GET  /healthz, /readyz, /metrics
//	GET  /ui/...                     the console's files; POST /ui/login, /ui/logout, /ui/link
//	GET  /ui/logins, /ui/oidc/...    how to log in there, and the login at an identity provider
//
// Every error is an RFC 9457 problem with a stable code (package fault); over
// JSON-RPC the problem is the error's data.
//
// # Streams
//
// A stream delivers a session's events after a cursor, each once and in order,
// then live ones. The cursor is the Last-Event-ID header, else the parameter
// lastEventId, else after, else 0. An SSE frame has the sequence as its id and
// the stored envelope as its data. A comment goes out at least every
// [Options.Heartbeat]. The token is checked again every [Options.Recheck] and when
// its time is up, and a stream whose token is no longer valid ends with a frame
// "event: problem".
//
// A cursor that redelivery can't start from, because retention removed what follows it or
// because it lies past the session's end (a store that was restored from an
// older backup), is never ignored silently: the stream begins with a frame
// "event: snapshot", the session's snapshot, and a frame "event:
// snapshot.repaired", a [Repair] that marks the gap, and continues with the oldest
// event that is left, or, past the end, with the next new one. A page answers
// the same with the field gap.
//
// Filters: types is a list of globs over event types, in which * also crosses
// dots; profile=standard selects the standard's types; view=items derives items
// ([Item]) from events, for a client that only shows a
// conversation. A stream with a filter reads everything and sends what matches.
//
// A stream with channelId belongs to a remote channel: without a cursor of its own
// it begins after what the channel's peer acknowledged, and when it ends, because
// the client disconnects or the server stops, the channel records it. It ends when the
// peer reconnects.
//
// # Several nodes
//
// A backend that can't serve a request on this node returns a fault that names the
// node that can. A command, a page or a stream is then passed on with the caller's own
// token, once, and a subscription over WebSocket is relayed. Backends whose events
// can be read on every node, such as agentd's, need that only for commands and for
// streams of channels.
//
// # JSON-RPC connections
//
// Over WebSocket and standard input the methods are the commands, and subscribe
// {sessionId?, after?, types?, profile?, view?, snapshot?, channelId?} and unsubscribe
// {subscriptionId}. Requests of one connection are carried out in the order in
// which they came, except wait_subagents, which would block the rest. An
// event comes as the notification "event" whose params are the envelope; a
// snapshot, a repair and the end of a subscription come as "snapshot",
// "snapshot.repaired" and "subscription.ended". The answer to subscribe is sent
// before its first event.
//
// # The console
//
// With [Options.Console] a browser logs in at /ui/login with a token, or with the code of a
// link from /ui/link, and has a cookie from then on that counts like the token at all
// addresses but mounts. What may change something also needs the header X-Agentd-Console
// and must come from a page of the same origin.
//
// # Bounds
//
// Each connection, body, header, batch, stream and command under way counts
// against a bound in [Options]; a bound that is hit is answered (429 where it is
// the caller's own, 503 where it is the server's, with Retry-After), counted in
// the metrics, and never waited for indefinitely. Commands that change state are
// admitted separately from those that read, so reading continues under overload. A
// slow reader keeps at most one batch of events and is disconnected when a
// write takes longer than [Options.WriteTimeout], sooner when the server stops;
// large answers that wait for their readers are bounded by [Options.MaxAnswers].
//
// # Concurrency
//
// A Server may be used by many goroutines. Each stream runs in the goroutine of
// its request; each JSON-RPC connection owns its goroutines and waits for them.
// Serve and ServeStdio return when everything they started has ended.
package server
