// Package evidence answers questions about what happened, and exports it as
// proof, from the facts alone.
//
// # Contract
//
// Everything here is derived from a session's events: nothing is asked of the
// runtime, nothing is remembered, nothing is joined by time or by prose. The same
// facts give the same answer.
//
// [Export] writes an evidence pack. Two exports of the same scope differ in their
// id, their time and therefore their signature, and in nothing else: a pack
// reaches through the last fact of its scope that isn't itself the record of an
// export.
//
// A pack proves two things. Each of its facts carries the hash that the session's
// chain has at it; where the fact before is outside the scope its hash is given
// instead. And all hashes, with those of every other section, are signed with the
// runtime's key. So only the owner of that key can change a byte of
// content unnoticed, and what lies between the facts of a narrower scope is
// attested by the signature alone. A pack can't prove whose key it is: compare
// the key's id with one from a trusted source.
//
// [Verify] needs nothing but the pack. It compares content, not layout: a pack that
// another program rewrote as JSON with a different layout is still the same pack.
//
// # Concurrency
//
// The functions share nothing and may be called by many goroutines. Memory is
// bounded by the size of one fact, of a read model and of the list of distinct
// contents that the facts refer to; longer lists wait in temporary files.
package evidence
