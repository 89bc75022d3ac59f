// Package bench measures agentd as a whole, each figure beside the limit or the
// peer that it is compared with, in one run on one machine. It is a module of its
// own, so that what only measurements need stays out of the product's.
//
// docs/benchmarks.md has the results and the commands.
package bench
