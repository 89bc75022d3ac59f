// Package peers measures whole turns of agentd over HTTP beside other programs
// that do the same work on the same fake model in the same run: goose and codex,
// headless, and as a floor for durable execution River on PostgreSQL with a bare
// chain of four durable steps.
//
// # Contract
//
// The measurements are benchmarks that take about as long as they say, whatever
// -benchtime is. A peer that can't be run is named with the reason in the report,
// never left out in silence; so is one that didn't do the work, which the fake
// model's count of calls shows.
//
// goose and codex are npm packages. They are taken from the folder that
// AGENTD_BENCH_PEERS names, or installed with npm into a temporary one if
// AGENTD_BENCH_NPM is set. They run with a home folder of their own, without
// telemetry, and with proxies that lead nowhere for everything but loopback.
package peers
