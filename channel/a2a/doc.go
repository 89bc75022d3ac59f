// Package a2a lets agents that speak the Agent2Agent protocol, version 1.0, give
// work to agentd.
//
// # Contract
//
// [Server] serves the protocol's JSON-RPC and HTTP+JSON bindings over
// [command.Runtime]. It is an adapter: it keeps nothing that a restart would lose.
// A context is a session, a task is a turn in it, and what a peer learns is derived
// from the session's facts by one projection, whether it asks, lists, streams,
// subscribes or gets notifications. Every step of a peer is a fact with both identities, written
// together with what the step does.
//
// Ids of contexts, tasks and turns that a peer doesn't give follow from its account
// and its message id, so a message that comes twice makes no second turn. A caller
// reaches the tasks of its own account and no others, also as an admin.
//
// Push notifications are delivered at least once, in order for each endpoint. They
// never reach an address that is not public, unless its host is allowed by name.
//
// Messages are not results: what a task delivers are its artifacts.
//
// # Concurrency
//
// All methods of [Server] may be called by many goroutines. [Server.Start] starts
// what tells peers; [Server.Close] ends it and waits.
package a2a
