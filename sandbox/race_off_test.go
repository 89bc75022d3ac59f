//go:build !race

package sandbox

// raceEnabled says that the test binary carries the race detector.
const raceEnabled = false
