package model

import (
	"slices"
	"sync"
)

// joined is the encoded form of a conversation as far as it was asked for before.
// It hangs on the conversation's first message, and is gone with it.
type joined struct {
	mu sync.Mutex
	// by names the form, last is the last of the count messages that data has.
	by    string
	last  *Message
	count int
	data  []byte
}

// Joined returns the conversation in a provider's own form: what add appends for
// each message, one after the other. What was appended for an earlier request is
// kept, because a thread's conversation only grows, and going through all of it for
// every request would make each step dearer than the one before. By names the form;
// add may look at the messages before the i-th, not at those behind it. The result
// must not be changed.
func (r *Request) Joined(by string, add func(dst []byte, i int) []byte) []byte {
	if len(r.Messages) == 0 {
		return nil
	}
	j := &r.Messages[0].joined
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.by != by || j.count > len(r.Messages) || j.count == 0 || r.Messages[j.count-1] != j.last {
		j.by, j.count, j.data = by, 0, nil
	}
	// Requests before this one may still read the bytes that are there; what is
	// appended lies behind them.
	for ; j.count < len(r.Messages); j.count++ {
		j.data = add(j.data, j.count)
	}
	j.last = r.Messages[j.count-1]
	return slices.Clip(j.data)
}
