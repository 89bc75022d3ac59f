// Ends the process when its standard input ends, which the system sees to when
// the test that holds the other end is gone, however it went.
process.stdin.on("end", () => process.exit(0));
process.stdin.resume();
