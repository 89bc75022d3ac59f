//go:build !race

package escapetest

// raceEnabled says that the race detector is on, whose shadow memory a limit of
// address space doesn't allow.
const raceEnabled = false
