// Package eventtest helps tests with events: it makes random valid events of
// every type in the catalogue, and checks encoded events and snapshots against
// the schemas of the Agent Runtime standard and against agentd's own.
//
// The generators read the payload structs and their tags by reflection, apart
// from the generated checks and encoders, so that both can be checked against each
// other. What they make is canonical: decoding what was encoded gives back an
// equal value.
//
// The standard's schemas are not part of the repository. They are looked for in
// ../shared/spec/schemas beside the module; where they are absent, a test's log
// says what isn't checked. Only tests may import this package.
package eventtest
