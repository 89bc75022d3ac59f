package session

import (
	"bytes"
	"errors"
	"testing"

	"agentd/state"
	"agentd/store"
)

// TestStoredStates reads states packed, as earlier releases stored them, and damaged.
func TestStoredStates(t *testing.T) {
	st := state.New("sess_a")
	st.Title = string(bytes.Repeat([]byte("long "), store.ChunkSize/4)) // of two pieces
	plain := st.Encode()
	packed := packState(plain)
	for name, stored := range map[string][]byte{"packed": packed, "plain": plain} {
		got, size, err := storedState(stored)
		if err != nil || size != len(plain) || got.Title != st.Title {
			t.Errorf("%s: %d bytes of %d, %v", name, size, len(plain), err)
		}
	}
	for n := 1; n < len(packed); n += 7 {
		if _, err := unpackState(packed[:n]); n > 1 && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("cut off at %d: %v", n, err)
		}
		if _, _, err := storedState(packed[:n]); err == nil {
			t.Errorf("cut off at %d: a state was found", n)
		}
	}
}
