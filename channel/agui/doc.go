// Package agui lets web front ends that speak AG-UI 1.0 run an agentd agent: one
// POST is a run, its answer is the run as server-sent events.
//
// # Contract
//
// It is an adapter over [command.Runtime] and keeps nothing of its own. The
// protocol's thread is a session of that id, which is made if there is none; a run
// is a turn of that id, so that a request that is sent again doesn't run twice.
//
//   - Of the messages only those after the last answer are new, if the session has
//     the conversation; otherwise all of them are the turn's input.
//   - A turn that needs an answer ends its run with the outcome interrupt, one
//     interrupt for each action. The run that resumes answers them and goes on with
//     the same turn. A run that doesn't, while something is open, is refused.
//   - A run without anything new gets the existing messages, and follows
//     what is running, if something is.
//   - A client that goes away interrupts its turn, unless it said otherwise or only
//     looked on. A server that stops doesn't.
//
// Deciding what a fact means for the front end ([narrator]) is apart from sending
// it.
//
// # Concurrency
//
// The handler may serve any number of requests at once. It starts no goroutines.
package agui
