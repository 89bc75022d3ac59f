// Package mcpserver serves agentd over the Model Context Protocol, in the
// revisions 2025-11-25 and 2026-07-28, over streamable HTTP and over standard
// input and output.
//
// # Contract
//
// It is an adapter over [command.Runtime] and keeps no state that matters: what a
// client holds (a session's id, a turn's, a task's) is made of agentd's own ids and
// is as durable as they are.
//
//   - Every command that the caller's role allows is a tool of the same name, with
//     the generated schemas. A fault is the tool's error, with the problem object as
//     structured content; protocol errors are for mistakes in the protocol alone.
//   - run_turn and wait_turn are tools that last as long as a turn does. To a client
//     that declares the extension io.modelcontextprotocol/tasks they answer with a
//     task instead, and subscribers are notified of its changes. What a turn
//     waits for is put to the client as an elicitation where it takes one, and named
//     in the answer otherwise.
//   - Sessions, their events and outputs are resources below agentd://.
//
// A client that cancels a call by a notification interrupts the turn that the call
// waits for. A client that goes away doesn't: its turn goes on and can be waited for
// again.
//
// # Concurrency
//
// A [Server] may be used by many goroutines. What it starts ends with the call that
// started it, or with [Server.Close].
package mcpserver
