// Package contract checks the OpenAPI document against real traffic, and compiles
// the types for TypeScript. It has tests alone.
//
// # Contract
//
// The document is linted, and a proxy that reads it stands between the tests and
// a server over the real runtime: an answer that the document doesn't describe
// fails the test, also one with a member that the document lacks. The proxy and the linter are programs of Node.js, in the
// versions of package-lock.json; the first run installs them with npm below
// contract/.node. Without Node.js the tests are skipped and say so; with
// AGENTD_TEST_NODE=require they fail.
//
// Streams are not driven here: the proxy reads an answer to its end before it
// passes it on. Package server tests them.
package contract
