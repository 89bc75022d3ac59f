// Package peer gives work to agents that speak the Agent2Agent protocol, version 1.0.
//
// # Contract
//
// [Client] speaks to the peers of tasks that are delegated. It is an adapter over
// [command.Runtime] and keeps nothing that a restart would lose: what to send,
// whether it may have been sent, how the task stands there and which answer is to be
// passed on are read from the facts (get_peer_work), and what it learns becomes facts
// (link_peer_task, update_peer_task) before it does the next thing.
//
// A message has the id of its attempt. It is recorded before it is sent; where it is
// not known whether the peer has it, the peer's tasks are searched for it, and where
// that tells nothing the task is held instead of sent twice.
//
// A peer is taken at its word in nothing: its card and its answers are bounded in size
// and time, its addresses must be its card's own or allowed by name, none of them
// reaches a network that is not public unless the configuration says so, its
// credentials go to no other host, and a notification only has the client ask.
//
// A task is completed when the peer says so and everything that it delivered is
// stored here. A peer that can't be reached, that waits, or that forgot the task ends
// nothing by itself: see the recovery states of [agentd/state.PeerTask].
//
// # Concurrency
//
// All methods of [Client] may be called by many goroutines. Each task has a goroutine
// of its own while there is something to do about it; [Client.Close] ends all of them
// and waits.
package peer
