// Package repotest enforces the repository's own rules, as tests: which package may
// import which, one comment per package, generated files that are up to
// date, docs/dependencies.md that tells the truth about go.mod, links that lead
// somewhere, files that a reader can take in, and no trace of one machine.
//
// # Contract
//
// Each rule is a pure function from what was read to a list of findings, one
// sentence each, that name the file and what to do. invariants_test.go applies
// the rules to this repository; the other tests apply them to small bad
// examples and so show that each rule can fail.
//
// Nothing outside of tests imports the package.
package repotest
