package loop

import (
	"crypto/sha256"
	"sync"

	"agentd/command"
	"agentd/fault"
	"agentd/process"
)

// inputs are what processes got of commands whose facts couldn't be recorded: a repeated call,
// which its caller knows by the same key, is to record them and not to give them again.
type inputs struct {
	mu    sync.Mutex
	given map[givenInput]takenInput
}

// givenInput names a call that gives a process input.
type givenInput struct{ processID, account, key string }

// takenInput is who got it, and what it was.
type takenInput struct {
	by     *process.Process
	digest [sha256.Size]byte
}

// giveOnce has a process given the input of a call, unless the same call did that before.
func (in *inputs) giveOnce(call givenInput, p command.Params, to *process.Process, give func() error) error {
	if call.key == "" {
		return give()
	}
	digest, err := command.Digest(p)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the parameters could not be compared")
	}
	in.mu.Lock()
	before, done := in.given[call]
	in.mu.Unlock()
	if done && before.digest != digest {
		return fault.New(fault.Conflict, "the idempotency key was used before with different parameters; use a new key, or repeat the same parameters")
	}
	if done {
		return nil
	}
	if err := give(); err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.given == nil {
		in.given = map[givenInput]takenInput{}
	}
	for k, x := range in.given { // those that ended take nothing again
		select {
		case <-x.by.Done():
			delete(in.given, k)
		default:
		}
	}
	in.given[call] = takenInput{to, digest}
	return nil
}

// forget forgets a call whose fact is recorded.
func (in *inputs) forget(call givenInput) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.given, call)
}
