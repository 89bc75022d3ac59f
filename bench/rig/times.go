package rig

import (
	"slices"
	"time"
)

// Times are durations of one kind.
type Times []time.Duration

// Percentile returns the p-th percentile, or 0 without any times.
func (t Times) Percentile(p float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	s := slices.Clone(t)
	slices.Sort(s)
	return s[min(len(s)-1, int(float64(len(s))*p/100))]
}

// Millis is a duration in milliseconds, for reports.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
