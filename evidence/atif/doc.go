// Package atif writes and checks trajectories in ATIF, the format in which Harbor
// keeps what an agent did in a trial.
//
// # Contract
//
// [Export] derives a trajectory from the facts of a session and from nothing else:
// the same facts give the same bytes. One step stands for one call of a model, and
// what a tool gave is in the step that called it. What the format has no member
// for (permission decisions, sandboxes, hooks, ids of facts) is in the `extra`
// objects that it leaves for that. The trajectories of subagents are embedded in
// that of their parent.
//
// Nothing is taken out here: facts hold no secrets, because those are taken out
// before anything is stored.
//
// [Validate] accepts what version 1.8 of the format does, and names the place and
// the rule of the first thing that it doesn't. All objects are closed: a member
// that the format doesn't know is refused. As in the format's own models, members
// are not checked against the version that a document declares.
//
// # Concurrency
//
// The functions share nothing. A [Writer] is for one goroutine. The steps of the
// exported thread are written as they come; those of its subagents wait in memory,
// because the format puts them at the end.
package atif
