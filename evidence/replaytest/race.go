//go:build race

package replaytest

const raceDetector = true
