// Package acp is agentd as the agent of an editor: the Agent Client Protocol,
// version 1, over a pair of pipes, one JSON-RPC message a line.
//
// # Contract
//
// [Agent.Serve] answers one client until its input ends. It is an adapter over
// [command.Runtime]: what the client asks for becomes commands, and what it is
// told follows from facts, so a client that comes back finds everything where it
// was. What it keeps of its own is what a connection is about: which sessions are
// open, which prompt waits for which turn, which question was put.
//
//   - A session is a session, its working directory is the workspace's root. Its
//     modes are the permission modes; its configuration has the mode and the model.
//     The model is that of the last turn, and goes with each turn.
//   - A prompt is a turn. It is answered when the turn ended, after all updates of
//     it. A turn that was interrupted, by whomever, is "cancelled".
//   - An action is a permission request, or a form where the client offers forms. A
//     question that can't be put ends the prompt, and the next prompt is its
//     answer. What was answered elsewhere in the meantime is withdrawn.
//   - A client that goes away ends the connection and nothing else: turns go on, and
//     what was asked stays asked.
//
// What is not offered is not announced: sessions can't be deleted, because facts
// stay; MCP servers and further directories of a client are not taken, and a client
// that sends some is told.
//
// # Concurrency
//
// Serve reads messages one after the other; each request is answered by a
// goroutine of its own, and each open session has one that follows its facts. Serve
// waits for all of them. Deciding what a fact means for the client ([translator])
// is apart from sending it.
package acp
