package main

import (
	"os"
	"time"
)

// hurry has a process of the tests wait only as long as the program does.
const hurry = "TESTS_HURRY=1"

// followOn has a process of the tests never give up a server that is away.
const followOn = "TESTS_FOLLOW_ON=1"

// Both this process and those that the tests start are patient: on a busy machine each of
// them may stand still for longer than a user would wait, and that isn't what is tested.
var _ = bePatient()

func bePatient() bool {
	if os.Getenv("TESTS_HURRY") != "" {
		return false
	}
	for _, d := range []*time.Duration{&silence, &reachWithin, &keyringWithin, &completeWithin, &settleTime, &startWithin} {
		*d = 5 * time.Minute
	}
	if os.Getenv("TESTS_FOLLOW_ON") != "" {
		followRetries = 1 << 20
	}
	return true
}
