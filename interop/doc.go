// Package interop checks agentd's protocols against clients and suites that others
// wrote. It has tests alone.
//
// # Contract
//
// Each test starts the real program and drives it with a published package of
// Node.js, in the version of package-lock.json; the first run installs them with
// npm below interop/.node. Without Node.js the tests are skipped and say so; with
// AGENTD_TEST_NODE=require they fail. The a2a command of the A2A SDK for Go is built
// from the module in a2acli, which pins it.
package interop
