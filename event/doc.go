// Package event defines the facts of agentd: the envelope that every fact
// travels in, the ids that join facts to each other, the payload of each type,
// and the catalogue that lists all types.
//
// # Contract
//
// A fact is an [Event]. It is encoded exactly once, by [AppendJSON], when it is
// appended to the journal; the stored bytes are the delivered bytes. [Check]
// says whether an event may be appended: its type is in the catalogue, its
// payload is the one that the catalogue names, every id that the type needs is
// there, and the payload's own fields fit. An event that fails the check must
// not be appended: the caller has a bug, and the error says which.
//
// The catalogue ([Catalog]) is the only place where a type is declared. The
// constants, the decode table, the encoder, the payload checks, the JSON
// Schemas, the reference page and the TypeScript types are generated from it;
// run "make generate" after a change. A test fails when they drift.
//
// Standard types carry [SchemaStandard] and satisfy the strict profile of the
// Agent Runtime standard. Types that the standard doesn't list are extensions:
// they carry [SchemaExtension] and satisfy the schemas generated from here.
//
// # Concurrency
//
// Everything here is plain data and pure functions, safe for concurrent use as
// long as no goroutine changes an event that another one reads. An [IDs] source
// made by [NewIDs] may be shared by goroutines.
//
// The package depends on the standard library only and knows nothing of
// storage, sessions or transports.
package event
