package facts

import (
	"testing"

	"agentd/fault"
)

// at is a source that is a server, or isn't.
type at struct {
	Source
	server bool
}

func (a at) Remote() bool { return a.server }

func TestWhichFailuresAreTriedAgain(t *testing.T) {
	server := at{server: true}
	if !mayRecover(server, fault.New(fault.Unavailable, "x")) || mayRecover(server, fault.New(fault.Unauthenticated, "x")) || mayRecover(at{}, fault.New(fault.Unavailable, "x")) {
		t.Error("the wrong failures are tried again")
	}
}
