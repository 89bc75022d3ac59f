//go:build !race

package replaytest

// raceDetector says that the test runs with the race detector, which makes a replay
// several times as slow: whole sessions are run again then, and their turns not once
// more on their own.
const raceDetector = false
