package pebble

import (
	"encoding/binary"
	"fmt"
	"strings"

	"agentd/store"
)

// The first byte of a key says what it is.
const (
	keyBase     = 'a' // 'a' + session                      → format, sequence, hash, data
	keyChunk    = 'c' // 'c' + id or sum + index           → compressed chunk
	keyBlob     = 'b' // 'b' + sum                          → where the chunks are
	keyEvent    = 'e' // 'e' + session + 0 + sequence       → format, hash, JSON
	keyChange   = 'f' // 'f' + number                       → format, changes of one commit
	keyIndex    = 'i' // 'i' + kind + 0 + key               → value
	keyMeta     = 'm' // 'm' + name                         → the engine's own
	keySnapshot = 's' // 's' + session + 0 + name           → format, sequence, hash, data
	keyStaged   = 't' // 't' + id                           → a blob that isn't complete
	keyValue    = 'u' // 'u' + name                         → SetMeta's values
)

// valueFormat is the first byte of records, snapshots and blob entries.
const valueFormat = 1

const (
	sumSize       = len(store.Hash{})
	eventHeader   = 1 + sumSize
	snapHeader    = 1 + 8 + sumSize
	eventKeyExtra = 1 + 1 + 8 // prefix, separator, sequence
)

// checkName reports a name that can't be part of a key before a separator.
func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("pebble: %s is empty", what)
	}
	if strings.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("pebble: %s %q contains a NUL byte", what, name)
	}
	return nil
}

// putEventKey fills dst, which has the key's length.
func putEventKey(dst []byte, session string, seq uint64) {
	dst[0] = keyEvent
	n := 1 + copy(dst[1:], session)
	dst[n] = 0
	binary.BigEndian.PutUint64(dst[n+1:], seq)
}

func eventKey(session string, seq uint64) []byte {
	k := make([]byte, len(session)+eventKeyExtra)
	putEventKey(k, session, seq)
	return k
}

// eventSeq returns the sequence in an event's key.
func eventSeq(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// pairKey returns prefix + a + 0 + b.
func pairKey(prefix byte, a, b string) []byte {
	k := make([]byte, 0, len(a)+len(b)+2)
	k = append(k, prefix)
	k = append(k, a...)
	k = append(k, 0)
	return append(k, b...)
}

// nameKey returns prefix + name.
func nameKey(prefix byte, name string) []byte {
	return append([]byte{prefix}, name...)
}

// prefixEnd returns the first key after all keys that begin with p. The keys
// here begin with a letter, so there always is one.
func prefixEnd(p []byte) []byte {
	end := append([]byte(nil), p...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// parseEvent returns the record in a stored value. Data is not copied.
func parseEvent(seq uint64, v []byte) (store.Record, error) {
	if len(v) < eventHeader || v[0] != valueFormat {
		return store.Record{}, fmt.Errorf("%w: the value has no valid header", store.ErrCorrupt)
	}
	return store.Record{Sequence: seq, Hash: store.Hash(v[1:eventHeader]), Data: v[eventHeader:]}, nil
}

// snapshotValue returns the stored form of a snapshot or a base.
func snapshotValue(sequence uint64, hash store.Hash, data []byte) []byte {
	v := make([]byte, snapHeader+len(data))
	putSnapshotValue(v, sequence, hash, data)
	return v
}

// putSnapshotValue fills dst, which has the value's length.
func putSnapshotValue(dst []byte, sequence uint64, hash store.Hash, data []byte) {
	dst[0] = valueFormat
	binary.BigEndian.PutUint64(dst[1:], sequence)
	copy(dst[9:], hash[:])
	copy(dst[snapHeader:], data)
}

// parseSnapshot returns the snapshot in a stored value. Data is a copy.
func parseSnapshot(session, name string, v []byte) (store.Snapshot, error) {
	if len(v) < snapHeader || v[0] != valueFormat {
		return store.Snapshot{}, fmt.Errorf("%w: snapshot %q of session %s has no valid header", store.ErrCorrupt, name, session)
	}
	return store.Snapshot{
		SessionID: session,
		Name:      name,
		Sequence:  binary.BigEndian.Uint64(v[1:9]),
		Hash:      store.Hash(v[9:snapHeader]),
		Data:      append([]byte{}, v[snapHeader:]...),
	}, nil
}
