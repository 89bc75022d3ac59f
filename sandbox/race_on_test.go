//go:build race

package sandbox

// raceEnabled says that the test binary carries the race detector, whose shadow
// memory no small limit has room for.
const raceEnabled = true
