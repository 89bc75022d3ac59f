// Package escapetest holds the tests that look at confinement from outside: what
// an agent can reach, and what it leaves behind.
//
// # Contract
//
// The tests run a whole runtime, with a store on disk and the script provider in
// the place of a model, and give it tool calls that try to get out. What counts
// is what can be seen from outside afterwards, and the facts of the call: each
// attempt must fail where the profile forbids it, and must be explained. They
// print what this machine's kernel enforces and name what was not tried because
// it isn't enforced here. "make escape" runs them.
//
// The package has no product code and nothing may import it.
package escapetest
