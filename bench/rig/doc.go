// Package rig is what the end-to-end measurements share: a fake model provider
// on loopback, an agentd server as a process of its own, a lean client for it,
// and what the kernel says about a process.
//
// # Contract
//
// The provider has no latency of its own unless a [Scenario] asks for it: it
// reads a request, looks at its end, and writes an answer that was made before.
// Nothing here speaks to anything but loopback. The client does as little as it
// can, because it shares the processors with what it measures.
//
// # Concurrency
//
// A [Model] and a [Server] may be used by many goroutines; a [Session] belongs to
// one.
package rig
