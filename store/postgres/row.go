package postgres

import (
	"encoding/binary"
	"hash/crc32"

	"agentd/store"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers a row, so that damage is noticed also where the cluster has no
// checksums of its own.
func checksum(id string, sequence uint64, hash, data []byte) int64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], sequence)
	crc := crc32.Update(0, castagnoli, b[:])
	crc = crc32.Update(crc, castagnoli, []byte(id))
	crc = crc32.Update(crc, castagnoli, hash)
	return int64(crc32.Update(crc, castagnoli, data))
}

// headRow is a session's end as the database has it.
type headRow struct {
	head int64
	hash []byte
}

func (r headRow) value() store.Head {
	return store.Head{Sequence: uint64(r.head), Hash: toHash(r.hash)}
}

func toHash(b []byte) (h store.Hash) {
	copy(h[:], b)
	return h
}

// A nil slice is NULL to the driver, which no column takes.

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func nonNilList(b [][]byte) [][]byte {
	if b == nil {
		return [][]byte{}
	}
	return b
}

func textArray(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
